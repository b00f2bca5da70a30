"""A smooth trend that is added to a kernel: low polynomials, with coefficients of their own.

A stationary kernel with a short length scale forgets, between and beyond the observations, which
way the function went. With a trend, the prior is f(v) + p(v), f the Gaussian process and

    p(v) = sum_j w_j phi_j(v),   w_j ~ N(0, variance * deviation^2),

with products phi of Legendre polynomials P_i(2 v_a - 1) P_j(2 v_b - 1), of degree 1 <= i + j <= 4,
of one number or of two: basis functions (:mod:`fedsim.surrogates.basis`). The level is not part of
the trend: it is the prior mean's. Choices have no trend.

At the corners, every |phi_j| is 1. The deviation is such that the trend's standard deviation there
is :data:`CORNER_DEVIATION` times the kernel's, whatever the number of terms; elsewhere it is less.

Symbol   Meaning                                                  Shape
Z        points in embedded coordinates                           (n, E)
F        deviation * phi at the rows of Z                         (n, terms)
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedsim.space import Array, Choice, Space

CORNER_DEVIATION = 2.0
"""The trend's standard deviation at a corner, in multiples of the kernel's."""

DEGREE = 4

MOST_NUMBERS = 10
"""With more numbers, no products of two: there would be hundreds or thousands of them."""

_Degrees = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Trend:
    """A smooth trend in some of the embedded coordinates; hashable, so it can be a cache key.

    Attributes:
        columns: which coordinates.
    """

    columns: tuple[int, ...]

    def matrix(self, Z: Array) -> Array:
        """Return F at the rows of ``Z`` (n, E), shape (n, terms)."""
        first, second = _terms(len(self.columns))
        P = _legendre(self._coordinates(Z))
        F: Array = P[:, first] * P[:, second]
        F *= self._deviation
        return F

    def sums_and_gradients(self, Z: Array, weights: Array) -> tuple[Array, Array]:
        """Return F(z)^T weights, shape (n,), and its gradients, shape (n, E).

        Args:
            Z: the points, shape (n, E).
            weights: the same for all points, shape (terms,), or one row each, shape (n, terms).
        """
        first, second = _terms(len(self.columns))
        x, weighted = self._coordinates(Z), self._deviation * weights
        P, dP = _legendre(x), _legendre_slopes(x)
        one, other = P[:, first], P[:, second]
        # What multiplies dP of each number and degree, summed over the terms.
        pulls = (weighted * other) @ _places(len(self.columns))[0]
        pulls += (weighted * one) @ _places(len(self.columns))[1]
        gradients = np.zeros_like(Z)
        along = (pulls * dP).reshape(len(Z), len(self.columns), DEGREE + 1)
        gradients[:, list(self.columns)] = 2.0 * along.sum(axis=2)
        return (weighted * one * other).sum(axis=1), gradients

    @property
    def terms(self) -> int:
        """The number of terms."""
        return len(_terms(len(self.columns))[0])

    @property
    def _deviation(self) -> float:
        return CORNER_DEVIATION / float(np.sqrt(self.terms))

    def _coordinates(self, Z: Array) -> Array:
        """Return the numbers on [-1, 1], where Legendre polynomials are orthogonal."""
        return 2.0 * Z[:, list(self.columns)] - 1.0


def trend_of(space: Space) -> Trend | None:
    """Return the trend in the numbers of a space; None if it has only choices."""
    ends = np.cumsum(space.embedded_widths).tolist()
    columns = [
        end - 1 for p, end in zip(space.parameters, ends, strict=True) if not isinstance(p, Choice)
    ]
    return Trend(tuple(columns)) if columns else None


@lru_cache(maxsize=64)
def _terms(count: int) -> tuple[_Degrees, _Degrees]:
    """Return both factors of each term for ``count`` numbers: 5 number + degree, (terms,)."""
    degrees, most = range(1, DEGREE + 1), DEGREE + 1
    terms = [(most * a + i, most * a) for a in range(count) for i in degrees]
    if count <= MOST_NUMBERS:
        terms += [
            (most * a + i, most * b + j)
            for a, b in itertools.combinations(range(count), 2)
            for i, j in itertools.product(degrees, repeat=2)
            if i + j <= DEGREE
        ]
    first, second = np.array(terms, np.intp).T
    return first, second


@lru_cache(maxsize=64)
def _places(count: int) -> tuple[Array, Array]:
    """Return the matrices that sum terms by their first and second factors, (terms, 5 count)."""
    every = np.eye((DEGREE + 1) * count)
    first, second = _terms(count)
    return every[first], every[second]


def _legendre(x: Array) -> Array:
    """Return P_0 .. P_4 of each number of ``x`` (n, d), shape (n, 5 d)."""
    square = x * x
    out = np.empty((*x.shape, DEGREE + 1))
    out[..., 0] = 1.0
    out[..., 1] = x
    out[..., 2] = 1.5 * square - 0.5
    out[..., 3] = (2.5 * square - 1.5) * x
    out[..., 4] = (4.375 * square - 3.75) * square + 0.375
    return out.reshape(len(x), -1)


def _legendre_slopes(x: Array) -> Array:
    """Return the derivatives of P_0 .. P_4 of each number of ``x`` (n, d), shape (n, 5 d)."""
    square = x * x
    out = np.empty((*x.shape, DEGREE + 1))
    out[..., 0] = 0.0
    out[..., 1] = 1.0
    out[..., 2] = 3.0 * x
    out[..., 3] = 7.5 * square - 1.5
    out[..., 4] = (17.5 * square - 7.5) * x
    return out.reshape(len(x), -1)
