"""Outputs in units of their own spread, so that models do not depend on the user's units.

Models work on standardised outputs: their numbers are then of about the size 1, whatever the units
of the objective, and nothing overflows or is lost in single precision. All steps are such that
outputs multiplied by a power of two give exactly the same standardised outputs, and outputs
multiplied by another factor the same up to rounding.
"""

from __future__ import annotations

import math

import numpy as np

from fedsim.means import mean
from fedsim.space import Array


def spread(values: Array) -> float:
    """Return the root of the mean square of values, shape (n,); of none, 0.

    It neither overflows nor underflows where the values themselves do not.
    """
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0.0:
        return 0.0
    return largest * math.sqrt(float(np.square(values / largest).mean()))


def mean_of(values: Array) -> float:
    """Return the mean of values, shape (n,); of equal values exactly that value, of none 0."""
    if not len(values):
        return 0.0
    # A sum of equal values may be rounded.
    return float(np.clip(mean(values), values.min(), values.max()))


def standardised(outputs: Array, *, centred: bool = True) -> Array:
    """Return outputs in units of their spread, shape (n,).

    Args:
        outputs: finite, of any size, shape (n,).
        centred: whether to subtract their mean first; else the spread is around zero.

    Returns:
        Their mean square is 1, unless all are equal (if not centred: zero): then all are zero.
    """
    # A power of two is exact, and the mean of huge outputs is then finite.
    _, exponent = np.frexp(np.abs(outputs).max(initial=0.0))
    values: Array = np.ldexp(outputs, -exponent)
    if centred:
        values = values - mean_of(values)
    unit = spread(values)
    return values / unit if unit else values
