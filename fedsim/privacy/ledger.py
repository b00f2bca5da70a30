"""What has been released so far: how often each distinct event happened.

The ledger is the whole state of privacy accounting. It is rebuilt from a run's journal, so that
a resumed run counts exactly what an uninterrupted one does; epsilon is a pure function of it
(:mod:`fedsim.privacy.accountants`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from fedsim.privacy.events import SubsampledGaussian

Accounting = Literal["paper", "exact"]
"""Which noise multiplier is charged: the paper's plain z, or that of each joint release."""


class Component(NamedTuple):
    """Releases that cost the same.

    Attributes:
        sampling_rate: q, in [0, 1].
        noise_multiplier: the multiplier charged, at least 0.
        releases: how many, at least 1.
    """

    sampling_rate: float
    noise_multiplier: float
    releases: int


@dataclass(frozen=True, slots=True)
class Ledger:
    """Counts per distinct event, in the order of first use.

    Attributes:
        counts: pairs of an event and how often it happened.
    """

    counts: tuple[tuple[SubsampledGaussian, int], ...] = ()

    @classmethod
    def from_events(cls, events: Iterable[SubsampledGaussian | Mapping[str, float]]) -> Ledger:
        """Return the ledger of ``events``, given as values or as their journal records."""
        counts: dict[SubsampledGaussian, int] = {}
        for item in events:
            if isinstance(item, SubsampledGaussian):
                event = item
            else:
                event = SubsampledGaussian.from_record(item)
            counts[event] = counts.get(event, 0) + 1
        return cls(tuple(counts.items()))

    def charge(self, event: SubsampledGaussian) -> Ledger:
        """Return the ledger after one more release that costs ``event``."""
        counts = dict(self.counts)
        counts[event] = counts.get(event, 0) + 1
        return Ledger(tuple(counts.items()))

    @property
    def releases(self) -> int:
        """The number of releases charged."""
        return sum(count for _, count in self.counts)

    def components(self, accounting: Accounting = "paper") -> tuple[Component, ...]:
        """Return the counts per distinct (sampling rate, noise multiplier).

        Args:
            accounting: ``paper`` charges the plain multiplier z in every round; ``exact``
                charges each round's joint multiplier, which is at least z.
        """
        merged: dict[tuple[float, float], int] = {}
        for event, count in self.counts:
            exact = accounting == "exact"
            multiplier = event.exact_noise_multiplier if exact else event.noise_multiplier
            key = (event.sampling_rate, multiplier)
            merged[key] = merged.get(key, 0) + count
        return tuple(Component(q, z, count) for (q, z), count in merged.items())
