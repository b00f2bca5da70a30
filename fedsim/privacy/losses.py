"""The privacy loss of one subsampled Gaussian release, as a distribution on finitely many values.

======  ====================================================================================
symbol  meaning
======  ====================================================================================
q, z    sampling rate, noise multiplier
x       the release along one agent's contribution, in units of its bound: N(0, z^2) without
        the agent, (1 - q) N(0, z^2) + q N(1, z^2) with it
loss    ln of the ratio of the two densities at x: ln(1 - q + q exp((2x - 1) / (2 z^2)))
======  ====================================================================================

With samples of fixed size m = q N and an agent that is replaced, z is beside the largest change
that a replacement makes. The smallest bound on delta(epsilon) is then, for epsilon >= 0, that of
the loss above, and the two directions are alike (the operator C_q of Dong, Roth and Su, "Gaussian
Differential Privacy", arXiv 1905.02383; Balle, Barthe and Gaboardi, arXiv 1807.01647). So the loss
has the distribution of the one above where it is positive; negative losses mirror it, with
probabilities multiplied by exp(loss), and what is left is at 0.

The loss increases with x, so an interval of losses is an interval of x, and its probability is a
difference of normal distribution functions: exact, also far out, because it is kept as a
logarithm. "Connect the dots" (Doroshenko et al., arXiv 2207.04380) moves the probability of each
interval to its two ends such that both distributions keep their probability of the interval. The
result bounds the true epsilon from above, alone and in any composition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtri_exp

from fedsim.space import Array

Direction = Literal["remove", "add", "replace"]
"""``remove``: the loss of a release with the agent over one without it; ``add``: the reverse;
``replace``: that of a sample of fixed size, the same both ways."""

DIRECTIONS: tuple[Direction, Direction] = ("remove", "add")
"""Of Poisson sampling."""

_LARGEST_EXPONENT = 500.0  # of exp, far from overflow


@dataclass(frozen=True, slots=True)
class DiscreteLoss:
    """A loss distribution on finitely many values.

    Attributes:
        losses: ascending, shape (n,).
        log_masses: ln of their probabilities, shape (n,).
        log_infinite: ln of the probability of an infinite loss.
    """

    losses: Array
    log_masses: Array
    log_infinite: float

    def log_moment(self, tilt: float) -> float:
        """Return ln E[exp(tilt loss)] over the finite losses."""
        return float(logsumexp(self.log_masses + tilt * self.losses))


def loss_at(x: Array, sampling_rate: float, noise_multiplier: float) -> Array:
    """Return the losses at the releases ``x``."""
    q, z = sampling_rate, noise_multiplier
    u = (2 * x - 1) / (2 * z**2)
    if q == 1:
        return u
    near = np.log1p(q * np.expm1(np.minimum(u, _LARGEST_EXPONENT)))
    far = u + np.log(q + (1 - q) * np.exp(-np.maximum(u, _LARGEST_EXPONENT)))
    return np.asarray(np.where(u < _LARGEST_EXPONENT, near, far))


def release_with(losses: Array, sampling_rate: float, noise_multiplier: float) -> Array:
    """Return the releases x that have the given losses; -inf where losses are too small."""
    q, z = sampling_rate, noise_multiplier
    u = losses
    if q < 1:
        near = np.maximum(np.expm1(np.minimum(losses, 1.0)) / q, -1.0)
        far = losses + np.log1p(-(1 - q) * np.exp(-np.maximum(losses, 1.0))) - math.log(q)
        with np.errstate(divide="ignore"):
            u = np.where(losses < 1, np.log1p(near), far)
    return np.asarray(z**2 * u + 0.5)


def bulk(sampling_rate: float, noise_multiplier: float, log_tail: float) -> tuple[float, float]:
    """Return releases (low, high) that both distributions leave with little probability.

    Args:
        sampling_rate: q, in (0, 1].
        noise_multiplier: z, above 0.
        log_tail: ln of the probability, at most, below ``low`` and above ``high``.
    """
    q, z = sampling_rate, noise_multiplier
    most = math.log(0.5)
    low = z * float(ndtri_exp(min(log_tail, most)))
    sampled = log_tail - math.log(2) - math.log(q)
    unsampled = log_tail - math.log(2) - (math.log1p(-q) if q < 1 else 0.0)
    high = max(
        1 - z * float(ndtri_exp(min(sampled, most))) if sampled < most else 0.0,
        -z * float(ndtri_exp(min(unsampled, most))),
    )
    return low, high


def discretise(
    nodes: Array, sampling_rate: float, noise_multiplier: float, direction: Direction
) -> DiscreteLoss:
    """Return the loss of one release on given values, by connecting the dots.

    Args:
        nodes: at least 2 values of the loss, ascending.
        sampling_rate: q, in (0, 1].
        noise_multiplier: z, above 0.
        direction: of the comparison.
    """
    q, z = sampling_rate, noise_multiplier
    if direction == "replace":
        return _connect(nodes, *_replacement(nodes, q, z))
    sign = 1.0 if direction == "remove" else -1.0
    ordered = nodes if direction == "remove" else -nodes[::-1]  # losses of the direction "remove"
    edges = np.concatenate([[-np.inf], release_with(ordered, q, z), [np.inf]])
    with_agent, without = _log_probabilities(edges, q, z)
    if sign > 0:
        return _connect(nodes, with_agent, without)
    return _connect(nodes, without[::-1], with_agent[::-1])


def _log_probabilities(edges: Array, q: float, z: float) -> tuple[Array, Array]:
    """Return ln of the probabilities of intervals of releases, with and without the agent."""
    without = _log_interval(edges / z)
    with_agent = _log_interval((edges - 1) / z)
    if q < 1:
        with_agent = np.logaddexp(without + math.log1p(-q), with_agent + math.log(q))
    return with_agent, without


def _replacement(nodes: Array, q: float, z: float) -> tuple[Array, Array]:
    """Return ln of the probabilities of the intervals between losses, for ``replace``.

    Args:
        nodes: shape (n,), ascending.
        q: the sampling rate.
        z: the noise multiplier.

    Returns:
        Under one and the other distribution, each of shape (n + 1,): below, between and above
        the nodes.
    """
    zero = int(np.searchsorted(nodes, 0.0))  # nodes[:zero] are negative
    is_node = zero < len(nodes) and nodes[zero] == 0.0

    def beyond_zero(losses: Array) -> tuple[Array, Array]:
        edges = release_with(np.concatenate([[0.0], losses]), q, z)
        return _log_probabilities(np.append(edges, np.inf), q, z)

    above, other_above = beyond_zero(nodes[zero + is_node :])
    other_below, below = beyond_zero(-nodes[:zero][::-1])  # mirrored
    both = [
        np.concatenate([below[::-1], above]),
        np.concatenate([other_below[::-1], other_above]),
    ]
    for log_masses in both:  # the interval with index ``zero`` ends at a loss of 0
        if q < 1:
            at_zero = math.log1p(-q) + math.log(math.erf(math.sqrt(0.125) / z))
            log_masses[zero] = np.logaddexp(log_masses[zero], at_zero)
        if not is_node:
            log_masses[zero] = np.logaddexp(log_masses[zero], log_masses[zero + 1])
    if is_node:
        return both[0], both[1]
    return np.delete(both[0], zero + 1), np.delete(both[1], zero + 1)


def _connect(nodes: Array, log_p: Array, log_q: Array) -> DiscreteLoss:
    """Return the distribution that has its probability on the nodes only.

    An interval from a to b with probabilities p and q gives b the part t of p, where p (1 - t) at
    a and p t at b have together probability q under the other distribution:
    (1 - t) p exp(-a) + t p exp(-b) = q. What is below the first node moves up to it; above the
    last one, exp(b) q stays there and the rest becomes infinite.

    Args:
        nodes: shape (n,), ascending.
        log_p: probabilities of the intervals below, between and above the nodes, shape (n + 1,).
        log_q: the same under the other distribution.
    """
    inner, a, b = log_p[1:-1], nodes[:-1], nodes[1:]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        upper = np.expm1(log_q[1:-1] - inner + a) / np.expm1(a - b)
        upper = np.clip(np.where(np.isnan(upper), 1.0, upper), 0.0, 1.0)
        masses = np.full(len(nodes), -np.inf)
        masses[1:] = inner + np.log(upper)
        masses[:-1] = np.logaddexp(masses[:-1], inner + np.log1p(-upper))
    masses[0] = np.logaddexp(masses[0], log_p[0])
    above, last = float(log_p[-1]), min(float(log_q[-1] + nodes[-1]), float(log_p[-1]))
    masses[-1] = np.logaddexp(masses[-1], last)
    infinite = -math.inf
    # All of it is at b if the two differ by rounding: in the direction "add", losses end at
    # -ln(1 - q), and most of the probability may be there.
    rounding = 4 * np.finfo(float).eps * max(-above, abs(float(nodes[-1])))
    if above > -math.inf and above - last > rounding:
        infinite = above + math.log(-math.expm1(last - above))
    return DiscreteLoss(nodes, masses, infinite)


def _log_interval(edges: Array) -> Array:
    """Return ln of the standard normal probability between neighbouring edges."""
    low, high = edges[:-1], edges[1:]
    upper_half = low > 0  # the mirrored interval: its small numbers keep their digits
    low, high = np.where(upper_half, -high, low), np.where(upper_half, -low, high)
    below, all_below = log_ndtr(low), log_ndtr(high)
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.log(-np.expm1(below - all_below))
    return np.asarray(np.where(np.isneginf(all_below), -np.inf, all_below + part))
