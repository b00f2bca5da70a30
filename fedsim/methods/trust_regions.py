"""Where a federation searches: a region that shrinks on a public schedule around a shared centre.

Paper: Eriksson et al., Scalable Global Optimization via Local Bayesian Optimization (TuRBO,
NeurIPS 2019), for trust regions.

Deviations: widths follow the round alone, not successes and failures, as a count of these would
show the server more than the sums do. Regions are cubes, also where length scales differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsim.errors import require
from fedsim.space import Array, Box, Choice, Space
from fedsim.space.cells import Discrete


@dataclass(frozen=True, slots=True)
class RegionSettings:
    """The widths of the regions, in multiples of the space's own.

    Attributes:
        wide: the share of the rounds, from 0 to 1, in which the width is 1: half of the space to
            each side of the centre.
        smallest: the width in the last round, from 1e-6 to 1; between, widths shrink by the same
            factor every round.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    wide: float = 0.3
    smallest: float = 0.03

    def __post_init__(self) -> None:
        require(0 <= self.wide <= 1, "method.region.wide", "a share from 0 to 1", self.wide)
        fits = 1e-6 <= self.smallest <= 1
        require(fits, "method.region.smallest", "a width from 1e-6 to 1", self.smallest)

    def width(self, t: int, rounds: int) -> float:
        """Return the width in round t = 1, 2, ... of ``rounds``, in (0, 1]."""
        still = self.wide * rounds
        if t <= still:
            return 1.0
        return float(self.smallest ** ((t - still) / (rounds - still)))


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """A part of the space around one of its points.

    Attributes:
        centre: the point, shape (D,).
        box: the part.
    """

    centre: Array
    box: Box

    def fill(self, space: Space, points: Array) -> Array:
        """Return points of the space in the region, its centre first, shape (n + 1, D).

        Args:
            space: the search space.
            points: where others are if the region is the unit cube, shape (n, D).
        """
        lower, upper = np.array(self.box.lower), np.array(self.box.upper)
        spread = lower + (upper - lower) * points
        return np.concatenate([self.centre[None], space.snap(self.box.clip(spread))])


def region_around(space: Space, centre: Array, width: float) -> Region:
    """Return a cube around a point of the space, cut at the space's borders.

    Where a number has finitely many values, its borders are values, and the values next to the
    centre's are in any region; of a choice all options are.

    Args:
        space: the search space.
        centre: the point, shape (D,).
        width: the cube's edge, above 0.
    """
    lower, upper = np.clip(centre - width / 2.0, 0.0, 1.0), np.clip(centre + width / 2.0, 0.0, 1.0)
    for d, parameter in enumerate(space.parameters):
        if isinstance(parameter, Choice):
            lower[d], upper[d] = 0.0, 1.0
        elif parameter.cells is not None:
            lower[d], upper[d] = _values_between(parameter.cells, centre[d], lower[d], upper[d])
    return Region(centre, Box(tuple(lower.tolist()), tuple(upper.tolist())))


def _values_between(
    cells: Discrete, centre: float, lower: float, upper: float
) -> tuple[float, float]:
    """Return borders that hold the values between others, and those next to the centre's."""
    here, first, last = (int(cells.indices(np.array(u))) for u in (centre, lower, upper))
    first += bool(cells.units(np.array(first)) < lower)
    last -= bool(cells.units(np.array(last)) > upper)
    first, last = max(0, min(first, here - 1)), min(cells.count - 1, max(last, here + 1))
    above = 1.0 if last == cells.count - 1 else np.nextafter(cells.units(np.array(last)), 1.0)
    return float(cells.units(np.array(first))), float(above)
