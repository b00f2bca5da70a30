"""Outputs on a scale on which one huge value does not hide all others.

Every client maps its outputs y to x = asinh((y - c) / r), with a centre c and a scale r that all
clients share: about linear within r of c, logarithmic beyond. c and r are chosen so that x has mean
0 and spread 1 among good outputs. They follow from sums of x and x^2, one step in every round: if
the mean of x is m and its spread d, then c + r sinh(m) is where x is m, and there a step of d in x
is one of r d cosh(m) in y. In these sums, x counts as at most 5 in size, so that few outputs far
away do not change the units, and where the mean is above half of this, r grows as fast as it can.
"""

from __future__ import annotations

import math

import numpy as np

from fedsim.space import Array

LARGEST = 30.0
"""Of abs(x): what lies further out, about 5e12 r away from c, counts as that."""

_OUTLYING = 5.0
"""In sums for the units, abs(x) counts as at most this."""

_SMALLEST_STEP = 1e-4
"""r shrinks at most to this part of itself in one step."""


def robust(outputs: Array, units: Array) -> Array:
    """Return x for outputs (n,) and units c and r (2,), shape (n,)."""
    with np.errstate(over="ignore"):
        x = np.arcsinh((outputs - units[0]) / units[1])
    clipped: Array = np.clip(x, -LARGEST, LARGEST)
    return clipped


def moments(x: Array) -> Array:
    """Return the sums that units follow from: of ones, x and x^2, shape (3,)."""
    near = np.clip(x, -_OUTLYING, _OUTLYING)
    return np.array([len(near), near.sum(), np.square(near).sum()])


def next_units(units: Array, sums: Array) -> Array:
    """Return better units, shape (2,).

    Args:
        units: c and r, shape (2,).
        sums: of :func:`moments`, shape (3,).
    """
    count, first, second = sums.tolist()
    if count < 1.5:
        return units
    mean = first / count
    spread = math.sqrt(max(second / count - mean**2, _SMALLEST_STEP**2))
    centre = units[0] + units[1] * math.sinh(mean)
    far = abs(mean) > 0.5 * _OUTLYING
    scale = units[1] * (math.sinh(_OUTLYING) if far else spread * math.cosh(mean))
    if not (math.isfinite(centre) and 0.0 < scale < math.inf):
        return units
    return np.array([centre, scale])
