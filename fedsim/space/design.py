"""Points that are evaluated first: uniform ones in a box, and the corners of a box.

Corners are where a model has to guess most, and where the best value of a parameter lies if its
range is cut, or if its natural scale is another one (a logarithmic one, say).
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from fedsim.errors import ConfigError
from fedsim.space.cells import Array, Levels
from fedsim.space.parameters import Choice
from fedsim.space.space import Box, Space


def uniform_design(space: Space, box: Box, count: int, generator: np.random.Generator) -> Array:
    """Draw ``count`` points of the space uniformly from a box, shape (count, D).

    One uniform draw per point and dimension is scaled to the box, so two boxes get paired designs
    from equal generators. A parameter with levels gets those inside the box with equal shares, a
    choice or an integer parameter the value in whose cell the draw falls; if a border of the box
    divides a cell, the value may lie beyond it.

    Args:
        space: the search space.
        box: the box to draw from.
        count: the number of points.
        generator: consumed.

    Raises:
        ConfigError: if no level of some parameter lies in the box.
    """
    draws = generator.random((count, space.dimension))
    lower, upper = np.asarray(box.lower), np.asarray(box.upper)
    points = box.clip(lower + draws * (upper - lower))
    for i, p in enumerate(space.parameters):
        if isinstance(p.cells, Levels):
            first, last = p.cells.between(box.lower[i], box.upper[i])
            if last < first:
                raise ConfigError(
                    f"sub-regions: none of the {p.cells.count} levels of {p.name!r} lies in "
                    f"[{box.lower[i]:g}, {box.upper[i]:g}); use fewer sub-regions"
                )
            inside = (draws[:, i] * (last - first + 1)).astype(np.intp)
            points[:, i] = p.cells.units(first + inside)
    return space.snap(points)


def corner_design(
    space: Space,
    box: Box,
    count: int,
    generator: np.random.Generator,
    choosing: np.random.Generator,
) -> Array:
    """Return corners of a box first, then the points of :func:`uniform_design`, shape (count, D).

    With d numbers that vary in the box there are 2^d corners: all of them, in order, if they are at
    most half of the points; else half of the points (rounded down) are corners that are drawn
    without repetition. A choice has no ends, and varies as in the uniform design. So the points
    after the corners are those of the uniform design from the same generator.

    Args:
        space: the search space.
        box: the box.
        count: the number of points.
        generator: of the uniform design; consumed.
        choosing: draws the corners, where they are too many; consumed.

    Raises:
        ConfigError: if no level of some parameter lies in the box.
    """
    points = uniform_design(space, box, count, generator)
    lowest, highest = _ends(space, box)
    varying = [
        i
        for i, p in enumerate(space.parameters)
        if not isinstance(p, Choice) and lowest[i] < highest[i]
    ]
    if varying:
        upper = _corners(len(varying), count // 2, choosing)
        points[: len(upper), varying] = np.where(upper, highest[varying], lowest[varying])
    return points


def _corners(dimension: int, most: int, generator: np.random.Generator) -> NDArray[np.bool_]:
    """Return which ends make all corners, or ``most`` of them, shape (corners, d)."""
    if 2**dimension <= most:
        return np.array(list(itertools.product((False, True), repeat=dimension)))
    chosen: dict[tuple[bool, ...], None] = {}  # a set that keeps the order
    while len(chosen) < most:
        chosen[tuple((generator.random(dimension) < 0.5).tolist())] = None
    return np.array(list(chosen), np.bool_).reshape(-1, dimension)


def _ends(space: Space, box: Box) -> tuple[Array, Array]:
    """Return the lowest and the highest values of the space inside a box, each (D,)."""
    lowest, highest = np.array(box.lower), np.array(box.highest)
    for i, p in enumerate(space.parameters):
        if p.cells is None:
            continue
        if isinstance(p.cells, Levels):
            ends = np.array(p.cells.between(box.lower[i], box.upper[i]))
        else:
            ends = p.cells.indices(np.array([lowest[i], highest[i]]))
            units = p.cells.units(ends)  # of cells that begin or end at a border, up to rounding
            ends += np.array([units[0] < lowest[i], -int(units[1] > highest[i])])
            ends = np.clip(ends, 0, p.cells.count - 1)
        lowest[i], highest[i] = p.cells.units(ends)
    return lowest, highest
