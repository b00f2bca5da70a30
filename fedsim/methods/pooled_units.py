"""All outputs' mean and spread, from sums in a fixed point.

Where outputs, in the units so far, are so small that the fixed point does not resolve their spread,
the new spread is 2^-10 times the one so far, but at least 2^-20 times the first: outputs of up to
2^40, about 1e12, times the first spread still fit then.
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
