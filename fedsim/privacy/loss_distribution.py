"""Accounting by privacy loss distributions: nearly exact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from fedsim.privacy.composition import Composition
from fedsim.privacy.events import GaussianEvent
from fedsim.privacy.ledger import Bound, Component
from fedsim.privacy.losses import DIRECTIONS, Direction
from fedsim.privacy.renyi import RdpAccountant, halved
from fedsim.protocol import PrivacyEvent


class PldAccountant:
    """Composes the loss distributions of all releases; see :mod:`fedsim.privacy.composition`.

    Where that cannot be done well, it returns a bound from Renyi divergences.
    """

    name: Literal["pld"] = "pld"

    def __init__(self) -> None:
        self._composition = Composition()
        self._divergences = RdpAccountant()

    def __reduce__(self) -> tuple[type[PldAccountant], tuple[()]]:
        """Pickle without the caches."""
        return PldAccountant, ()

    def supports(self, event: PrivacyEvent) -> bool:
        """Return whether it is a subsampled Gaussian release."""
        return isinstance(event, GaussianEvent)

    def bound(self, components: tuple[Component, ...], delta: float) -> Bound:
        """Return epsilon; see :class:`fedsim.privacy.accountants.Accountant`."""
        fixed = components[0].sampling == "fixed"
        merged = _merged([halved(c) for c in components] if fixed else components)
        if [c.sampling_rate for c in merged] == [1.0]:
            import dp_accounting as dp

            exact = dp.get_epsilon_gaussian(merged[0].noise_multiplier, delta)
            return Bound(float(exact), "closed form")
        worst = Bound(0.0, "composition")
        directions: tuple[Direction, ...] = ("replace",) if fixed else DIRECTIONS
        for direction in directions:
            divergences = self._composition.renyi_bound(merged, delta, direction)
            if divergences <= worst.epsilon:
                continue  # this direction is not the worse one
            composed = self._composition.epsilon(merged, delta, direction)
            if composed is None or composed > divergences:
                best = self._composition.best_renyi_bound(merged, delta, direction)
                found = Bound(best, "Renyi divergences")
            else:
                found = Bound(composed, "composition")
            worst = max(worst, found, key=lambda one: one.epsilon)
        if worst.source == "composition":
            return worst
        # Its own orders and conversion may do better by some digits.
        return min(worst, self._divergences.bound(components, delta), key=lambda one: one.epsilon)


def _merged(components: Sequence[Component]) -> tuple[Component, ...]:
    """Return the components, the unsampled ones as one release: together they are a Gaussian."""
    sampled = tuple(c for c in components if c.sampling_rate < 1)
    precision = sum(c.releases / c.noise_multiplier**2 for c in components if c.sampling_rate == 1)
    return (*sampled, Component(1.0, precision**-0.5, 1)) if precision else sampled
