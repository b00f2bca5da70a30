"""Where a federation searches: a region that shrinks on a public schedule around a shared centre.

Paper: Eriksson et al., Scalable Global Optimization via Local Bayesian Optimization (TuRBO,
NeurIPS 2019), for trust regions.

Deviation: widths follow the round alone, not successes and failures, as a count of these would
show the server more than the sums do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsim.acquisition.candidates import sobol_points
from fedsim.errors import require
from fedsim.space import Array, Box, Choice, Space


@dataclass(frozen=True, slots=True)
class RegionSettings:
    """The widths of the regions, in multiples of the space's own.

    Attributes:
        whole: the share of the rounds in which the region is the whole space, from 0 to 1.
        smallest: the width in the last round, above 0 and at most 1; between, widths shrink by the
            same factor every round.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    whole: float = 0.3
    smallest: float = 0.03

    def __post_init__(self) -> None:
        require(0 <= self.whole <= 1, "method.region.whole", "a share from 0 to 1", self.whole)
        fits = 0 < self.smallest <= 1
        expected = "a width above 0 and at most 1"
        require(fits, "method.region.smallest", expected, self.smallest)

    def width(self, t: int, rounds: int) -> float:
        """Return the width in round t = 1, 2, ... of ``rounds``, in (0, 1]."""
        still = self.whole * rounds
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

    def fill(self, space: Space, count: int, generator: np.random.Generator) -> Array:
        """Return points of the space in the region, evenly spread, shape (at most count, D).

        The first is the centre. Points that the space's finitely many values move out are left out.
        """
        lower, upper = np.array(self.box.lower), np.array(self.box.upper)
        spread = lower + (upper - lower) * sobol_points(space.dimension, count - 1, generator)
        return np.concatenate([self.centre[None], self.inside(space, spread)])

    def inside(self, space: Space, U: Array) -> Array:
        """Return those rows of ``U`` (n, D), as points of the space, that lie in the region."""
        points = space.snap(self.box.clip(U))
        return points[self.box.contains(points)]


def region_around(space: Space, centre: Array, width: float) -> Region:
    """Return a cube around a point of the space, cut at the space's borders.

    Args:
        space: the search space.
        centre: the point, shape (D,).
        width: the cube's edge, above 0. Choices have all of their options in any region.
    """
    lower, upper = np.clip(centre - width / 2.0, 0.0, 1.0), np.clip(centre + width / 2.0, 0.0, 1.0)
    choices = [isinstance(p, Choice) for p in space.parameters]
    lower[choices], upper[choices] = 0.0, 1.0
    return Region(centre, Box(tuple(lower.tolist()), tuple(upper.tolist())))
