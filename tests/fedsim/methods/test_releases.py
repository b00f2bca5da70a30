"""Which rounds have releases, their average, and how far it is shrunk."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.errors import ConfigError
from fedsim.methods.releases import ReleaseSum, release_rounds, wiener_factor


@pytest.mark.parametrize(
    ("releases", "rounds", "expected"),
    [
        (5, 40, (0, 1, 2, 4, 8)),
        (5, 8, (0, 1, 2, 4)),  # one after the last query, of round 8, would not be used
        (1, 1, (0,)),
        (0, 9, ()),
        (10**6, 3, (0, 1, 2)),
        ([0, 3, 7], 8, (0, 3, 7)),
        ([0, 3, 7], 7, (0, 3)),
        ([], 7, ()),
    ],
)
def test_rounds_with_releases(releases: Any, rounds: int, expected: tuple[int, ...]) -> None:
    assert release_rounds(releases, rounds) == expected


@pytest.mark.parametrize("releases", [-1, [-1], [0, 2, 2], [3, 1]])
def test_rounds_that_are_none_are_refused(releases: Any) -> None:
    with pytest.raises(ConfigError, match=r"^method\.releases: expected "):
        release_rounds(releases, 9)


@given(
    variances=st.lists(st.floats(0, 10), min_size=1, max_size=6),
    seed=st.integers(0, 99),
)
def test_the_sum_by_definition(variances: list[float], seed: int) -> None:
    released = np.random.default_rng(seed).standard_normal((len(variances), 4))
    found = ReleaseSum(np.zeros(4), 0.0)
    w, v = np.zeros(4), 0.0
    for vector, variance in zip(released, variances, strict=True):
        found = found.with_release(vector, variance)
        x, v = w + vector, v + variance
        signal = max(x @ x / 4 - v, 0.0)
        factor = signal / (signal + v) if signal else 0.0
        w, v = factor * x, factor**2 * v
        np.testing.assert_allclose(found.vector, w, atol=1e-12)
        assert found.noise_variance == pytest.approx(v, rel=1e-9, abs=1e-12)


def test_without_noise_it_is_the_sum() -> None:
    found = ReleaseSum(np.zeros(2), 0.0)
    for release in ([1.0, 2.0], [0.0, 0.0], [-0.5, 1.0]):
        found = found.with_release(np.array(release), 0.0)
    assert (found.vector.tolist(), found.noise_variance) == ([0.5, 3.0], 0.0)


def test_noise_that_looks_like_noise_is_dropped() -> None:
    found = ReleaseSum(np.zeros(4), 0.0).with_release(np.array([1.0, -1.0, 1.0, -1.0]), 1.0)
    assert (found.vector.tolist(), found.noise_variance) == ([0.0] * 4, 0.0)


def test_corrections_find_what_an_average_of_posterior_means_misses() -> None:
    """The point of it: a coordinate that one agent of a hundred knows is learned all the same.

    Exact: in coordinate i, agents who know it answer with the factor a = n / (n + lambda) times
    what is left, so that after k releases 1 - (1 - share a)^k of the truth is known.
    """
    truth, share, a = np.array([1.0, 1.0]), np.array([1.0, 0.1]), 0.9
    found = ReleaseSum(np.zeros(2), 0.0)
    for k in range(1, 6):
        found = found.with_release(share * a * (truth - found.vector), 0.0)
        np.testing.assert_allclose(found.vector, 1.0 - (1.0 - share * a) ** k, rtol=1e-12)
    average = share * a * truth
    assert (found.vector > average).all()


def test_the_noise_is_at_most_what_it_says() -> None:
    # Statistical: of 4,000 coordinates, a mean square has a relative standard error of 2.2 %.
    rng, truth = np.random.default_rng(0), 3.0 * np.random.default_rng(1).standard_normal(4000)
    for known in (0.0, 0.5):  # the factor by which agents' corrections have what is left
        noise, found = np.zeros(4000), ReleaseSum(np.zeros(4000), 0.0)
        for deviation in (1.0, 2.0, 0.5, 1.0):
            drawn = deviation * rng.standard_normal(4000)
            first = truth if known == 0.0 and not found.vector.any() else 0.0
            signal = known * (truth - found.vector) + first
            before = found
            found = found.with_release(signal + drawn, deviation**2)
            total = before.vector + signal + drawn
            factor = float(found.vector @ total / (total @ total))
            noise = factor * ((1.0 - known) * noise + drawn)
        ratio = float(np.square(noise).mean()) / found.noise_variance
        assert ratio == pytest.approx(1.0, abs=0.11) if known == 0.0 else ratio < 1.0


def test_wieners_factor() -> None:
    vector = np.array([3.0, 4.0])  # |w|^2 / M = 12.5
    assert wiener_factor(vector, 2.5) == pytest.approx(10.0 / 12.5)
    assert wiener_factor(vector, 0.0) == 1.0
    assert wiener_factor(vector, 12.5) == 0.0
    assert wiener_factor(vector, 50.0) == 0.0
    assert wiener_factor(np.zeros(3), 0.0) == 0.0
    assert wiener_factor(np.zeros(3), 1.0) == 0.0


def test_the_shrunk_average_is_nearest_to_the_signal() -> None:
    # Statistical: of 200 signals in 50 dimensions, noise as large as they are. Not knowing
    # tau costs about 2 / M of the error, 4 %; the standard error of the ratio is about 1 %.
    rng, v = np.random.default_rng(1), 1.0
    signals = rng.standard_normal((200, 50))
    seen = signals + np.sqrt(v) * rng.standard_normal(signals.shape)
    factors = np.array([wiener_factor(w, v) for w in seen])[:, None]

    def error(factor: Any) -> float:
        return float(np.square(factor * seen - signals).mean())

    assert error(factors) < 1.09 * min(error(f) for f in (0.0, 0.3, 0.5, 0.7, 1.0))
