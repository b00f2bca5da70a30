"""The parameters of the threshold scheme, and the layout of vectors in ciphertexts.

One set, FBHE-8192-192: ring degree 8192, q = 2^192, dense ternary secrets, centred binomial errors
(eta = 21), plaintext modulus 2^72, smudging of 2^108. The lattice estimator gives 2^144.3 for the
primal attack and 2^144.6 for the dual hybrid one; log2 q is below both limits for 128 bits at this
degree, 218 (HomomorphicEncryption.org standard, 2018) and 214 (guidelines of 2024, ePrint
2024/463). With M <= 1024 clients decryption cannot fail: M 2^108 + 2^38.4 < 2^119.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from fedsim.crypto.fixed_point import Integers
from fedsim.crypto.ring import DEGREE
from fedsim.errors import require

MOST_DECRYPTIONS = 1 << 16
"""Decryptions under one key: shares wear it. Then the smudging hides the noise up to 2^-58."""

LEAST_COEFFICIENTS = 40
"""Shorter vectors are padded: the residual check needs that many coefficients."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """What all parties of a session agree on.

    Attributes:
        fraction_bits: f of the fixed point.
        decryptions: how many a key allows, 1 to 2^16.

    Raises:
        ConfigError: if it allows none, or more.
    """

    fraction_bits: int
    decryptions: int = MOST_DECRYPTIONS

    def __post_init__(self) -> None:
        fits = 1 <= self.decryptions <= MOST_DECRYPTIONS
        require(fits, "decryptions of a key", f"1 to {MOST_DECRYPTIONS}", self.decryptions)

    @property
    def identifier(self) -> bytes:
        """16 bytes that stand for all parameters in every header."""
        text = (
            f"FBHE-8192-192;N=8192;q=2^192;digits=8x24;secret=ternary;error=cbd21;t=2^72;"
            f"smudging=2^108;decryptions={self.decryptions};fraction={self.fraction_bits}"
        )
        return hashlib.sha256(text.encode()).digest()[:16]


@dataclass(frozen=True, slots=True)
class Layout:
    """How a vector is spread over ciphertexts, one number per coefficient.

    Attributes:
        length: numbers of the vector.
        parts: ciphertexts.
        coefficients: of each; what is left over is zero.
    """

    length: int
    parts: int
    coefficients: int

    @classmethod
    def of(cls, length: int, most: int = DEGREE, least: int = LEAST_COEFFICIENTS) -> Layout:
        """Return equal parts of at most ``most`` and at least ``least`` coefficients."""
        parts = max(1, -(-length // most))
        return cls(length, parts, max(least, -(-length // parts)))

    def split(self, integers: Integers) -> Integers:
        """Return a vector's integers (length,) as parts, shape (parts, coefficients)."""
        padded = np.zeros((self.parts, self.coefficients), np.int64)
        padded.flat[: self.length] = integers
        return padded
