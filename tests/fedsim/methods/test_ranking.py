"""Ranking losses, and the weights that RGPE and TAF make of rankings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from fedsim.methods.own_law import OwnLaw
from fedsim.methods.ranking import (
    ensemble_weights,
    joint_losses,
    left_out_losses,
    ranking_losses,
    similarity_weights,
)
from fedsim.surrogates.exact_gp import condition
from fedsim.surrogates.kernels import Kernel
from fedsim.surrogates.warping import identity

KERNEL = Kernel("squared_exponential", (0.3,), 1.0)
X = np.array([[0.1], [0.25], [0.6], [0.9]])
Y = np.array([-0.5, 1.2, 0.3, -1.0])


def test_losses_by_hand() -> None:
    y = np.array([1.0, 2.0, 3.0])
    values = np.array([[1, 2, 3], [3, 2, 1], [2, 1, 3], [0, 0, 0]])
    # Every misranked pair counts in both orders; a tie of values in one of them.
    assert ranking_losses(values, y).tolist() == [0, 6, 2, 3]
    # A tie of outputs that differ in value counts once, whichever is larger.
    assert ranking_losses(np.array([[1, 2, 3], [2, 1, 3]]), np.array([1.0, 1.0, 3.0])).tolist() == [
        1,
        1,
    ]
    assert ranking_losses(np.empty((2, 0)), np.empty(0)).tolist() == [0, 0]


@given(
    st.lists(st.integers(-4, 4), min_size=1, max_size=8).flatmap(
        lambda y: st.tuples(
            st.just(y), st.lists(st.integers(-4, 4), min_size=len(y), max_size=len(y))
        )
    )
)
def test_losses_are_the_papers_double_sum(pair: tuple[list[int], list[int]]) -> None:
    y, f = pair
    n = len(y)
    expected = sum((f[j] < f[k]) != (y[j] < y[k]) for j in range(n) for k in range(n))
    assert ranking_losses(np.array(f), np.array(y)) == expected


def test_left_out_losses_are_those_of_models_without_an_output() -> None:
    # Statistical: the mean of L is the sum of each comparison's probability, which a Gaussian
    # process without that output tells exactly; 20,000 draws, 5 standard errors.
    noise, samples = 0.1, 20_000
    law = OwnLaw(condition(KERNEL, noise, X, Y), Y, identity(1))
    found = left_out_losses(law, samples, np.random.default_rng(0))
    expected = 0.0
    for j in range(4):
        rest = np.delete(np.arange(4), j)
        gp = condition(KERNEL, noise, X[rest], Y[rest])
        mean, covariance = gp.mean(X), gp.covariance(X)
        for k in rest:
            variance = covariance[j, j] + covariance[k, k] - 2 * covariance[j, k]
            less = norm.cdf((mean[k] - mean[j]) / np.sqrt(variance))
            expected += 1 - less if Y[j] < Y[k] else less
    assert found.mean() == pytest.approx(expected, abs=5 * found.std() / np.sqrt(samples))
    in_sample = ranking_losses(law.posterior.mean(X), Y)
    assert in_sample == 0 < found.mean()


def test_repeated_inputs_have_losses() -> None:
    inputs = np.repeat(X, 2, axis=0)
    law = OwnLaw(condition(KERNEL, 0.1, inputs, np.repeat(Y, 2)), np.repeat(Y, 2), identity(1))
    assert np.isfinite(left_out_losses(law, 10, np.random.default_rng(0))).all()


def test_joint_losses_heed_correlations() -> None:
    # Two values that differ by exactly 1 and have a common deviation of 100: always in order, which
    # separate draws of the two would miss in half of the draws.
    means = np.array([[0.0, 1.0], [1.0, 0.0]])
    covariances = np.full((2, 2, 2), 1e4)
    found = joint_losses(means, covariances, np.array([0.0, 1.0]), 200, np.random.default_rng(0))
    assert found.tolist() == [[0.0] * 200, [2.0] * 200]


def test_ensemble_weights_by_hand() -> None:
    sources = np.array([[0.0, 4, 2, 2], [2, 2, 2, 2], [9, 9, 9, 0]])
    target = np.array([4.0, 4.0, 2.0, 2.0])
    # The third source is lucky once, but its median, 9, is above the target's 95th percentile.
    # Draws 1 and 2 are won by one source each; three models share each of draws 3 and 4.
    third = 2 / 3
    assert ensemble_weights(sources, target) * 4 == pytest.approx([1 + third, 1 + third, 0, third])
    assert ensemble_weights(np.empty((0, 4)), target).tolist() == [1.0]


@given(st.integers(0, 6), st.integers(1, 9), st.integers(0, 1000))
def test_ensemble_weights_are_shares(sources: int, samples: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    losses = generator.integers(0, 5, (sources + 1, samples)).astype(float)
    weights = ensemble_weights(losses[:-1], losses[-1])
    assert weights.shape == (sources + 1,)
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1.0)


def test_similarity_weights_by_hand() -> None:
    y = np.array([1.0, 2.0, 3.0])
    means = np.array([[1, 2, 3], [2, 1, 3], [3, 1, 2], [3, 2, 1], [7, 7, 7]])
    found = similarity_weights(means, y, 0.5)  # d = 0, 1/3, 2/3, 1, 1/2
    assert found == pytest.approx([0.75, 0.75 * (1 - 4 / 9), 0, 0, 0, 0.75])
    wider = similarity_weights(means, y, 1.0)
    assert wider == pytest.approx([0.75, 0.75 * 8 / 9, 0.75 * 5 / 9, 0, 0.75 * 3 / 4, 0.75])
    assert similarity_weights(means[:, :1], y[:1], 0.5).tolist() == [0.75] * 6
