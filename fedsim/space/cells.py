"""Where the values of a finite parameter lie on its unit coordinate.

Every value owns a cell of [0, 1] and is represented by one coordinate inside it; a coordinate
stands for the value whose cell it is in. With n values, k = 0 .. n-1:

- :class:`Levels`: value k lies at k / (n - 1), so that the ends of the scale are values; its cell
  is what is nearest to it.
- :class:`Cells`: value k owns [k / n, (k + 1) / n) and lies at its centre.
- :class:`LogCells`: whole numbers on a logarithmic scale. Value v owns what the scale gives to
  [v - 1/2, v + 1/2), and lies where the scale has v.

Coordinates drawn uniformly give each value of :class:`Cells` the same share, and borders between
cells divide the cube without dividing a value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Levels:
    """Equally spaced coordinates with both ends.

    Attributes:
        count: n, at least 2.
    """

    count: int

    def indices(self, U: Array) -> Indices:
        """Return the values' numbers at coordinates ``U`` in [0, 1], of the same shape."""
        return np.rint(U * (self.count - 1)).astype(np.intp)

    def units(self, K: Indices) -> Array:
        """Return the coordinates of values ``K``, of the same shape."""
        units: Array = K / (self.count - 1)
        return units

    def borders(self, pieces: int) -> list[float]:
        """Return 0, ``pieces`` - 1 borders and 1; there is a value between any two of them."""
        return [i / pieces for i in range(pieces + 1)]

    def between(self, lower: float, upper: float) -> tuple[int, int]:
        """Return the first and the last value in [lower, upper), or up to 1 if ``upper`` is 1.

        The last is below the first if there is none.
        """
        n = self.count - 1
        first, last = math.ceil(lower * n), math.floor(upper * n)
        # The products are rounded; the coordinates themselves decide.
        first += (first / n < lower) - (first > 0 and (first - 1) / n >= lower)
        if upper < 1.0:
            last += ((last + 1) / n < upper) - (last / n >= upper)
        return first, last


@dataclass(frozen=True)
class Cells:
    """Cells of equal width.

    Attributes:
        count: n, at least 1.
    """

    count: int

    def indices(self, U: Array) -> Indices:
        """Return the values' numbers at coordinates ``U`` in [0, 1], of the same shape."""
        return np.minimum(np.floor(U * self.count), self.count - 1).astype(np.intp)

    def units(self, K: Indices) -> Array:
        """Return the coordinates of values ``K``, of the same shape."""
        units: Array = (K + 0.5) / self.count
        return units

    def borders(self, pieces: int) -> list[float]:
        """Return 0, ``pieces`` - 1 borders between cells, as even as they allow, and 1."""
        wanted = [round(i * self.count / pieces) for i in range(1, pieces)]
        return [0.0, *(k / self.count for k in _apart(wanted, self.count)), 1.0]


@dataclass(frozen=True)
class LogCells:
    """Whole numbers on a logarithmic scale.

    Attributes:
        lower: the smallest, at least 1.
        upper: the largest.
    """

    lower: int
    upper: int

    @property
    def count(self) -> int:
        """The number of values n."""
        return self.upper - self.lower + 1

    def indices(self, U: Array) -> Indices:
        """Return the values' numbers at coordinates ``U`` in [0, 1], of the same shape."""
        places = [math.floor(self._place(u)) for u in U.ravel().tolist()]
        return np.clip(np.array(places, np.intp), 0, self.count - 1).reshape(U.shape)

    def units(self, K: Indices) -> Array:
        """Return the coordinates of values ``K``, of the same shape."""
        units = [self._unit(k + 0.5) for k in K.ravel().tolist()]
        return np.array(units, np.float64).reshape(K.shape)

    def borders(self, pieces: int) -> list[float]:
        """Return 0, ``pieces`` - 1 borders between cells, as even as they allow, and 1."""
        wanted = [round(self._place(i / pieces)) for i in range(1, pieces)]
        return [0.0, *map(self._unit, _apart(wanted, self.count)), 1.0]

    @cached_property
    def _width(self) -> float:
        return math.log((self.upper + 0.5) / (self.lower - 0.5))

    # A place runs from 0 to n: value k owns [k, k + 1), and lies in the middle, in its own units.
    def _place(self, u: float) -> float:
        least = self.lower - 0.5
        return least * math.expm1(u * self._width)

    def _unit(self, place: float) -> float:
        return math.log1p(place / (self.lower - 0.5)) / self._width


Discrete = Levels | Cells | LogCells


def _apart(wanted: list[int], count: int) -> list[int]:
    """Return the edges between ``count`` cells nearest to the wanted ones, with a cell between."""
    edges = [0]
    for i, edge in enumerate(wanted):
        edges.append(min(max(edge, edges[-1] + 1), count - (len(wanted) - i)))
    return edges[1:]
