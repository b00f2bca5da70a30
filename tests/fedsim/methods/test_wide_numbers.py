"""Numbers in parts that a fixed point of limited range can hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.methods.wide_numbers import in_parts, joined

NUMBERS = st.lists(st.integers(-(2**52), 2**52), min_size=1, max_size=5)


@given(NUMBERS, st.integers(-80, 60), st.integers(0, 2), st.integers(10, 90))
def test_parts_make_the_number_again(
    numbers: list[int], exponent: int, order: int, fraction_bits: int
) -> None:
    values = np.ldexp(np.array(numbers, dtype=float), exponent)
    rest, coarse = in_parts(values, order, fraction_bits)
    assert len(coarse) == order
    np.testing.assert_array_equal(joined(rest, coarse), values)


@pytest.mark.parametrize(("order", "bits"), [(1, 60), (2, 60), (2, 120)])
def test_coarse_parts_are_multiples_of_the_fixed_points_unit(order: int, bits: int) -> None:
    # 3 units of this part, and 1/4 of the finest: the rest cannot hold more than half a unit.
    value = np.array([np.ldexp(3.0, bits - 20) + 0.25])
    rest, coarse = in_parts(value, order, fraction_bits=20)
    expected = [np.ldexp(3.0 * (bits == 60 * k), -20) for k in range(order, 0, -1)]
    assert [float(part[0]) for part in coarse] == expected
    assert abs(float(rest[0])) <= np.ldexp(0.5, 60 - 20)


def test_ordinary_numbers_have_no_coarse_part() -> None:
    values = np.array([0.0, -1.5, 1e9])
    rest, coarse = in_parts(values, 2, fraction_bits=20)
    np.testing.assert_array_equal(rest, values)
    assert not np.any(coarse)


def test_sums_of_parts_are_the_parts_of_sums() -> None:
    numbers = np.ldexp(np.array([3.0, -5.0, 0.5]), 70)
    parts = [in_parts(number, 2, fraction_bits=30) for number in numbers]
    rest = np.sum([rest for rest, _ in parts])
    coarse = [np.sum([own[k] for _, own in parts]) for k in range(2)]
    assert joined(rest, coarse) == numbers.sum()
