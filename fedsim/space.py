"""Search spaces: named parameters, their unit-cube coordinates, grids and sub-regions.

Methods work in the unit cube ``[0, 1]^D``; a :class:`Space` translates to and from the user's
own units. Notation: ``u`` is a point of the unit cube, shape (D,); ``U`` several, shape (n, D).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedsim.errors import ConfigError, nearest, require

Value = float | int
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Parameter:
    """One named parameter.

    Attributes:
        name: its name in points and configuration.
        lower: smallest value.
        upper: largest value.
        scale: ``linear`` or ``log`` spacing between ``lower`` and ``upper``.
        integer: whether only whole numbers are allowed.
        levels: the number of equally spaced values (on ``scale``) of a finite grid, or None.
    """

    name: str
    lower: float
    upper: float
    scale: Literal["linear", "log"] = "linear"
    integer: bool = False
    levels: int | None = None

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ConfigError: if a bound is not finite or not in order, or a log scale has a bound of 0
                or less, or a grid has fewer than two levels.
        """
        where, bounds = f"parameter {self.name!r}", f"[{self.lower}, {self.upper}]"
        finite = math.isfinite(self.upper - self.lower)  # nor may the width overflow
        require(finite, where, "finite bounds", bounds)
        require(self.lower < self.upper, where, "lower < upper", bounds)
        if self.scale not in ("linear", "log"):
            raise ConfigError(f"{where}: expected scale 'linear' or 'log', got {self.scale!r}")
        if self.scale == "log" and not self.lower > 0:
            raise ConfigError(f"{where}: a log scale needs lower > 0, got {self.lower}")
        if self.levels is not None:
            require(self.levels >= 2, where, "at least 2 levels", self.levels)
            require(not self.integer, where, "either integer or levels", "both")
        if self.integer and not (
            self.lower == round(self.lower) and self.upper == round(self.upper)
        ):
            raise ConfigError(f"{where}: an integer parameter needs whole bounds, got {bounds}")

    @property
    def finite(self) -> bool:
        """Whether the parameter takes finitely many values."""
        return self.levels is not None or self.integer

    def values(self) -> Array:
        """Return all unit coordinates of a finite parameter, ascending, shape (levels,)."""
        if self.levels is not None:
            return np.arange(self.levels) / (self.levels - 1)
        whole = np.arange(int(self.lower), int(self.upper) + 1, dtype=float)
        return np.array([self.to_unit(v) for v in whole])

    def to_value(self, u: float) -> Value:
        """Return the parameter's value at unit coordinate ``u`` (clipped to [0, 1])."""
        u = min(max(u, 0.0), 1.0)
        if self.levels is not None:
            u = round(u * (self.levels - 1)) / (self.levels - 1)
        if self.scale == "log":
            low, high = math.log(self.lower), math.log(self.upper)
            value = math.exp(low + u * (high - low))
        else:
            value = self.lower + u * (self.upper - self.lower)
        value = min(max(value, self.lower), self.upper)
        return round(value) if self.integer else value

    def to_unit(self, value: Value) -> float:
        """Return the unit coordinate of ``value``; the inverse of :meth:`to_value`."""
        if self.scale == "log":
            low, high = math.log(self.lower), math.log(self.upper)
            return (math.log(value) - low) / (high - low)
        return (value - self.lower) / (self.upper - self.lower)


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

    parameters: tuple[Parameter, ...]

    def __post_init__(self) -> None:
        """Check that there are parameters and that their names differ.

        Raises:
            ConfigError: if there are none, or two share a name.
        """
        names = [p.name for p in self.parameters]
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
        """All points of the space, shape (n, D), if all parameters are on grids, else None.

        Integer parameters without levels do not make a grid: their ranges may be huge.
        """
        if any(p.levels is None for p in self.parameters):
            return None
        axes = np.meshgrid(*(p.values() for p in self.parameters), indexing="ij")
        grid = np.stack([a.ravel() for a in axes], axis=1)
        grid.setflags(write=False)
        return grid

    def to_point(self, u: Array) -> dict[str, Value]:
        """Return the named values at ``u``, shape (D,)."""
        return {p.name: p.to_value(float(x)) for p, x in zip(self.parameters, u, strict=True)}

    def to_unit(self, point: Mapping[str, Value] | Sequence[Value]) -> Array:
        """Return the unit-cube coordinates of a point, shape (D,).

        Args:
            point: values by name, or all values in the parameters' order.

        Raises:
            ConfigError: if a name is unknown or missing, or a value is not a number in its range.
        """
        values = self._named(point)
        u = np.empty(self.dimension)
        for i, p in enumerate(self.parameters):
            value = values[p.name]
            if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
                raise ConfigError(f"point: {p.name}: expected a number, got {value!r}")
            if not p.lower <= value <= p.upper:
                raise ConfigError(
                    f"point: {p.name}: expected a value in [{p.lower}, {p.upper}], got {value}"
                )
            u[i] = p.to_unit(value)
        return self.snap(u)

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
        if len(point) != self.dimension:
            raise ConfigError(
                f"point: expected {self.dimension} values ({', '.join(self.names)}), "
                f"got {len(point)}"
            )
        return dict(zip(self.names, point, strict=True))

    def snap(self, u: Array) -> Array:
        """Return ``u``, shape (D,), moved to the cube, grid levels and whole numbers (in units)."""
        out: Array = np.clip(np.array(u, dtype=float), 0.0, 1.0)
        for i, p in enumerate(self.parameters):
            if p.levels is not None:
                out[i] = round(out[i] * (p.levels - 1)) / (p.levels - 1)
            elif p.integer:
                out[i] = p.to_unit(p.to_value(out[i]))
        return out

    def subregions(self, count: int) -> tuple[Box, ...]:
        """Divide the cube into ``count`` boxes of equal volume (DP-FTS-DE, App. B.2.1).

        The prime factors of ``count``, largest first, are assigned to the dimensions in turn: 4
        boxes in 2-D are the four quarters, in 3-D the quarters of the first two dimensions. The
        last dimension varies fastest.

        Args:
            count: the number of sub-regions P, at least 1.
        """
        cuts = [1] * self.dimension
        for turn, factor in enumerate(sorted(_prime_factors(count), reverse=True)):
            cuts[turn % self.dimension] *= factor
        boxes = []
        for cell in np.ndindex(*cuts):
            lower = tuple(c / n for c, n in zip(cell, cuts, strict=True))
            upper = tuple((c + 1) / n for c, n in zip(cell, cuts, strict=True))
            boxes.append(Box(lower, upper))
        return tuple(boxes)


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


def uniform_design(space: Space, box: Box, count: int, generator: np.random.Generator) -> Array:
    """Draw ``count`` points uniformly from a box, shape (count, D).

    One uniform draw per point and dimension is scaled to the box, so two boxes get paired designs
    from equal generators. A parameter with levels gets levels inside the box. An integer parameter
    is drawn like a real one, then :meth:`Space.snap` rounds it (so it may end half a step outside
    the box, and its two ends are half as likely as the rest).

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
        if p.levels is not None:
            values = p.values()
            edge = upper[i] if upper[i] < 1.0 else np.inf
            inside = values[(values >= lower[i]) & (values < edge)]
            if not len(inside):
                raise ConfigError(
                    f"sub-regions: none of the {len(values)} levels of {p.name!r} lies in "
                    f"[{lower[i]:g}, {upper[i]:g}); use fewer sub-regions"
                )
            points[:, i] = inside[(draws[:, i] * len(inside)).astype(int)]
    return points
