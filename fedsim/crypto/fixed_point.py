"""Fixed point: real numbers as integers that are summed exactly.

A number x becomes z = round(x 2^f), with f fraction bits, and is refused unless abs(z) < 2^61. So
up to 1024 of them have an exact sum below 2^71 in magnitude, which is kept as three digits of 24
bits (two's complement modulo t = 2^72) and becomes a float64 with one rounding.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fedsim.errors import require
from fedsim.space import Array

Integers = NDArray[np.int64]

DIGIT_BITS = 24
DIGIT = (1 << DIGIT_BITS) - 1
SUM_DIGITS = 3
"""Digits of a sum: t = 2^72."""

INTEGER_BITS = 61
"""Integers of one client are below 2^61 in magnitude."""

MOST_FRACTION_BITS = 60


def fraction_bits_for(largest: float) -> int:
    """Return the most fraction bits f, 0 to 60, with which all abs(x) <= ``largest`` fit.

    Args:
        largest: a public bound, above 0; never computed from data, because f is public.

    Raises:
        ConfigError: if no f fits: the bound is not finite, or about 2.3e18 or more.
    """
    fits = "a finite number above 0 and below 2^61, about 2.3e18"
    require(0 < largest < 2.0**INTEGER_BITS, "the largest value of a secure sum", fits, largest)
    for bits in range(MOST_FRACTION_BITS, 0, -1):
        if math.ldexp(largest, bits) < 2.0**INTEGER_BITS:
            return bits
    return 0


def largest_value(fraction_bits: int) -> float:
    """Return 2^(61 - f): the numbers that can be encoded are below it in magnitude."""
    return math.ldexp(1.0, INTEGER_BITS - fraction_bits)


def encode(values: Array, fraction_bits: int) -> Integers:
    """Return round(x 2^f) as int64, shape (n,).

    Args:
        values: shape (n,), float64.
        fraction_bits: f.

    Raises:
        ValueError: if it is not a vector of finite numbers.
        OverflowError: if a number does not fit; it is never clipped or wrapped.
    """
    values = np.asarray(values, np.float64)
    if values.ndim != 1:
        raise ValueError(f"expected a vector, got an array of shape {values.shape}")
    wrong = np.flatnonzero(~np.isfinite(values))
    if wrong.size:
        raise ValueError(f"expected finite numbers, got {values[wrong[0]]} at index {wrong[0]}")
    bound = largest_value(fraction_bits)
    wrong = np.flatnonzero(np.abs(values) >= bound)
    if wrong.size:
        raise OverflowError(
            f"expected numbers below {bound:g} in magnitude ({fraction_bits} fraction bits), got "
            f"{values[wrong[0]]:g} at index {wrong[0]}"
        )
    return np.rint(np.ldexp(values, fraction_bits)).astype(np.int64)


def to_digits(integers: Integers) -> Integers:
    """Return integers as signed digits, not reduced: int64, shape (3, n)."""
    return np.stack([integers & DIGIT, integers >> DIGIT_BITS & DIGIT, integers >> 2 * DIGIT_BITS])


def add_integers(many: Integers) -> Integers:
    """Return the exact sum of up to 1024 clients' integers as digits.

    Args:
        many: int64, shape (M, n).

    Returns:
        int64, shape (3, n), each in [0, 2^24).
    """
    total = np.zeros((SUM_DIGITS, many.shape[1]), np.int64)
    for integers in many:
        total += to_digits(integers)
    return carry(total)


def carry(digits: Integers) -> Integers:
    """Carry signed digits below 2^62 in magnitude, modulo 2^(24 k); in place.

    Args:
        digits: shape (k, n), least significant first.

    Returns:
        the same array, each digit in [0, 2^24).
    """
    for low, high in pairwise(digits):
        high += low >> DIGIT_BITS
        low &= DIGIT
    digits[-1] &= DIGIT
    return digits


def decode(digits: Integers, fraction_bits: int) -> Array:
    """Return a sum as float64, shape (n,), correctly rounded.

    Args:
        digits: shape (3, n), each in [0, 2^24), least significant first.
        fraction_bits: f.
    """
    high = (((digits[2] ^ 1 << 23) - (1 << 23)) << DIGIT_BITS) + digits[1]
    low: Array = np.ldexp(digits[0].astype(np.float64), -fraction_bits)
    low += np.ldexp(high.astype(np.float64), DIGIT_BITS - fraction_bits)
    return low


def exact_integers(digits: Integers) -> list[int]:
    """Return a sum as Python integers."""
    rows = digits.astype(object)
    values = rows[0] + (rows[1] << DIGIT_BITS) + (rows[2] << 2 * DIGIT_BITS)
    modulus = 1 << SUM_DIGITS * DIGIT_BITS
    return [int(v) - modulus if v >= modulus // 2 else int(v) for v in values]
