"""The sparse Gaussian process from sums over clients."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from fedsim.errors import ConfigError
from fedsim.space import Array
from fedsim.surrogates.dpitc import (
    JITTER,
    SparsePosterior,
    Summary,
    sparse_posterior,
    summarise,
    support,
)
from fedsim.surrogates.exact_gp import condition
from fedsim.surrogates.fit import best_variance
from fedsim.surrogates.kernels import Family, Kernel
from fedsim.surrogates.paths import sample_sparse_path
from tests.util.summed import total

FAMILIES: tuple[Family, ...] = ("squared_exponential", "matern52")
DRAWS = 4000


def kernels(family: Family, dimension: int) -> list[Kernel]:
    ard = tuple(np.linspace(0.3, 0.9, dimension).tolist())
    return [Kernel(family, (0.4,), 1.7), Kernel(family, ard, 0.6)]


def data(seed: int, sizes: list[int], dimension: int) -> list[tuple[Array, Array]]:
    rng = np.random.default_rng(seed)
    return [(rng.random((n, dimension)), rng.standard_normal(n)) for n in sizes]


def posterior_of(
    kernel: Kernel, S: Array, clients: list[tuple[Array, Array]], noise: float
) -> SparsePosterior:
    base = support(kernel, S)
    whole = total([summarise(base, noise, X, y[:, None]) for X, y in clients])
    return sparse_posterior(base, whole.covariance, whole.means[:, 0])


def covariance_of_outputs(
    kernel: Kernel, S: Array, clients: list[tuple[Array, Array]], noise: float
) -> Array:
    """Return PITC's covariance of all outputs: Q_DD, with each client's own block exact."""
    X = np.concatenate([x for x, _ in clients])
    J = kernel.matrix(S, S) + JITTER * kernel.variance * np.eye(len(S))
    C = np.asarray(kernel.matrix(X, S) @ np.linalg.solve(J, kernel.matrix(S, X)))
    start = 0
    for x, _ in clients:
        block = slice(start, start + len(x))
        C[block, block] = kernel.matrix(x, x)
        start += len(x)
    return C + noise * np.eye(len(X))


def textbook(
    kernel: Kernel, S: Array, clients: list[tuple[Array, Array]], noise: float, U: Array
) -> tuple[Array, Array]:
    """Return PITC's mean and covariance at U by Gaussian conditioning on all data at once.

    Quinonero-Candela and Rasmussen (2005), Eqs. (24): Q_UD C^-1 y and K_UU - Q_UD C^-1 Q_DU.
    """
    X, y = (np.concatenate(column) for column in zip(*clients, strict=True))
    J = kernel.matrix(S, S) + JITTER * kernel.variance * np.eye(len(S))
    Q = kernel.matrix(U, S) @ np.linalg.solve(J, kernel.matrix(S, X))
    C = covariance_of_outputs(kernel, S, clients, noise)
    covariance = kernel.matrix(U, U) - Q @ np.linalg.solve(C, Q.T)
    return Q @ np.linalg.solve(C, y), covariance


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("ard", [False, True])
def test_posterior_is_pitcs_on_the_union(family: Family, ard: bool) -> None:
    kernel = kernels(family, 3)[ard]
    rng = np.random.default_rng(1)
    S, U, clients = rng.random((9, 3)), rng.random((6, 3)), data(2, [5, 0, 8, 1], 3)
    mean, covariance = textbook(kernel, S, clients, 0.05, U)
    found = posterior_of(kernel, S, clients, 0.05).moments(U)
    np.testing.assert_allclose(found[0], mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found[1], covariance.diagonal(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("ard", [False, True])
@pytest.mark.parametrize("sizes", [[12], [5, 7], [3, 3, 3, 3], [1] * 12])
def test_with_all_inputs_in_the_support_it_is_the_exact_posterior(
    family: Family, ard: bool, sizes: list[int]
) -> None:
    # Up to the jitter, 1e-8 of the variance, against a noise of 0.1.
    kernel, clients = kernels(family, 2)[ard], data(3, sizes, 2)
    X, y = (np.concatenate(column) for column in zip(*clients, strict=True))
    U = np.concatenate([X[:3], np.random.default_rng(4).random((5, 2))])
    exact = condition(kernel, 0.1, X, y)
    extra = np.random.default_rng(5).random((3, 2))
    mean, variance = posterior_of(kernel, np.concatenate([X, extra]), clients, 0.1).moments(U)
    np.testing.assert_allclose(mean, exact.mean(U), atol=1e-5)
    np.testing.assert_allclose(variance, exact.covariance(U).diagonal(), atol=1e-6)


def test_less_support_is_another_posterior() -> None:
    clients = data(3, [6, 6], 2)
    X, y = (np.concatenate(column) for column in zip(*clients, strict=True))
    kernel, U = kernels("matern52", 2)[0], np.random.default_rng(4).random((5, 2))
    mean, variance = posterior_of(kernel, X[:4], clients, 0.1).moments(U)
    exact = condition(kernel, 0.1, X, y)
    assert np.abs(mean - exact.mean(U)).max() > 0.02
    assert np.abs(variance - exact.covariance(U).diagonal()).max() > 0.02


def test_gaussian_process_without_data_is_the_prior() -> None:
    kernel = kernels("matern52", 2)[1]
    U = np.random.default_rng(0).random((4, 2))
    found = posterior_of(kernel, U, [(np.empty((0, 2)), np.empty(0))], 0.1)
    mean, variance = found.moments(U)
    np.testing.assert_array_equal(mean, np.zeros(4))
    np.testing.assert_array_equal(variance, np.full(4, 0.6))


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 6), min_size=1, max_size=5),
    seed=st.integers(0, 1000),
    family=st.sampled_from(FAMILIES),
    noise=st.floats(1e-4, 1.0),
    scale=st.floats(0.05, 5.0),
)
def test_any_split_equals_the_textbook(
    sizes: list[int], seed: int, family: Family, noise: float, scale: float
) -> None:
    # Long length scales make Sigma_SS as singular as the jitter allows (1e-8): solutions of the
    # two ways agree to about the square root of the rounding, relative to the signal.
    kernel, clients = Kernel(family, (scale,), 1.0), data(seed, sizes, 2)
    rng = np.random.default_rng(seed + 1)
    S, U = rng.random((7, 2)), rng.random((5, 2))
    mean, variance = posterior_of(kernel, S, clients, noise).moments(U)
    expected, covariance = textbook(kernel, S, clients, noise, U)
    np.testing.assert_allclose(mean, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(variance, covariance.diagonal(), rtol=1e-4, atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(order=st.permutations(range(4)), seed=st.integers(0, 1000))
def test_order_of_clients_does_not_matter(order: list[int], seed: int) -> None:
    kernel, clients = Kernel("matern52", (0.4,), 1.0), data(seed, [3, 1, 4, 2], 2)
    U = np.random.default_rng(seed).random((4, 2))
    one = posterior_of(kernel, U, clients, 0.1).moments(U)
    other = posterior_of(kernel, U, [clients[i] for i in order], 0.1).moments(U)
    np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("ard", [False, True])
@pytest.mark.parametrize("exact", [False, True])
def test_gradients(family: Family, ard: bool, exact: bool) -> None:
    kernel, clients = kernels(family, 3)[ard], data(6, [5, 6], 3)
    X, y = (np.concatenate(column) for column in zip(*clients, strict=True))
    S = np.random.default_rng(7).random((8, 3))
    posterior = (
        condition(kernel, 0.05, X, y, 0.3) if exact else posterior_of(kernel, S, clients, 0.05)
    )
    U = np.random.default_rng(8).random((4, 3))
    mean, variance, mean_slopes, variance_slopes = posterior.moments_and_gradients(U)
    np.testing.assert_allclose((mean, variance), posterior.moments(U), rtol=1e-10, atol=1e-12)
    if isinstance(posterior, SparsePosterior):
        assert not np.array_equal(mean, np.zeros(4))
    else:
        np.testing.assert_allclose(mean, posterior.mean(U))
        np.testing.assert_allclose(variance, posterior.covariance(U).diagonal(), rtol=1e-9)
    for d in range(3):
        step = 1e-6 * np.eye(3)[d]
        above, below = posterior.moments(U + step), posterior.moments(U - step)
        numeric = (np.array(above) - np.array(below)) / 2e-6
        np.testing.assert_allclose(mean_slopes[:, d], numeric[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(variance_slopes[:, d], numeric[1], rtol=1e-5, atol=1e-6)


def test_coinciding_support_points_are_no_trouble() -> None:
    kernel, clients = Kernel("squared_exponential", (2.0,), 1.0), data(0, [6, 6], 2)
    rng = np.random.default_rng(1)
    S, U = np.repeat(rng.random((3, 2)), 4, axis=0), rng.random((5, 2))
    mean, variance = posterior_of(kernel, S, clients, 1e-4).moments(U)
    assert np.isfinite(mean).all()
    assert (variance > 0.0).all()
    assert (variance <= 1.0).all()


def test_rounded_sums_never_give_impossible_variances() -> None:
    # An error of 1e-6 in each number: as singular as Sigma_SS is, W alone would not be positive.
    kernel = Kernel("squared_exponential", (3.0,), 1.0)
    rng = np.random.default_rng(2)
    base = support(kernel, rng.random((20, 2)))
    whole = total([summarise(base, 0.1, X, y[:, None]) for X, y in data(3, [4, 4], 2)])
    error = 1e-6 * rng.standard_normal((20, 20))
    posterior = sparse_posterior(base, whole.covariance + error + error.T, whole.means[:, 0])
    _, variance = posterior.moments(rng.random((50, 2)))
    assert (posterior.information == 0.0).any()  # the rule was needed
    assert (variance > 0.0).all()
    assert (variance <= 1.0).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_best_variance_is_pitcs_most_likely(family: Family) -> None:
    kernel, clients = Kernel(family, (0.4,), 1.0), data(9, [4, 6, 5], 2)
    S = np.random.default_rng(1).random((7, 2))
    base = support(kernel, S)
    whole = total([summarise(base, 0.1, X, y[:, None]) for X, y in clients])
    posterior = sparse_posterior(base, whole.covariance, whole.means[:, 0])
    variance = best_variance(posterior.misfit(float(whole.misfits[0, 0])), 15)
    y = np.concatenate([y for _, y in clients])
    C = covariance_of_outputs(kernel, S, clients, 0.1)
    assert variance == pytest.approx(y @ np.linalg.solve(C, y) / 15, rel=1e-7)

    def likelihood(v: float) -> float:
        return float(multivariate_normal(np.zeros(15), v * C).logpdf(y))

    assert likelihood(variance) > max(likelihood(0.9 * variance), likelihood(1.1 * variance))


def test_summaries_do_not_depend_on_the_variance_if_noise_scales() -> None:
    # So the variance can be chosen after the sum.
    (X, y), S = data(0, [6], 2)[0], np.random.default_rng(1).random((5, 2))
    one = summarise(support(Kernel("matern52", (0.4,), 1.0), S), 0.1, X, y[:, None])
    other = summarise(support(Kernel("matern52", (0.4,), 4.0), S), 0.4, X, y[:, None])
    np.testing.assert_allclose(other.means, one.means, rtol=1e-9)
    np.testing.assert_allclose(other.covariance, 4.0 * one.covariance, rtol=1e-9)


def test_total_leaves_its_parts_alone() -> None:
    base = support(Kernel("matern52", (0.4,), 1.0), np.eye(2))
    parts = [summarise(base, 0.1, X, y[:, None]) for X, y in data(0, [3, 3], 2)]
    before = [np.array(part.covariance) for part in parts]
    whole = total(parts)
    np.testing.assert_array_equal([part.covariance for part in parts], before)
    np.testing.assert_array_equal(whole.covariance, before[0] + before[1])
    assert isinstance(whole, Summary)


def test_empty_support_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 1 point"):
        support(Kernel("matern52", (0.4,), 1.0), np.empty((0, 2)))


@pytest.mark.parametrize("beta", [1.0, 2.0])
@pytest.mark.parametrize("family", FAMILIES)
def test_path_moments_are_the_posteriors(family: Family, beta: float) -> None:
    # The mean over features and weights is exact; five standard errors of a mean and a variance.
    kernel, clients = Kernel(family, (0.3,), 1.5), data(1, [5, 4], 2)
    rng = np.random.default_rng(2)
    posterior = posterior_of(kernel, rng.random((6, 2)), clients, 0.05)
    U = np.concatenate([posterior.support.points[:2], rng.random((4, 2))])
    mean, variance = posterior.moments(U)
    samples = np.array(
        [sample_sparse_path(posterior, 64, beta, rng).values(U) for _ in range(DRAWS)]
    )
    errors = np.abs(samples.mean(axis=0) - mean)
    assert np.all(errors < 5 * beta * np.sqrt(variance / DRAWS))
    np.testing.assert_allclose(
        samples.var(axis=0), beta**2 * variance, rtol=5 * math.sqrt(2.5 / DRAWS)
    )


def test_path_gradients_and_beta_zero() -> None:
    kernel, clients = Kernel("matern52", (0.3, 0.5), 1.5), data(1, [5, 4], 2)
    rng = np.random.default_rng(2)
    posterior = posterior_of(kernel, rng.random((6, 2)), clients, 0.05)
    U = rng.random((4, 2))
    flat = sample_sparse_path(posterior, 50, 0.0, rng)
    np.testing.assert_allclose(flat.values(U), posterior.moments(U)[0], rtol=1e-10)
    path = sample_sparse_path(posterior, 50, 1.0, rng)
    values, gradients = path.values_and_gradients(U)
    np.testing.assert_allclose(values, path.values(U), rtol=1e-10)
    np.testing.assert_allclose(path.ranking(U), values, atol=1e-2)
    for d in range(2):
        step = 1e-6 * np.eye(2)[d]
        numeric = (path.values(U + step) - path.values(U - step)) / 2e-6
        np.testing.assert_allclose(gradients[:, d], numeric, rtol=1e-5, atol=1e-5)
