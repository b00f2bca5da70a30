"""Fixed point: exact sums, one rounding, and what is refused."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.crypto.fixed_point import (
    add_integers,
    decode,
    encode,
    exact_integers,
    fraction_bits_for,
    largest_value,
)
from fedsim.errors import ConfigError

EDGE = 2**61 - 1
integers = st.lists(st.integers(-EDGE, EDGE), min_size=1, max_size=8)


@given(st.lists(integers.map(lambda row: (row * 3)[:3]), min_size=1, max_size=5))
def test_sums_are_exact(rows: list[list[int]]) -> None:
    found = exact_integers(add_integers(np.array(rows, np.int64)))
    assert found == [sum(column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("edge", [EDGE, -EDGE])
def test_1024_extremes_do_not_wrap(edge: int) -> None:
    many = np.full((1024, 2), edge, np.int64)
    assert exact_integers(add_integers(many)) == [1024 * edge] * 2


@given(integers, st.integers(0, 60))
def test_a_sum_is_correctly_rounded(values: list[int], bits: int) -> None:
    many = np.array(values, np.int64)[:, np.newaxis]
    (found,) = decode(add_integers(many), bits)
    exact = Fraction(sum(values), 1 << bits)
    assert found == float(exact)  # Python's division of whole numbers rounds correctly


@given(st.floats(-2.0, 2.0), st.integers(20, 60))
def test_encoding_loses_at_most_half_a_unit(value: float, bits: int) -> None:
    if abs(value) < largest_value(bits) / 2:
        (z,) = encode(np.array([value]), bits)
        assert abs(Fraction(int(z), 1 << bits) - Fraction(value)) <= Fraction(1, 2 << bits)


@given(st.floats(1e-30, 2e18))
def test_the_most_fraction_bits_fit(largest: float) -> None:
    bits = fraction_bits_for(largest)
    encode(np.array([largest, -largest]), bits)
    if bits < 60:
        with pytest.raises(OverflowError):
            encode(np.array([largest]), bits + 1)


@pytest.mark.parametrize(("largest", "bits"), [(1e6, 41), (2.0**21 - 1, 40), (1e8, 34), (1.0, 60)])
def test_fraction_bits_of_known_bounds(largest: float, bits: int) -> None:
    assert fraction_bits_for(largest) == bits


@pytest.mark.parametrize("largest", [0.0, -1.0, np.inf, np.nan, 2.0**61])
def test_bounds_that_cannot_be(largest: float) -> None:
    with pytest.raises(ConfigError, match="the largest value of a secure sum"):
        fraction_bits_for(largest)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_only_finite_numbers(value: float) -> None:
    with pytest.raises(ValueError, match=r"finite numbers, got .* at index 1"):
        encode(np.array([0.0, value]), 40)


@pytest.mark.parametrize("value", [2.0**21, -(2.0**21), 1e300])
def test_numbers_out_of_range_are_refused(value: float) -> None:
    with pytest.raises(OverflowError, match=r"below 2.09715e\+06 .*at index 0"):
        encode(np.array([value, 0.0]), 40)
    below = np.nextafter(2.0**21, 0) * np.sign(value)
    assert abs(int(encode(np.array([below]), 40)[0])) < 2**61


def test_only_vectors() -> None:
    with pytest.raises(ValueError, match=r"shape \(2, 2\)"):
        encode(np.zeros((2, 2)), 40)
