"""Arithmetic in R_q = Z_q[X]/(X^N + 1), N = 8192, q = 2^192: digits, exact products, bytes.

An element is an int64 array of shape (8, n): digits of 24 bits, least significant first, each in
[0, 2^24). n is N, or less where only the first n coefficients matter.

Only products of a uniform with a ternary element are needed. They are computed by a float64 FFT,
digit by digit, and are exact: a product's digit is below 2^37, and the error of the FFT is at most
||x|| ||s|| times about 170 * 2^-53 (C. Percival, "Rapid multiplication modulo the sum and
difference of highly composite numbers", 2003), here 0.003. A guard checks that all results are
close to whole numbers.
"""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from fedsim.crypto.fixed_point import DIGIT, DIGIT_BITS
from fedsim.errors import RunError
from fedsim.memo import Memo

Digits = NDArray[np.int64]
Transform = NDArray[np.complex128]
Ternary = NDArray[np.int64]

DEGREE = 8192
"""N, a power of two."""

DIGITS = 8
"""Digits of a coefficient: log2 q = 192."""

COEFFICIENT_BYTES = DIGITS * DIGIT_BITS // 8
ELEMENT_BYTES = DEGREE * COEFFICIENT_BYTES

_TWIST = np.exp(1j * np.pi * np.arange(DEGREE // 2) / DEGREE)
_UNTWIST = _TWIST.conj()
_GUARD = 1 / 16
WORDS = COEFFICIENT_BYTES // 4
_WORD = 0xFFFFFFFF


class _Workspace(threading.local):
    """Arrays for products, kept: arrays this large would be returned to the system after each."""

    def __init__(self) -> None:
        self.folded = np.empty((DIGITS, DEGREE // 2), np.complex128)
        self.whole = np.empty((DIGITS, DEGREE // 2))


_WORKSPACE = _Workspace()


def forward(element: Digits | Ternary) -> Transform:
    """Return the transform of an element, (8, N), or of a ternary element, (N,).

    x_j + i x_(j+N/2) is multiplied by w^j, w = exp(i pi / N): so the cyclic FFT of half the length
    becomes the negacyclic product.

    Returns:
        shape (8, N/2) or (N/2,).
    """
    folded = np.empty((*element.shape[:-1], DEGREE // 2), np.complex128)
    folded.real, folded.imag = element[..., : DEGREE // 2], element[..., DEGREE // 2 :]
    folded *= _TWIST
    return np.fft.fft(folded, axis=-1, out=folded)


def multiply(uniform: Transform, ternary: Transform, n: int = DEGREE) -> Digits:
    """Return the product of a uniform and a ternary element, given by their transforms.

    Args:
        uniform: shape (8, N/2).
        ternary: shape (N/2,).
        n: how many of its coefficients are returned.

    Returns:
        shape (8, n): signed digits below 2^37 in magnitude, not carried yet.

    Raises:
        RunError: if the product is not exact: a transform is damaged, or the FFT is.
    """
    half, folded = DEGREE // 2, _WORKSPACE.folded
    np.multiply(uniform, ternary, out=folded)
    np.fft.ifft(folded, axis=-1, out=folded)
    digits = np.empty((DIGITS, n), np.int64)
    used = folded[:, : min(n, half)]
    used *= _UNTWIST[: min(n, half)]
    _round(used.real, digits[:, :half])
    if n > half:
        _round(used.imag[:, : n - half], digits[:, half:])
    return digits


def _round(product: NDArray[np.float64], out: Digits) -> None:
    """Write what a product is rounded to; ``product`` becomes the differences."""
    whole = _WORKSPACE.whole[:, : product.shape[1]]
    np.rint(product, out=whole)
    product -= whole
    if not (product.max() < _GUARD and product.min() > -_GUARD):  # false for NaN, too
        raise RunError("a ring product is not exact: this machine's FFT, or its memory, is broken")
    out[...] = whole


def from_bytes(data: bytes | memoryview) -> Digits:
    """Return the coefficients that bytes hold: 24 bytes each, little-endian."""
    return _from_words(np.frombuffer(data, "<u4").reshape(-1, WORDS).astype(np.int64))


def _from_words(words: NDArray[np.int64]) -> Digits:
    """Return digits, given words of 32 bits, shape (n, 6): three words have four digits."""
    digits = np.empty((DIGITS, len(words)), np.int64)
    for half in (0, 1):
        low, middle, high = words.T[3 * half : 3 * half + 3]
        own = digits[4 * half : 4 * half + 4]
        own[0] = low & DIGIT
        own[1] = low >> 24 | (middle & 0xFFFF) << 8
        own[2] = middle >> 16 | (high & 0xFF) << 16
        own[3] = high >> 8
    return digits


def to_bytes(digits: Digits) -> bytes:
    """Return digits as bytes, 24 for each coefficient."""
    words = np.empty((digits.shape[1], WORDS), "<u4")
    for half in (0, 1):
        d0, d1, d2, d3 = digits[4 * half : 4 * half + 4]
        words[:, 3 * half] = (d0 | d1 << 24) & _WORD
        words[:, 3 * half + 1] = (d1 >> 8 | d2 << 16) & _WORD
        words[:, 3 * half + 2] = d2 >> 16 | d3 << 8
    return words.tobytes()


class TransformCache:
    """Transforms of public elements that the clients of one process get as the same bytes.

    Args:
        size: how many are kept.
    """

    def __init__(self, size: int) -> None:
        self._kept = Memo[Transform](size)
        self._lock = threading.Lock()

    def transform(self, data: bytes | memoryview, digest: bytes) -> Transform:
        """Return the transform of an element.

        Args:
            data: the element.
            digest: SHA-256 of a message with it, which was checked.
        """
        with self._lock:
            return self._kept.get(digest, lambda: forward(from_bytes(data)))


class ByteSum:
    """Adds elements as they arrive, without turning each into digits.

    Args:
        coefficients: how many each has.
    """

    def __init__(self, coefficients: int) -> None:
        self._words = np.zeros(coefficients * WORDS, np.uint64)

    def add(self, data: bytes | memoryview) -> None:
        """Add an element, given as bytes; at most 2^31 of them."""
        self._words += np.frombuffer(data, "<u4")

    def digits(self) -> Digits:
        """Return the sum."""
        words = self._words.astype(np.int64).reshape(-1, WORDS)
        for k in range(WORDS - 1):
            words[:, k + 1] += words[:, k] >> 32
        words &= _WORD
        return _from_words(words)
