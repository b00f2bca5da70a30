"""Basis functions: a linear model that is added to a Gaussian process.

The prior is f(z) + F(z)^T w with f the Gaussian process and w ~ N(0, variance I), where variance is
the kernel's. So a covariance between two points is the kernel's plus variance F(z)^T F(z'), and all
formulas of Gaussian processes hold (Rasmussen and Williams, 2006, Section 2.7).

Symbol   Meaning                                          Shape
Z        points in embedded coordinates                   (n, E)
F        basis functions at the rows of Z                 (n, terms)
w        their coefficients                               (terms,)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fedsim.space import Array


class Basis(Protocol):
    """Basis functions of embedded coordinates."""

    @property
    def terms(self) -> int:
        """How many."""
        ...

    def matrix(self, Z: Array) -> Array:
        """Return F at the rows of ``Z`` (n, E), shape (n, terms)."""
        ...

    def sums_and_gradients(self, Z: Array, weights: Array) -> tuple[Array, Array]:
        """Return F(z)^T weights, shape (n,), and its gradients, shape (n, E).

        Args:
            Z: the points, shape (n, E).
            weights: the same for all points, shape (terms,), or one row each, shape (n, terms).
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class JoinedBasis:
    """The functions of two bases, one after the other.

    Attributes:
        first: some.
        second: the others.
    """

    first: Basis
    second: Basis

    @property
    def terms(self) -> int:
        """How many functions there are in all."""
        return self.first.terms + self.second.terms

    def matrix(self, Z: Array) -> Array:
        """See :class:`Basis`."""
        return np.hstack([self.first.matrix(Z), self.second.matrix(Z)])

    def sums_and_gradients(self, Z: Array, weights: Array) -> tuple[Array, Array]:
        """See :class:`Basis`."""
        count = self.first.terms
        one, slopes = self.first.sums_and_gradients(Z, weights[..., :count])
        other, further = self.second.sums_and_gradients(Z, weights[..., count:])
        return one + other, slopes + further


@dataclass(frozen=True, slots=True, eq=False)
class BasisSum:
    """The function z -> F(z)^T weights.

    Attributes:
        basis: F.
        weights: shape (terms,).
    """

    basis: Basis
    weights: Array

    def values(self, Z: Array) -> Array:
        """Return the function at the rows of ``Z`` (n, E), shape (n,)."""
        return self.basis.matrix(Z) @ self.weights

    def values_and_gradients(self, Z: Array) -> tuple[Array, Array]:
        """Return values, shape (n,), and gradients, shape (n, E)."""
        return self.basis.sums_and_gradients(Z, self.weights)
