"""Numbers as text."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.results.digits import significant, with_error


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.0, 4, "0"),
        (0.5, 4, "0.5"),
        (0.91307, 4, "0.9131"),
        (-0.000123456, 4, "-0.0001235"),
        (1e-6, 4, "1e-6"),
        (1.234567e-6, 4, "1.235e-6"),
        (0.99999, 4, "1"),
        (9.99999e-5, 4, "0.0001"),
        (1200.0, 4, "1200"),
        (123456.0, 4, "123500"),
        (1234567.0, 4, "1.235e6"),
        (7.0538, 3, "7.05"),
        (10.000000000000007, 4, "10"),
        (1.7e308, 4, "1.7e308"),
        (5e-324, 4, "4.941e-324"),
        (math.inf, 4, "inf"),
        (math.nan, 4, "nan"),
        (None, 4, ""),
    ],
)
def test_significant_digits(value: float | None, digits: int, text: str) -> None:
    assert significant(value, digits) == text


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.01234, 0.00123, "0.0123 ± 0.0012"),
        (0.5, 0.1, "0.50 ± 0.10"),
        (0.5, 0.0999, "0.50 ± 0.10"),
        (0.001, 5.2, "0.0 ± 5.2"),
        (-12345.6, 678.0, "-12350 ± 680"),
        (12345.6, 17.3, "12346 ± 17"),
        (1.234e-7, 1.2e-8, "(1.23 ± 0.12)e-7"),
        (-1.4e150, 2.26e149, "(-1.40 ± 0.23)e150"),
        (1.5e308, 1e307, "(1.50 ± 0.10)e308"),
        (3e-320, 1e-321, "(3.00 ± 0.10)e-320"),
        (0.0, 0.002, "0.0000 ± 0.0020"),
        (1.0, 1e-30, "1.00000000000000 ± 1e-30"),
        (1e-9, 1e-40, "(1.00000000000000 ± 1e-31)e-9"),
        (0.25, None, "0.25"),
        (0.25, math.nan, "0.25"),
        (0.25, 0.0, "0.25"),
        (math.nan, 0.1, ""),
        (None, None, ""),
    ],
)
def test_error_bars(value: float | None, error: float | None, text: str) -> None:
    assert with_error(value, error) == text


def test_signs() -> None:
    assert with_error(0.1, 0.04, "+") == "+0.100 ± 0.040"
    assert with_error(-0.1, 0.04, "+") == "-0.100 ± 0.040"
    assert with_error(0.1, None, "+") == "+0.1"
    assert with_error(1.5e9, 1e8, "+") == "(+1.50 ± 0.10)e9"


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(finite, st.integers(1, 12))
def test_what_is_read_is_what_was_meant(value: float, digits: int) -> None:
    assert Decimal(significant(value, digits)) == Decimal(f"{value:.{digits - 1}e}")


@given(st.floats(-1e9, 1e9), st.floats(1e-9, 1e9))
def test_an_error_bar_is_read_as_two_digits(value: float, error: float) -> None:
    text = with_error(value, error)
    mantissas, _, exponent = text.strip("(").partition(")e")
    shown, bar = (float(part) * 10.0 ** int(exponent or 0) for part in mantissas.split(" ± "))
    assert bar == pytest.approx(float(f"{error:.1e}"), rel=1e-9)
    assert abs(shown - value) <= max(0.05 * bar, 1e-14 * abs(value)) * (1 + 1e-9)
