"""Hyper-parameters of a Gaussian process by maximum marginal likelihood.

Rasmussen and Williams (2006), Section 5.4.1. The covariance of the outputs is
v (R + eta I), with R the correlation matrix. For given length scales and eta, the best variance
is v = r^T (R + eta I)^-1 r / n. It is substituted, and only the logarithms of the length scales
and of eta are searched. That saves one dimension.

Symbol   Meaning                                                  Shape
r        outputs minus the mean, in units of their spread         (n,)
theta    log length scales, then log eta                          (p + 1,)
eta      noise variance / v, in NOISE_RATIO_BOUNDS                scalar
A        R + eta I                                                (n, n)
alpha    A^-1 r                                                   (n,)

The search starts from fixed points, never from an earlier fit, so the result is a function of the
data alone: an agent rebuilt from its history has the same hyper-parameters. In other units of the
outputs it is the same: exactly for powers of two, else up to rounding.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import fmin_l_bfgs_b

from fedsim.acquisition.evaluations import Evaluations
from fedsim.errors import RunError
from fedsim.space import Array
from fedsim.surrogates.cholesky import factorise, inverse_triangle, solve
from fedsim.surrogates.exact_gp import condition
from fedsim.surrogates.kernels import Family, Kernel, squared_differences
from fedsim.surrogates.scaling import spread
from fedsim.surrogates.trend import Trend

LENGTH_SCALE_BOUNDS = (0.02, 10.0)
NOISE_RATIO_BOUNDS = (1e-6, 10.0)
_LOG_LENGTH_SCALES = (math.log(LENGTH_SCALE_BOUNDS[0]), math.log(LENGTH_SCALE_BOUNDS[1]))
_LOG_NOISE_RATIOS = (math.log(NOISE_RATIO_BOUNDS[0]), math.log(NOISE_RATIO_BOUNDS[1]))
_START_LENGTH_SCALES = (0.08, 0.4)
_START_NOISE_RATIOS = (1e-3, 1e-1)
# Stop when a step gains less than about 1e-4 in log likelihood (or 1e-4 of the whole gain, if that
# is above 1): hyper-parameters are then more exact than tens of observations can determine them.
_FACTR = 5e11
_PGTOL = 1e-2


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """Hyper-parameters of a Gaussian process.

    Attributes:
        kernel: its covariance function.
        noise_variance: variance of the observation noise, above 0.
    """

    kernel: Kernel
    noise_variance: float


def best_variance(misfit: float, count: float) -> float:
    """Return the factor of kernel and noise variance at which outputs are most likely, at least 0.

    Args:
        misfit: y^T C^-1 y, with y the outputs minus the prior mean and C their covariance; below 0
            by rounding alone.
        count: the number of outputs, at least 1.
    """
    return max(0.0, misfit) / count


def negative_log_likelihood(
    theta: Array,
    family: Family,
    differences: Array,
    residuals: Array,
    added: Array | None = None,
) -> tuple[float, Array]:
    """Return the negative log marginal likelihood at the best variance, and its gradient.

    Args:
        theta: log length scales (1 or D of them), then log eta.
        family: the kernel's.
        differences: of the inputs, see :func:`squared_differences`, shape (p, n, n).
        residuals: r, shape (n,), not all zero.
        added: to R: a trend's covariance, shape (n, n); None: nothing.

    Returns:
        The value, and the gradient by ``theta``.
    """
    n = len(residuals)
    kernel, eta = _decode(theta, family)
    A, dR = kernel.matrix_and_log_gradients(differences)
    if added is not None:
        A = A + added
    A.flat[:: n + 1] += eta
    L = factorise(A, f"marginal likelihood of {kernel}, noise ratio {eta:g}")
    alpha = solve(L, residuals)
    variance = best_variance(float(residuals @ alpha), n)
    value = np.log(L.diagonal()).sum() + 0.5 * n * (math.log(2.0 * math.pi * variance) + 1.0)

    # d value = tr(A^-1 dA) / 2 - alpha^T dA alpha / (2 v); dR has a zero diagonal.
    inverse = inverse_triangle(L).T  # C order; dR is symmetric
    gradient = np.empty(len(theta))
    for i, dR_i in enumerate(dR):
        gradient[i] = np.vdot(inverse, dR_i) - 0.5 * (alpha @ dR_i @ alpha) / variance
    gradient[-1] = 0.5 * eta * (inverse.trace() - alpha @ alpha / variance)
    return float(value), gradient


def fit(
    family: Family,
    ard: bool,
    inputs: Array,
    residuals: Array,
    widths: Sequence[int] | None = None,
    trend: Trend | None = None,
) -> Hyperparameters:
    """Return the maximum-likelihood hyper-parameters, in the units of the outputs.

    Some fixed starting points are compared; L-BFGS-B starts from the best. In more than two
    dimensions, and with several length scales, it starts twice: from the best with little noise,
    and from the best with more.

    A likelihood may have several maxima, and the search may miss the best. It was compared with the
    best of 36 searches (``python -m tests.benchmarks.fits``, and with more seeds). With one length
    scale for all of up to ten dimensions, none of 144 fits was more than one nat below that; with
    one for each of two, none of 224. With one for each of five, 6 of 256 were, by up to 6 nats;
    with one for each of ten, 13 of 64. Of 10 or 20 observations in one or two dimensions, 8 of 320
    fits of one length scale were more than one nat below what another of the starts leads to.
    Where a function is flat but for a narrow ridge, more are: of 192 fits to 10 to 50 queries of
    ``landmine``, 21 were, by up to 46 nats. Better fits did not find better points there.

    Args:
        family: the kernel's.
        ard: one length scale per parameter instead of one for all.
        inputs: X, shape (n, D), n at least 1.
        residuals: outputs minus the mean, shape (n,), not all zero.
        widths: how many columns of X each parameter has, in order; None: one each.
        trend: what is added to the kernel, in units of its variance; None: nothing.

    Raises:
        RunError: if the variance of outputs of this size is too large or too small for a number.
    """
    unit = spread(residuals)
    r = residuals / unit
    theta, _ = most_likely(family, ard, inputs, r, widths, trend)
    kernel, eta = _decode(theta, family)
    if ard and widths is not None:
        scales = np.repeat(kernel.length_scales, widths)  # one per column
        kernel = replace(kernel, length_scales=tuple(scales.tolist()))
    misfit = condition(kernel, eta, inputs, r, basis=trend).misfit(r)
    variance = best_variance(misfit, len(r)) * unit * unit
    if not (sys.float_info.min < eta * variance and variance < math.inf):
        raise RunError(
            f"Gaussian process: expected outputs whose variance is a number, got a spread of "
            f"{unit:g}; measure them in another unit"
        )
    return Hyperparameters(replace(kernel, variance=variance), eta * variance)


def most_likely(
    family: Family,
    ard: bool,
    inputs: Array,
    residuals: Array,
    widths: Sequence[int] | None = None,
    trend: Trend | None = None,
) -> tuple[Array, float]:
    """Return the most likely theta that the search of :func:`fit` finds, and its cost.

    The cost is the negative log marginal likelihood at the best variance. Arguments are those of
    :func:`fit`, with residuals of about the size 1.
    """
    differences = squared_differences(inputs, ard, widths)
    added = None
    if trend is not None:
        F = trend.matrix(inputs)
        added = F @ F.T
    cost = Evaluations(
        lambda theta: negative_log_likelihood(theta, family, differences, residuals, added)
    )
    parameters = len(widths or inputs.T)
    ends = [_search(cost, starts) for starts in _starts(len(differences), parameters)]
    return min(ends, key=lambda end: end[1])


def _starts(count: int, dimension: int) -> list[list[Array]]:
    """Return starting points, theta, in groups: a search starts from the best of each.

    Args:
        count: the number of length scales.
        dimension: the number of parameters; distances grow with its root.
    """
    wider = math.sqrt(max(1.0, dimension / 2.0))
    groups = [
        [np.log([wider * scale] * count + [ratio]) for scale in _START_LENGTH_SCALES]
        for ratio in _START_NOISE_RATIOS
    ]
    twice = dimension > 2 or count > 1
    return groups if twice else [[theta for group in groups for theta in group]]


def _search(cost: Evaluations, starts: Sequence[Array]) -> tuple[Array, float]:
    """Return where L-BFGS-B ends from the best of the starts, and the cost there."""
    costs = [cost.value(theta) for theta in starts]
    lowest = min(costs)
    bounds = [_LOG_LENGTH_SCALES] * (len(starts[0]) - 1) + [_LOG_NOISE_RATIOS]
    # L-BFGS-B's tolerance is relative to the cost, which holds constants; this is the gain alone.
    theta, above, _ = fmin_l_bfgs_b(
        lambda theta: cost.value(theta) - lowest,
        starts[costs.index(lowest)],
        fprime=cost.gradient,
        bounds=bounds,
        factr=_FACTR,
        pgtol=_PGTOL,
    )
    return theta, lowest + float(above)


def _decode(theta: Array, family: Family) -> tuple[Kernel, float]:
    """Return the kernel with variance 1, and eta."""
    return Kernel(family, tuple(np.exp(theta[:-1]).tolist()), 1.0), math.exp(theta[-1])
