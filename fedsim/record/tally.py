"""Counts and scores of a run, shared by its live progress, ``fedsim show`` and its tables.

Values count from round 0 on: what agents evaluate before it, while a method prepares itself, is
not a query. Only targets' values count, where a method has targets and helpers. The number of
evaluations includes all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fedsim.means import mean
from fedsim.protocol import AgentId
from fedsim.record.entries import Entry, StepEntry
from fedsim.space import Array


@dataclass(frozen=True, slots=True)
class Scores:
    """How good the agents' points are so far; None where it is not known.

    Values are in the scenario's sign and units, regrets are 0 or more. Names with ``mean_`` are
    means over agents; those without are of the best agent.

    Attributes:
        mean_best_observed: of the best observed value, which includes the observation's noise.
        best_observed: the best of them.
        mean_best_noiseless: of the best noiseless value at any point evaluated.
        best_noiseless: the best of them.
        mean_simple_regret: of the distance from the best noiseless value to the agent's optimum.
            Only an oracle knows which point that is.
        simple_regret: the smallest of them.
        mean_inference_regret: of the distance from the noiseless value at the point that the agent
            would choose, the one with its best observed value, to the agent's optimum.
        inference_regret: the smallest of them.
        agents: how many agents have a value; the means are over them.
    """

    mean_best_observed: float | None = None
    best_observed: float | None = None
    mean_best_noiseless: float | None = None
    best_noiseless: float | None = None
    mean_simple_regret: float | None = None
    simple_regret: float | None = None
    mean_inference_regret: float | None = None
    inference_regret: float | None = None
    agents: int = 0


@dataclass
class Tally:
    """Running totals of a journal's entries.

    Attributes:
        agents: the number of agents N.
        maximize: whether larger values are better.
        optima: each agent's best noiseless value, shape (N,), or None if they are not known.
        targets: the agents whose values count; None: all.
        round: the round of the last step, -1 before the initial design.
        evaluations: how many succeeded.
        counted: how many of them count: the targets', from round 0 on.
        failed: how many failed and were skipped.
        absences: how often an agent was absent from a step.
        present: the targets that took part in the last round.
    """

    agents: int
    maximize: bool
    optima: Sequence[float] | None = None
    targets: tuple[AgentId, ...] | None = None
    round: int = -1
    evaluations: int = 0
    counted: int = 0
    failed: int = 0
    absences: int = 0
    present: set[AgentId] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._sign = 1.0 if self.maximize else -1.0
        counted = set(range(self.agents) if self.targets is None else self.targets)
        self._counts = [agent in counted for agent in range(self.agents)]
        # Larger is better in all three; -inf is what has no value yet. Lists: reading and setting
        # one number of an array takes ten times as long.
        self._observed = [-math.inf] * self.agents
        self._noiseless = [-math.inf] * self.agents
        self._chosen = [-math.inf] * self.agents  # noiseless, at the point with the best observed
        self._all_noiseless = True

    def add(self, entry: Entry) -> None:
        """Count an entry."""
        if not isinstance(entry, StepEntry):
            return
        self.evaluations += len(entry.observations)
        self.failed += len(entry.failed)
        self.absences += len(entry.absent)
        if self._all_noiseless:
            self._all_noiseless = all(one.noiseless is not None for one in entry.observations)
        if entry.t < 0:
            return
        if entry.t != self.round:
            self.round, self.present = entry.t, set()
        self.present |= {agent for agent in entry.participants if self._counts[agent]}
        for one in entry.observations:
            if not self._counts[one.agent]:
                continue
            self.counted += 1
            observed = self._sign * one.y
            noiseless = -math.inf if one.noiseless is None else self._sign * one.noiseless
            if observed > self._observed[one.agent]:
                self._observed[one.agent], self._chosen[one.agent] = observed, noiseless
            if noiseless > self._noiseless[one.agent]:
                self._noiseless[one.agent] = noiseless

    @property
    def knows_noiseless(self) -> bool:
        """Whether all noiseless values are known."""
        return self._all_noiseless

    @property
    def knows_regret(self) -> bool:
        """Whether all optima and noiseless values are known."""
        return self.optima is not None and self._all_noiseless

    @property
    def metric(self) -> str:
        """The score that runs are judged by: the simple regret, or if unknown, the best observed.

        With ``mean_`` before it, it names its mean over agents.
        """
        return "simple_regret" if self.knows_regret else "best_observed"

    def scores(self) -> Scores:
        """Return how good the agents' points are so far."""
        observed = np.array(self._observed)
        known = observed > -math.inf
        if not known.any():
            return Scores()
        average, best = self._best(observed[known])
        scores = Scores(average, best, agents=int(known.sum()))
        if not self._all_noiseless:
            return scores
        noiseless, chosen = np.array(self._noiseless)[known], np.array(self._chosen)[known]
        average, best = self._best(noiseless)
        scores = replace(scores, mean_best_noiseless=average, best_noiseless=best)
        if self.optima is None:
            return scores
        optima = self._sign * np.array(self.optima)[known]
        with np.errstate(over="ignore"):  # where a distance is beyond the largest number: infinite
            simple, inference = optima - noiseless, optima - chosen
        return replace(
            scores,
            mean_simple_regret=mean(simple),
            simple_regret=float(simple.min()),
            mean_inference_regret=mean(inference),
            inference_regret=float(inference.min()),
        )

    def _best(self, values: Array) -> tuple[float, float]:
        """Return the mean and the best of values of which larger is better, in their own sign."""
        return self._sign * mean(values), self._sign * float(values.max())
