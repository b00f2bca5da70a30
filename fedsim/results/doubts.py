"""What a finished run's values cast doubt on: a declared optimum, scores without noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fedsim.protocol import AgentId
from fedsim.record.entries import Recorded
from fedsim.record.manifest import Facts
from fedsim.results.digits import significant

ROUNDING = 1e-9
"""By this part of the largest value, one may beat an optimum that is right."""

_DIGITS = 8


@dataclass(frozen=True, slots=True)
class _Beaten:
    excess: float
    value: float
    round: int


@dataclass
class Doubts:
    """Collects them over a run's observations.

    Attributes:
        facts: what was known before the run.
    """

    facts: Facts
    _beaten: dict[AgentId, _Beaten] = field(default_factory=dict)
    _largest: float = 0.0
    _all: int = 0
    _noiseless: int = 0

    def add(self, t: int, observations: Sequence[Recorded]) -> None:
        """Take the observations of a step in round ``t``."""
        optima, sign = self.facts.optima, self.facts.sign
        for one in observations:
            self._all += 1
            if one.noiseless is None:
                continue
            self._noiseless += 1
            self._largest = max(self._largest, abs(one.noiseless))
            if optima is None:
                continue
            excess, known = sign * (one.noiseless - optima[one.agent]), self._beaten.get(one.agent)
            if excess > (0.0 if known is None else known.excess):
                self._beaten[one.agent] = _Beaten(excess, one.noiseless, t)

    def sentences(self) -> list[str]:
        """Return them in words; none if there are none."""
        found = [self._of_optimum(self.facts.optima or ())] if self._worst() else []
        if 0 < self._noiseless < self._all:
            found.append(
                f"{self._noiseless} of {self._all} evaluations have a noiseless value: where some "
                "have none, scores are of observed values, and there are no regrets; return it for "
                "all, or for none"
            )
        if self.facts.optima is not None and self._all and not self._noiseless:
            found.append(
                "the scenario declares an optimum, but its evaluations have no noiseless value, so "
                "there are no regrets; return Evaluation(y, noiseless=...), which without noise is "
                "the same number twice"
            )
        return found

    def _worst(self) -> Mapping[AgentId, _Beaten]:
        """Return by how much optima were beaten by more than rounding, the largest first."""
        optima = self.facts.optima or ()
        wrong = {
            agent: one
            for agent, one in self._beaten.items()
            if one.excess > ROUNDING * max(self._largest, abs(optima[agent]))
        }
        return dict(sorted(wrong.items(), key=lambda item: (-item[1].excess, item[0])))

    def _of_optimum(self, optima: Sequence[float]) -> str:
        worst = self._worst()
        agent, one = next(iter(worst.items()))
        more = len(worst) - 1
        also = f" (and those of {more} more agent{'s' * (more > 1)})" if more else ""
        declared, value = significant(optima[agent], _DIGITS), significant(one.value, _DIGITS)
        return (
            f"the scenario's optimum of agent {agent}{also} is wrong: it declares {declared}, but "
            f"the noiseless value in round {one.round} is {value}; regrets count from the declared "
            "one, so they are too small and may be negative"
        )
