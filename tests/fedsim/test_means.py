"""Means and standard errors are what plain sums give, and stay finite where plain sums do not."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedsim.means import mean, means, standard_error, standard_errors

numbers = st.lists(st.floats(-1e6, 1e6).map(lambda x: round(x, 3)), min_size=1, max_size=12)


@given(numbers)
def test_where_sums_do_not_overflow_means_are_exactly_numpys(values: list[float]) -> None:
    assert mean(np.array(values)) == float(np.mean(values))


@given(numbers, st.integers(-900, 900))
def test_powers_of_two_change_nothing(values: list[float], power: int) -> None:
    y = np.array(values)
    assert mean(np.ldexp(y, power)) == math.ldexp(mean(y), power)
    if len(values) > 1:
        assert standard_error(np.ldexp(y, power)) == math.ldexp(standard_error(y), power)


@given(st.lists(st.floats(-1.7e308, 1.7e308), min_size=1, max_size=12))
def test_the_mean_of_any_numbers_is_near_the_true_one(values: list[float]) -> None:
    true = float(sum(map(Fraction, values)) / len(values))
    largest = max(map(abs, values))
    assert mean(np.array(values)) == pytest.approx(true, rel=0, abs=4e-15 * largest + 5e-324)


@given(numbers.filter(lambda values: len(set(values)) > 1))
def test_standard_errors_are_scipys(values: list[float]) -> None:
    y = np.array(values)
    size = float(np.abs(y).max())
    assert standard_error(y) == pytest.approx(float(stats.sem(y)), rel=1e-9, abs=1e-12 * size)


@pytest.mark.parametrize("unit", [1e-300, 5e-200, 1.0, 1e200, 1e307])
def test_standard_errors_in_extreme_units(unit: float) -> None:
    y = unit * np.array([1.0, 2.0, 3.0, 6.0])
    assert standard_error(y) == pytest.approx(unit * math.sqrt(14 / 12), rel=1e-12)


def test_what_is_not_known_does_not_count() -> None:
    nan = math.nan
    values = np.array([[1.0, nan, nan, 1e308], [3.0, 5.0, nan, 1e308]])
    np.testing.assert_array_equal(means(values), [2.0, 5.0, nan, 1e308])
    np.testing.assert_array_equal(standard_errors(values), [1.0, nan, nan, 0.0])
    np.testing.assert_array_equal(means(np.array([[1.0, nan], [nan, nan]]), axis=1), [1.0, nan])
    assert math.isnan(mean(np.array([])))
    assert math.isnan(standard_error(np.array([1.0])))


def test_what_is_infinite() -> None:
    assert mean(np.array([math.inf, 1.0])) == math.inf
    assert mean(np.array([-math.inf, 1e308])) == -math.inf
