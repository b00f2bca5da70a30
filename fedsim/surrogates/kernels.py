"""Stationary covariance functions on the unit cube, and their derivatives.

Notation: k(u, x) depends on r, the distance after dividing each coordinate by its length scale
l_d. Both families satisfy

    dk / du_d      = -g(r) (u_d - x_d) / l_d^2
    dk / d log l_d =  g(r) (u_d - x_d)^2 / l_d^2
    dk / d log v   =  k,

where v is the variance and g is the function of r given in :meth:`Kernel._profile`. (Rasmussen
and Williams, Gaussian Processes for Machine Learning, 2006, Section 4.2.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from fedsim.errors import ConfigError
from fedsim.space import Array

Family = Literal["squared_exponential", "matern52"]
Single = NDArray[np.float32]
_Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A squared exponential or Matern-5/2 kernel; hashable, so it can be a cache key.

    Attributes:
        family: ``squared_exponential`` or ``matern52``.
        length_scales: one number for all dimensions (isotropic), or one per dimension (ARD).
        variance: k(u, u).

    Raises:
        ConfigError: if the family is unknown or a number is not finite and above 0.
    """

    family: Family
    length_scales: tuple[float, ...]
    variance: float

    def __post_init__(self) -> None:
        if self.family not in ("squared_exponential", "matern52"):
            raise ConfigError(
                f"kernel: expected 'squared_exponential' or 'matern52', got {self.family!r}"
            )
        positive = all(0 < scale < math.inf for scale in self.length_scales)
        if not (self.length_scales and positive):
            raise ConfigError(
                f"kernel: length_scales: expected numbers above 0, got {self.length_scales}"
            )
        if not 0 < self.variance < math.inf:
            raise ConfigError(f"kernel: variance: expected a number above 0, got {self.variance}")

    def matrix(self, U: Array, X: Array) -> Array:
        """Return k between the rows of ``U`` (n, D) and of ``X`` (m, D), shape (n, m)."""
        matrix: Array = self._profile(self._squared_distances(U, X))[0]
        return matrix

    def at_squared_distances(self, squared: Array) -> Array:
        """Return k at squared distances in units of the length scales, of the same shape."""
        values: Array = self._profile(squared)[0]
        return values

    def single_matrix(self, U: Array, X: Array) -> Single:
        """Return :meth:`matrix` with single-precision exponentials: several times faster."""
        squared = self._squared_distances(U, X).astype(np.float32)
        matrix: Single = self._profile(squared)[0]
        return matrix

    def diagonal(self, U: Array) -> Array:
        """Return k(u, u) for the rows of ``U`` (n, D), shape (n,)."""
        return np.full(len(U), self.variance)

    def sums_and_gradients(self, U: Array, X: Array, weights: Array) -> tuple[Array, Array]:
        """Return sum_j weights_j k(u, x_j) and its gradient with respect to u.

        Args:
            U: the points, shape (n, D).
            X: the centres, shape (m, D).
            weights: shape (m,).

        Returns:
            Values, shape (n,), and gradients, shape (n, D).
        """
        scales = self.scales(U.shape[1])
        U_scaled, X_scaled = U / scales, X / scales
        k, g = self._profile(cdist(U_scaled, X_scaled, "sqeuclidean"))
        pull = g @ (weights[:, None] * X_scaled) - (g @ weights)[:, None] * U_scaled  # (n, D)
        return k @ weights, pull / scales

    def matrix_and_slopes(self, U: Array, X: Array) -> tuple[Array, Array]:
        """Return k and g between the rows of ``U`` (n, D) and of ``X`` (m, D), each (n, m).

        :meth:`gradients` turns g into gradients.
        """
        k, g = self._profile(self._squared_distances(U, X))
        return k, g

    def gradients(self, U: Array, X: Array, pulls: Array) -> Array:
        """Return the gradients of sum_j weights_ij k(u_i, x_j) with respect to u_i.

        Args:
            U: the points, shape (n, D).
            X: the centres, shape (m, D).
            pulls: weights_ij g_ij, with g from :meth:`matrix_and_slopes`, shape (n, m).

        Returns:
            Shape (n, D).
        """
        toward: Array = pulls @ X - pulls.sum(axis=1)[:, None] * U
        return toward / np.square(self.scales(U.shape[1]))

    def matrix_and_log_gradients(self, differences: Array) -> tuple[Array, Array]:
        """Return the kernel matrix and its derivatives by the logarithms of the length scales.

        The derivative by the logarithm of the variance is the matrix itself.

        Args:
            differences: from :func:`squared_differences`, shape (number of length scales, n, n).

        Returns:
            The matrix, shape (n, n), and dK / d log l, shape (number of length scales, n, n).
        """
        squares = differences / np.square(self.length_scales)[:, None, None]
        k, g = self._profile(squares.sum(axis=0) if len(squares) > 1 else squares[0])
        return k, g * squares

    def scales(self, dimension: int) -> Array:
        """Return the length scales, shape (1,) or (D,).

        Raises:
            ConfigError: if there are neither one nor ``dimension`` of them.
        """
        if len(self.length_scales) not in (1, dimension):
            raise ConfigError(
                f"kernel: expected 1 or {dimension} length_scales, got {len(self.length_scales)}"
            )
        return np.array(self.length_scales)

    def _squared_distances(self, U: Array, X: Array) -> Array:
        scales = self.scales(U.shape[1])
        return cdist(U / scales, X / scales, "sqeuclidean")

    def _profile(self, squared: _Floats) -> tuple[Any, Any]:
        """Return k and g at squared scaled distances, in the argument's own precision."""
        if self.family == "squared_exponential":
            k = self.variance * np.exp(-0.5 * squared)
            return k, k
        z = np.sqrt(5.0 * squared)
        decay = self.variance * np.exp(-z)
        return decay * (1.0 + z + (5.0 / 3.0) * squared), decay * ((5.0 / 3.0) * (1.0 + z))


def squared_differences(X: Array, ard: bool, widths: Sequence[int] | None = None) -> Array:
    """Return the ``differences`` that :meth:`Kernel.matrix_and_log_gradients` takes.

    Args:
        X: shape (n, E).
        ard: whether there is one length scale per parameter.
        widths: how many neighbouring columns of ``X`` belong to each parameter; None: one.

    Returns:
        (x_d - x'_d)^2 summed over a parameter's columns, shape (parameters, n, n), or over all
        columns, (1, n, n).
    """
    if not ard:
        return cdist(X, X, "sqeuclidean")[None]
    squares: Array = np.square(X.T[:, :, None] - X.T[:, None, :])
    if widths is None or max(widths) == 1:
        return squares
    return np.add.reduceat(squares, np.cumsum([0, *widths[:-1]]), axis=0)
