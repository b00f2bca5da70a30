"""Numbers as text: significant digits, never a fixed number of decimals.

With fixed decimals a regret of 1e-6 reads as 0.0000, and one of 1e6 shows digits that mean nothing.
Every table, note and sentence uses these functions.
"""

from __future__ import annotations

import math
from decimal import Decimal

PLAIN = range(-4, 6)
"""Powers of ten that are written without an exponent."""

DOUBLE_DIGITS = 15
"""Significant digits that a double holds."""


def significant(value: float | None, digits: int = 4) -> str:
    """Return a number with some significant digits; empty for None, ``nan`` for NaN.

    Zeros at the end are left out: 0.5, not 0.5000.

    Args:
        value: the number.
        digits: how many digits, at least 1.
    """
    if value is None:
        return ""
    if not math.isfinite(value):
        return str(value)
    if value == 0:
        return "0"
    rounded = Decimal(f"{value:.{digits - 1}e}")
    power = rounded.adjusted()
    shift = 0 if power in PLAIN else power
    text = f"{rounded.scaleb(-shift):f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{text}e{shift}" if shift else text


def with_error(value: float | None, error: float | None, sign: str = "") -> str:
    """Return a value and its error bar, such as ``0.0123 ± 0.0012``.

    The error has two significant digits and the value as many decimals. Very small and very large
    numbers share one power of ten: ``(1.23 ± 0.12)e-7``. Without an error (None, NaN, infinite or
    0), the value stands alone.

    Args:
        value: the number; empty text for None.
        error: its standard error.
        sign: ``+`` also marks positive values.
    """
    if value is None or math.isnan(value):
        return ""
    if error is None or not math.isfinite(error) or error <= 0 or not math.isfinite(value):
        return ("+" if sign == "+" and value > 0 else "") + significant(value)
    bar = Decimal(f"{error:.1e}")
    highest = max(bar.adjusted(), Decimal(value).adjusted() if value else bar.adjusted())
    shift = 0 if highest in PLAIN else highest
    last = max(bar.adjusted() - 1, highest - DOUBLE_DIGITS + 1)
    shown = Decimal(value).quantize(Decimal(1).scaleb(last)).scaleb(-shift)
    text = f"{shown:{sign}f} ± "
    if last == bar.adjusted() - 1:
        text += f"{bar.scaleb(-shift):f}"
    else:  # so small an error does not show in the value's digits
        text += significant(float(bar.scaleb(-shift)), 2)
    return f"({text})e{shift}" if shift else text
