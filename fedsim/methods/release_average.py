"""When there are releases, and what the server makes of them together.

=============  ==========================================================  =========
symbol         meaning                                                     shape
=============  ==========================================================  =========
r_k            release k = 0 .. K, with noise                              (M,)
s_k^2          variance of each coordinate of its noise, public
d              discount
w, v           discounted average, and the variance of its noise           (M,)
=============  ==========================================================  =========

    w = sum_k d^(K-k) r_k / sum_k d^(K-k),    v = sum_k d^(2(K-k)) s_k^2 / (sum_k d^(K-k))^2
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
    """Return tau^2 / (tau^2 + v), in [0, 1], with tau^2 = max(|w|^2 / M - v, 0).

    Args:
        vector: w, shape (M,), with noise.
        noise_variance: v, of each coordinate's noise, at least 0.
    """
    signal = max(float(np.square(vector).mean()) - noise_variance, 0.0)
    return signal / (signal + noise_variance) if signal else 0.0


@dataclass(frozen=True, slots=True)
class DiscountedAverage:
    """The releases so far, folded; made by :meth:`with_release` from an empty one.

    Attributes:
        total: sum_k d^(K-k) r_k, shape (M,); None: there was no release.
        weight: sum_k d^(K-k).
        variance: of the noise of each coordinate of the total.
    """

    total: Array | None = None
    weight: float = 0.0
    variance: float = 0.0

    def with_release(self, release: Array, variance: float, discount: float) -> DiscountedAverage:
        """Return the average with one more release.

        Args:
            release: r, shape (M,).
            variance: s^2.
            discount: d.
        """
        total = release if self.total is None else discount * self.total + release
        return DiscountedAverage(
            total, discount * self.weight + 1.0, discount**2 * self.variance + variance
        )

    @property
    def vector(self) -> Array | None:
        """The average w, shape (M,); None: there was no release."""
        return None if self.total is None else self.total / self.weight

    @property
    def noise_variance(self) -> float:
        """The variance v."""
        return self.variance / self.weight**2 if self.weight else 0.0
