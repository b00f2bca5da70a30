"""The one maximiser of acquisition functions, in the unit cube.

Papers: DP-FTS-DE (NeurIPS 2021), App. B.2.6: many random candidates, then L-BFGS-B. A function
may be piecewise: each sub-region of the cube has its own (Alg. 2, line 8).

Deviations: L-BFGS-B starts from the best candidates instead of 20 random points, has analytic
gradients, and never leaves the sub-region that a start lies in, so that it does not meet the
jumps between sub-regions. There are by default fewer candidates (400 instead of 1000) and
starts (4 instead of 20). All starts are refined by one call on the sum of their values, which
is separable, in place of a call per start. On a finite grid every point is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import fmin_l_bfgs_b
from scipy.spatial.distance import cdist

from fedsim.errors import ConfigError
from fedsim.space import Array, Box, Space

# When a refinement stops: after so many steps, or when one gains less than about 1e-5 of the
# values' spread, or where no gradient's component is above 1e-3 spreads per spacing.
_ITERATIONS = 10
_FACTR = 5e10
_PGTOL = 1e-3


class Differentiable(Protocol):
    """A function on the unit cube."""

    def values(self, U: Array) -> Array:
        """Return the function at the rows of ``U`` (n, D), shape (n,)."""
        ...

    def values_and_gradients(self, U: Array) -> tuple[Array, Array]:
        """Return values, shape (n,), and gradients, shape (n, D)."""
        ...


@dataclass(frozen=True, slots=True)
class Piece:
    """A function that counts inside one box.

    Attributes:
        box: where; the boxes of several pieces partition the unit cube.
        function: what.
    """

    box: Box
    function: Differentiable


def whole_cube(dimension: int) -> Box:
    """Return the unit cube as a box."""
    return Box((0.0,) * dimension, (1.0,) * dimension)


def draw_candidates(space: Space, count: int, generator: np.random.Generator) -> Array:
    """Return points to compare: a grid's own, else ``count`` uniform ones, shape (n, D)."""
    return generator.random((count, space.dimension)) if space.grid is None else space.grid


def owners(boxes: Sequence[Box], U: Array) -> NDArray[np.intp]:
    """Return the index of the box that holds each row of ``U`` (n, D), shape (n,).

    Raises:
        ConfigError: if a row lies in none of the boxes.
    """
    inside = np.stack([box.contains(U) for box in boxes])
    if not inside.any(axis=0).all():
        raise ConfigError("acquisition: expected boxes that cover all candidates")
    owner: NDArray[np.intp] = np.argmax(inside, axis=0)
    return owner


def piecewise_values(pieces: Sequence[Piece], U: Array) -> Array:
    """Return, at each row of ``U`` (n, D), the value of the piece that owns it, shape (n,)."""
    owner = owners([piece.box for piece in pieces], U)
    values = np.empty(len(U))
    for i, piece in enumerate(pieces):
        rows = owner == i
        if rows.any():
            values[rows] = piece.function.values(U[rows])
    return values


def maximize(
    pieces: Sequence[Piece],
    candidates: Array,
    *,
    starts: int,
    ranking: NDArray[np.floating[Any]] | None = None,
) -> tuple[Array, float]:
    """Maximise a piecewise smooth function; of equal values the first counts.

    Args:
        pieces: the function.
        candidates: points of the unit cube, shape (n, D); all points of a finite grid.
        starts: how many of the best candidates to refine; 0 on a finite grid.
        ranking: the function's values at the candidates, if they are known already, shape (n,).
            Where candidates are refined, it only ranks them: a constant may be missing, and
            single precision is enough.

    Returns:
        The best point, shape (D,), and its value.

    Raises:
        ConfigError: if the pieces' boxes leave a candidate out.
    """
    if ranking is None:
        ranking = piecewise_values(pieces, candidates)
    if starts == 0:
        best = int(np.argmax(ranking))
        return candidates[best], float(ranking[best])
    spacing = len(candidates) ** (-1.0 / candidates.shape[1])
    chosen = candidates[_best_apart(candidates, ranking, starts, spacing)]
    owner = owners([piece.box for piece in pieces], chosen)
    spread = float(np.ptp(ranking)) or 1.0
    points, values = chosen[:0], np.empty(0)
    climbs = [(pieces[i], chosen[owner == i]) for i in np.unique(owner)]
    ends = _climb(climbs, spacing, spread)
    for (piece, begin), end in zip(climbs, ends, strict=True):
        both = np.concatenate([begin, end])
        points = np.concatenate([points, both])
        values = np.concatenate([values, piece.function.values(both)])
    best = int(np.argmax(values))
    return points[best], float(values[best])


def _best_apart(
    candidates: Array, ranking: NDArray[np.floating[Any]], count: int, apart: float
) -> list[int]:
    """Choose up to ``count`` candidates, best first, each at least ``apart`` from the others."""
    left = np.array(ranking)
    chosen: list[int] = []
    while len(chosen) < count:
        best = int(np.argmax(left))
        if left[best] == -np.inf:
            break
        chosen.append(best)
        distances = cdist(candidates[best : best + 1], candidates)[0]
        left[distances <= apart] = -np.inf
    return chosen


def _climb(climbs: Sequence[tuple[Piece, Array]], unit: float, spread: float) -> list[Array]:
    """Climb from all starts at once; each piece has some, shape (k, D); return where they end.

    L-BFGS-B's first step has length 1 and its tolerances are absolute. So it sees coordinates
    in multiples of the candidates' ``unit`` distance and values in multiples of their ``spread``.
    """
    starts = np.concatenate([begin for _, begin in climbs])
    counts = [len(begin) for _, begin in climbs]
    stops = np.cumsum(counts)
    parts = [
        (piece.function, slice(stop - count, stop))
        for (piece, _), count, stop in zip(climbs, counts, stops, strict=True)
    ]
    bounds = [
        (lower / unit, upper / unit)
        for piece, begin in climbs
        for _ in begin
        for lower, upper in zip(piece.box.lower, piece.box.upper, strict=True)
    ]

    def objective(z: Array) -> tuple[float, Array]:
        U = z.reshape(starts.shape) * unit
        total, gradients = 0.0, np.empty(starts.shape)
        for function, rows in parts:
            values, gradients[rows] = function.values_and_gradients(U[rows])
            total += float(values.sum())
        return -total / spread, gradients.ravel() * (-unit / spread)

    z, _, _ = fmin_l_bfgs_b(
        objective,
        starts.ravel() / unit,
        bounds=bounds,
        maxiter=_ITERATIONS,
        factr=_FACTR,
        pgtol=_PGTOL,
    )
    ends = np.split(z.reshape(starts.shape) * unit, stops[:-1])
    return [piece.box.clip(end) for (piece, _), end in zip(climbs, ends, strict=True)]
