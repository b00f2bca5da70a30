from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.space import Array
from fedsim.surrogates.scaling import mean_of, spread, standardised

NUMBERS = st.lists(st.floats(-1e6, 1e6).map(lambda x: round(x, 3)), min_size=1, max_size=12)


def test_by_the_definition() -> None:
    y = np.array([3.0, -1.0, 4.0, 2.0])
    y.setflags(write=False)
    assert mean_of(y) == 2.0
    assert spread(y) == pytest.approx(math.sqrt(7.5))
    np.testing.assert_allclose(standardised(y), (y - 2.0) / math.sqrt(3.5))
    np.testing.assert_allclose(standardised(y, centred=False), y / math.sqrt(7.5))


@pytest.mark.parametrize(
    "values", [[], [0.0, 0.0], [0.1] * 10, [1e300] * 3, [-5e-324], [1.7e308] * 7]
)
def test_what_does_not_vary_is_zero(values: list[float]) -> None:
    y = np.array(values)
    np.testing.assert_array_equal(standardised(y), np.zeros(len(y)))
    assert mean_of(y) == (values[0] if values else 0.0)


@given(NUMBERS, st.integers(-900, 900), st.booleans())
def test_powers_of_two_change_nothing(values: list[float], power: int, centred: bool) -> None:
    # Exact.
    y = np.array(values)
    one = standardised(y, centred=centred)
    np.testing.assert_array_equal(standardised(np.ldexp(y, power), centred=centred), one)
    assert spread(np.ldexp(y, power)) == math.ldexp(spread(y), power)


@given(NUMBERS, st.sampled_from([1e-300, 1e-150, 3e-7, 0.1, 1e9, 1e150, 1e300]))
def test_other_units_change_rounding_only(values: list[float], unit: float) -> None:
    y = np.array(values)
    # Differences of the outputs are as exact as the outputs themselves.
    size = np.abs(y).max() / (np.std(y) or math.inf)
    np.testing.assert_allclose(standardised(unit * y), standardised(y), atol=1e-14 * (1 + size))


@given(NUMBERS, st.booleans())
def test_the_result_has_mean_square_one(values: list[float], centred: bool) -> None:
    found = standardised(np.array(values), centred=centred)
    assert not found.any() or np.mean(np.square(found)) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize(
    "values", [[1.7e308, -1.7e308, 1.0], [1e-310, 3e-310], [1e300, 1e-300, -1e155], [5e-324, 0.0]]
)
@pytest.mark.parametrize("centred", [True, False])
def test_extremes_are_finite(values: Any, centred: bool) -> None:
    y: Array = np.array(values)
    with np.errstate(all="raise", under="ignore"):
        found = standardised(y, centred=centred)
    assert np.mean(np.square(found)) == pytest.approx(1.0)
