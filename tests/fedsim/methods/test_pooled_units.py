"""The outputs' mean and spread from sums in a fixed point."""

from __future__ import annotations

import numpy as np
import pytest

from fedsim.methods.pooled_units import pooled_units
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
