"""What colluding parties learn if a client withholds its share: the experiment of the papers.

All clients encrypt, and all but some give their shares. The check that makes this an error is off,
to look at what the others would get: integers that are uniform modulo t = 2^72 and do not correlate
with the true sum. (Their size shows nothing but the modulus and the scale.)
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from fedsim.crypto.fixed_point import Integers, add_integers, carry, decode, encode, exact_integers
from fedsim.crypto.ring import Digits, Transform, forward
from fedsim.crypto.threshold import (
    NONCE_BYTES,
    combine,
    common_element,
    encrypt,
    make_keys,
    share,
)
from fedsim.errors import RunError, require
from fedsim.space import Array

FRACTION_BITS = 40
_MODULUS = 2.0**72


@dataclass(frozen=True, slots=True)
class Withheld:
    """The outcome of some trials, each with new keys.

    Attributes:
        members: clients.
        numbers: of each vector.
        scale: standard deviation of the numbers.
        withheld: shares that are missing.
        trials: how many.
        median: of the magnitudes of what decrypts.
        true_median: of the magnitudes of the true sums.
        right: coefficients that are right by chance.
        uniformity: Kolmogorov-Smirnov p-values, one per trial, of what decrypts against the uniform
            distribution modulo t.
        correlation: with the true sums, one per trial.
        found: trials that the check finds, when it is on.
    """

    members: int
    numbers: int
    scale: float
    withheld: int
    trials: int
    median: float
    true_median: float
    right: int
    uniformity: tuple[float, ...]
    correlation: tuple[float, ...]
    found: int


def withhold_shares(
    members: int, numbers: int, scale: float, withheld: int = 1, trials: int = 5, seed: int = 0
) -> Withheld:
    """Run the experiment.

    Args:
        members: M, 1 to 1024.
        numbers: of each vector, 1 to 8192.
        scale: standard deviation of the numbers, drawn from a normal distribution.
        withheld: how many shares are missing, 0 to ``members``.
        trials: at least 1.
        seed: of the vectors; keys and noise are the operating system's.

    Raises:
        ConfigError: if an argument is out of range.
    """
    require(1 <= members <= 1024, "members", "1 to 1024", members)
    require(1 <= numbers <= 8192, "numbers", "1 to 8192", numbers)
    require(0 < scale < 1e5, "scale", "a number above 0 and below 1e5", scale)
    require(0 <= withheld <= members, "withheld", f"0 to {members}", withheld)
    require(trials >= 1, "trials", "at least 1", trials)
    from scipy import stats

    sizes, true_sizes, right, uniformity, correlation, found = [], [], 0, [], [], 0
    for trial in range(trials):
        rng = np.random.default_rng([seed, trial])
        vectors = rng.normal(scale=scale, size=(members, numbers))
        true, garbage, caught = _trial(vectors, withheld)
        exact = np.array(exact_integers(garbage), float)
        truth, got = decode(true, FRACTION_BITS), decode(garbage, FRACTION_BITS)
        sizes.append(np.abs(got))
        true_sizes.append(np.abs(truth))
        right += int((true == garbage).all(axis=0).sum())
        uniform = stats.uniform(-_MODULUS / 2, _MODULUS).cdf
        uniformity.append(float(stats.kstest(exact, uniform).pvalue))
        correlation.append(float(np.corrcoef(got, truth)[0, 1]) if numbers > 1 else 0.0)
        found += caught
    return Withheld(
        members,
        numbers,
        scale,
        withheld,
        trials,
        float(np.median(sizes)),
        float(np.median(true_sizes)),
        right,
        tuple(uniformity),
        tuple(correlation),
        found,
    )


def _trial(vectors: Array, withheld: int) -> tuple[Integers, Integers, bool]:
    """Return the digits of the true sum, of what decrypts, and whether the check finds it."""
    members, numbers = vectors.shape
    a = forward(common_element(bytes(16), os.urandom(NONCE_BYTES)))
    keys = [make_keys(a) for _ in range(members)]
    b = forward(_total([key.public for key in keys]))
    integers = np.stack([encode(vector, FRACTION_BITS) for vector in vectors])
    pairs = [encrypt(a, b, row) for row in integers]
    g0, g1 = _total([c0 for c0, _ in pairs]), forward(_total([c1 for _, c1 in pairs]))
    shares = _shares([key.secret for key in keys[withheld:]], g1, numbers)
    try:
        combine(g0, shares, members)
    except RunError:
        caught = True
    else:
        caught = False
    return add_integers(integers), combine(g0, shares, members, check=False), caught


def _shares(secrets: list[Transform], g1: Transform, numbers: int) -> Digits:
    if not secrets:
        return np.zeros((8, numbers), np.int64)
    return _total([share(secret, g1, numbers) for secret in secrets])


def _total(elements: list[Digits]) -> Digits:
    return carry(np.sum(elements, axis=0))
