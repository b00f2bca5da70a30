"""Smooth trends: the polynomials, and Gaussian processes and samples that have one."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.polynomial.legendre import Legendre
from scipy.stats import multivariate_normal

from fedsim.methods.shared_work import SharedWork
from fedsim.space import Array, Choice, Parameter, Space
from fedsim.surrogates.basis import BasisSum
from fedsim.surrogates.exact_gp import ExactGP, condition, prior_matrix
from fedsim.surrogates.fit import fit, negative_log_likelihood
from fedsim.surrogates.kernels import Kernel, squared_differences
from fedsim.surrogates.paths import sample_path
from fedsim.surrogates.trend import CORNER_DEVIATION, Trend, trend_of
from fedsim.surrogates.warping import identity

PLANE = Trend((0, 1))
KERNEL = Kernel("matern52", (0.4,), 1.7)
NOISE = 0.05


def posterior_on(count: int = 9, seed: int = 0) -> tuple[ExactGP, Array]:
    rng = np.random.default_rng(seed)
    X, y = rng.random((count, 2)), rng.standard_normal(count)
    return condition(KERNEL, NOISE, X, y, basis=PLANE), y


@pytest.mark.parametrize(("numbers", "terms"), [(1, 4), (2, 14), (5, 80), (10, 310), (11, 44)])
def test_the_number_of_terms(numbers: int, terms: int) -> None:
    trend = Trend(tuple(range(numbers)))
    corners = np.array([[0.0] * numbers, [1.0] * numbers])
    F = trend.matrix(corners)
    assert F.shape == (2, terms)
    assert trend.terms == terms
    np.testing.assert_allclose(np.abs(F), CORNER_DEVIATION / math.sqrt(terms), rtol=1e-12)
    np.testing.assert_allclose(np.square(F).sum(axis=1), CORNER_DEVIATION**2, rtol=1e-12)


def test_terms_are_products_of_legendre_polynomials() -> None:
    Z = np.random.default_rng(0).random((7, 3))
    P = [Legendre.basis(i)(2.0 * Z - 1.0) for i in range(5)]
    expected = [P[i][:, c] for c in (0, 2) for i in range(1, 5)]
    expected += [
        P[i][:, 0] * P[j][:, 2] for i, j in itertools.product(range(1, 5), repeat=2) if i + j <= 4
    ]
    F = Trend((0, 2)).matrix(Z) * math.sqrt(14) / CORNER_DEVIATION
    np.testing.assert_allclose(F, np.stack(expected, axis=1), atol=1e-12)


def test_gradients_are_derivatives() -> None:
    rng, trend, h = np.random.default_rng(1), Trend((0, 2)), 1e-6
    Z = rng.random((6, 3))
    rows = rng.standard_normal((6, 14))
    for weights in (rows[0], rows):
        gradients = trend.sums_and_gradients(Z, weights)[1]
        for c in range(3):
            step = h * np.eye(3)[c]
            change = trend.matrix(Z + step) - trend.matrix(Z - step)
            differences = (change * weights).sum(axis=1) / (2 * h)
            np.testing.assert_allclose(gradients[:, c], differences, atol=1e-7)
    polynomial = BasisSum(trend, rows[0])
    np.testing.assert_array_equal(polynomial.values(Z), trend.matrix(Z) @ rows[0])
    values, gradients = polynomial.values_and_gradients(Z)
    np.testing.assert_allclose(values, polynomial.values(Z), atol=1e-12)
    np.testing.assert_array_equal(gradients, trend.sums_and_gradients(Z, rows[0])[1])


def test_numbers_have_a_trend_and_choices_have_none() -> None:
    space = Space((Choice("c", ["a", "b", "c"]), Parameter("x", 0, 1), Parameter("n", 1, 5)))
    assert trend_of(space) == Trend((3, 4))
    assert trend_of(Space((Choice("c", ["a", "b"]),))) is None


def test_the_posterior_by_its_definition() -> None:
    posterior, y = posterior_on()
    U, X = np.random.default_rng(1).random((5, 2)), posterior.inputs

    def prior(A: Array, B: Array) -> Array:
        return KERNEL.matrix(A, B) + 1.7 * PLANE.matrix(A) @ PLANE.matrix(B).T

    np.testing.assert_allclose(prior_matrix(KERNEL, PLANE, U, X), prior(U, X), atol=1e-14)
    inverse = np.linalg.inv(prior(X, X) + NOISE * np.eye(len(X)))
    mean = prior(U, X) @ inverse @ y
    covariance = prior(U, U) - prior(U, X) @ inverse @ prior(X, U)
    np.testing.assert_allclose(posterior.mean(U), mean, atol=1e-10)
    np.testing.assert_allclose(posterior.covariance(U), covariance, atol=1e-10)
    for moments in (posterior.moments(U), posterior.moments_and_gradients(U)[:2]):
        np.testing.assert_allclose(moments[0], mean, atol=1e-10)
        np.testing.assert_allclose(moments[1], covariance.diagonal(), atol=1e-10)
    slopes, variance_slopes = posterior.moments_and_gradients(U)[2:]
    for d, h in itertools.product(range(2), [1e-6]):
        up, down = (posterior.moments(U + sign * h * np.eye(2)[d]) for sign in (1, -1))
        np.testing.assert_allclose(slopes[:, d], (up[0] - down[0]) / (2 * h), atol=1e-6)
        np.testing.assert_allclose(variance_slopes[:, d], (up[1] - down[1]) / (2 * h), atol=1e-6)


def test_the_likelihood_is_that_of_the_prior_with_the_trend() -> None:
    rng = np.random.default_rng(2)
    X, r = rng.random((11, 2)), rng.standard_normal(11)
    F = PLANE.matrix(X)
    theta, differences = np.log([0.3, 0.02]), squared_differences(X, False)
    value, gradient = negative_log_likelihood(theta, "matern52", differences, r, F @ F.T)
    K = Kernel("matern52", (0.3,), 1.0).matrix(X, X) + F @ F.T + 0.02 * np.eye(11)
    v = r @ np.linalg.solve(K, r) / 11
    assert value == pytest.approx(-multivariate_normal.logpdf(r, cov=v * K), rel=1e-9)
    for i in range(2):
        step = 1e-6 * np.eye(2)[i]
        up, down = (
            negative_log_likelihood(theta + s * step, "matern52", differences, r, F @ F.T)[0]
            for s in (1, -1)
        )
        assert gradient[i] == pytest.approx((up - down) / 2e-6, abs=1e-5)


def test_a_fit_with_a_trend_is_likeliest() -> None:
    rng = np.random.default_rng(3)
    X = rng.random((25, 2))
    y = 3.0 * X[:, 0] ** 2 - X[:, 1] + 0.3 * np.sin(40.0 * X[:, 0]) + 0.05 * rng.standard_normal(25)
    y = y - y.mean()
    found = fit("matern52", False, X, y, trend=PLANE)

    def likelihood(scale: float, variance: float, noise: float) -> float:
        kernel = Kernel(
            "matern52", (scale * found.kernel.length_scales[0],), variance * found.kernel.variance
        )
        K = prior_matrix(kernel, PLANE, X, X) + noise * found.noise_variance * np.eye(25)
        return float(multivariate_normal.logpdf(y, cov=K))

    best = likelihood(1.0, 1.0, 1.0)
    for factor in (0.5, 0.8, 1.25, 2.0):
        for others in ((factor, 1.0, 1.0), (1.0, factor, 1.0), (1.0, 1.0, factor)):
            assert likelihood(*others) < best


def test_a_samples_law_is_the_posteriors() -> None:
    posterior, _ = posterior_on()
    U, rng, beta = np.array([[0.0, 0.0], [0.3, 0.8], [1.0, 1.0]]), np.random.default_rng(4), 1.5
    paths = [sample_path(posterior, 200, beta, rng) for _ in range(4000)]
    values = np.array([path.values(U) for path in paths])
    covariance = beta**2 * posterior.covariance(U)
    deviations = np.sqrt(covariance.diagonal())
    # Five standard errors of a mean, and of a covariance (of normal variables at most sqrt(2)).
    error = 5.0 / math.sqrt(len(paths))
    assert (np.abs(values.mean(axis=0) - posterior.mean(U)) <= error * deviations).all()
    allowed = 1.6 * error * np.outer(deviations, deviations)
    assert (np.abs(np.cov(values.T) - covariance) <= allowed).all()


def test_a_samples_values_gradients_and_ranking_agree() -> None:
    posterior, _ = posterior_on()
    path = sample_path(posterior, 100, 1.0, np.random.default_rng(5))
    U, h = np.random.default_rng(6).random((8, 2)), 1e-6
    values, gradients = path.values_and_gradients(U)
    np.testing.assert_allclose(values, path.values(U), atol=1e-12)
    np.testing.assert_allclose(path.ranking(U), values, atol=1e-2)
    for d in range(2):
        step = h * np.eye(2)[d]
        differences = (path.values(U + step) - path.values(U - step)) / (2 * h)
        np.testing.assert_allclose(gradients[:, d], differences, rtol=1e-5, atol=1e-5)


def test_with_beta_zero_a_sample_is_the_mean() -> None:
    posterior, _ = posterior_on()
    path = sample_path(posterior, 100, 0.0, np.random.default_rng(7))
    U = np.random.default_rng(8).random((8, 2))
    np.testing.assert_allclose(path.values(U), posterior.mean(U), atol=1e-10)


def test_a_grids_factor_has_the_trend() -> None:
    space = Space(tuple(Parameter(name, 0.0, 1.0, levels=12) for name in "ab"))
    assert space.grid is not None
    kernel, warp = Kernel("matern52", (0.4,), 1.0), identity(2).changed({0: 0.5})
    factor = SharedWork(space).grid_factor(kernel, warp, PLANE)
    assert factor is not None
    points = warp.forward(space.grid)
    expected = prior_matrix(kernel, PLANE, points, points)
    np.testing.assert_allclose(factor @ factor.T, expected, atol=1e-6)
