from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from fedsim.space import Array
from fedsim.surrogates.exact_gp import ExactGP, condition
from fedsim.surrogates.kernels import Family, Kernel
from fedsim.surrogates.paths import feature_count, grid_factor, sample_on_grid, sample_path

DRAWS = 4000


def posterior_of(family: Family = "squared_exponential", n: int = 6) -> ExactGP:
    rng = np.random.default_rng(0)
    kernel = Kernel(family, (0.3,), 1.5)
    return condition(kernel, 0.05, rng.random((n, 2)), rng.random(n), 0.4)


@pytest.mark.parametrize("beta", [1.0, 2.0])
@pytest.mark.parametrize("family", ["squared_exponential", "matern52"])
def test_path_moments_are_the_posteriors(family: Family, beta: float) -> None:
    # The mean over features and weights is exact; five standard errors of a mean and a variance.
    posterior = posterior_of(family)
    rng = np.random.default_rng(1)
    U = np.concatenate([posterior.inputs[:2], rng.random((4, 2))])
    samples = np.array([sample_path(posterior, 64, beta, rng).values(U) for _ in range(DRAWS)])
    variance = beta**2 * posterior.covariance(U).diagonal()
    errors = np.abs(samples.mean(axis=0) - posterior.mean(U))
    assert np.all(errors < 5 * np.sqrt(variance / DRAWS))
    np.testing.assert_allclose(samples.var(axis=0), variance, rtol=5 * math.sqrt(2.5 / DRAWS))


def distances_to_normal(posterior: ExactGP, count: int, draws: int) -> Array:
    """Return Kolmogorov-Smirnov distances of paths' values from the posterior's law.

    Of its values at six points, of 14 directions of their joint law, standardised by the exact
    mean and covariance, shape (14,).
    """
    rng = np.random.default_rng(7)
    U, directions = rng.random((6, 2)), rng.standard_normal((8, 6))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    L = np.linalg.cholesky(posterior.covariance(U) + 1e-12 * np.eye(6))
    values = np.array([sample_path(posterior, count, 1.0, rng).values(U) for _ in range(draws)])
    white = np.linalg.solve(L, (values - posterior.mean(U)).T)  # (6, draws)
    rows = np.sort(np.concatenate([white, directions @ white]), axis=1)
    steps = np.arange(draws + 1) / draws
    below, above = norm.cdf(rows) - steps[:-1], steps[1:] - norm.cdf(rows)
    return np.asarray(np.maximum(below, above).max(axis=1))


@pytest.mark.parametrize("family", ["squared_exponential", "matern52"])
@pytest.mark.parametrize("ratio", [1e-1, 1e-2, pytest.param(1e-3, marks=pytest.mark.slow), 1e-4])
def test_paths_have_nearly_the_posteriors_law(family: Family, ratio: float) -> None:
    # Statistical: of 1500 draws of the exact law the mean distance would be 0.022 with a standard
    # deviation below 0.003; the tolerance is 0.03 more. With 100 features it was 0.073 at a ratio
    # of 1e-4 (Matern), here 0.038.
    rng = np.random.default_rng(1)
    kernel = Kernel(family, (0.3,), 1.0)
    posterior = condition(kernel, ratio, rng.random((30, 2)), rng.standard_normal(30))
    assert distances_to_normal(posterior, feature_count(ratio), 1500).mean() < 0.052


def test_few_features_at_low_noise_have_another_law() -> None:
    # The test above can tell: the same with 100 features, 0.073 measured.
    rng = np.random.default_rng(1)
    kernel = Kernel("matern52", (0.3,), 1.0)
    posterior = condition(kernel, 1e-4, rng.random((30, 2)), rng.standard_normal(30))
    assert distances_to_normal(posterior, 100, 1500).mean() > 0.06


def test_feature_count() -> None:
    ratios = (10.0, 1e-2, 1e-3, 10**-3.5, 1e-4, 1e-6)
    assert [feature_count(ratio) for ratio in ratios] == [100, 100, 200, 283, 400, 400]


def test_path_with_beta_zero_is_the_mean() -> None:
    posterior = posterior_of()
    U = np.random.default_rng(2).random((5, 2))
    path = sample_path(posterior, 50, 0.0, np.random.default_rng(3))
    np.testing.assert_allclose(path.values(U), posterior.mean(U), rtol=1e-12)


@pytest.mark.parametrize("size", [1e-150, 1e-20, 1e20, 1e150])
@pytest.mark.parametrize("n", [0, 6])
def test_ranking_agrees_in_any_unit(n: int, size: float) -> None:
    rng = np.random.default_rng(0)
    kernel = Kernel("matern52", (0.3,), 1.5 * size**2)
    posterior = condition(kernel, 0.05 * size**2, rng.random((n, 2)), size * rng.random(n), size)
    path = sample_path(posterior, 80, 1.0, rng)
    U = rng.random((9, 2))
    expected = path.values(U) - size
    np.testing.assert_allclose(path.ranking(U), expected, rtol=0, atol=1e-3 * size)


@pytest.mark.parametrize("n", [0, 6])
@pytest.mark.parametrize("family", ["squared_exponential", "matern52"])
def test_path_values_gradients_and_ranking_agree(family: Family, n: int) -> None:
    path = sample_path(posterior_of(family, n), 80, 1.0, np.random.default_rng(4))
    U = np.random.default_rng(5).random((9, 2))
    U.setflags(write=False)
    values, gradients = path.values_and_gradients(U)
    np.testing.assert_allclose(values, path.values(U), rtol=1e-12)
    np.testing.assert_allclose(path.ranking(U) + 0.4, values, atol=1e-3)
    for d in range(2):
        step = 1e-6 * np.eye(2)[d]
        slope = (path.values(U + step) - path.values(U - step)) / 2e-6
        np.testing.assert_allclose(gradients[:, d], slope, rtol=1e-4, atol=1e-5)


def test_grid_factor_rebuilds_the_kernel_matrix_with_low_rank() -> None:
    grid = np.linspace(0, 1, 1000)[:, None]
    kernel = Kernel("squared_exponential", (0.03,), 2.0)
    G = grid_factor(kernel, grid)
    assert G is not None
    assert G.shape[1] < 100
    assert not G.flags.writeable
    np.testing.assert_allclose(G @ G.T, kernel.matrix(grid, grid), atol=4e-10)


def test_grid_factor_of_full_rank() -> None:
    grid = np.linspace(0, 1, 7)[:, None]
    kernel = Kernel("matern52", (0.05,), 1.0)
    G = grid_factor(kernel, grid)
    assert G is not None
    assert G.shape == (7, 7)
    np.testing.assert_allclose(G @ G.T, kernel.matrix(grid, grid), atol=1e-12)


@pytest.mark.parametrize("observed", [[2, 5, 5, 5, 9], [3] * 25])
def test_grid_samples_have_the_posteriors_moments(observed: list[int]) -> None:
    # A point observed repeatedly, with more observations than the rank in the second case.
    rng = np.random.default_rng(6)
    grid = np.linspace(0, 1, 12)[:, None]
    kernel = Kernel("squared_exponential", (0.2,), 1.0)
    y, index = rng.random(len(observed)), np.array(observed)
    posterior = condition(kernel, 0.1, grid[index], y)
    G = grid_factor(kernel, grid)
    assert G is not None
    samples = np.array([sample_on_grid(G, index, y, 0.1, 1.5, rng) for _ in range(DRAWS)])
    covariance = 1.5**2 * posterior.covariance(grid)
    scale = covariance.diagonal().max()
    np.testing.assert_allclose(
        samples.mean(axis=0), posterior.mean(grid), atol=5 * math.sqrt(scale / DRAWS)
    )
    np.testing.assert_allclose(np.cov(samples.T), covariance, atol=5 * scale * math.sqrt(2 / DRAWS))
    exact_mean = sample_on_grid(G, index, y, 0.1, 0.0, rng)
    np.testing.assert_allclose(exact_mean, posterior.mean(grid), atol=1e-6)
