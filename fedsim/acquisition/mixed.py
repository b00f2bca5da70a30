"""Climbs on spaces of which some parameters take finitely many values.

A climb alternates between the numbers that vary continuously, with all else fixed
(:mod:`fedsim.acquisition.refinement`), and steps to the best neighbour. A neighbour differs in one
of the other parameters: it has any other option of a choice, or a number that is 1, 2, 4, 8, ...
values away. The climb ends where no neighbour is better. Every value that it compares is the
function's at a point of the space, never at one in between that would be rounded afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsim.acquisition.refinement import NEWTON_DIMENSIONS, Differentiable, climb
from fedsim.space import Array, Box, Choice, Space

_TURNS = 20  # at most, of climbing the numbers and stepping to neighbours
_STEPS = 200  # to neighbours in one turn, at most


def climb_in_space(
    space: Space, function: Differentiable, box: Box, U: Array, unit: float, spread: float
) -> tuple[Array, Array]:
    """Climb from all starts, inside the box, along the space's own points.

    Args:
        space: the search space.
        function: what to maximise, on the space's embedded coordinates.
        box: where.
        U: the starts, points of the space inside the box, shape (k, D).
        unit: about the distance between candidates, in the cube's units; above 0.
        spread: of the function's values, above 0; tolerances are relative to it.

    Returns:
        Where each ends, never below its start, shape (k, D), and the values there, shape (k,).
    """
    numbers = np.array([p.cells is None for p in space.parameters])
    if numbers.all():
        return climb(function, box, U, unit, spread)
    ends, values = np.array(U), function.values(space.embed(U))
    rising = np.arange(len(U))
    for turn in range(_TURNS):
        moved, higher = _step_to_neighbours(space, function, box, ends[rising], values[rising])
        if turn:  # the numbers are at their best until a step changes another parameter
            better = higher > values[rising]
            rising, moved, higher = rising[better], moved[better], higher[better]
        if numbers.any() and len(rising):
            moved, higher = _climb_numbers(space, function, box, moved, numbers, unit, spread)
        ends[rising], values[rising] = moved, higher
        if not (numbers.any() and len(rising)):
            break
    return ends, values


def neighbours(space: Space, U: Array) -> Array:
    """Return the points that differ from each point of the space in one finite parameter.

    Args:
        space: the search space.
        U: points of the space, shape (k, D).

    Returns:
        Shape (k, m, D); where a number has no neighbour at some distance, the point itself.
    """
    found = [np.empty((len(U), 0, space.dimension))]
    for d, p in enumerate(space.parameters):
        if p.cells is None:
            continue
        here = p.cells.indices(U[:, d])[:, None]
        if isinstance(p, Choice):
            others = (here + np.arange(1, p.cells.count)) % p.cells.count
        else:
            steps = 2 ** np.arange((p.cells.count - 1).bit_length())
            others = here + np.concatenate([-steps, steps])
            others = np.where((others >= 0) & (others < p.cells.count), others, here)
        points = np.repeat(U[:, None], others.shape[1], axis=1)
        points[:, :, d] = p.cells.units(others)
        found.append(points)
    return np.concatenate(found, axis=1)


def _step_to_neighbours(
    space: Space, function: Differentiable, box: Box, U: Array, values: Array
) -> tuple[Array, Array]:
    """Step from each point (k, D) to its best neighbour in the box until none is better."""
    U, values = U.copy(), values.copy()
    rising = np.arange(len(U))
    for _ in range(_STEPS):
        near = neighbours(space, U[rising])
        k, m, D = near.shape
        if not k * m:
            break
        flat = near.reshape(-1, D)
        found = np.where(box.contains(flat), function.values(space.embed(flat)), -np.inf)
        best = found.reshape(k, m).argmax(axis=1)
        highest = found.reshape(k, m)[np.arange(k), best]
        better = highest > values[rising]
        chosen = near[np.arange(k), best][better]
        rising = rising[better]
        U[rising], values[rising] = chosen, highest[better]
    return U, values


def _climb_numbers(
    space: Space,
    function: Differentiable,
    box: Box,
    U: Array,
    numbers: NDArray[np.bool_],
    unit: float,
    spread: float,
) -> tuple[Array, Array]:
    """Climb from each point (k, D) along the coordinates in ``numbers``, shape (D,)."""
    columns = np.flatnonzero(np.repeat(numbers, space.embedded_widths))
    edges = Box(*(tuple(np.array(b)[numbers].tolist()) for b in (box.lower, box.upper)))
    at_once = len(columns) <= NEWTON_DIMENSIONS
    groups = [np.arange(len(U))] if at_once else [np.array([i]) for i in range(len(U))]
    ends, values = U.copy(), np.empty(len(U))
    for rows in groups:
        along = _Slice(function, space.embed(U[rows]), columns)
        starts = U[np.ix_(rows, numbers)]
        ends[np.ix_(rows, numbers)], values[rows] = climb(along, edges, starts, unit, spread)
    return ends, values


@dataclass(frozen=True, slots=True)
class _Slice:
    """A function along some coordinates from several points, whose others are fixed.

    Newton's method asks for the same number of rows for each point, in the points' order; there
    is one point only for L-BFGS-B.

    Attributes:
        function: on E coordinates.
        points: of which all others are taken, shape (k, E).
        columns: the C coordinates that vary, shape (C,).
    """

    function: Differentiable
    points: Array
    columns: NDArray[np.intp]

    def values(self, V: Array) -> Array:
        """Return the function at the rows of ``V`` (n, C), shape (n,)."""
        return self.function.values(self._whole(V))

    def values_and_gradients(self, V: Array) -> tuple[Array, Array]:
        """Return values, shape (n,), and gradients, shape (n, C)."""
        values, gradients = self.function.values_and_gradients(self._whole(V))
        return values, gradients[:, self.columns]

    def _whole(self, V: Array) -> Array:
        Z = np.repeat(self.points, len(V) // len(self.points), axis=0)
        Z[:, self.columns] = V
        return Z
