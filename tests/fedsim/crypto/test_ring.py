"""The ring: products are FLINT's, sums and bytes are exact, and the guard is on."""

from __future__ import annotations

import numpy as np
import pytest
from flint import fmpz, fmpz_poly
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.crypto.fixed_point import carry
from fedsim.crypto.ring import (
    DEGREE,
    DIGITS,
    ByteSum,
    Digits,
    forward,
    from_bytes,
    multiply,
    to_bytes,
)
from fedsim.errors import RunError

Q = 1 << 192


def integers(digits: Digits) -> list[int]:
    """Return coefficients as whole numbers in [0, q)."""
    rows = digits.astype(object)
    return [int(x) % Q for x in sum(rows[k] << 24 * k for k in range(DIGITS))]


def uniform(seed: int, n: int = DEGREE) -> Digits:
    return np.random.default_rng(seed).integers(0, 1 << 24, (DIGITS, n))


def product(uniform: Digits, ternary: Digits) -> list[int]:
    """Return FLINT's product modulo X^N + 1 and q."""
    whole = (fmpz_poly(integers(uniform)) * fmpz_poly(ternary.tolist())).coeffs()
    whole += [fmpz(0)] * (2 * DEGREE - len(whole))
    return [int(a - b) % Q for a, b in zip(whole[:DEGREE], whole[DEGREE:], strict=True)]


@pytest.mark.parametrize(
    ("digits", "ternary"),
    [
        (uniform(0), np.random.default_rng(1).integers(-1, 2, DEGREE)),
        (np.full((DIGITS, DEGREE), (1 << 24) - 1), np.ones(DEGREE, np.int64)),
        (uniform(2), np.eye(1, DEGREE, DEGREE - 1, dtype=np.int64)[0]),
    ],
    ids=["random", "largest", "X^(N-1)"],
)
def test_products_are_flints(digits: Digits, ternary: Digits) -> None:
    transforms = forward(digits), forward(ternary)
    found = integers(carry(multiply(*transforms)))
    assert found == product(digits, ternary)
    for n in (1, 560, DEGREE // 2, DEGREE // 2 + 1, DEGREE - 1):
        assert np.array_equal(multiply(*transforms, n), multiply(*transforms)[:, :n])


def test_a_product_leaves_its_transforms_alone() -> None:
    x, s = forward(uniform(0)), forward(np.ones(DEGREE, np.int64))
    before = x.copy(), s.copy()
    multiply(x, s)
    assert np.array_equal(x, before[0])
    assert np.array_equal(s, before[1])


@pytest.mark.parametrize("damage", [3.0, np.nan, np.inf])
def test_the_guard_finds_a_damaged_transform(damage: float) -> None:
    x, s = forward(uniform(0)), forward(np.random.default_rng(1).integers(-1, 2, DEGREE))
    x[3, 17] += damage
    with np.errstate(all="ignore"), pytest.raises(RunError, match="not exact"):
        multiply(x, s)


@settings(max_examples=30)
@given(st.lists(st.integers(0, Q - 1), min_size=1, max_size=9))
def test_bytes_are_little_endian_coefficients(values: list[int]) -> None:
    data = b"".join(value.to_bytes(24, "little") for value in values)
    digits = from_bytes(data)
    assert integers(digits) == values
    assert to_bytes(digits) == data


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(0, Q - 1), min_size=2, max_size=2), min_size=1, max_size=6))
def test_sums_of_bytes_are_exact(rows: list[list[int]]) -> None:
    total = ByteSum(2)
    for row in rows:
        total.add(b"".join(value.to_bytes(24, "little") for value in row))
    assert integers(total.digits()) == [sum(column) % Q for column in zip(*rows, strict=True)]


def test_sums_of_1024_largest_elements() -> None:
    total = ByteSum(1)
    for _ in range(1024):
        total.add(b"\xff" * 24)
    assert integers(total.digits()) == [(Q - 1) * 1024 % Q]


@settings(max_examples=30)
@given(st.lists(st.integers(-(1 << 61), 1 << 61), min_size=DIGITS, max_size=DIGITS))
def test_normalising_keeps_the_number(values: list[int]) -> None:
    digits = np.array(values, np.int64)[:, np.newaxis]
    before = integers(digits)
    after = carry(digits)
    assert integers(after) == before
    assert after.min() >= 0
    assert after.max() < 1 << 24
