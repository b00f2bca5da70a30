"""The privacy ledger: how often each distinct event has happened.

It is the whole state of privacy accounting, and epsilon is a pure function of it
(:mod:`fedsim.privacy.accountants`). It is rebuilt from a run's journal, so a resumed run counts
exactly the same as an uninterrupted one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from fedsim.errors import ConfigError
from fedsim.privacy.events import GaussianEvent, Sampling
from fedsim.protocol import AgentId, PrivacyEvent

Accounting = Literal["paper", "exact"]
"""Which noise multiplier is charged: the paper's plain z, or each joint release's own."""


class Component(NamedTuple):
    """Releases of equal cost.

    Attributes:
        sampling_rate: q, in [0, 1]; of samples of fixed size, m / N.
        noise_multiplier: the multiplier charged, at least 0, beside one agent's contribution.
        releases: their number, at least 1.
        sampling: how agents are sampled.
    """

    sampling_rate: float
    noise_multiplier: float
    releases: int
    sampling: Sampling = "poisson"


Source = Literal["composition", "closed form", "Renyi divergences", "no release", "no noise"]
"""How an epsilon was obtained. The closed form is exact, a composition nearly so; divergences bound
it from above, by some percent for usual settings."""


class Bound(NamedTuple):
    """An accountant's answer.

    Attributes:
        epsilon: at least 0; infinite if something was released without noise.
        source: how it was obtained.
    """

    epsilon: float
    source: Source


@dataclass(frozen=True, slots=True)
class Ledger:
    """Counts per distinct event, in the order of first use.

    Attributes:
        counts: pairs of an event and how often it happened.
    """

    counts: tuple[tuple[PrivacyEvent, int], ...] = ()

    @classmethod
    def from_events(cls, events: Iterable[PrivacyEvent]) -> Ledger:
        """Return the ledger of ``events``."""
        counts: dict[PrivacyEvent, int] = {}
        for event in events:
            counts[event] = counts.get(event, 0) + 1
        return cls(tuple(counts.items()))

    def charge(self, event: PrivacyEvent, times: int = 1) -> Ledger:
        """Return the ledger after further releases, each charged as ``event``."""
        counts = dict(self.counts)
        counts[event] = counts.get(event, 0) + times
        return Ledger(tuple(counts.items()))

    def of(self, agent: AgentId | None) -> Ledger:
        """Return the ledger of one agent: its own events and those that all agents pay.

        None stands for an agent without events of its own.
        """
        return Ledger(tuple(item for item in self.counts if item[0].agent in (None, agent)))

    @property
    def payers(self) -> tuple[AgentId | None, ...]:
        """Agents with events of their own, ascending; ``(None,)`` if there are none."""
        agents = {event.agent for event, _ in self.counts if event.agent is not None}
        return tuple(sorted(agents)) or (None,)

    @property
    def releases(self) -> int:
        """The number of releases charged."""
        return sum(count for _, count in self.counts)

    def components(self, accounting: Accounting = "paper") -> tuple[Component, ...]:
        """Return the counts per distinct (sampling rate, noise multiplier).

        Args:
            accounting: ``paper`` charges the plain multiplier z in every round; ``exact``
                charges each round's joint multiplier, which is at least z.

        Raises:
            ConfigError: if the ledger holds events of another kind.
        """
        merged: dict[tuple[float, float, Sampling], int] = {}
        for event, count in self.counts:
            if not isinstance(event, GaussianEvent):
                raise ConfigError(
                    f"privacy: expected events of a subsampled Gaussian mechanism, got {event}"
                )
            exact = accounting == "exact"
            multiplier = event.exact_noise_multiplier if exact else event.noise_multiplier
            key = (event.sampling_rate, multiplier, event.sampling)
            merged[key] = merged.get(key, 0) + count
        return tuple(Component(q, z, count, how) for (q, z, how), count in merged.items())
