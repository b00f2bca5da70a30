"""The linear model, the exact Gaussian process and the marginal likelihood."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from fedsim.errors import RunError
from fedsim.space import Array
from fedsim.surrogates import fit as fit_module
from fedsim.surrogates.cholesky import factorise
from fedsim.surrogates.exact_gp import condition
from fedsim.surrogates.fit import (
    NOISE_RATIO_BOUNDS,
    best_variance,
    fit,
    negative_log_likelihood,
)
from fedsim.surrogates.kernels import Family, Kernel, squared_differences
from fedsim.surrogates.linear import linear_posterior
from fedsim.surrogates.rff import draw_features


def read_only(*arrays: Array) -> None:
    for array in arrays:
        array.setflags(write=False)


@pytest.mark.parametrize("n", [0, 1, 9, 10, 25])
def test_linear_mean_by_the_definition(n: int) -> None:
    rng = np.random.default_rng(n)
    Phi, y, noise = rng.standard_normal((n, 10)), rng.standard_normal(n), 0.3
    read_only(Phi, y)
    Sigma = Phi.T @ Phi + noise * np.eye(10)
    np.testing.assert_allclose(
        linear_posterior(Phi, y, noise).mean, np.linalg.solve(Sigma, Phi.T @ y), atol=1e-12
    )


@pytest.mark.parametrize("n", [8, 60])
def test_linear_mean_is_the_gp_mean_with_kernel_phi_phi(n: int) -> None:
    # FTS, App. B, Eq. (6)
    rng = np.random.default_rng(n)
    features = draw_features(Kernel("squared_exponential", (0.2,), 1.0), 2, 30, rng)
    Phi, phi = features.matrix(rng.random((n, 2))), features.matrix(rng.random((5, 2)))
    y = rng.random(n)
    gp_mean = phi @ Phi.T @ np.linalg.solve(Phi @ Phi.T + 0.1 * np.eye(n), y)
    np.testing.assert_allclose(phi @ linear_posterior(Phi, y, 0.1).mean, gp_mean, atol=1e-11)


@pytest.mark.parametrize("n", [3, 12])
@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_linear_sample_moments(n: int, scale: float) -> None:
    rng = np.random.default_rng(0)
    M, noise = 4, 0.5
    Phi, y = rng.standard_normal((n, M)), rng.standard_normal(n)
    posterior = linear_posterior(Phi, y, noise)
    samples = np.array([posterior.sample(rng, scale) for _ in range(20_000)])
    covariance = scale**2 * noise * np.linalg.inv(Phi.T @ Phi + noise * np.eye(M))
    # five standard errors of a mean and of a covariance
    tolerance = 5 * covariance.diagonal().max() / math.sqrt(20_000)
    np.testing.assert_allclose(samples.mean(axis=0), posterior.mean, atol=5 * scale / 141)
    np.testing.assert_allclose(np.cov(samples.T), covariance, atol=math.sqrt(2) * tolerance)


def test_linear_prior_without_data() -> None:
    posterior = linear_posterior(np.empty((0, 3)), np.empty(0), 0.1)
    np.testing.assert_array_equal(posterior.mean, np.zeros(3))
    expected = np.random.default_rng(5).standard_normal(3)
    np.testing.assert_array_equal(posterior.sample(np.random.default_rng(5)), expected)


def test_gp_posterior_by_the_definition() -> None:
    rng = np.random.default_rng(1)
    X, y, U = rng.random((12, 2)), rng.random(12), rng.random((4, 2))
    read_only(X, y, U)
    kernel = Kernel("matern52", (0.3,), 1.5)
    posterior = condition(kernel, 0.04, X, y, 0.5)
    A = kernel.matrix(X, X) + 0.04 * np.eye(12)
    k = kernel.matrix(U, X)
    np.testing.assert_allclose(posterior.mean(U), 0.5 + k @ np.linalg.solve(A, y - 0.5))
    covariance = kernel.matrix(U, U) - k @ np.linalg.solve(A, k.T)
    np.testing.assert_allclose(posterior.covariance(U), covariance, atol=1e-12)


def test_gp_without_data_is_the_prior() -> None:
    kernel = Kernel("matern52", (0.3,), 1.5)
    posterior = condition(kernel, 0.04, np.empty((0, 2)), np.empty(0), 0.5)
    U = np.random.default_rng(0).random((3, 2))
    np.testing.assert_array_equal(posterior.mean(U), np.full(3, 0.5))
    np.testing.assert_array_equal(posterior.covariance(U), kernel.matrix(U, U))


def test_singular_matrix_names_kernel_and_noise() -> None:
    X = np.full((3, 1), 0.5)
    with pytest.raises(RunError, match=r"squared_exponential.*noise variance 1e-20.*3 x 3.*larger"):
        condition(Kernel("squared_exponential", (0.2,), 1.0), 1e-20, X, np.zeros(3))


def test_matrix_with_nan_is_refused() -> None:
    with pytest.raises(RunError, match="not positive definite"):
        factorise(np.array([[1.0, np.nan], [np.nan, 1.0]]), "test")


@pytest.mark.parametrize("family", ["squared_exponential", "matern52"])
@pytest.mark.parametrize("theta", [[-1.5, -3.0], [-1.5, -0.7, -3.0]])
def test_likelihood_and_its_gradient(family: Family, theta: list[float]) -> None:
    rng = np.random.default_rng(2)
    X, r = rng.random((15, 2)), rng.standard_normal(15)
    differences = squared_differences(X, ard=len(theta) == 3)

    def value(theta: Array) -> float:
        return negative_log_likelihood(theta, family, differences, r)[0]

    at = np.array(theta)
    kernel, eta = Kernel(family, tuple(np.exp(at[:-1])), 1.0), math.exp(at[-1])
    A = kernel.matrix(X, X) + eta * np.eye(15)
    variance = r @ np.linalg.solve(A, r) / 15
    density = multivariate_normal(np.zeros(15), variance * A).logpdf(r)
    assert value(at) == pytest.approx(-density, rel=1e-10)
    for other in (0.9 * variance, 1.1 * variance):  # the variance put in is the best
        assert multivariate_normal(np.zeros(15), other * A).logpdf(r) < density

    _, gradient = negative_log_likelihood(at, family, differences, r)
    steps = 1e-6 * np.eye(len(theta))
    slopes = [(value(at + s) - value(at - s)) / 2e-6 for s in steps]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-6)


def test_fit_recovers_hyperparameters() -> None:
    # Statistical: over 300 draws the logarithms had standard deviations of 0.08, 0.42 and 0.22, so
    # that medians of 15 have about 0.03, 0.14 and 0.07: the tolerances are four of these.
    kernel, logarithms = Kernel("squared_exponential", (0.25,), 4.0), []
    for seed in range(15):
        rng = np.random.default_rng(seed)
        X = rng.random((80, 2))
        covariance = kernel.matrix(X, X) + 0.01 * np.eye(80)
        y = np.linalg.cholesky(covariance) @ rng.standard_normal(80)
        read_only(X, y)
        fitted = fit("squared_exponential", False, X, y)
        assert fit("squared_exponential", False, X, y) == fitted
        found = (*fitted.kernel.length_scales, fitted.kernel.variance, fitted.noise_variance)
        logarithms.append(np.log(np.array(found) / [0.25, 4.0, 0.01]))
    assert (np.abs(np.median(logarithms, axis=0)) < [0.12, 0.56, 0.28]).all()


def test_fit_is_at_least_as_likely_as_a_wide_search() -> None:
    rng = np.random.default_rng(4)
    X = rng.random((25, 2))
    r = np.sin(6 * X[:, 0]) + 0.1 * rng.standard_normal(25)
    differences = squared_differences(X, ard=False)

    def value(length_scale: float, ratio: float) -> float:
        theta = np.log([length_scale, ratio])
        return negative_log_likelihood(theta, "matern52", differences, r)[0]

    fitted = fit("matern52", False, X, r)
    scales, ratios = np.geomspace(0.03, 9, 25), np.geomspace(1e-6, 9, 25)
    best = min(value(scale, ratio) for scale in scales for ratio in ratios)
    found = value(fitted.kernel.length_scales[0], fitted.noise_variance / fitted.kernel.variance)
    assert found <= best + 0.01


def scaled_case(seed: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.random((20, 2))
    y = np.sin(5 * X[:, 0]) + 0.1 * rng.standard_normal(20)
    return X, y - y.mean()


@pytest.mark.parametrize("ard", [False, True])
@pytest.mark.parametrize("power", [-498, -20, 10, 498])
def test_fit_in_units_of_powers_of_two_is_the_same(power: int, ard: bool) -> None:
    # Exact, for every seed and processor: factors of about 1e-150 to 1e150.
    for seed in (11, 12, 13):
        X, r = scaled_case(seed)
        one, scaled = fit("matern52", ard, X, r), fit("matern52", ard, X, np.ldexp(r, power))
        assert scaled.kernel.length_scales == one.kernel.length_scales
        assert scaled.kernel.variance == math.ldexp(one.kernel.variance, 2 * power)
        assert scaled.noise_variance == math.ldexp(one.noise_variance, 2 * power)


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1e4, 1e8, 1e150])
def test_fit_in_other_units_is_the_same_up_to_rounding(scale: float) -> None:
    # The search takes the same steps: what differs is rounding and how it grows in them.
    for seed in range(11, 21):
        X, r = scaled_case(seed)
        one, scaled = fit("matern52", True, X, r), fit("matern52", True, X, scale * r)
        np.testing.assert_allclose(scaled.kernel.length_scales, one.kernel.length_scales, rtol=1e-4)
        assert scaled.kernel.variance / scale / scale == pytest.approx(
            one.kernel.variance, rel=1e-4
        )
        assert scaled.noise_variance / scale / scale == pytest.approx(one.noise_variance, rel=1e-4)


@pytest.mark.parametrize(("dimension", "count"), [(2, 20), (8, 30)])
def test_with_several_length_scales_the_better_of_two_searches_counts(
    monkeypatch: pytest.MonkeyPatch, dimension: int, count: int
) -> None:
    # Exact; in some of ten cases the two end more than a nat apart.
    ratios, gaps = fit_module._START_NOISE_RATIOS, []

    def cost_from(X: Array, r: Array, *starts: float) -> float:
        monkeypatch.setattr(fit_module, "_START_NOISE_RATIOS", starts)
        found = fit("squared_exponential", True, X, r)
        theta = np.log([*found.kernel.length_scales, found.noise_variance / found.kernel.variance])
        differences = squared_differences(X, ard=True)
        return negative_log_likelihood(theta, "squared_exponential", differences, r)[0]

    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.random((count, dimension))
        scales = tuple(np.exp(rng.uniform(-2.3, 1.6, dimension)))
        covariance = Kernel("squared_exponential", scales, 1.0).matrix(X, X)
        r = np.linalg.cholesky(covariance + 1e-2 * np.eye(count)) @ rng.standard_normal(count)
        alone = [cost_from(X, r, ratio) for ratio in ratios]
        assert cost_from(X, r, *ratios) == pytest.approx(min(alone), abs=1e-9)
        gaps.append(np.ptp(alone))
    assert max(gaps) > 1.0


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e156, 1e300])
def test_outputs_whose_variance_is_no_number_are_refused_in_words(size: float) -> None:
    X, r = scaled_case(11)
    with pytest.raises(
        RunError, match=r"whose variance is a number, got a spread of .*another unit"
    ):
        fit("matern52", False, X, size * r)


def test_the_best_variance_is_the_most_likely() -> None:
    rng = np.random.default_rng(5)
    X, r, kernel = rng.random((9, 2)), rng.standard_normal(9), Kernel("matern52", (0.3,), 2.0)
    factor = best_variance(condition(kernel, 0.1, X, r).misfit(r), 9)
    covariance = kernel.matrix(X, X) + 0.1 * np.eye(9)
    likelihoods = [
        multivariate_normal(np.zeros(9), factor * by * covariance).logpdf(r)
        for by in (0.98, 1.0, 1.02)
    ]
    assert np.argmax(likelihoods) == 1


def test_fit_of_noiseless_data_stays_in_bounds() -> None:
    X = np.linspace(0, 1, 12)[:, None]
    fitted = fit("squared_exponential", False, X, X[:, 0] - 0.5)
    assert fitted.noise_variance / fitted.kernel.variance >= 0.99 * NOISE_RATIO_BOUNDS[0]
    condition(fitted.kernel, fitted.noise_variance, X, X[:, 0])
