"""Outputs on a scale on which one huge value does not hide all others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.methods.robust_outputs import LARGEST, moments, next_units, robust
from fedsim.space import Array


def step(outputs: Array, units: Array) -> Array:
    return next_units(units, moments(robust(outputs, units)))


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


@pytest.mark.parametrize("size", [1e-12, 1e-3, 1.0, 1e3, 1e9, 1e30])
def test_units_reach_any_outputs(size: float) -> None:
    y = size * (5.0 + np.random.default_rng(0).standard_normal(200))
    units = np.array([0.0, 1.0])
    for _ in range(20):
        units = step(y, units)
    x = robust(y, units)
    assert abs(x.mean()) < 0.01
    assert x.std() == pytest.approx(1.0, abs=0.02)


def test_one_huge_output_does_not_hide_the_others() -> None:
    y = np.append(np.random.default_rng(1).standard_normal(97), [-1e12, -1e30, -1e3])
    units = np.array([0.0, 1.0])
    for _ in range(30):
        units = step(y, units)
    assert robust(y, units)[:-3].std() > 0.3


def test_too_few_outputs_change_nothing() -> None:
    units = np.array([1.0, 2.0])
    np.testing.assert_array_equal(next_units(units, np.array([1.0, 0.3, 0.09])), units)
    np.testing.assert_array_equal(next_units(units, np.zeros(3)), units)
