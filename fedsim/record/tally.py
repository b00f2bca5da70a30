"""Counts and scores of a run, shared by its live progress, ``fedsim show`` and its tables.

Values count from round 0 on: what agents evaluate before it, while a method prepares itself, is
not a query. The number of evaluations includes all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fedsim.protocol import AgentId
from fedsim.record.entries import Entry, StepEntry
from fedsim.space import Array


@dataclass(frozen=True, slots=True)
class Scores:
    """How good the agents' best values are; None where nothing is known.

    Attributes:
        mean_best: mean over agents of the best observed value so far, in the scenario's sign.
        best: the best of them.
        mean_simple_regret: mean over agents of the simple regret: the distance of the best
            noiseless value so far from the agent's optimum.
        best_simple_regret: the smallest of them.
        agents: how many agents have a value; the means are over them.
    """

    mean_best: float | None = None
    best: float | None = None
    mean_simple_regret: float | None = None
    best_simple_regret: float | None = None
    agents: int = 0


@dataclass
class Tally:
    """Running totals of a journal's entries.

    Attributes:
        agents: the number of agents N.
        maximize: whether larger values are better.
        optima: each agent's best noiseless value, shape (N,), or None if they are not known.
        round: the round of the last step, -1 before the initial design.
        evaluations: how many succeeded.
        failed: how many failed and were skipped.
        absences: how often an agent was absent from a step.
        present: the agents that took part in the last round.
    """

    agents: int
    maximize: bool
    optima: Sequence[float] | None = None
    round: int = -1
    evaluations: int = 0
    failed: int = 0
    absences: int = 0
    present: set[AgentId] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._sign = 1.0 if self.maximize else -1.0
        # Larger is better in both.
        self._best = np.full(self.agents, np.nan)
        self._noiseless = np.full(self.agents, np.nan)
        self._all_noiseless = True

    def add(self, entry: Entry) -> None:
        """Count an entry."""
        if not isinstance(entry, StepEntry):
            return
        self.evaluations += len(entry.observations)
        self.failed += len(entry.failed)
        self.absences += len(entry.absent)
        for record in entry.observations:
            self._all_noiseless &= record.noiseless is not None
        if entry.t < 0:
            return
        if entry.t != self.round:
            self.round, self.present = entry.t, set()
        self.present |= entry.participants
        for record in entry.observations:
            self._keep(self._best, record.agent, record.y)
            if record.noiseless is not None:
                self._keep(self._noiseless, record.agent, record.noiseless)

    def _keep(self, best: Array, agent: AgentId, value: float) -> None:
        best[agent] = np.fmax(best[agent], self._sign * value)

    @property
    def knows_regret(self) -> bool:
        """Whether all optima and noiseless values are known."""
        return self.optima is not None and self._all_noiseless

    def scores(self) -> Scores:
        """Return how good the agents' best values are so far."""
        known = ~np.isnan(self._best)
        if not known.any():
            return Scores()
        best = self._sign * self._best[known]
        scores = Scores(
            mean_best=float(best.mean()),
            best=float(best.max() if self.maximize else best.min()),
            agents=int(known.sum()),
        )
        if not self.knows_regret:
            return scores
        regret = (self._sign * np.array(self.optima) - self._noiseless)[known]
        return replace(
            scores,
            mean_simple_regret=float(regret.mean()),
            best_simple_regret=float(regret.min()),
        )
