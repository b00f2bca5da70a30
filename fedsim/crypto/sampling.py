"""Randomness of the encryption: the operating system's only, whatever a run's seed is.

Sums do not depend on it, so runs repeat exactly all the same. Every function takes a source of
random bytes; another source than ``os.urandom`` is for test vectors only.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fedsim.crypto.fixed_point import DIGIT_BITS
from fedsim.crypto.ring import DIGITS, Digits

Source = Callable[[int], bytes]
"""Returns this many random bytes."""

BINOMIAL_BITS = 21
"""eta: errors have variance eta / 2 = 10.5, and are at most 21 in magnitude."""

SMUDGING_BITS = 108
"""Smudging noise is uniform in [-2^108, 2^108)."""

_TOP = SMUDGING_BITS + 1 - 4 * DIGIT_BITS  # bits of the highest digit, with its sign


def source(insecure_test_rand: Source | None) -> Source:
    """Return the operating system's source, or the given one with a warning."""
    if insecure_test_rand is None:
        return os.urandom
    warnings.warn("insecure_test_rand: this encryption is for test vectors only", stacklevel=3)
    return insecure_test_rand


def ternary(n: int, rand: Source = os.urandom) -> NDArray[np.int64]:
    """Return n uniform values of {-1, 0, 1}; exactly uniform, because 255 is rejected."""
    found = np.empty(0, np.uint8)
    while found.size < n:
        drawn = np.frombuffer(rand(n + 128), np.uint8)
        found = np.concatenate([found, drawn[drawn < 255]])
    return (found[:n] % 3).astype(np.int64) - 1


def centred_binomial(n: int, rand: Source = os.urandom) -> NDArray[np.int64]:
    """Return n differences of two binomial(21, 1/2) variables."""
    words = np.frombuffer(rand(8 * n), "<u8")
    mask = np.uint64((1 << BINOMIAL_BITS) - 1)
    ones: NDArray[np.int64] = np.bitwise_count(words & mask).astype(np.int64)
    ones -= np.bitwise_count(words >> np.uint64(BINOMIAL_BITS) & mask)
    return ones


def smudging(n: int, rand: Source = os.urandom) -> Digits:
    """Return n uniform integers in [-2^108, 2^108) as signed digits, shape (8, n)."""
    rows = np.frombuffer(rand(15 * n), np.uint8).reshape(5, n, 3).astype(np.int64)
    digits = np.zeros((DIGITS, n), np.int64)
    digits[:5] = rows[..., 0] | rows[..., 1] << 8 | rows[..., 2] << 16
    digits[4] = (digits[4] & (1 << _TOP) - 1) - (1 << _TOP - 1)
    return digits
