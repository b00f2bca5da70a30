"""The best points of a run: what every agent would choose, in the user's own units.

An agent would choose the point with its best observed value; it never sees noiseless values. What
it evaluated before round 0, while the method prepared itself, is not a query and does not count.
Nor do helpers, where a method has targets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from fedsim.arguments import TEXT, WHOLE, check_arguments
from fedsim.errors import ConfigError, listed
from fedsim.protocol import AgentId
from fedsim.record.entries import Recorded, StepEntry
from fedsim.record.manifest import Facts
from fedsim.results.reading import read_run, space_of
from fedsim.results.seeds import SeedRun
from fedsim.space import Space


@dataclass(frozen=True)
class BestPoint:
    """One agent's best point.

    Attributes:
        variant: the variant's label.
        seed: the seed.
        agent: the agent.
        round: the round in which it was evaluated; 0 is the initial design.
        point: the parameters' values by name, as the objective got them.
        observed: the observed value, noise included, in the scenario's sign.
        noiseless: the value without noise, or None if the objective does not return it.
        inference_regret: its distance from the agent's optimum, or None if that is not known.
        direction: ``maximize`` or ``minimize``.
    """

    variant: str
    seed: int
    agent: AgentId
    round: int
    point: Mapping[str, Any]
    observed: float
    noiseless: float | None
    inference_regret: float | None
    direction: Literal["maximize", "minimize"]

    @property
    def order(self) -> float:
        """What to sort by: the smallest is the best."""
        return -self.observed if self.direction == "maximize" else self.observed


@dataclass
class _Incumbents:
    """Every agent's best evaluation so far; the first of equal ones."""

    facts: Facts
    best: dict[AgentId, tuple[int, Recorded]] = field(default_factory=dict)

    def add(self, step: StepEntry) -> None:
        if step.t < 0:
            return
        for one in step.observations:
            known, sign = self.best.get(one.agent), self.facts.sign
            if not self.facts.is_target(one.agent):
                continue
            if known is None or sign * one.y > sign * known[1].y:
                self.best[one.agent] = (step.t, one)


def best_of_seed(run: SeedRun) -> list[BestPoint]:
    """Return the best point of every agent that counts and has a value, in agent order.

    Args:
        run: the seed; it may be unfinished.

    Raises:
        RunFolderError: if the journal is missing or damaged, or the parameters are not known.
    """
    facts = run.facts()
    space = space_of(run.folder, facts)
    found = _Incumbents(facts)
    read_run(run.folder, facts, found.add)
    return [
        _best_point(run.variant, facts, space, t, one) for _, (t, one) in sorted(found.best.items())
    ]


def _best_point(variant: str, facts: Facts, space: Space, t: int, one: Recorded) -> BestPoint:
    regret = None
    if facts.optima is not None and one.noiseless is not None:
        regret = facts.sign * (facts.optima[one.agent] - one.noiseless)
    return BestPoint(
        variant=variant,
        seed=facts.seed,
        agent=one.agent,
        round=t,
        point=space.to_point(np.array(one.u)),
        observed=one.y,
        noiseless=one.noiseless,
        inference_regret=regret,
        direction=facts.direction,
    )


def best_of(points: Iterable[BestPoint]) -> BestPoint:
    """Return the best of some points; the first of equal ones.

    Raises:
        ConfigError: if there are none, or some are of a scenario that maximises and some of one
            that minimises.
    """
    chosen = list(points)
    if not chosen:
        raise ConfigError("best: there are no points")
    if len({one.direction for one in chosen}) > 1:
        raise ConfigError(
            "best: some variants maximise and others minimise, so there is no best of all; choose "
            "a variant"
        )
    return min(chosen, key=lambda one: one.order)


def matching(
    points: Sequence[BestPoint],
    agent: AgentId | None = None,
    variant: str | None = None,
    seed: int | None = None,
) -> list[BestPoint]:
    """Return the points of an agent, a variant and a seed; None stands for all of them.

    Raises:
        ConfigError: if there are none; it names the one that is not known.
    """
    check_arguments(agent=(agent, WHOLE), variant=(variant, TEXT), seed=(seed, WHOLE))
    left = list(points)
    wanted: dict[str, Any] = {"variant": variant, "seed": seed, "agent": agent}
    for name, value in wanted.items():
        if value is None:
            continue
        known = list(dict.fromkeys(getattr(one, name) for one in left))
        left = [one for one in left if getattr(one, name) == value]
        if not left:
            raise ConfigError(f"{name}: expected {one_of(known)}, which have values, got {value!r}")
    return left


def one_of(known: Sequence[Any]) -> str:
    """Return values that may be chosen, in words; whole numbers without gaps as a range."""
    if len(known) > 1 and list(known) == [*range(len(known))]:
        return f"0 to {known[-1]}"
    return f"one of {listed(map(str, known))}"
