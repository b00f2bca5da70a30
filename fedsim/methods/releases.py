"""When there are releases, and what the server makes of them together.

=============  ==========================================================  =========
symbol         meaning                                                     shape
=============  ==========================================================  =========
r, s^2         a release of corrections to w, and the variance of each
               coordinate of its noise, public                             (M,)
w, v           shrunk sum of the releases so far, variance of its noise    (M,)
=============  ==========================================================  =========

From w = 0 and v = 0, a release makes

    w = f (w + r),    v = f^2 (v + s^2),    f = wiener_factor(w + r, v + s^2).

v is an upper bound: agents' corrections contain the noise of w with the opposite sign where they
have observations, which is not subtracted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsim.errors import require
from fedsim.space import Array


def release_rounds(releases: int | Sequence[int], rounds: int) -> tuple[int, ...]:
    """Return the rounds after which there is a release, ascending.

    Args:
        releases: their number, at least 0, for rounds 0, 1, 2, 4, 8, ...; or the rounds.
        rounds: the number of queries T; a release after round T or later would not be used.

    Raises:
        ConfigError: if the number is negative, or the rounds are negative or not ascending.
    """
    name = "method.releases"
    if isinstance(releases, int):
        require(releases >= 0, name, "a number of at least 0, or rounds", releases)
        doubling = [0, *(2**k for k in range(min(releases - 1, rounds.bit_length())))]
        return tuple(t for t in doubling[:releases] if t < rounds)
    ascending = all(a < b for a, b in zip([-1, *releases], releases, strict=False))
    require(ascending, name, "rounds from 0 on, each after the one before", list(releases))
    return tuple(t for t in releases if t < rounds)


def wiener_factor(vector: Array, noise_variance: float) -> float:
    """Return tau^2 / (tau^2 + v), in [0, 1], with tau^2 = max(|x|^2 / M - v, 0).

    Args:
        vector: x, shape (M,), with noise.
        noise_variance: v, of each coordinate's noise, at least 0.
    """
    signal = max(float(np.square(vector).mean()) - noise_variance, 0.0)
    return signal / (signal + noise_variance) if signal else 0.0


@dataclass(frozen=True, slots=True)
class ReleaseSum:
    """The releases so far, summed and shrunk.

    Attributes:
        vector: w, shape (M,).
        noise_variance: v, at least 0.
    """

    vector: Array
    noise_variance: float

    def with_release(self, release: Array, variance: float) -> ReleaseSum:
        """Return the sum with one more release.

        Args:
            release: r, shape (M,).
            variance: s^2, at least 0.
        """
        total, total_variance = self.vector + release, self.noise_variance + variance
        factor = wiener_factor(total, total_variance)
        return ReleaseSum(factor * total, factor**2 * total_variance)
