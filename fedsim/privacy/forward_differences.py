"""Forward differences of the moments of a Gaussian mechanism's privacy loss.

Wang, Balle and Kasiviswanathan (AISTATS 2019, arXiv 1808.00087), Theorem 27: with M(i) the moment
E[(p/q)^i] = exp(i (i - 1) / (2 z^2)) under q, B(l) = E[(p/q - 1)^l] is the sum over i of
(-1)^(l - i) C(l, i) M(i). Its terms nearly cancel if z is large, so it is made with many digits.
"""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, Decimal, localcontext

import numpy as np

from fedsim.space import Array

_DIGITS = 40


def even_differences(noise_multiplier: float, largest: int) -> Array:
    """Return ln B(l) of l = 0, 2, 4, ..., up to ``largest``.

    Args:
        noise_multiplier: z, above 0.
        largest: l, at least 0.
    """
    z = noise_multiplier
    # B(l) is of the order of z^-l, and terms are at least 1 and at most about 2^l of the last one.
    lost = largest * (math.log10(2) + max(0.0, math.log10(z)))
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = _DIGITS + math.ceil(lost), MAX_EMAX, MIN_EMIN
        step = (Decimal(1) / (Decimal(z) * Decimal(z))).exp()  # M(i + 1) = M(i) step^i
        moments, power = [Decimal(1)], Decimal(1)
        for _ in range(largest):
            moments.append(moments[-1] * power)
            power *= step
        found = []
        for n in range(0, largest + 1, 2):
            terms = ((-1) ** i * math.comb(n, i) * moments[i] for i in range(n + 1))
            found.append(float(sum(terms, Decimal(0)).ln()))
    return np.array(found)
