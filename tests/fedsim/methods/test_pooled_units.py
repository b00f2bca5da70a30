"""The outputs' mean and spread from sums in a fixed point."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.crypto import fraction_bits_for
from fedsim.crypto.fixed_point import add_integers, decode, encode
from fedsim.methods.pooled_units import pooled_units
from fedsim.methods.wide_numbers import in_parts, joined
from fedsim.space import Array


def pooled(units: Array, x: Array, scale: float = 1.0) -> Array:
    sums = len(x), float(x.sum()), float(np.square(x).sum())
    return pooled_units(units, *sums, fraction_bits=40, output_scale=scale)


def test_they_are_the_outputs_mean_and_spread() -> None:
    y = np.random.default_rng(0).normal(20.0, 3.0, 50)
    found = pooled(np.array([18.0, 4.0]), (y - 18.0) / 4.0)
    np.testing.assert_allclose(found, [y.mean(), y.std()], rtol=1e-9)


def test_without_outputs_they_stay() -> None:
    units = np.array([18.0, 4.0])
    np.testing.assert_array_equal(pooled(units, np.empty(0)), units)


@pytest.mark.parametrize(
    ("spread", "scale", "expected"),
    [
        (1.0, 1.0, 2.0**-10),
        (2.0**-15, 1.0, 2.0**-20),  # at least 2^-20 times the first
        (2.0**-15, 64.0, 2.0**-15),  # and never more than so far
        (2.0**-20, 1.0, 2.0**-20),
    ],
)
def test_outputs_that_are_not_resolved_get_finer_units(
    spread: float, scale: float, expected: float
) -> None:
    found = pooled(np.array([0.0, spread]), np.full(4, 2.0**-30), scale)
    assert found.tolist() == [spread * 2.0**-30, expected]


def test_equal_outputs_far_from_the_centre_move_it_first() -> None:
    found = pooled(np.array([1.0, 2.0]), np.full(4, 8.0))
    assert found.tolist() == [17.0, 2.0]


CLIENTS = 4


def summed(numbers: list[float], order: int, bits: int) -> float:
    """Return the sum of clients' numbers through the fixed point."""
    parts = [in_parts(np.array([number]), order, bits) for number in numbers]
    integers = np.stack([encode(np.concatenate([rest, *more]), bits) for rest, more in parts])
    total = decode(add_integers(integers), bits)
    return float(joined(total[:1], [total[k : k + 1] for k in range(1, order + 1)])[0])


def units_of(outputs: list[Array], bits: int, scale: float = 1.0) -> Array:
    """Return the units after rounds in which every client got one of these outputs, shape (2,)."""
    units = np.array([0.0, scale])
    for t in range(len(outputs)):
        x = [(np.array(outputs[: t + 1])[:, i] - units[0]) / units[1] for i in range(CLIENTS)]
        first = summed([float(one.sum()) for one in x], 1, bits)
        second = summed([float(np.square(one).sum()) for one in x], 2, bits)
        count = CLIENTS * (t + 1)
        units = pooled_units(units, count, first, second, fraction_bits=bits, output_scale=scale)
    return units


@given(st.integers(2, 500), st.floats(1e-6, 1.0))
def test_the_resolved_spread_follows_from_the_largest_number(n: int, eta: float) -> None:
    bits = fraction_bits_for(2.0 * n / eta)
    resolved = 2.0 ** (1 - bits / 2) / math.sqrt(n / eta)
    assert 2.0**-29 * 0.999 < resolved < 2.0**-28.5 * 1.001


def test_the_examples_of_the_documentation() -> None:
    bits = fraction_bits_for(2.0 * 54 / 1e-4)
    assert 2.0 ** (1 - bits / 2) == pytest.approx(1.9e-6, rel=0.01)
    assert 2.0 ** (-19 - bits / 2) == pytest.approx(1.8e-12, rel=0.02)


@pytest.mark.parametrize("bits", [24, 40, 45])
@pytest.mark.parametrize(
    ("factor", "rounds", "is_found"),
    [(4.0, 1, True), (0.5, 1, False), (0.5, 3, True), (2.0**-18, 3, True), (2.0**-23, 9, False)],
)
def test_spreads_that_are_found(bits: int, factor: float, rounds: int, is_found: bool) -> None:
    spread = factor * 2.0 ** (1 - bits / 2)
    y = spread * np.array([-1.0, 1.0, -1.0, 1.0])
    found = units_of([y] * rounds, bits)[1]
    assert (abs(found / spread - 1.0) < 0.01) == is_found


@pytest.mark.parametrize("bits", [20, 30, 40, 50, 58])
@pytest.mark.parametrize("before", [0.0, 2.0**-19, 1.0])
def test_large_outputs_fit_unless_a_smaller_spread_was_found(bits: int, before: float) -> None:
    y = np.array([-1.0, 1.0, -1.0, 1.0])
    units = units_of([before * y] * 5 + [1e12 * y], bits)
    assert units[1] == pytest.approx(1e12 / math.sqrt(6.0), rel=1e-3)


def test_outputs_far_above_a_small_spread_that_was_found_do_not_fit() -> None:
    y = np.array([-1.0, 1.0, -1.0, 1.0])
    with pytest.raises(OverflowError):
        units_of([1e-9 * y] * 5 + [1e12 * y], 44)
    assert units_of([1e-9 * y] * 5 + [1e9 * y], 44)[1] == pytest.approx(1e9 / math.sqrt(6.0))
