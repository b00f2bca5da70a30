"""Search spaces: named parameters, their unit-cube coordinates, grids and sub-regions.

Methods work in the unit cube ``[0, 1]^D``; a :class:`Space` translates to and from the user's
own units. Kernels and random features work on embedded coordinates, ``[0, 1]^E``: those of the
cube, except that a :class:`Choice` has one for each of its options (one-hot), sqrt(1/2) for the
chosen one, else 0. Any two options are then as far apart as the ends of a number's range: a
distance of 1.

Notation: ``u`` is a point of the unit cube, shape (D,); ``U`` several, shape (n, D); ``Z``
embedded points, shape (n, E).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedsim.errors import ConfigError, nearest, plain
from fedsim.space.cells import Array, Indices
from fedsim.space.parameters import AnyParameter, Choice, Parameter, Value

GRID_POINTS = 2**14
"""A finite space with at most so many points is a grid: all its points are compared."""


@dataclass(frozen=True)
class Box:
    """A half-open box ``lower <= u < upper``; closed where ``upper`` is the cube's own border.

    Attributes:
        lower: shape (D,).
        upper: shape (D,).
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]

    def contains(self, U: Array) -> NDArray[np.bool_]:
        """Return which rows of ``U`` (n, D) lie in the box, shape (n,)."""
        upper = np.asarray(self.upper)
        below = (upper > U) | ((upper >= 1.0) & (upper >= U))
        inside: NDArray[np.bool_] = np.all((np.asarray(self.lower) <= U) & below, axis=1)
        return inside

    def clip(self, U: Array) -> Array:
        """Return ``U`` moved into the box; for a half-open border, the largest number below it."""
        return np.clip(U, self.lower, self.highest)

    @property
    def highest(self) -> tuple[float, ...]:
        """The largest coordinates inside."""
        return tuple(u if u >= 1.0 else math.nextafter(u, -math.inf) for u in self.upper)


@dataclass(frozen=True)
class Space:
    """A search space: an ordered tuple of parameters with different names.

    Attributes:
        parameters: at least one :class:`Parameter`.
    """

    parameters: tuple[AnyParameter, ...]

    def __post_init__(self) -> None:
        """Check that there are parameters and that their names are different texts.

        Raises:
            ConfigError: if there are none, two share a name, one has none, or is something else.
        """
        given: object = self.parameters
        if not isinstance(given, Iterable) or isinstance(given, (str, Mapping)):
            raise ConfigError(
                "space: expected a tuple of parameters, such as Space((Parameter('x', 0, 1),)), "
                f"got {plain(given)}"
            )
        object.__setattr__(self, "parameters", tuple(given))  # hashable
        for p in self.parameters:
            if not isinstance(p, (Parameter, Choice)):
                raise ConfigError(f"space: expected Parameter or Choice, got {p!r}")
        names = [p.name for p in self.parameters]
        for name in names:
            if not isinstance(name, str) or not name.strip():
                raise ConfigError(f"space: expected a text as a parameter's name, got {name!r}")
        if not names:
            raise ConfigError("space: expected at least one parameter, got none")
        if len(set(names)) != len(names):
            raise ConfigError(f"space: expected different parameter names, got {names}")

    @property
    def dimension(self) -> int:
        """The number of parameters, D."""
        return len(self.parameters)

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters' names, in order."""
        return tuple(p.name for p in self.parameters)

    @cached_property
    def grid(self) -> Array | None:
        """All points of the space, shape (n, D), if they are at most GRID_POINTS, else None."""
        axes, points = [], 1
        for p in self.parameters:
            points *= p.cells.count if p.cells else GRID_POINTS + 1
            if p.cells is None or points > GRID_POINTS:
                return None
            axes.append(p.cells.units(np.arange(p.cells.count)))
        grid = np.stack([a.ravel() for a in np.meshgrid(*axes, indexing="ij")], axis=1)
        grid.setflags(write=False)
        return grid

    def grid_indices(self, U: Array) -> Indices:
        """Return the indices in :attr:`grid` of points ``U`` (n, D) of the space, shape (n,)."""
        cells = [p.cells for p in self.parameters if p.cells]
        columns = tuple(one.indices(U[:, i]) for i, one in enumerate(cells))
        indices: Indices = np.ravel_multi_index(columns, [one.count for one in cells])
        return indices

    @cached_property
    def embedded_widths(self) -> tuple[int, ...]:
        """The number of embedded coordinates of each parameter; their sum is E."""
        return tuple(len(p.options) if isinstance(p, Choice) else 1 for p in self.parameters)

    def embed(self, U: Array) -> Array:
        """Return the embedded coordinates of points ``U`` (n, D) of the cube, shape (n, E)."""
        if max(self.embedded_widths) == 1:
            return U
        columns = []
        for i, p in enumerate(self.parameters):
            if isinstance(p, Choice):
                columns.append(math.sqrt(0.5) * np.eye(p.cells.count)[p.cells.indices(U[:, i])])
            else:
                columns.append(U[:, i : i + 1])
        return np.hstack(columns)

    def to_point(self, u: Array) -> dict[str, Value]:
        """Return the named values at ``u``, shape (D,)."""
        return {p.name: p.to_value(float(x)) for p, x in zip(self.parameters, u, strict=True)}

    def to_unit(self, point: Mapping[str, Value] | Sequence[Value]) -> Array:
        """Return the unit-cube coordinates of a point, shape (D,); errors as in :meth:`checked`."""
        values = self.checked(point)
        return np.clip([p.to_unit(values[p.name]) for p in self.parameters], 0.0, 1.0)

    def checked(self, point: Mapping[str, Value] | Sequence[Value]) -> dict[str, Value]:
        """Return a point that was written by hand, by name and in the parameters' order.

        Args:
            point: values by name, or all values in the parameters' order.

        Raises:
            ConfigError: if a name is unknown or missing, or a value is not one of its parameter.
        """
        values = self._named(point)
        return {p.name: p.checked(values[p.name]) for p in self.parameters}

    def _named(self, point: Mapping[str, Value] | Sequence[Value]) -> Mapping[str, Value]:
        if isinstance(point, Mapping):
            for name in point:
                if name not in self.names:
                    raise ConfigError(
                        f"point: unknown parameter {name!r}{nearest(str(name), self.names)}"
                    )
            missing = [name for name in self.names if name not in point]
            if missing:
                raise ConfigError(f"point: missing parameter {', '.join(missing)}")
            return point
        row = isinstance(point, (Sequence, np.ndarray)) and getattr(point, "ndim", 1) == 1
        if isinstance(point, str) or not row:
            raise ConfigError(
                f"point: expected values by name, or a list of {self.dimension} "
                f"({', '.join(self.names)}), got {point!r}"
            )
        if len(point) != self.dimension:
            raise ConfigError(
                f"point: expected {self.dimension} values ({', '.join(self.names)}), "
                f"got {len(point)}"
            )
        return dict(zip(self.names, point, strict=True))

    def snap(self, U: Array) -> Array:
        """Return points of shape (..., D) moved to the cube and to the parameters' values."""
        out: Array = np.clip(np.array(U, dtype=float), 0.0, 1.0)
        for i, p in enumerate(self.parameters):
            if p.cells is not None:
                out[..., i] = p.cells.units(p.cells.indices(out[..., i]))
        return out

    def subregions(self, count: int) -> tuple[Box, ...]:
        """Divide the cube into ``count`` boxes of equal volume (DP-FTS-DE, App. B.2.1).

        The prime factors of ``count``, largest first, are assigned to the dimensions in turn: 4
        boxes in 2-D are the four quarters, in 3-D the quarters of the first two dimensions. The
        last dimension varies fastest. A parameter with finitely many values is never divided
        into more parts than it has values: the next dimension is. No value of a choice or of an
        integer parameter without levels is divided, so that volumes may then differ.

        Args:
            count: the number of sub-regions P, at least 1.

        Raises:
            ConfigError: if ``count`` is below 1, or the space has too few values for it.
        """
        borders = [
            p.cells.borders(n) if p.cells else [i / n for i in range(n + 1)]
            for p, n in zip(self.parameters, self._cuts(count), strict=True)
        ]
        boxes = []
        for cell in np.ndindex(*(len(b) - 1 for b in borders)):
            lower = tuple(b[c] for b, c in zip(borders, cell, strict=True))
            upper = tuple(b[c + 1] for b, c in zip(borders, cell, strict=True))
            boxes.append(Box(lower, upper))
        return tuple(boxes)

    def _cuts(self, count: int) -> list[int]:
        """Return into how many parts each dimension is divided."""
        most = [p.cells.count if p.cells else math.inf for p in self.parameters]
        cuts, turn = [1] * self.dimension, 0
        for factor in sorted(_prime_factors(count), reverse=True):
            for d in (d % self.dimension for d in range(turn, turn + self.dimension)):
                if cuts[d] * factor <= most[d]:
                    cuts[d] *= factor
                    turn = d + 1
                    break
            else:
                known = ", ".join(f"{p.name} {p.cells.count}" for p in self.parameters if p.cells)
                raise ConfigError(
                    f"sub-regions: {count} parts do not fit the parameters' numbers of values "
                    f"({known}): none may be divided into more parts than it has values; choose "
                    "another number of sub-regions"
                )
        return cuts


def _prime_factors(count: int) -> list[int]:
    if count < 1:
        raise ConfigError(f"sub-regions: expected at least 1, got {count}")
    factors, divisor = [], 2
    while count > 1:
        while count % divisor == 0:
            factors.append(divisor)
            count //= divisor
        divisor += 1
    return factors
