"""The points that a run has explored, in two of its parameters: what is drawn, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fedsim.arguments import TEXTS, WHOLE, check_arguments
from fedsim.errors import ConfigError, RunFolderError, nearest, of_option
from fedsim.protocol import AgentId
from fedsim.results.analysis import AnyRun, opened
from fedsim.results.best import one_of
from fedsim.results.naming import labels_of
from fedsim.results.seeds import SeedRun
from fedsim.space import Choice, Parameter, Value

Axes = tuple[Parameter | Choice, Parameter | Choice]
"""Two parameters."""

Pair = tuple[Value, Value]
"""A point in the two parameters."""


@dataclass(frozen=True)
class Optimum:
    """Where an optimum is.

    Attributes:
        point: the point.
        agents: whose it is, ascending.
    """

    point: Pair
    agents: tuple[AgentId, ...]


@dataclass(frozen=True)
class Explored:
    """One seed of one variant: a panel.

    Attributes:
        label: what the variant is called.
        seed: the seed.
        folder: its folder.
        axes: the two parameters.
        x: the first parameter of each point, in the order of evaluation.
        y: the second.
        agents: who evaluated it.
        rounds: when; 0 is the initial design.
        best: the point with the best noiseless value, or if that is not known, observed value.
        optima: those of the agents that are shown, each point once; none if they are not known.
    """

    label: str
    seed: int
    folder: str
    axes: Axes
    x: tuple[Value, ...]
    y: tuple[Value, ...]
    agents: tuple[AgentId, ...]
    rounds: tuple[int, ...]
    best: Pair
    optima: tuple[Optimum, ...]


@dataclass(frozen=True)
class PointsChart:
    """All that is drawn.

    Attributes:
        panels: one for each variant.
        notes: what a reader must know.
    """

    panels: tuple[Explored, ...]
    notes: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """Return it as a JSON record."""
        return asdict(self)


def explored(
    *runs: AnyRun | Sequence[AnyRun],
    parameters: Sequence[str] = (),
    agent: AgentId | None = None,
    seed: int | None = None,
    labels: Sequence[str] | None = None,
) -> PointsChart:
    """Return the points that runs have explored: a panel for each variant, of one seed.

    Args:
        runs: runs, their folders, or lists of them; they may be unfinished.
        parameters: the two parameters; by default the first two.
        agent: only this agent's points and optimum; None: all agents'.
        seed: the seed; by default each variant's first.
        labels: what the runs are called, one for each.

    Raises:
        ConfigError: if an argument is wrong, or there is no point.
        RunFolderError: if it is not a run folder.
    """
    check_arguments(
        parameters=(parameters, TEXTS),
        agent=(agent, WHOLE),
        seed=(seed, WHOLE),
        labels=(labels, TEXTS),
    )
    several = opened(*runs)
    called = list(zip(several, labels_of(several, labels), strict=True))
    seeds = sorted({one.seed for run in several for one in run.runs})
    if seed is not None and seed not in seeds:
        raise of_option("--seed", ConfigError(f"seed: expected {one_of(seeds)}, got {seed}"))
    panels: list[Explored] = []
    notes: list[str] = []
    for run, names in called:
        notes += filter(None, [run.lost_plan()])
        for variant, label in names.items():
            own = [one for one in run.runs if one.variant == variant and seed in (None, one.seed)]
            if not own:
                notes.append(f"{label} is left out: it has no seed {seed}")
                continue
            panel, told = _of_variant(own, label, parameters, agent)
            panels += [] if panel is None else [panel]
            notes += told
    if not panels:
        raise ConfigError(f"points: nothing to draw: {'; '.join(notes)}")
    return PointsChart(tuple(panels), tuple(notes))


def _of_variant(
    seeds: Sequence[SeedRun], label: str, parameters: Sequence[str], agent: AgentId | None
) -> tuple[Explored | None, list[str]]:
    """Return the panel of a variant's first seed, or None, and what is to be noted about it."""
    first, *others = seeds
    try:
        panel = _panel(first, label, _axes(first, parameters), agent)
    except RunFolderError as error:
        return None, [f"{label}, seed {first.seed} is left out: {error}"]
    if panel is None:
        return None, [f"{label} is left out: {_no_point(first, agent)}"]
    lost = first.lost_journal()
    notes = [*filter(None, [first.so_far(), lost and f"{first.name}: {lost}"])]
    notes += [f"{first.name}: {doubt}" for doubt in first.doubts]  # of the optimum that is drawn
    if others:
        notes.append(f"{label}: seed {first.seed} of {len(seeds)}; --seed shows another")
    return panel, notes


def _no_point(run: SeedRun, agent: AgentId | None) -> str:
    agents = range(run.facts().agents)
    if agent is None or agent in agents:
        return f"no point of {'any agent' if agent is None else f'agent {agent}'} is recorded yet"
    return f"it has no agent {agent}, but {one_of(agents)}"


def _axes(run: SeedRun, names: Sequence[str]) -> Axes:
    space = run.facts().space()
    if space is None:
        raise RunFolderError(f"{run.folder.path}: an earlier version recorded no parameters")
    known = {one.name: one for one in space.parameters}
    wanted = list(names or ()) or list(known)[:2]
    for name in wanted:
        if name not in known:
            raise of_option(
                "--parameters",
                ConfigError(f"parameters: unknown parameter {name!r}{nearest(name, known)}"),
            )
    if len(known) < 2:
        raise ConfigError(
            f"points: expected at least two parameters to draw points in, but {run.variant} has "
            f"only {', '.join(known)}; leave out --points for curves over rounds"
        )
    if len(set(wanted)) != 2 or len(wanted) != 2:
        raise of_option(
            "--parameters",
            ConfigError(
                f"parameters: expected two, got {', '.join(wanted)}; {run.variant} has "
                f"{', '.join(known)}"
            ),
        )
    return known[wanted[0]], known[wanted[1]]


def _panel(
    run: SeedRun,
    label: str,
    axes: Axes,
    agent: AgentId | None,
) -> Explored | None:
    """Return what a seed has explored from round 0 on; None if there is no point."""
    facts, table = run.facts(), run.observations
    shown = table[table["round"] >= 0]
    if agent is not None:
        shown = shown[shown["agent"] == agent]
    elif facts.targets is not None:
        shown = shown[shown["agent"].isin(facts.targets)]
    if not len(shown):
        return None
    x, y = (tuple(shown[f"point.{one.name}"].tolist()) for one in axes)
    values = shown["noiseless"] if shown["noiseless"].notna().all() else shown["y"]
    best = int(np.argmax(facts.sign * np.asarray(values, dtype=np.float64)))
    return Explored(
        label=label,
        seed=run.seed,
        folder=str(run.folder.path),
        axes=axes,
        x=x,
        y=y,
        agents=tuple(map(int, shown["agent"])),
        rounds=tuple(map(int, shown["round"])),
        best=(x[best], y[best]),
        optima=_optima(run, axes, agent),
    )


def _optima(run: SeedRun, axes: Axes, agent: AgentId | None) -> tuple[Optimum, ...]:
    """Return the optimum of an agent, or of all whose results count, as far as they are known."""
    facts = run.facts()
    points = facts.optimal_points or ()
    if len(points) == 1:  # the same for all
        points *= facts.agents
    if len(points) != facts.agents:  # an earlier version did not record whose they are
        return ()
    owners: dict[Pair, list[AgentId]] = {}
    for owner, point in enumerate(points):
        if agent is None and not facts.is_target(owner):
            continue
        owners.setdefault((point[axes[0].name], point[axes[1].name]), []).append(owner)
    return tuple(
        Optimum(point, tuple(own)) for point, own in owners.items() if agent is None or agent in own
    )
