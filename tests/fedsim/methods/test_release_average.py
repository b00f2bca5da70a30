"""Which rounds have releases, their average, and how far it is shrunk."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.errors import ConfigError
from fedsim.methods.release_average import DiscountedAverage, release_rounds, wiener_factor


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
    discount=st.floats(0, 1),
    variances=st.lists(st.floats(0, 10), min_size=1, max_size=6),
    seed=st.integers(0, 99),
)
def test_the_average_and_its_noise_by_definition(
    discount: float, variances: list[float], seed: int
) -> None:
    rng, average = np.random.default_rng(seed), DiscountedAverage()
    assert average.vector is None
    released = rng.standard_normal((len(variances), 4))
    for vector, variance in zip(released, variances, strict=True):
        average = average.with_release(vector, variance, discount)
    factors = np.array([discount**k for k in reversed(range(len(variances)))])
    factors = factors / factors.sum()
    assert average.vector is not None
    np.testing.assert_allclose(average.vector, factors @ released, atol=1e-12)
    expected = float(np.square(factors) @ variances)
    assert average.noise_variance == pytest.approx(expected, rel=1e-12, abs=1e-300)


def test_the_noise_of_an_average_is_what_it_says() -> None:
    # Statistical: the mean square of 40,000 numbers has a relative standard error of 0.7 %.
    rng, average = np.random.default_rng(0), DiscountedAverage()
    for deviation in (1.0, 2.0, 0.5, 1.0):
        vector = deviation * rng.standard_normal(40_000)
        average = average.with_release(vector, deviation**2, 0.8)
    assert average.vector is not None
    assert np.square(average.vector).mean() == pytest.approx(average.noise_variance, rel=0.03)


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
