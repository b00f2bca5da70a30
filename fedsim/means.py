"""Means and standard errors in any unit.

Sums of numbers near the largest, and squares of very large or small ones, are beyond what a double
holds; so both are made of numbers that are scaled to at most 1, by a power of two: where plain sums
do not overflow, the means are exactly theirs.
"""

from __future__ import annotations

import numpy as np

from fedsim.space import Array


def means(values: Array, axis: int = 0) -> Array:
    """Return the means of known values along an axis; NaN where none is known.

    Args:
        values: NaN is not known; shape (n,) or (n, m).
        axis: along which the means are.
    """
    known, exponent = ~np.isnan(values), _exponent(values)
    total = np.where(known, np.ldexp(values, -exponent), 0.0).sum(axis=axis)
    count = known.sum(axis=axis)
    found: Array = np.ldexp(np.where(count > 0, total / np.maximum(count, 1), np.nan), exponent)
    return found


def standard_errors(values: Array, axis: int = 0) -> Array:
    """Return the standard errors of :func:`means`; NaN where fewer than two are known."""
    known = ~np.isnan(values)
    count = known.sum(axis=axis)
    with np.errstate(over="ignore", invalid="ignore"):  # infinite values
        apart = values - np.expand_dims(means(values, axis), axis)
    exponent = _exponent(apart)
    squares = np.where(known, np.ldexp(apart, -exponent) ** 2, 0.0).sum(axis=axis)
    variance = np.where(count > 1, squares / np.maximum(count - 1, 1), np.nan)
    found: Array = np.ldexp(np.sqrt(variance / np.maximum(count, 1)), exponent)
    return found


def mean(values: Array) -> float:
    """Return the mean of values, shape (n,); NaN for none."""
    return float(means(values))


def standard_error(values: Array) -> float:
    """Return the standard error of the mean of independent values, shape (n,); NaN for one."""
    return float(standard_errors(values))


def _exponent(values: Array) -> int:
    """Return the least e for which all finite values are below 2^e; 0 if all are 0."""
    finite = np.abs(values[np.isfinite(values)])
    return int(np.frexp(finite.max(initial=0.0))[1])
