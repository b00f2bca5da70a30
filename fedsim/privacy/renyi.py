"""Accounting by Renyi divergences: the papers' moments accountant and dp-accounting's.

=======  =================================================================
symbol   meaning
=======  =================================================================
q, z     sampling rate, noise multiplier
a        order of the divergence, above 1
rho      divergence of one release at order a; T releases have T rho
=======  =================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy.special import gammaln, logsumexp

from fedsim.privacy.events import GaussianEvent, SubsampledGaussian
from fedsim.privacy.forward_differences import even_differences
from fedsim.privacy.ledger import Bound, Component
from fedsim.protocol import PrivacyEvent
from fedsim.space import Array

MOMENT_ORDERS = tuple(float(order) for order in range(2, 65))

_CACHED_KEYS = 256
_TINY_DELTA = 1e-30
_MOMENT_ERROR = 1e-12  # of ln A_a: a series ends at terms of exp(-30), and has binomials of order a
_ULPS = 8 * float(np.finfo(float).eps)


class MomentsAccountant:
    """Integer orders 2..64 with the conversion min over orders of T rho + ln(1/delta)/(a - 1)."""

    name: Literal["moments"] = "moments"

    def __init__(self) -> None:
        self._divergences = lru_cache(_CACHED_KEYS)(renyi_divergences)

    def __reduce__(self) -> tuple[type[MomentsAccountant], tuple[()]]:
        """Pickle without the cache."""
        return MomentsAccountant, ()

    def supports(self, event: PrivacyEvent) -> bool:
        """Return whether it is a Gaussian release with Poisson sampling, as in the papers."""
        return isinstance(event, SubsampledGaussian)

    def bound(self, components: tuple[Component, ...], delta: float) -> Bound:
        """Return epsilon; see :class:`fedsim.privacy.accountants.Accountant`."""
        total = _total(components, self._divergences)
        epsilon = np.min(total - math.log(delta) / (np.array(MOMENT_ORDERS) - 1.0))
        return Bound(float(epsilon), "Renyi divergences")


def renyi_divergences(sampling_rate: float, noise_multiplier: float) -> Array:
    """Return the Renyi divergences of one release at :data:`MOMENT_ORDERS`, shape (63,).

    Mironov, Talwar and Zhang (arXiv 1908.10530), Sec. 3.3: for an integer order a, A_a is a
    binomial mixture of exp(i(i-1)/(2 z^2)), and the divergence is ln(A_a)/(a - 1).
    """
    q, z = sampling_rate, noise_multiplier
    order = np.array(MOMENT_ORDERS)
    if q == 1:
        return np.asarray(order / (2 * z**2))
    a = order[:, None]
    i = np.arange(order[-1] + 1)[None, :]
    # Beyond i = a the binomial coefficient is 0; there the clipped argument only avoids poles.
    log_binomial = gammaln(a + 1) - gammaln(i + 1) - gammaln(np.maximum(a - i, 0) + 1)
    terms = log_binomial + i * math.log(q) + (a - i) * math.log1p(-q) + i * (i - 1) / (2 * z**2)
    log_moment = logsumexp(np.where(i <= a, terms, -np.inf), axis=1)  # ln A_a
    return np.asarray(log_moment / (order - 1))


class RdpAccountant:
    """dp-accounting's Renyi accountant with its default orders, one vector cached per key.

    Samples of fixed size have the divergences of :func:`fixed_size_divergences`.

    Args:
        orders: other orders of Poisson sampling, each above 1; None for dp-accounting's.
    """

    name: Literal["rdp"] = "rdp"

    def __init__(self, orders: tuple[float, ...] | None = None) -> None:
        self._given_orders = orders
        self._divergences = lru_cache(_CACHED_KEYS)(self._compute_divergences)
        self._fixed_size_divergences = lru_cache(_CACHED_KEYS)(fixed_size_divergences)

    def __reduce__(self) -> tuple[type[RdpAccountant], tuple[tuple[float, ...] | None]]:
        """Pickle without the cache."""
        return RdpAccountant, (self._given_orders,)

    def supports(self, event: PrivacyEvent) -> bool:
        """Return whether it is a subsampled Gaussian release."""
        return isinstance(event, GaussianEvent)

    def bound(self, components: tuple[Component, ...], delta: float) -> Bound:
        """Return epsilon; see :class:`fedsim.privacy.accountants.Accountant`."""
        from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon

        if components[0].sampling == "fixed":
            total = _total([halved(c) for c in components], self._fixed_size_divergences)
            epsilon = compute_epsilon(MOMENT_ORDERS, total, delta)[0]
        else:
            total = _total(components, self._divergences)
            epsilon = compute_epsilon(self._orders(), total, delta)[0]
        return Bound(float(epsilon), "Renyi divergences")

    def _orders(self) -> tuple[float, ...]:
        from dp_accounting.rdp.rdp_privacy_accountant import DEFAULT_RDP_ORDERS

        return self._given_orders or tuple(DEFAULT_RDP_ORDERS)

    def _compute_divergences(self, sampling_rate: float, noise_multiplier: float) -> Array:
        """Return the Renyi divergences of one release, shape (number of orders,).

        dp-accounting exposes them only through its conversion to epsilon, which adds a constant
        per order; the constant is measured at divergence 1 and subtracted. Both are rounded, and
        dp-accounting's moments A_a too. That is added, so that divergences are never too small.
        """
        import dp_accounting as dp
        from dp_accounting.rdp import rdp_privacy_accountant as rdp

        event = dp.PoissonSampledDpEvent(sampling_rate, dp.GaussianDpEvent(noise_multiplier))
        divergences = []
        with _quiet_absl():  # orders near 1 may not converge and are left out with a warning
            for order in self._orders():
                epsilon = rdp.RdpAccountant([order]).compose(event).get_epsilon(_TINY_DELTA)
                constant = rdp.compute_epsilon([order], [1.0], _TINY_DELTA)[0] - 1.0
                rounding = _MOMENT_ERROR / (order - 1) + _ULPS * (abs(epsilon) + abs(constant))
                divergences.append(max(0.0, epsilon - constant) + rounding)
        return np.array(divergences)


def halved(component: Component) -> Component:
    """Return a release with its multiplier beside the change that a replacement makes.

    A vector of norm C and another one are up to 2 C apart.
    """
    return component._replace(noise_multiplier=component.noise_multiplier / 2)


def fixed_size_divergences(sampling_rate: float, noise_multiplier: float) -> Array:
    """Return bounds on the Renyi divergences of a release with a sample of fixed size.

    Wang, Balle and Kasiviswanathan (AISTATS 2019, arXiv 1808.00087), Theorem 27, for replace-one
    neighbours.

    Args:
        sampling_rate: q = m / N, in (0, 1].
        noise_multiplier: beside the largest change that a replacement makes, above 0.

    Returns:
        At :data:`MOMENT_ORDERS`, shape (63,).
    """
    q, z = sampling_rate, noise_multiplier
    order = np.array(MOMENT_ORDERS)
    if q == 1:
        return np.asarray(order / (2 * z**2))
    a, j = order[:, None], np.arange(2.0, order[-1] + 1)[None, :]
    differences = even_differences(z, len(order) + 1)  # ln B(0), ln B(2), ...
    lower, upper = (differences[(f(j[0] / 2)).astype(int)] for f in (np.floor, np.ceil))
    factors = math.log(4) + (lower + upper) / 2
    # At j = 2 it is 4 (exp(eps(2)) - 1), which is 4 B(2) of a Gaussian mechanism.
    factors = np.minimum(factors, math.log(2) + j[0] * (j[0] - 1) / (2 * z**2))
    log_binomial = gammaln(a + 1) - gammaln(j + 1) - gammaln(np.maximum(a - j, 0) + 1)
    terms = np.where(j <= a, log_binomial + j * math.log(q) + factors, -np.inf)
    log_moment = np.logaddexp(0.0, logsumexp(terms, axis=1))
    return np.asarray(log_moment / (order - 1))


def _total(components: Sequence[Component], divergences: Callable[[float, float], Array]) -> Array:
    """Return the total divergences of all releases, by order."""
    return np.asarray(
        sum(c.releases * divergences(c.sampling_rate, c.noise_multiplier) for c in components)
    )


@contextmanager
def _quiet_absl() -> Iterator[None]:
    """Silence absl's warnings, then restore the caller's verbosity."""
    from absl import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
