"""Spaces of coordinates ``x1``, ..., ``xD`` that have one range."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedsim.space import Array, Parameter, Space, Value


def box(lower: float, upper: float, dimension: int) -> Space:
    """Return the space of D coordinates in [lower, upper]."""
    return Space(tuple(Parameter(f"x{i}", lower, upper) for i in range(1, dimension + 1)))


def row_of(point: Mapping[str, Value]) -> Array:
    """Return a point of such a space as one row, shape (1, D)."""
    return np.array([[float(point[f"x{i}"]) for i in range(1, len(point) + 1)]])
