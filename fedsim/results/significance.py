"""Student's and Welch's test, and Holm's correction."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy.special import stdtr

from fedsim.means import standard_error
from fedsim.space import Array


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
