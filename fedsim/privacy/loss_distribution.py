"""Accounting by privacy loss distributions, with dp-accounting.

The distribution of one release's privacy loss is put on a grid, rounded in the safe direction,
and composed by convolution (Doroshenko et al., arXiv 2207.04380: "connect the dots").
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Literal

from fedsim.privacy.events import SubsampledGaussian
from fedsim.privacy.ledger import Component
from fedsim.privacy.renyi import MomentsAccountant
from fedsim.protocol import PrivacyEvent

_CACHED_DISTRIBUTIONS = 64  # of about 0.5 MB
_TOLERANCE = 1e-9
_LARGEST_EPSILON = 1000.0  # above it the cheap bound is used: a loss distribution takes gigabytes


class PldAccountant:
    """Privacy loss distributions, composed over the few distinct keys of a ledger.

    Two caches make it cheap to compute epsilon after every round: the distributions of n equal
    releases, and those of the first 1, 2, ... components of the last query. Neither changes any
    bit of a result: n equal releases are always composed in the same way.

    The moments accountant's epsilon is returned if it is smaller, or above 1000 (a more exact
    value is then not worth the memory).
    """

    name: Literal["pld"] = "pld"

    def __init__(self) -> None:
        self._repeated = lru_cache(_CACHED_DISTRIBUTIONS)(self._compute_repeated)
        self._bound = MomentsAccountant()
        # Interval, last component, and the composition up to it.
        self._prefixes: list[tuple[float, Component, Any]] = []

    def __reduce__(self) -> tuple[type[PldAccountant], tuple[()]]:
        """Pickle without the caches."""
        return PldAccountant, ()

    def supports(self, event: PrivacyEvent) -> bool:
        """Return whether it is a subsampled Gaussian release."""
        return isinstance(event, SubsampledGaussian)

    def epsilon(self, components: tuple[Component, ...], delta: float) -> float:
        """Return epsilon; see :class:`fedsim.privacy.accountants.Accountant`."""
        import dp_accounting as dp

        if all(c.sampling_rate == 1 for c in components):  # unsampled Gaussians: closed form
            precision = sum(c.releases / c.noise_multiplier**2 for c in components)
            return float(dp.get_epsilon_gaussian(1 / math.sqrt(precision), delta))
        bound = self._bound.epsilon(components, delta)
        if bound > _LARGEST_EPSILON:
            return bound
        return _epsilon(self._composed(components), delta, bound)

    def _composed(self, components: tuple[Component, ...]) -> Any:
        interval = _interval(components)
        shared = 0
        for kept, component in zip(self._prefixes, components, strict=False):
            if kept[:2] != (interval, component):
                break
            shared += 1
        del self._prefixes[shared:]
        for component in components[shared:]:
            composed = self._repeated(component, interval)
            if self._prefixes:
                composed = self._prefixes[-1][2].compose(composed)
            self._prefixes.append((interval, component, composed))
        return self._prefixes[-1][2]

    def _compute_repeated(self, component: Component, interval: float) -> Any:
        """Return the distribution of a component's n releases.

        Composed by the binary digits of n: if n - 1 releases are cached, one composition gives n;
        n releases from scratch take about 2 log2(n).
        """
        n = component.releases
        lowest = n & -n
        if n == 1:
            return _single_release(component, interval)
        if n == lowest:
            half = self._repeated(component._replace(releases=n // 2), interval)
            return half.compose(half)
        rest = self._repeated(component._replace(releases=n - lowest), interval)
        return rest.compose(self._repeated(component._replace(releases=lowest), interval))


def _epsilon(distribution: Any, delta: float, bound: float) -> float:
    """Return the smallest epsilon in [0, ``bound``] for ``delta``, rounded up by about 1e-9.

    dp-accounting's own inversion loops over the grid in Python; a few sums are faster.
    """
    from scipy.optimize import brentq  # takes long to load

    def excess(epsilon: float) -> float:
        return math.log(max(distribution.get_delta_for_epsilon(epsilon), 1e-300) / delta)

    if excess(0.0) <= 0:
        return 0.0
    if excess(bound) >= 0:  # delta is as small as the truncated tails
        return bound
    return float(brentq(excess, 0.0, bound, xtol=_TOLERANCE)) + 2 * _TOLERANCE


def _interval(components: tuple[Component, ...]) -> float:
    """Return the distance between neighbouring losses on a distribution's grid.

    1e-3 for usual settings. Losses are of size q/z: if that is small, the grid must be finer, or
    rounding up dominates the result. The limit is a million points per release.
    """
    size = max(c.sampling_rate / c.noise_multiplier for c in components)
    least = min(c.noise_multiplier for c in components)
    finest = (0.5 / least**2 + 10 / least) / 1e6
    return max(finest, min(1e-3, 10.0 ** (math.floor(math.log10(size)) - 1)))


def _single_release(component: Component, interval: float) -> Any:
    """Return the privacy loss distribution of one of the component's releases."""
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    return from_gaussian_mechanism(
        standard_deviation=component.noise_multiplier,
        sampling_prob=component.sampling_rate,
        value_discretization_interval=interval,
    )
