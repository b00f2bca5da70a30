"""Climbs on spaces of which some parameters take finitely many values.

A climb alternates between the numbers that vary continuously, with all else fixed
(:mod:`fedsim.refinement`), and steps to the best neighbour, a point that differs in one of the
other parameters: any other option of a choice, or a number 1, 2, 4, 8, ... values away. It ends
where no neighbour is better. Every value that it compares is the function's at a point of the
space, never at one in between that would be rounded afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsim.refinement import Differentiable, climb
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
    ends, values = np.array(U), np.empty(len(U))
    for i, u in enumerate(ends):
        values[i] = function.values(space.embed(u[None]))[0]
        for turn in range(_TURNS):
            moved, value = _step_to_neighbours(space, function, box, u, values[i])
            if turn and value == values[i]:
                break
            u, values[i] = moved, value
            if not numbers.any():
                break
            u, values[i] = _climb_numbers(space, function, box, u, numbers, unit, spread)
        ends[i] = u
    return ends, values


def neighbours(space: Space, u: Array) -> Array:
    """Return the points that differ from a point of the space in one finite parameter, (k, D)."""
    found = [np.empty((0, space.dimension))]
    for d, p in enumerate(space.parameters):
        if p.cells is None:
            continue
        here = int(p.cells.indices(u[d]))
        if isinstance(p, Choice):
            others = np.delete(np.arange(p.cells.count), here)
        else:
            away = 2 ** np.arange((p.cells.count - 1).bit_length())
            others = np.concatenate([here - away, here + away])
            others = others[(others >= 0) & (others < p.cells.count)]
        points = np.tile(u, (len(others), 1))
        points[:, d] = p.cells.units(others)
        found.append(points)
    return np.concatenate(found)


def _step_to_neighbours(
    space: Space, function: Differentiable, box: Box, u: Array, value: float
) -> tuple[Array, float]:
    """Step to the best neighbour in the box until none is better."""
    for _ in range(_STEPS):
        near = neighbours(space, u)
        near = near[box.contains(near)]
        if not len(near):
            break
        values = function.values(space.embed(near))
        best = int(np.argmax(values))
        if not values[best] > value:
            break
        u, value = near[best], float(values[best])
    return u, value


def _climb_numbers(
    space: Space,
    function: Differentiable,
    box: Box,
    u: Array,
    numbers: NDArray[np.bool_],
    unit: float,
    spread: float,
) -> tuple[Array, float]:
    """Climb from one point along the coordinates in ``numbers``, shape (D,)."""
    embedded = np.repeat(numbers, space.embedded_widths)
    edges = Box(*(tuple(np.array(b)[numbers].tolist()) for b in (box.lower, box.upper)))
    along = _Slice(function, space.embed(u[None])[0], np.flatnonzero(embedded))
    ends, values = climb(along, edges, u[None, numbers], unit, spread)
    u = u.copy()
    u[numbers] = ends[0]
    return u, float(values[0])


@dataclass(frozen=True, slots=True)
class _Slice:
    """A function along some coordinates, with the others fixed.

    Attributes:
        function: on E coordinates.
        point: of which all others are taken, shape (E,).
        columns: the C coordinates that vary, shape (C,).
    """

    function: Differentiable
    point: Array
    columns: NDArray[np.intp]

    def values(self, V: Array) -> Array:
        """Return the function at the rows of ``V`` (n, C), shape (n,)."""
        return self.function.values(self._whole(V))

    def values_and_gradients(self, V: Array) -> tuple[Array, Array]:
        """Return values, shape (n,), and gradients, shape (n, C)."""
        values, gradients = self.function.values_and_gradients(self._whole(V))
        return values, gradients[:, self.columns]

    def _whole(self, V: Array) -> Array:
        Z = np.tile(self.point, (len(V), 1))
        Z[:, self.columns] = V
        return Z
