"""Accounting by privacy loss distributions, with dp-accounting.

The distribution of one release's privacy loss is put on a grid, rounded in the safe direction,
and composed by convolution (Doroshenko et al., arXiv 2207.04380: "connect the dots").
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Literal

from fedsim.privacy.ledger import Component
from fedsim.privacy.renyi import MomentsAccountant

_CACHED_KEYS = 256
_LARGEST_EPSILON = 1000.0  # above it the cheap bound does: a loss distribution takes gigabytes


class PldAccountant:
    """Privacy loss distributions: one cached per key, composed over the few distinct keys.

    The compositions of the first 1, 2, ... components of the last query are kept: a run charges
    the same event again or a new one, so a query composes one component, not all.
    """

    name: Literal["pld"] = "pld"

    def __init__(self) -> None:
        self._single = lru_cache(_CACHED_KEYS)(_single_release)
        self._bound = MomentsAccountant()
        # Interval, last component, and the composition up to it.
        self._prefixes: list[tuple[float, Component, Any]] = []

    def epsilon(self, components: tuple[Component, ...], delta: float) -> float:
        """Return epsilon; see :class:`fedsim.privacy.accountants.Accountant`."""
        import dp_accounting as dp

        if all(c.sampling_rate == 1 for c in components):  # unsampled Gaussians: closed form
            precision = sum(c.releases / c.noise_multiplier**2 for c in components)
            return float(dp.get_epsilon_gaussian(1 / math.sqrt(precision), delta))
        bound = self._bound.epsilon(components, delta)
        if bound > _LARGEST_EPSILON:
            return bound
        return float(self._composed(components).get_epsilon_for_delta(delta))

    def _composed(self, components: tuple[Component, ...]) -> Any:
        interval = _interval(components)
        shared = 0
        for kept, component in zip(self._prefixes, components, strict=False):
            if kept[:2] != (interval, component):
                break
            shared += 1
        del self._prefixes[shared:]
        for component in components[shared:]:
            q, z, releases = component
            composed = self._single(q, z, interval).self_compose(releases)
            if self._prefixes:
                composed = self._prefixes[-1][2].compose(composed)
            self._prefixes.append((interval, component, composed))
        return self._prefixes[-1][2]


def _interval(components: tuple[Component, ...]) -> float:
    """Return the distance between the losses that a distribution distinguishes.

    1e-3 for usual settings. Losses are of size q/z: where that is small the grid must be finer,
    or rounding up dominates the result. A million points per release is the limit.
    """
    size = max(c.sampling_rate / c.noise_multiplier for c in components)
    least = min(c.noise_multiplier for c in components)
    finest = (0.5 / least**2 + 10 / least) / 1e6
    return max(finest, min(1e-3, 10.0 ** (math.floor(math.log10(size)) - 1)))


def _single_release(sampling_rate: float, noise_multiplier: float, interval: float) -> Any:
    """Return the privacy loss distribution of one release."""
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    return from_gaussian_mechanism(
        standard_deviation=noise_multiplier,
        sampling_prob=sampling_rate,
        value_discretization_interval=interval,
    )
