"""Own data exactly, and others' by their summaries."""

from __future__ import annotations

import numpy as np
import pytest

from fedsim.surrogates import dpitc
from fedsim.surrogates.dpitc import Summary, sparse_posterior, summarise, support, white_summary
from fedsim.surrogates.exact_gp import condition
from fedsim.surrogates.kernels import Family, Kernel
from fedsim.surrogates.pic import best_variance, exact_with_summaries
from tests.fedsim.surrogates.test_dpitc import covariance_of_outputs, data, kernels
from tests.util.summed import total

FAMILIES: tuple[Family, ...] = ("squared_exponential", "matern52")
NOISE = 0.01


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("which", [0, 1])
def test_moments_are_those_of_conditioning_on_everything(family: Family, which: int) -> None:
    """Others' outputs have PITC's covariance, one's own any other point's exact one."""
    kernel = kernels(family, 3)[which]
    clients = data(0, [5, 4, 6], 3)
    S, U = np.random.default_rng(1).random((7, 3)), np.random.default_rng(2).random((9, 3))
    base = support(kernel, S)
    others = total([white_summary(base, NOISE, X, y[:, None]) for X, y in clients[1:]])
    X, y = clients[0]
    found = exact_with_summaries(base, NOISE, others, X, y)

    J = kernel.matrix(S, S) + dpitc.JITTER * kernel.variance * np.eye(len(S))
    theirs = np.concatenate([x for x, _ in clients[1:]])
    P = np.concatenate([X, U])  # exact among each other
    to_theirs = kernel.matrix(P, S) @ np.linalg.solve(J, kernel.matrix(S, theirs))
    C = covariance_of_outputs(kernel, S, clients[1:], NOISE)
    outputs = np.concatenate([v for _, v in clients[1:]])
    mean = to_theirs @ np.linalg.solve(C, outputs)
    covariance = kernel.matrix(P, P) - to_theirs @ np.linalg.solve(C, to_theirs.T)
    gain = covariance[5:, :5] @ np.linalg.inv(covariance[:5, :5] + NOISE * np.eye(5))
    expected_mean = mean[5:] + gain @ (y - mean[:5])
    expected_variance = np.diag(covariance[5:, 5:] - gain @ covariance[:5, 5:])
    means, variances = found.moments(U)
    np.testing.assert_allclose(means, expected_mean, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(variances, expected_variance, rtol=1e-6, atol=1e-7)


def test_with_the_others_inputs_as_support_it_is_exact() -> None:
    kernel = Kernel("matern52", (0.5,), 1.0)
    (X, y), (theirs, values) = data(3, [7, 6], 3)
    S = np.concatenate([theirs, np.random.default_rng(4).random((3, 3))])
    base = support(kernel, S)
    others = white_summary(base, NOISE, theirs, values[:, None])
    U = np.random.default_rng(5).random((8, 3))
    found = exact_with_summaries(base, NOISE, others, X, y).moments(U)
    everything = np.concatenate([X, theirs]), np.concatenate([y, values])
    expected = condition(kernel, NOISE, *everything).moments(U)
    # The support's jitter is 1e-8 of the variance.
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_without_others_it_is_the_exact_process_without_own_data_pitc() -> None:
    kernel = Kernel("matern52", (0.4,), 1.3)
    (X, y), (theirs, values) = data(6, [7, 6], 2)
    U = np.random.default_rng(7).random((8, 2))
    base = support(kernel, np.random.default_rng(8).random((5, 2)))
    alone = exact_with_summaries(base, NOISE, None, X, y).moments(U)
    np.testing.assert_allclose(alone, condition(kernel, NOISE, X, y).moments(U), rtol=1e-10)
    white = white_summary(base, NOISE, theirs, values[:, None])
    shared = exact_with_summaries(base, NOISE, white, X[:0], y[:0]).moments(U)
    plain = summarise(base, NOISE, theirs, values[:, None])
    expected = sparse_posterior(base, plain.covariance, plain.means[:, 0])
    np.testing.assert_allclose(shared, expected.moments(U), rtol=1e-7)
    misfit = expected.misfit(float(plain.misfits[0, 0]))
    np.testing.assert_allclose(best_variance(white, 6.0), misfit / 6.0, rtol=1e-9)


def test_gradients_are_those_of_the_moments() -> None:
    kernel = Kernel("matern52", (0.5,), 1.0)
    (X, y), (theirs, values) = data(9, [5, 6], 2)
    base = support(kernel, np.random.default_rng(10).random((4, 2)))
    others = white_summary(base, NOISE, theirs, values[:, None])
    posterior = exact_with_summaries(base, NOISE, others, X, y)
    U = np.random.default_rng(11).random((6, 2))
    mean, variance, slopes, variance_slopes = posterior.moments_and_gradients(U)
    np.testing.assert_allclose((mean, variance), posterior.moments(U), rtol=1e-12)
    for d in range(2):
        step = 1e-6 * np.eye(2)[d]
        above, below = posterior.moments(U + step), posterior.moments(U - step)
        for found, k in ((slopes, 0), (variance_slopes, 1)):
            numeric = (above[k] - below[k]) / 2e-6
            np.testing.assert_allclose(found[:, d], numeric, rtol=1e-5, atol=1e-7)


def test_rounded_sums_of_a_tiny_region_are_as_good_as_exact_ones() -> None:
    """Where points of the support nearly coincide, L^-1 would magnify rounding 1e8 times."""
    kernel = Kernel("squared_exponential", (1.0,), 1.0)
    rng = np.random.default_rng(12)
    S, X, U = (0.5 + 0.01 * rng.random((n, 5)) for n in (32, 40, 10))
    y = np.sin(50.0 * X.sum(axis=1))
    base = support(kernel, S)
    exact = white_summary(base, 1e-4, X, y[:, None])
    W, v = (np.rint(np.ldexp(a, 32)) / 2.0**32 for a in (exact.covariance, exact.means))
    rounded = Summary(W, v, exact.misfits)
    none = X[:0], y[:0]
    found = exact_with_summaries(base, 1e-4, rounded, *none).moments(U)
    expected = exact_with_summaries(base, 1e-4, exact, *none).moments(U)
    np.testing.assert_allclose(found[0], expected[0], atol=1e-5)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-5)
