"""Computes epsilon from a ledger: three accountants of the Poisson-subsampled Gaussian mechanism.

``moments``
    As reported by Dai, Low and Jaillet (NeurIPS 2021): Renyi divergences at the orders 2..64 and
    the conversion of Abadi et al. (2016). Only for reproducing papers.
``rdp``
    dp-accounting's Renyi accountant: more orders, and the tighter conversion of Canonne,
    Kamath and Steinke (arXiv 2004.00010, Prop. 12).
``pld``
    Privacy loss distributions (:mod:`fedsim.privacy.composition`). The default: nearly exact, so it
    gives the smallest of the three (7.05 where ``moments`` gives 9.91), for every delta.

Each is an upper bound on the true epsilon. With Poisson sampling, the guarantee is stated for
zero-out neighbours: two federations are neighbours if they differ in one agent, whose messages are
replaced by zeros. The weights of DP-FTS-DE are normalised over the public roster, so removing an
agent would change all weights; the numbers are those of add-or-remove neighbours.

With samples of fixed size, it is stated for replace-one neighbours: the agent's messages are
replaced by any others, which moves a sum twice as far. ``moments`` is not defined for it.

Accountants have caches, which do not affect results. A process has one of each
(:func:`make_accountant`), and remembers the last losses: seeds and variants mostly ask the same.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol

from fedsim.errors import ConfigError, nearest, require
from fedsim.privacy.events import GaussianEvent, Sampling
from fedsim.privacy.ledger import Accounting, Bound, Component, Ledger, Source
from fedsim.privacy.loss_distribution import PldAccountant
from fedsim.privacy.renyi import MomentsAccountant, RdpAccountant
from fedsim.protocol import PrivacyEvent

AccountantName = Literal["moments", "rdp", "pld"]

NEIGHBOURING_RELATIONS: Mapping[Sampling, str] = {
    "poisson": "zero-out (add-or-remove numbers)",
    "fixed": "replace-one",
}
"""How the two federations that are compared may differ, in words."""

SAMPLINGS: Mapping[Sampling, str] = {"poisson": "Poisson", "fixed": "fixed-size"}
"""How agents are sampled, in words."""

STRICT_DELTA = 1e-5
"""Reported in addition to the paper's N^-1.1, which is weak for few agents."""

_REMEMBERED = 512  # losses
_LARGEST_MULTIPLIER = 1e9  # larger ones count as this: squares stay in float range
_SMALLEST_MULTIPLIER = 1e-6  # below it no release is private, and squares leave float range


class Accountant(Hashable, Protocol):
    """Computes epsilon from releases."""

    @property
    def name(self) -> AccountantName:
        """The accountant's name in results."""
        ...

    def supports(self, event: PrivacyEvent) -> bool:
        """Return whether the accountant can compose events of this kind."""
        ...

    def bound(self, components: tuple[Component, ...], delta: float) -> Bound:
        """Return a bound on the total epsilon of all ``components``: a pure function of them.

        Args:
            components: at least one; sampling rates in (0, 1], multipliers above 0, and one way of
            sampling for all.
            delta: in (0, 1).
        """
        ...


@dataclass(frozen=True, slots=True)
class PrivacyLoss:
    """A privacy loss and everything needed to interpret it.

    Attributes:
        epsilon: at least 0; infinite if something was released without noise.
        delta: the failure probability that belongs to epsilon.
        accountant: ``moments``, ``rdp`` or ``pld``.
        accounting: whether the ``paper``'s plain multiplier or the ``exact`` one was charged.
        source: how epsilon was obtained.
        neighbouring_relation: how the two federations that are compared may differ.
        sampling: how agents are sampled for a release.
    """

    epsilon: float
    delta: float
    accountant: AccountantName
    accounting: Accounting = "paper"
    source: Source = "no release"
    neighbouring_relation: str = NEIGHBOURING_RELATIONS["poisson"]
    sampling: str = SAMPLINGS["poisson"]


def default_delta(agents: int) -> float:
    """Return N^-1.1, the paper's delta.

    It is weak for few agents (0.025 for 29); report epsilon at 1e-5, too.

    Raises:
        ConfigError: if there are fewer than 2 agents.
    """
    require(agents >= 2, "agents", "at least 2, so that delta is below 1", agents)
    return math.pow(agents, -1.1)


def make_accountant(name: AccountantName) -> Accountant:
    """Return this process's accountant of that name.

    Raises:
        ConfigError: if the name is unknown.
    """
    return _accountant(name)


@lru_cache
def _accountant(name: str) -> Accountant:
    if name == "moments":
        return MomentsAccountant()
    if name == "rdp":
        return RdpAccountant()
    if name == "pld":
        return PldAccountant()
    raise ConfigError(
        f"accountant: unknown name {name!r}{nearest(name, ('moments', 'rdp', 'pld'))}"
    )


def privacy_loss(
    ledger: Ledger, delta: float, accountant: Accountant, accounting: Accounting = "paper"
) -> PrivacyLoss:
    """Return the privacy loss of everything in the ledger; a pure function of its arguments.

    If agents have events of their own, it is the largest loss of any agent.

    Raises:
        ConfigError: if delta is not in (0, 1), or the accountant does not support an event.
    """
    require(0 < delta < 1, "delta", "a number above 0 and below 1", delta)
    check_supported(ledger, accountant)
    parts = [ledger.of(agent) for agent in ledger.payers]
    worst = max(
        (_remembered(part.components(accounting), float(delta), accountant) for part in parts),
        key=lambda bound: bound.epsilon,
    )
    how = sampling_of(ledger)
    return PrivacyLoss(
        worst.epsilon,
        float(delta),
        accountant.name,
        accounting,
        worst.source,
        NEIGHBOURING_RELATIONS[how],
        SAMPLINGS[how],
    )


def sampling_of(ledger: Ledger) -> Sampling:
    """Return how agents are sampled in the ledger's releases; Poisson if there are none."""
    for event, _ in ledger.counts:
        if isinstance(event, GaussianEvent):
            return event.sampling
    return "poisson"


def check_supported(ledger: Ledger, accountant: Accountant) -> None:
    """Check that an accountant supports all events of a ledger.

    Raises:
        ConfigError: with the first event that it does not.
    """
    event = unsupported(ledger, accountant)
    if event is not None and accountant.supports(event):
        raise ConfigError(
            "privacy: releases with Poisson and with fixed-size sampling protect different "
            f"neighbours and have no common loss, got {event} beside others; use one sampling"
        )
    if event is not None:
        raise ConfigError(
            f"privacy.accountant: {accountant.name} cannot account for {event.kind!r} events, "
            f"got {event}; choose an accountant that supports them"
        )


def unsupported(ledger: Ledger, accountant: Accountant) -> PrivacyEvent | None:
    """Return an event of the ledger that the accountant does not support, or None.

    Or one that cannot be composed with the others: its sampling is another one.
    """
    how = sampling_of(ledger)
    for event, _ in ledger.counts:
        other = isinstance(event, GaussianEvent) and event.sampling != how
        if other or not accountant.supports(event):
            return event
    return None


@lru_cache(_REMEMBERED)
def _remembered(components: tuple[Component, ...], delta: float, accountant: Accountant) -> Bound:
    costly = tuple(c for c in components if c.sampling_rate > 0)
    if not costly:
        return Bound(0.0, "no release")
    if min(c.noise_multiplier for c in costly) < _SMALLEST_MULTIPLIER:
        return Bound(math.inf, "no noise")
    bounded = (
        c._replace(noise_multiplier=min(c.noise_multiplier, _LARGEST_MULTIPLIER)) for c in costly
    )
    return accountant.bound(tuple(bounded), delta)
