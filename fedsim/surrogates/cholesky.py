"""Cholesky factors and the solves that use them.

LAPACK is called directly: for the matrices of one agent (tens of rows), the checks of
``scipy.linalg.cholesky`` and ``cho_solve`` cost more than the work.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from fedsim.errors import RunError
from fedsim.space import Array


def factorise(matrix: Array, what: str) -> Array:
    """Return the lower Cholesky factor of a symmetric matrix (n, n).

    Args:
        matrix: not changed.
        what: describes the matrix and its origin in the error.

    Raises:
        RunError: if the matrix is not (numerically) positive definite.
    """
    if not len(matrix):
        return matrix  # LAPACK's wrappers refuse empty matrices
    factor: Array
    factor, info = lapack.dpotrf(matrix.T, lower=1, clean=1)
    # LAPACK may accept non-finite entries without an error.
    if info != 0 or not np.isfinite(factor[-1, -1]):
        raise RunError(
            f"{what}: the {len(matrix)} x {len(matrix)} matrix is not positive definite; "
            "use a larger noise variance, or a shorter length scale"
        )
    return factor


def solve(factor: Array, right: Array) -> Array:
    """Return A^-1 right for A = L L^T, shape (n,) or (n, k)."""
    if not len(factor):
        return right
    solution: Array = lapack.dpotrs(factor, right, lower=1)[0]
    return solution


def solve_lower(factor: Array, right: Array, *, transposed: bool = False) -> Array:
    """Return L^-1 right (or L^-T right), shape (n,) or (n, k)."""
    if not len(factor):
        return right
    solution: Array = lapack.dtrtrs(factor, right, lower=1, trans=int(transposed))[0]
    return solution


def inverse_triangle(factor: Array) -> Array:
    """Return the lower triangle of A^-1 for A = L L^T, zero above the diagonal, shape (n, n).

    For traces tr(A^-1 B) with several B, which need every entry; to solve, use :func:`solve`.
    """
    triangle: Array = lapack.dpotri(factor, lower=1)[0]
    return triangle
