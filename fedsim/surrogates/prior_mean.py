"""A prior mean that others propose, and how far it is trusted.

A function m is said to resemble what an agent's own function f is. The model of the outputs is

    y_i = alpha m(x_i) + g(x_i) + noise,   alpha ~ N(1, 1),   g ~ GP(0, share * k),

so that m is a prior mean, and with another amplitude a basis function (Rasmussen and Williams,
2006, Section 2.7, with a prior mean of the coefficients). k and the noise's variance are those of a
model without m. The share is the likeliest of :data:`SHARES`: a small one says that m explains the
function, and 1 that it explains nothing; then alpha, too, comes out near 0.

Symbol   Meaning                                                      Shape
m        the proposed mean, at the observed points                    (n,)
K        covariance of g at the observed points, for a share of 1     (n, n)
r        y - m: outputs minus their prior mean                        (n,)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fedsim.acquisition.refinement import Differentiable
from fedsim.space import Array
from fedsim.surrogates.basis import Basis, BasisSum, JoinedBasis
from fedsim.surrogates.cholesky import factorise, solve_lower
from fedsim.surrogates.exact_gp import condition, prior_matrix
from fedsim.surrogates.kernels import Kernel
from fedsim.surrogates.paths import PosteriorPath, feature_count, sample_path
from fedsim.surrogates.warping import Warp

SHARES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.001)
"""Shares of the prior variance that are compared; of equally likely ones, the first counts."""


@dataclass(frozen=True, slots=True, eq=False)
class MeanBasis:
    """The basis function z -> factor (m(w^-1(z)) - offset); see :mod:`fedsim.surrogates.basis`.

    Attributes:
        function: m, of embedded coordinates.
        warp: w, of the embedded coordinates.
        offset: subtracted.
        factor: multiplies.
    """

    function: Differentiable
    warp: Warp
    offset: float
    factor: float

    @property
    def terms(self) -> int:
        """One."""
        return 1

    def matrix(self, Z: Array) -> Array:
        """Return the function at the rows of ``Z`` (n, E), shape (n, 1)."""
        return self.of(self.function.values(self.warp.inverse(Z)))

    def of(self, values: Array) -> Array:
        """Return the same where m has these values, shape (n,)."""
        F: Array = self.factor * (values - self.offset)
        return F[:, None]

    def sums_and_gradients(self, Z: Array, weights: Array) -> tuple[Array, Array]:
        """Return the function times its weight, shape (n,), and its gradients, shape (n, E)."""
        U = self.warp.inverse(Z)
        values, gradients = self.function.values_and_gradients(U)
        if not self.warp.is_identity:
            gradients = gradients / self.warp.slopes(U)
        weighted = self.factor * weights[..., 0]
        return weighted * (values - self.offset), np.reshape(weighted, (-1, 1)) * gradients


def cost(covariance: Array, noise: float, residuals: Array, mean: Array) -> float:
    """Return the negative log likelihood of r ~ N(0, K + noise I + m m^T), but for a constant.

    Args:
        covariance: K, shape (n, n).
        noise: variance, above 0.
        residuals: r, shape (n,).
        mean: m, shape (n,).
    """
    A = covariance.copy()
    A.flat[:: len(A) + 1] += noise
    L = factorise(A, f"Gaussian process around a prior mean, noise variance {noise:g}")
    half = solve_lower(L, np.column_stack([residuals, mean]))
    # Sherman and Morrison's formula for the inverse, and the matching one for the determinant.
    r, m = half.T
    more = 1.0 + m @ m
    return float(np.log(L.diagonal()).sum() + 0.5 * (math.log(more) + r @ r - (r @ m) ** 2 / more))


def likeliest_share(covariance: Array, noise: float, residuals: Array, mean: Array) -> float:
    """Return the share of K at which the residuals are most likely; of no residuals, 1.

    Arguments are those of :func:`cost`, for a share of 1.
    """
    costs = [cost(share * covariance, noise, residuals, mean) for share in SHARES]
    return SHARES[costs.index(min(costs))]


@dataclass(frozen=True, slots=True, eq=False)
class Residual:
    """What a prior mean leaves to be explained, in units of g's standard deviation.

    Attributes:
        outputs: (y - m) / deviation, shape (n,).
        noise: variance.
        mean: m / deviation, to be added to a sample of what is left.
    """

    outputs: Array
    noise: float
    mean: MeanBasis


def residual(
    mean: MeanBasis,
    kernel: Kernel,
    trend: Basis | None,
    inputs: Array,
    outputs: Array,
    variance: float,
    noise: float,
) -> Residual:
    """Return what a prior mean leaves, at the likeliest share.

    Args:
        mean: m, in the outputs' unit.
        kernel: with variance 1.
        trend: what else is added to it; None: nothing.
        inputs: in embedded coordinates, shape (n, E).
        outputs: y, shape (n,).
        variance: of the prior without m, above 0.
        noise: variance without m, above 0.
    """
    m = mean.matrix(inputs)[:, 0]
    K = variance * prior_matrix(kernel, trend, inputs, inputs)
    size = likeliest_share(K, noise, outputs - m, m) * variance
    deviation = math.sqrt(size)
    scaled = replace(mean, factor=mean.factor / deviation)
    return Residual((outputs - m) / deviation, noise / size, scaled)


def sample_around(
    left: Residual,
    kernel: Kernel,
    trend: Basis | None,
    inputs: Array,
    features: int | None,
    beta: float,
    generator: np.random.Generator,
) -> PosteriorPath:
    """Draw a sample of f on a continuous space, in units of g's standard deviation.

    Args:
        left: what the prior mean leaves.
        kernel: with variance 1.
        trend: what else is added to it; None: nothing.
        inputs: in embedded coordinates, shape (n, E).
        features: of the sample's prior part; None: by the noise.
        beta: multiplies the posterior standard deviation.
        generator: consumed.
    """
    basis = left.mean if trend is None else JoinedBasis(trend, left.mean)
    posterior = condition(kernel, left.noise, inputs, left.outputs, basis=basis)
    path = sample_path(posterior, features or feature_count(left.noise), beta, generator)
    assert path.added is not None
    weights = path.added.weights.copy()
    weights[-1] += 1.0  # alpha's prior mean
    return replace(path, added=BasisSum(basis, weights))
