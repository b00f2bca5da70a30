"""The one maximiser of acquisition functions, in the unit cube.

Papers: DP-FTS-DE (NeurIPS 2021), App. B.2.6: many random candidates, then L-BFGS-B. A function
may be piecewise: each sub-region of the cube has its own (Alg. 2, line 8).

Deviations: the best candidates are refined, instead of 20 random points: in one and two dimensions
by Newton's method for all of them at once, above by L-BFGS-B
(:mod:`fedsim.acquisition.refinement` says why; ``python -m tests.benchmarks.refinement`` shows it).
Gradients are analytic. No start leaves its sub-region, so that none meets the jumps between them.
There are by default fewer candidates (400 instead of 1000) and starts (4 instead of 20). On a
finite grid every point is compared. Where other parameters take finitely many values, candidates
have such values, and so has every point that is compared later (:mod:`fedsim.acquisition.mixed`):
what is scored is what will be evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from fedsim.acquisition.mixed import climb_in_space
from fedsim.acquisition.refinement import Differentiable
from fedsim.errors import ConfigError
from fedsim.space import Array, Box, Space


@dataclass(frozen=True, slots=True)
class Piece:
    """A function that counts inside one box.

    Attributes:
        box: where; the boxes of several pieces partition the unit cube.
        function: what, on the space's embedded coordinates.
    """

    box: Box
    function: Differentiable


def whole_cube(dimension: int) -> Box:
    """Return the unit cube as a box."""
    return Box((0.0,) * dimension, (1.0,) * dimension)


def draw_candidates(space: Space, count: int, generator: np.random.Generator) -> Array:
    """Return points to compare: a grid's own, else ``count`` uniform ones, shape (n, D)."""
    if space.grid is not None:
        return space.grid
    return space.snap(generator.random((count, space.dimension)))


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


def piecewise_values(space: Space, pieces: Sequence[Piece], U: Array) -> Array:
    """Return, at each row of ``U`` (n, D), the value of the piece that owns it, shape (n,)."""
    owner = owners([piece.box for piece in pieces], U)
    values, Z = np.empty(len(U)), space.embed(U)
    for i, piece in enumerate(pieces):
        rows = owner == i
        if rows.any():
            values[rows] = piece.function.values(Z[rows])
    return values


def maximize(
    space: Space,
    pieces: Sequence[Piece],
    candidates: Array,
    *,
    starts: int,
    ranking: NDArray[np.floating[Any]] | None = None,
    largest_spread: float = math.inf,
) -> tuple[Array, float]:
    """Maximise a piecewise smooth function; of equal values the first counts.

    Args:
        space: the search space.
        pieces: the function.
        candidates: points of the space, shape (n, D); all points of a finite grid.
        starts: how many of the best candidates to refine; 0 on a finite grid.
        ranking: the function's values at the candidates, if they are known already, shape (n,).
            Where candidates are refined, it only ranks them and tells the spread: a constant may
            be missing, and single precision is enough.
        largest_spread: what the spread of the function's values counts as at most; above 0.
            Climbs are as exact as a small part of it. For a logarithm it should be about 1: its
            spread is that of its lowest values, which may be -1e5.

    Returns:
        The best point, shape (D,), and its value.

    Raises:
        ConfigError: if the pieces' boxes leave a candidate out.
    """
    if ranking is None:
        ranking = piecewise_values(space, pieces, candidates)
    if starts == 0:
        best = int(np.argmax(ranking))
        return candidates[best], float(ranking[best])
    spacing = _edge(pieces) * len(candidates) ** (-1.0 / candidates.shape[1])
    chosen = candidates[best_apart(space.embed(candidates), ranking, starts, spacing)]
    spread = min(float(np.ptp(ranking)) or 1.0, largest_spread)
    owner = owners([piece.box for piece in pieces], chosen)
    climbs = [
        climb_in_space(
            space, pieces[i].function, pieces[i].box, chosen[owner == i], spacing, spread
        )
        for i in np.unique(owner)
    ]
    points, values = (np.concatenate(each) for each in zip(*climbs, strict=True))
    best = int(np.argmax(values))
    return points[best], float(values[best])


def _edge(pieces: Sequence[Piece]) -> float:
    """Return the (geometric) mean edge of the box that the pieces' boxes make together."""
    lower = np.min([piece.box.lower for piece in pieces], axis=0)
    upper = np.max([piece.box.upper for piece in pieces], axis=0)
    return float(np.exp(np.log(upper - lower).mean()))


def best_apart(
    candidates: Array, ranking: NDArray[np.floating[Any]], count: int, apart: float
) -> list[int]:
    """Choose up to ``count`` candidates, best first, each further than ``apart`` from the rest."""
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
