"""Numbers of any size in a fixed point of limited range.

The fixed point of an encrypted sum has f fraction bits and a limited range. A number that may
exceed it is sent in parts: for order 1, a multiple of 2^60 2^-f, times 2^-60, which is zero for
ordinary numbers, and the rest. For order 2, before these, a multiple of 2^120 2^-f, times 2^-120.
Sums of the parts are joined like the parts of one number. Where a coarse part is not zero, they
tell slightly more than their total: how often the rests carried.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedsim.space import Array

_COARSE_BITS = 60


def in_parts(numbers: Array, order: int, fraction_bits: int) -> tuple[Array, list[Array]]:
    """Return the rests of numbers, and their coarse parts, the coarsest first.

    Args:
        numbers: of any shape; so are all parts.
        order: how many coarse parts each has.
        fraction_bits: f.
    """
    coarse = []
    for bits in range(order * _COARSE_BITS, 0, -_COARSE_BITS):
        units = np.rint(np.ldexp(numbers, fraction_bits - bits))
        coarse.append(np.ldexp(units, -fraction_bits))
        numbers = numbers - np.ldexp(units, bits - fraction_bits)
    return numbers, coarse


def joined(rest: Array, coarse: Sequence[Array]) -> Array:
    """Return numbers from their parts, or sums of numbers from sums of their parts."""
    for order, part in zip(range(len(coarse), 0, -1), coarse, strict=True):
        rest = rest + np.ldexp(part, order * _COARSE_BITS)
    return rest
