"""All outputs' mean and spread, from sums in a fixed point.

With f fraction bits, sums of outputs near their mean resolve a spread above 2^(1 - f/2) in the
units so far. Where it is smaller, the new unit is 2^-10 times the one so far, but at least 2^-20
times the first. So spreads above 2^(1 - f/2) times the first are found at once, spreads above
2^(-19 - f/2) times it two rounds later, smaller ones never. f follows from the largest number that
is summed: for FBO-FedGP 2 n / eta, with n observations of a client and the least noise ratio eta,
so that 2^(1 - f/2) is 2^-29 to 2^-28.5 times the root of n / eta, about 2e-9 times it.

Outputs of up to 2^60 units fit in the sums of FBO-FedGP, so those of up to 2^40, about 1e12, times
the first spread always fit after a search. After a smaller spread was found, it is 2^60 times that.
"""

from __future__ import annotations

import math

import numpy as np

from fedsim.space import Array

_FINER_BITS = 10  # of the spread, where outputs are too small for it
_FINEST_BITS = 20


def pooled_units(
    units: Array,
    count: float,
    first: float,
    second: float,
    *,
    fraction_bits: int,
    output_scale: float,
) -> Array:
    """Return all outputs' mean and spread from their sums, shape (2,).

    Args:
        units: centre c and spread r of the units of the sums, shape (2,).
        count: n, the number of outputs; of none, the units stay as they are.
        first: the sum of x = (y - c) / r.
        second: the sum of x^2.
        fraction_bits: f, of the fixed point.
        output_scale: the first spread.
    """
    if count < 0.5:
        return units
    mean = first / count
    variance = second / count - mean**2
    # Of at most ``count`` clients, each rounds its sums by at most 2^-f / 2; so the variance is
    # exact to this, and to about 1e-14 of what cancels.
    quantum = math.ldexp(0.5 + abs(mean), -fraction_bits)
    spread = 1.0
    if variance > 1e-14 * second / count + 8.0 * quantum:
        spread = math.sqrt(variance)
    elif abs(mean) < 1.0:  # else another centre may be all that is missing
        finest = math.ldexp(output_scale, -_FINEST_BITS)
        spread = max(math.ldexp(1.0, -_FINER_BITS), min(finest / float(units[1]), 1.0))
    return np.array([units[0] + units[1] * mean, units[1] * spread])
