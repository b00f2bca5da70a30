"""Outputs on a scale on which one huge value does not hide all others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.methods.robust_outputs import LARGEST, next_units, robust
from fedsim.space import Array


def step(outputs: Array, units: Array) -> Array:
    """Return the next units if the posterior is known to be what was observed, and no more."""
    x = robust(outputs, units)
    return next_units(units, x, np.zeros(len(x)))


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=20),
    st.floats(-1e6, 1e6),
    st.floats(1e-6, 1e6),
)
def test_order_is_kept_and_everything_is_bounded(
    outputs: list[float], centre: float, scale: float
) -> None:
    y = np.sort(np.array(outputs))
    x = robust(y, np.array([centre, scale]))
    assert (np.diff(x) >= 0.0).all()
    assert np.abs(x).max() <= LARGEST


def test_near_the_centre_it_is_linear() -> None:
    units = np.array([3.0, 10.0])
    np.testing.assert_allclose(robust(np.array([3.0, 3.1, 2.8]), units), [0.0, 0.01, -0.02], 1e-3)


@pytest.mark.parametrize("size", [1e-12, 1e-3, 1.0, 1e3, 1e9, 1e30, -1e9])
def test_units_reach_any_outputs(size: float) -> None:
    y = size * (5.0 + np.random.default_rng(0).standard_normal(200))
    units = np.array([0.0, 1.0])
    for _ in range(60):
        units = step(y, units)
    x = robust(y, units)
    good = np.sort(x)[-50:]
    assert abs(good.mean()) < 0.05
    assert good.std() == pytest.approx(1.0, abs=0.05)


def test_what_is_not_known_counts_as_spread() -> None:
    units = np.array([2.0, 3.0])
    found = next_units(units, np.zeros(8), np.array([0.5, 0.7] * 4))
    np.testing.assert_allclose(found, [2.0, 3.0 * np.sqrt(0.6)])
    found = next_units(units, np.full(8, 1.5), np.zeros(8) + 0.25)
    np.testing.assert_allclose(found, [2.0 + 3.0 * np.sinh(1.5), 3.0 * 0.5 * np.cosh(1.5)])


def test_the_better_quarter_of_points_counts() -> None:
    means = np.array([0.1, -9.0, -7.0, 0.3, -9.0, -9.0, -8.0, -6.0])
    variances = np.array([0.01, 5.0, 5.0, 0.03, 5.0, 5.0, 5.0, 5.0])
    found = next_units(np.array([0.0, 1.0]), means, variances)
    np.testing.assert_allclose(found, [np.sinh(0.2), np.sqrt(0.01 + 0.02) * np.cosh(0.2)])


def test_equal_outputs_leave_units_that_can_tell_others() -> None:
    """r stays a small part of c, so that what differs in the last digits is told."""
    y, units = np.full(30, 7.0), np.array([0.0, 1.0])
    for _ in range(50):
        units = step(y, units)
    assert units[0] == pytest.approx(7.0)
    assert 7e-13 <= units[1] < 1e-6
    x = robust(np.array([7.0, 7.0 + 1e-11, 6.0]), units)
    assert x[0] < x[1]
    assert x[2] < x[0]


def test_extreme_units_stay_as_they_are() -> None:
    units = np.array([1e300, 1.7e308])
    np.testing.assert_array_equal(next_units(units, np.full(3, 8.0), np.ones(3)), units)
