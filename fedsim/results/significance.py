"""Means and standard errors in any unit, Student's test and Holm's correction.

Sums of numbers near the largest, and squares of very large or small ones, are beyond what a double
holds; so both are made of numbers that are scaled to at most 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import stdtr

from fedsim.space import Array


def means(values: Array, axis: int = 0) -> Array:
    """Return the means of known values along an axis; NaN where none is known.

    Args:
        values: NaN is not known; shape (n,) or (n, m).
        axis: along which the means are.
    """
    known, scale = ~np.isnan(values), _scale(values)
    total = np.where(known, values / scale, 0.0).sum(axis=axis)
    count = known.sum(axis=axis)
    found: Array = np.where(count > 0, total / np.maximum(count, 1), np.nan) * scale
    return found


def standard_errors(values: Array, axis: int = 0) -> Array:
    """Return the standard errors of :func:`means`; NaN where fewer than two are known."""
    known = ~np.isnan(values)
    count = known.sum(axis=axis)
    with np.errstate(over="ignore", invalid="ignore"):  # infinite values
        apart = values - np.expand_dims(means(values, axis), axis)
    scale = _scale(apart)
    squares = np.where(known, (apart / scale) ** 2, 0.0).sum(axis=axis)
    variance = np.where(count > 1, squares / np.maximum(count - 1, 1), np.nan)
    found: Array = np.sqrt(variance / np.maximum(count, 1)) * scale
    return found


def _scale(values: Array) -> float:
    """Return the largest finite absolute value; 1 if there is none, or all are 0."""
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max(initial=0.0)) or 1.0


def mean(values: Array) -> float:
    """Return the mean of values, shape (n,); NaN for none."""
    return float(means(values))


def standard_error(values: Array) -> float:
    """Return the standard error of the mean of independent values, shape (n,); NaN for one."""
    return float(standard_errors(values))


def student_p(mean: float, error: float, freedom: float) -> float:
    """Return the two-sided p value of a mean that is 0 by assumption.

    Args:
        mean: the mean, such as of paired differences.
        error: its standard error; 0 if all values are equal, NaN if it is not known.
        freedom: its degrees of freedom: the number of values less one.
    """
    if math.isnan(error):
        return math.nan
    if error == 0.0:
        return 1.0 if mean == 0.0 else 0.0
    return 2.0 * float(stdtr(freedom, -abs(mean) / error))


def welch(first: Array, second: Array) -> tuple[float, float]:
    """Return the standard error of a difference of two means, and its degrees of freedom.

    The variances may differ (B. L. Welch, Biometrika 34, 1947). Both are NaN if a sample, of shape
    (n,), has one value; the second also if all values of both are equal.
    """
    errors = standard_error(first), standard_error(second)
    error = math.hypot(*errors)
    if math.isnan(error) or error == 0.0:
        return error, math.nan
    a, b = ((one / error) ** 2 for one in errors)
    return error, 1.0 / (a**2 / (len(first) - 1) + b**2 / (len(second) - 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p values corrected for their number (S. Holm, Scand. J. Statistics 6, 1979).

    If all hypotheses are true, the smallest is below α with a probability of at most α. NaN, of
    what was not tested, stays NaN and does not count.
    """
    tested = sorted(
        (i for i, p in enumerate(p_values) if not math.isnan(p)), key=lambda i: p_values[i]
    )
    corrected, largest = [math.nan] * len(p_values), 0.0
    for rank, i in enumerate(tested):
        largest = max(largest, min(1.0, (len(tested) - rank) * p_values[i]))
        corrected[i] = largest
    return corrected
