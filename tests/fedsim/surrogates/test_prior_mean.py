"""A proposed prior mean: the model by its definition, its likelihood, and what is believed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from fedsim.space import Array
from fedsim.surrogates.exact_gp import prior_matrix
from fedsim.surrogates.kernels import Kernel
from fedsim.surrogates.paths import grid_factor, sample_on_grid
from fedsim.surrogates.prior_mean import (
    SHARES,
    MeanBasis,
    Residual,
    cost,
    likeliest_share,
    residual,
    sample_around,
)
from fedsim.surrogates.rff import FeatureFunction, draw_features
from fedsim.surrogates.trend import Trend
from fedsim.surrogates.warping import Warp

KERNEL = Kernel("matern52", (0.4,), 1.0)
VARIANCE, NOISE = 1.7, 0.05
PLAIN, BENT = Warp((0.0, 0.0)), Warp((0.5, -0.5))
RNG = np.random.default_rng(0)
FUNCTION = FeatureFunction(
    draw_features(KERNEL, 2, 30, np.random.default_rng(1)), RNG.standard_normal(30)
)
X, U = RNG.random((9, 2)), RNG.random((4, 2))
Y = RNG.standard_normal(9)


def mean_basis(warp: Warp = PLAIN, factor: float = 0.6) -> MeanBasis:
    return MeanBasis(FUNCTION, warp, 0.25, factor)


def posterior(trend: Trend | None, share: float) -> tuple[Array, Array]:
    """Return the mean and covariance of f at U, from the joint normal law of f(U) and y."""
    m_X, m_U = (0.6 * (FUNCTION.values(points) - 0.25) for points in (X, U))

    def prior(A: Array, B: Array, a: Array, b: Array) -> Array:
        return share * VARIANCE * prior_matrix(KERNEL, trend, A, B) + np.outer(a, b)

    inverse = np.linalg.inv(prior(X, X, m_X, m_X) + NOISE * np.eye(9))
    K = prior(U, X, m_U, m_X)
    return m_U + K @ inverse @ (Y - m_X), prior(U, U, m_U, m_U) - K @ inverse @ K.T


def left_at(trend: Trend | None) -> tuple[Residual, float]:
    left = residual(mean_basis(), KERNEL, trend, X, Y, VARIANCE, NOISE)
    return left, NOISE / left.noise  # and the variance of g


@pytest.mark.parametrize("trend", [None, Trend((0, 1))])
def test_samples_have_the_law_of_the_model(trend: Trend | None) -> None:
    left, size = left_at(trend)
    share = size / VARIANCE
    assert min(abs(share - each) for each in SHARES) < 1e-12
    mean, covariance = posterior(trend, share)
    exact = sample_around(left, KERNEL, trend, X, 100, 0.0, np.random.default_rng(2))
    np.testing.assert_allclose(math.sqrt(size) * exact.values(U), mean, atol=1e-9)
    rng, beta = np.random.default_rng(3), 1.5
    paths = [sample_around(left, KERNEL, trend, X, 200, beta, rng) for _ in range(4000)]
    values = math.sqrt(size) * np.array([path.values(U) for path in paths])
    deviations = beta * np.sqrt(covariance.diagonal())
    # Five standard errors of a mean, and of a covariance (of normal variables at most sqrt(2)).
    error = 5.0 / math.sqrt(len(paths))
    assert (np.abs(values.mean(axis=0) - mean) <= error * deviations).all()
    allowed = 1.6 * error * np.outer(deviations, deviations)
    assert (np.abs(np.cov(values.T) - beta**2 * covariance) <= allowed).all()


def test_samples_on_a_grid_have_the_same_law() -> None:
    points = np.concatenate([X, U])
    left, size = left_at(None)
    mean, covariance = posterior(None, size / VARIANCE)
    factor = grid_factor(KERNEL, points)
    assert factor is not None
    added, observed = left.mean.matrix(points), np.arange(9)

    def sample(beta: float, generator: np.random.Generator) -> Array:
        drawn = sample_on_grid(factor, observed, left.outputs, left.noise, beta, generator, added)
        values: Array = math.sqrt(size) * (drawn + added[:, 0])[9:]
        return values

    np.testing.assert_allclose(sample(0.0, np.random.default_rng(2)), mean, atol=1e-7)
    rng = np.random.default_rng(3)
    values = np.array([sample(1.0, rng) for _ in range(4000)])
    deviations = np.sqrt(covariance.diagonal())
    error = 5.0 / math.sqrt(len(values))
    assert (np.abs(values.mean(axis=0) - mean) <= error * deviations).all()
    allowed = 1.6 * error * np.outer(deviations, deviations)
    assert (np.abs(np.cov(values.T) - covariance) <= allowed).all()


def test_the_cost_is_the_likelihood() -> None:
    m, K = FUNCTION.values(X), KERNEL.matrix(X, X)
    covariance = K + NOISE * np.eye(9) + np.outer(m, m)
    constant = 4.5 * math.log(2 * math.pi)
    expected = -multivariate_normal.logpdf(Y, cov=covariance) - constant
    assert cost(K, NOISE, Y, m) == pytest.approx(expected, rel=1e-10)


def test_the_likeliest_share_is_least_by_definition() -> None:
    m, K = FUNCTION.values(X), KERNEL.matrix(X, X)
    costs = [
        -multivariate_normal.logpdf(Y, cov=s * K + NOISE * np.eye(9) + np.outer(m, m))
        for s in SHARES
    ]
    assert likeliest_share(K, NOISE, Y, m) == SHARES[int(np.argmin(costs))]


def test_without_observations_nothing_is_known_of_the_mean() -> None:
    none = np.empty((0, 2))
    assert likeliest_share(np.empty((0, 0)), NOISE, np.empty(0), np.empty(0)) == 1.0
    left = residual(mean_basis(), KERNEL, None, none, np.empty(0), VARIANCE, NOISE)
    path = sample_around(left, KERNEL, None, none, 100, 0.0, np.random.default_rng(0))
    expected = 0.6 * (FUNCTION.values(U) - 0.25)
    np.testing.assert_allclose(math.sqrt(VARIANCE) * path.values(U), expected, atol=1e-12)


def test_a_right_mean_is_believed_and_a_wrong_one_is_not() -> None:
    # Statistical: 60 functions of 40 observations each. In five more such sets, the share was at
    # most 0.01 for all right means, of a third of the amplitude, too, and at least 0.3 for all
    # unrelated ones.
    line = np.linspace(0.0, 1.0, 40)[:, None]
    K, noise = Kernel("squared_exponential", (0.1,), 1.0).matrix(line, line), 0.01
    root = np.linalg.cholesky(K + 1e-9 * np.eye(40))
    rng = np.random.default_rng(5)
    right = wrong = 0
    for i in range(60):
        f, other = root @ rng.standard_normal(40), root @ rng.standard_normal(40)
        y = f + math.sqrt(noise) * rng.standard_normal(40)
        m = f if i % 2 else f / 3.0
        right += likeliest_share(K, noise, y - m, m) <= 0.01
        wrong += likeliest_share(K, noise, y - other, other) >= 0.3
    assert right >= 55
    assert wrong >= 55


@pytest.mark.parametrize("warp", [PLAIN, BENT])
def test_a_mean_in_warped_coordinates_and_its_gradients(warp: Warp) -> None:
    basis, h = mean_basis(warp), 1e-6
    Z = warp.forward(U)
    assert basis.terms == 1
    expected = 0.6 * (FUNCTION.values(U) - 0.25)
    np.testing.assert_allclose(basis.matrix(Z)[:, 0], expected, atol=1e-10)
    np.testing.assert_allclose(basis.of(FUNCTION.values(U))[:, 0], expected, atol=1e-12)
    for weights in (np.array([1.5]), np.array([[1.5], [-2.0], [0.0], [1.0]])):
        values, gradients = basis.sums_and_gradients(Z, weights)
        sums = (basis.matrix(Z) * weights)[:, 0]
        np.testing.assert_allclose(values, sums, atol=1e-10)
        for d in range(2):
            step = h * np.eye(2)[d]
            change = (basis.matrix(Z + step) - basis.matrix(Z - step)) / (2 * h)
            np.testing.assert_allclose(
                gradients[:, d], (change * weights)[:, 0], rtol=1e-4, atol=1e-5
            )


def test_what_is_left_does_not_depend_on_units() -> None:
    # Exact for a power of two.
    left = residual(mean_basis(), KERNEL, None, X, Y, VARIANCE, NOISE)
    other = residual(
        mean_basis(factor=0.6 * 4.0), KERNEL, None, X, 4.0 * Y, 16.0 * VARIANCE, 16.0 * NOISE
    )
    np.testing.assert_array_equal(left.outputs, other.outputs)
    assert (left.noise, left.mean.factor) == (other.noise, other.mean.factor)
