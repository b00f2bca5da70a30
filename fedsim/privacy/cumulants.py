"""Moments of a release's privacy loss, at many tilts.

Tilting a distribution by theta multiplies its probabilities by exp(theta loss), and divides them by
their sum. Under the right tilt, large losses are the typical ones. ln E[exp(theta loss)] is theta
times the Renyi divergence of order theta + 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from fedsim.privacy.losses import Direction, bulk, discretise, loss_at
from fedsim.space import Array

TILTS: Array = np.concatenate([[0.0], 2.0 ** np.arange(-44.0, 44.0, 0.25)])
"""Ascending, from losses of 1e12 (hardly any noise) to losses of 1e-12."""

_STEPS_PER_DEVIATION = 32


@dataclass(frozen=True, slots=True)
class Cumulants:
    """What is known about a release's loss before it is put on a grid, at :data:`TILTS`.

    Attributes:
        log_moments: ln E[exp(theta loss)], shape (number of tilts,).
        means: of the tilted loss.
        variances: of the tilted loss.
        losses: the values of the loss, ascending.
        log_masses: ln of their untilted probabilities.
        log_below: ln of the untilted probability up to each of them.
        log_infinite: ln of the probability of an infinite loss.
    """

    log_moments: Array
    means: Array
    variances: Array
    losses: Array
    log_masses: Array
    log_below: Array
    log_infinite: float

    def log_moment(self, tilt: float) -> float:
        """Return ln E[exp(tilt loss)]."""
        return float(logsumexp(self.log_masses + tilt * self.losses))


def cumulants(
    sampling_rate: float, noise_multiplier: float, log_tail: float, direction: Direction
) -> Cumulants:
    """Return the cumulants of one release.

    They are those of a discrete loss with steps of 1/32 standard deviation of the noise, so they
    are bounds from above (about 1e-4 too large).

    Args:
        sampling_rate: q, in (0, 1].
        noise_multiplier: z, above 0.
        log_tail: ln of the probability that may count as an infinite loss.
        direction: of the comparison.
    """
    q, z = sampling_rate, noise_multiplier
    low, high = bulk(q, z, log_tail)
    step = z / _STEPS_PER_DEVIATION
    # With little noise, nothing lies between an unsampled agent (0) and a sampled one (1).
    if direction == "replace":  # negative losses mirror positive ones
        x = np.arange(max(1 + low, 0.5), high + step, step)
    else:
        x = np.concatenate(
            [
                np.arange(low, min(high, -low) + step, step),
                np.arange(max(1 + low, -low), high + step, step),
            ]
        )
    nodes = np.unique(loss_at(x, q, z))
    if direction == "add":
        nodes = -nodes[::-1]
    elif direction == "replace":
        nodes = np.unique(np.concatenate([-nodes, [0.0], nodes]))
    if len(nodes) == 1:  # a loss that is constant in double precision
        nodes = np.append(nodes, np.nextafter(nodes, np.inf))
    loss = discretise(nodes, q, z, direction)
    some = loss.log_masses > -np.inf
    losses, log_masses = loss.losses[some], loss.log_masses[some]
    exponents = log_masses + TILTS[:, None] * losses
    largest = exponents.max(axis=1)
    weights = np.exp(exponents - largest[:, None])
    sums = weights.sum(axis=1)
    means = weights @ losses / sums
    centred = losses - means[:, None]
    return Cumulants(
        log_moments=largest + np.log(sums),
        means=means,
        variances=(weights * centred**2).sum(axis=1) / sums,
        losses=losses,
        log_masses=log_masses,
        log_below=np.logaddexp.accumulate(log_masses),
        log_infinite=loss.log_infinite,
    )
