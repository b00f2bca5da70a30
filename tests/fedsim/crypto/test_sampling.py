"""The samplers: ranges, means and variances, from a fixed stream of bytes; tolerances stated."""

from __future__ import annotations

import hashlib
import os

import numpy as np
import pytest
from scipy import stats

from fedsim.crypto.sampling import centred_binomial, smudging, source, ternary

N = 200_000


def stream(label: str) -> bytes:
    return hashlib.shake_256(label.encode()).digest(16 * N)


def fixed(n: int) -> bytes:
    """The same bytes in every process: the statistics below are exact numbers."""
    return stream("samplers")[:n]


def test_ternary_values_are_equally_frequent() -> None:
    drawn = ternary(N, fixed)
    counts = [(drawn == value).sum() for value in (-1, 0, 1)]
    assert sum(counts) == N
    assert stats.chisquare(counts).pvalue > 1e-3


def test_the_byte_that_would_bias_is_rejected() -> None:
    given = iter([bytes([255, 0, 255, 1]) + bytes([255]) * 127, bytes([2]) * 131])
    assert ternary(3, lambda n: next(given)).tolist() == [-1, 0, 1]


def test_binomial_errors() -> None:
    """Variance 10.5 within 5 standard errors, mean 0, at most 21."""
    drawn = centred_binomial(N, fixed)
    assert np.abs(drawn).max() <= 21
    assert abs(drawn.mean()) < 5 * np.sqrt(10.5 / N)
    assert drawn.var() == pytest.approx(10.5, abs=5 * 10.5 * np.sqrt(2 / N))
    expected = stats.binom.pmf(np.arange(10, 33), 42, 0.5)
    counts = np.bincount(drawn + 21, minlength=43)[10:33]
    assert stats.chisquare(counts, expected / expected.sum() * counts.sum()).pvalue > 1e-3


@pytest.mark.parametrize(("byte", "value"), [(0xFF, 0), (0x00, 0)])
def test_binomial_errors_cancel(byte: int, value: int) -> None:
    assert centred_binomial(2, lambda n: bytes([byte]) * n).tolist() == [value] * 2


def test_binomial_errors_reach_their_ends() -> None:
    low = ((1 << 21) - 1).to_bytes(8, "little")
    high = (((1 << 21) - 1) << 21).to_bytes(8, "little")
    assert centred_binomial(2, lambda n: low + high).tolist() == [21, -21]


def as_integers(digits: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> list[int]:
    rows = digits.astype(object)
    return [int(x) for x in sum(rows[k] << 24 * k for k in range(8))]


def test_smudging_reaches_exactly_its_ends() -> None:
    largest = as_integers(smudging(1, lambda n: b"\xff" * n))
    smallest = as_integers(smudging(1, lambda n: b"\x00" * n))
    assert (smallest, largest) == ([-(1 << 108)], [(1 << 108) - 1])


def test_smudging_is_uniform() -> None:
    drawn = np.array(as_integers(smudging(20_000, fixed)), dtype=float) / 2.0**108
    assert stats.kstest(drawn, stats.uniform(-1, 2).cdf).pvalue > 1e-3


def test_the_operating_system_is_the_source() -> None:
    assert source(None) is os.urandom
    with pytest.warns(UserWarning, match="for test vectors only"):
        assert source(fixed) is fixed
    assert not np.array_equal(ternary(100), ternary(100))
