"""Outputs on a scale on which one huge value does not hide all others.

Every client maps its outputs y to x = asinh((y - c) / r), with a centre c and a scale r that all
clients share: about linear within r of c, logarithmic beyond. c and r are chosen so that x has mean
0 and spread 1 where it is good. They follow from the global posterior, one step in every round: of
points all over where the federation searches, the quarter with the highest means counts. If their
mean is m and their spread d, then c + r sinh(m) is where x is m, and there a step of d in x is one
of r d cosh(m) in y. So units need no sums of their own, which would show the few outputs that lie
in a small region.
"""

from __future__ import annotations

import math

import numpy as np

from fedsim.space import Array

LARGEST = 8.0
"""Of abs(x): what lies further out, about 1,500 r away from c, counts as that."""

_GOOD = 0.25
"""The share of points, those with the highest means, that count."""

_FASTEST = 5.0
"""In one step, c moves by at most sinh of this, in units of r. Where the mean is above half of
this, r grows by as much."""

_SMALLEST_STEP = 1e-4
"""r shrinks at most to this part of itself in one step."""

_FINEST = 1e-12
"""r is at least this part of abs(c): outputs have about 16 digits."""


def robust(outputs: Array, units: Array) -> Array:
    """Return x for outputs (n,) and units c and r (2,), shape (n,)."""
    with np.errstate(over="ignore"):
        x = np.arcsinh((outputs - units[0]) / units[1])
    clipped: Array = np.clip(x, -LARGEST, LARGEST)
    return clipped


def next_units(units: Array, means: Array, variances: Array) -> Array:
    """Return better units, shape (2,).

    Args:
        units: c and r, shape (2,).
        means: of the posterior of x at points all over where the federation searches, shape (k,).
        variances: at the same points, shape (k,).
    """
    good = np.argsort(-means, kind="stable")[: math.ceil(_GOOD * len(means))]
    spread = math.sqrt(float(means[good].var() + variances[good].mean()))
    mean = min(max(float(means[good].mean()), -_FASTEST), _FASTEST)
    c, r = units.tolist()
    centre = c + r * math.sinh(mean)
    far = abs(mean) > 0.5 * _FASTEST
    step = math.sinh(_FASTEST) if far else spread * math.cosh(mean)
    scale = max(r * step, r * _SMALLEST_STEP, _FINEST * abs(centre))
    if not (math.isfinite(centre) and 0.0 < scale < math.inf):
        return units
    return np.array([centre, scale])
