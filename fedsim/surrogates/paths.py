"""Samples of a Gaussian process posterior as functions, for Thompson sampling to maximise.

Matheron's rule turns a sample f of the prior into one of the posterior,

    f(u) + k(u, X) (K + sigma^2 I)^-1 (y - f(X) - epsilon),   epsilon ~ N(0, sigma^2 I)

(Wilson et al., Efficiently Sampling Functions from Gaussian Process Posteriors, ICML 2020,
Eq. (12)). On a continuous space, f is a sum of random Fourier features, which approximates the
prior; the correction is exact. On a finite grid both are exact: with G G^T = k(grid, grid),
f = G omega, and omega has the posterior of a linear model whose features are rows of G.

Over the draws of the features, a path has the posterior's mean and covariance exactly, but its law
is not quite normal: for given features, its variance is too large or too small. The correction
multiplies what the features miss, the more the less noise there is, so that paths with few features
are heavy-tailed then: for 40 observations in two dimensions (Matern-5/2, length scale 0.3, noise
1e-4 of the variance), the median over points of the excess kurtosis is about 4 with 100 features, 1
with 400 and 0.5 with 1000. :func:`feature_count` therefore depends on the noise. It is a
compromise, since time grows with it: with less noise still, close points or one dimension, tails
stay heavy.

A scale beta multiplies the posterior's standard deviation: mean + beta (sample - mean)
(DP-FTS-DE, Alg. 2, line 6; beta = 1 is Thompson sampling).

Symbol   Meaning                                        Shape
X, y     observed inputs (unit cube) and outputs        (n, D), (n,)
G        pivoted Cholesky factor of the grid's kernel   (grid points, rank)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedsim.space import Array
from fedsim.surrogates.basis import BasisSum
from fedsim.surrogates.dpitc import JITTER, SparsePosterior
from fedsim.surrogates.exact_gp import ExactGP
from fedsim.surrogates.kernels import Kernel
from fedsim.surrogates.linear import linear_posterior
from fedsim.surrogates.rff import RandomFeatures, draw_features

GRID_TOLERANCE = 1e-10
"""Largest share of the variance that a grid's factor may miss at any grid point."""

FULL_RANK_POINTS = 1024
"""A grid of at most so many points has a factor with any kernel."""

GRID_WORK = 2**26
"""On larger grids a factor has at most so many points times columns squared (some 50 ms)."""


@dataclass(frozen=True, slots=True, eq=False)
class PosteriorPath:
    """One sample of a posterior: mean_constant + phi(u)^T prior_weights + k(u, X) weights.

    If the prior has basis functions, the sample's sum of them is added.

    Attributes:
        kernel: k.
        mean_constant: the prior's mean.
        centres: X, shape (n, D): the observed points, or the support set.
        features: phi, not normalised.
        prior_weights: shape (number of features,).
        weights: shape (n,).
        added: its sum of basis functions; None: none.
    """

    kernel: Kernel
    mean_constant: float
    centres: Array
    features: RandomFeatures
    prior_weights: Array
    weights: Array
    added: BasisSum | None = None

    def values(self, U: Array) -> Array:
        """Return the sample at the rows of ``U`` (k, D), shape (k,)."""
        prior = self.features.matrix(U) @ self.prior_weights
        correction = self.kernel.matrix(U, self.centres) @ self.weights
        values: Array = self.mean_constant + prior + correction
        return values if self.added is None else values + self.added.values(U)

    def ranking(self, U: Array) -> Array:
        """Return the sample minus the mean constant by single-precision sums, shape (k,).

        It is accurate to about 1e-3 of the prior's standard deviation if the noise variance is
        1e-4 of the prior's, and to 1e-2 if it is 1e-6, in any units: enough to choose among
        candidates, and several times faster.
        """
        prior = self.features.single_sums(U, self.prior_weights)
        size = float(np.abs(self.weights).max(initial=0.0)) or 1.0
        kernel = replace(self.kernel, variance=1.0)
        weights = (self.weights / size).astype(np.float32)
        correction = kernel.single_matrix(U, self.centres) @ weights
        values: Array = prior + self.kernel.variance * size * correction.astype(np.float64)
        return values if self.added is None else values + self.added.values(U)

    def values_and_gradients(self, U: Array) -> tuple[Array, Array]:
        """Return values, shape (k,), and gradients, shape (k, D)."""
        prior, prior_gradients = self.features.sums_and_gradients(U, self.prior_weights)
        correction, gradients = self.kernel.sums_and_gradients(U, self.centres, self.weights)
        values = self.mean_constant + prior + correction
        gradients = prior_gradients + gradients
        if self.added is None:
            return values, gradients
        more, further = self.added.values_and_gradients(U)
        return values + more, gradients + further


def feature_count(noise_ratio: float) -> int:
    """Return how many random features a path should have: 100, or up to 400 with little noise.

    The number doubles with every factor of ten below a ratio of 1e-2, down to 1e-4.

    Args:
        noise_ratio: the noise variance over the prior's, above 0.
    """
    decades = min(max(-2.0 - math.log10(noise_ratio), 0.0), 2.0)
    return round(100 * math.pow(2.0, decades))


def sample_path(
    posterior: ExactGP, count: int, beta: float, generator: np.random.Generator
) -> PosteriorPath:
    """Draw a sample of a posterior on a continuous space.

    Args:
        posterior: what to sample.
        count: the number of random Fourier features, see :func:`feature_count`.
        beta: multiplies the posterior standard deviation.
        generator: consumed.
    """
    X, kernel = posterior.inputs, posterior.kernel
    features = draw_features(kernel, X.shape[1], count, generator, normalised=False)
    prior = beta * generator.standard_normal(count)
    noise = beta * np.sqrt(posterior.noise_variance) * generator.standard_normal(len(X))
    misfit = features.matrix(X) @ prior + noise
    if posterior.basis is None:
        weights = posterior.weights - posterior.solve(misfit)
        return PosteriorPath(kernel, posterior.mean_constant, X, features, prior, weights)
    # Their part of the correction is a sum of them, too.
    basis, F = posterior.basis, posterior.basis.matrix(X)
    deviation = beta * math.sqrt(kernel.variance)
    coefficients = deviation * generator.standard_normal(F.shape[1])
    weights = posterior.weights - posterior.solve(misfit + F @ coefficients)
    added = BasisSum(basis, coefficients + kernel.variance * F.T @ weights)
    return PosteriorPath(kernel, posterior.mean_constant, X, features, prior, weights, added)


def sample_sparse_path(
    posterior: SparsePosterior, count: int, beta: float, generator: np.random.Generator
) -> PosteriorPath:
    """Draw a sample of a sparse posterior on a continuous space.

    Matheron's rule in the directions Q^T L^-1 u of the support's values u: their prior has unit
    variance, and the clients' data act like an observation of each, with noise variance 1 / w.
    Where they say nothing (w = 0), the path stays the prior's.

    Args:
        posterior: what to sample.
        count: the number of random Fourier features, see :func:`feature_count`.
        beta: multiplies the posterior standard deviation.
        generator: consumed.
    """
    kernel, S, w = posterior.support.kernel, posterior.support.points, posterior.information
    features = draw_features(kernel, S.shape[1], count, generator, normalised=False)
    prior = beta * generator.standard_normal(count)
    jitter = beta * math.sqrt(JITTER * kernel.variance) * generator.standard_normal(len(S))
    values = posterior.axes.T @ (features.matrix(S) @ prior + jitter)
    noise = beta * generator.standard_normal(len(S))
    deviation = (w * values + np.sqrt(w) * noise) / (1.0 + w)
    weights = posterior.axes @ (posterior.coefficients - deviation)
    return PosteriorPath(kernel, 0.0, S, features, prior, weights)


def grid_factor(kernel: Kernel, grid: Array) -> Array | None:
    """Return G with G G^T = k(grid, grid) up to :data:`GRID_TOLERANCE` times the variance.

    A Cholesky factorisation that always takes the point with the largest remaining variance
    next, and stops when no variance is above the tolerance (Harbrecht, Peters and Schneider,
    On the Low-Rank Approximation by the Pivoted Cholesky Decomposition, 2012, Alg. 1).

    Args:
        kernel: the covariance function.
        grid: shape (points, D).

    Returns:
        Shape (points, rank); read-only, so that it can be shared. None if that is too much work:
        see :data:`GRID_WORK`.
    """
    n = len(grid)
    most = n if n <= FULL_RANK_POINTS else math.isqrt(GRID_WORK // n)
    remaining = kernel.diagonal(grid)
    rows = np.empty((0, n))  # G^T; grown by doubling
    rank = 0
    while rank < n:
        pivot = int(np.argmax(remaining))
        if remaining[pivot] <= GRID_TOLERANCE * kernel.variance:
            break
        if rank == most:
            return None
        if rank == len(rows):
            rows = np.concatenate([rows, np.empty((max(rank, 16), n))])
        column = kernel.matrix(grid[pivot : pivot + 1], grid)[0]
        column -= rows[:rank, pivot] @ rows[:rank]
        rows[rank] = column / np.sqrt(remaining[pivot])
        remaining = remaining - np.square(rows[rank])
        remaining[pivot] = 0.0
        rank += 1
    factor = np.ascontiguousarray(rows[:rank].T)
    factor.setflags(write=False)
    return factor


def sample_on_grid(
    factor: Array,
    observed: NDArray[np.intp],
    outputs: Array,
    noise_variance: float,
    beta: float,
    generator: np.random.Generator,
    added: Array | None = None,
) -> Array:
    """Draw a zero-mean posterior's values at all grid points, shape (points,).

    Args:
        factor: G, shape (points, rank).
        observed: the observed points' indices, shape (n,); points may repeat.
        outputs: observed outputs minus the mean constant, shape (n,).
        noise_variance: sigma^2, above 0.
        beta: multiplies the posterior standard deviation.
        generator: consumed.
        added: basis functions on the grid, shape (points, terms); None: none.
    """
    if added is None:
        posterior = linear_posterior(factor[observed], outputs, noise_variance)
        return factor @ posterior.sample(generator, beta)
    rows = np.hstack([factor[observed], added[observed]])
    omega = linear_posterior(rows, outputs, noise_variance).sample(generator, beta)
    rank = factor.shape[1]
    values: Array = factor @ omega[:rank] + added @ omega[rank:]
    return values
