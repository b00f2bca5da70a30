"""The parameters of search spaces: numbers, and choices among a few values.

A parameter has one coordinate in [0, 1]. Where it takes finitely many values, ``cells`` says which
coordinates stand for which (:mod:`fedsim.space.cells`); otherwise ``cells`` is None.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cached_property, lru_cache
from numbers import Real
from typing import Any, Literal

import numpy as np

from fedsim.arguments import as_plain
from fedsim.errors import ConfigError, nearest, plain, require
from fedsim.space.cells import Cells, Discrete, Levels, LogCells

Value = float | int | str | bool
"""What a parameter can be in a point."""

Column = Literal["float64", "int64", "bool", "text"]
"""How a parameter's values are kept in a table."""

_LARGEST = 2**40  # far beyond, whole numbers have no floating-point coordinates of their own


@dataclass(frozen=True)
class Parameter:
    """A number.

    Attributes:
        name: its name in points and configuration.
        lower: smallest value.
        upper: largest value.
        scale: ``linear`` or ``log`` spacing between ``lower`` and ``upper``.
        integer: whether only whole numbers are allowed. On a linear scale all are equally likely
            in random draws; on a log scale v is as likely as the range from v - 1/2 to v + 1/2.
        levels: the number of equally spaced values (on ``scale``), both bounds among them, or
            None. With ``integer``, all of them must be whole numbers.
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
            ConfigError: if a bound is not a finite number, they are not in order, or a log scale
                has a bound of 0 or less, or there are fewer than two levels, or levels are not
                whole numbers although they must be.
        """
        for name in ("lower", "upper", "levels"):  # numpy's own are not JSON
            object.__setattr__(self, name, as_plain(getattr(self, name)))
        where, bounds = f"parameter {self.name!r}", f"[{plain(self.lower)}, {plain(self.upper)}]"
        numbers = all(map(_is_real, (self.lower, self.upper)))
        require(numbers, where, "numbers as bounds", bounds)
        largest = sys.float_info.max
        finite = -largest <= self.lower <= largest and -largest <= self.upper <= largest
        finite = finite and self.upper - self.lower <= largest  # the width must not overflow either
        require(finite, where, "finite bounds", bounds)
        require(self.lower < self.upper, where, "lower < upper", bounds)
        if self.scale not in ("linear", "log"):
            raise ConfigError(f"{where}: expected scale 'linear' or 'log', got {self.scale!r}")
        if self.scale == "log" and not self.lower > 0:
            raise ConfigError(f"{where}: a log scale needs lower > 0, got {self.lower}")
        if self.levels is not None:
            whole = _is_real(self.levels) and self.levels % 1 == 0
            require(whole and self.levels >= 2, where, "at least 2 levels", plain(self.levels))
            require(self.levels <= _LARGEST, where, "at most 2^40 levels", self.levels)
        if not self.integer:
            return
        if not (self.lower == round(self.lower) and self.upper == round(self.upper)):
            raise ConfigError(f"{where}: an integer parameter needs whole bounds, got {bounds}")
        small = max(abs(self.lower), abs(self.upper)) <= _LARGEST
        require(small, where, "whole numbers of at most 2^40", bounds)
        if self.levels is not None:
            broken = _broken_level(self.lower, self.upper, self.scale, self.levels)
            if broken is not None:
                raise ConfigError(
                    f"{where}: expected levels that are whole numbers, got {float(broken):g} among "
                    f"{self.levels} levels on {bounds}; choose another number of levels"
                )

    @cached_property
    def cells(self) -> Discrete | None:
        """Where its values lie on the unit coordinate; None if they are not finitely many."""
        if self.levels is not None:
            return Levels(self.levels)
        if not self.integer:
            return None
        lower, upper = int(self.lower), int(self.upper)
        return LogCells(lower, upper) if self.scale == "log" else Cells(upper - lower + 1)

    @property
    def column(self) -> Column:
        """How its values are kept in a table."""
        return "int64" if self.integer else "float64"

    def to_value(self, u: float) -> float | int:
        """Return the value at unit coordinate ``u`` (clipped to [0, 1])."""
        u = min(max(u, 0.0), 1.0)
        if self.cells is not None:
            return self._value(int(self.cells.indices(np.array(u))))
        if u in (0.0, 1.0):  # the bounds as they were written
            return float(self.upper if u else self.lower)
        if self.scale == "log":
            low, high = math.log(self.lower), math.log(self.upper)
            value = math.exp(low + u * (high - low))
        else:
            value = self.lower + u * (self.upper - self.lower)
        return min(max(value, float(self.lower)), float(self.upper))

    def to_unit(self, value: object) -> float:
        """Return the unit coordinate of a value; the inverse of :meth:`to_value`.

        Raises:
            ConfigError: as in :meth:`checked`.
        """
        number = self.checked(value)
        if self.cells is None:
            return self._position(number)
        return float(self.cells.units(np.array(self._index(number))))

    def checked(self, value: Any) -> float | int:
        """Return a value that was written by hand; a level is rounded as :meth:`to_value` does.

        Raises:
            ConfigError: if it is not a number in range, a whole number or a level.
        """
        where = f"point: {self.name}"
        if _kind(value) != "number":
            raise ConfigError(f"{where}: expected a number, got {plain(value)}")
        number = float(value)
        if not self.lower <= number <= self.upper:
            bounds = f"[{self.lower}, {self.upper}]"
            raise ConfigError(f"{where}: expected a value in {bounds}, got {value}")
        if self.cells is None:
            return number
        if self.integer and number != round(number):
            raise ConfigError(f"{where}: expected a whole number, got {value}")
        level = self._value(self._index(number))
        if not math.isclose(number, level, rel_tol=1e-9, abs_tol=1e-12 * (self.upper - self.lower)):
            raise ConfigError(
                f"{where}: expected one of its {self.levels} levels, got {value}; the nearest is "
                f"{level}"
            )
        return level

    def _value(self, index: int) -> float | int:
        if self.levels is None:
            return int(self.lower) + index
        value = _level(self.lower, self.upper, self.scale, self.levels, index)
        return round(value) if self.integer else float(value)

    def _index(self, number: float) -> int:
        if self.levels is None:
            return round(number) - int(self.lower)
        return round(self._position(number) * (self.levels - 1))

    def _position(self, number: float) -> float:
        """Return where a number lies between the bounds, on the scale, in [0, 1]."""
        if self.scale == "log":
            low, high = math.log(self.lower), math.log(self.upper)
            return (math.log(number) - low) / (high - low)
        return (number - self.lower) / (self.upper - self.lower)


@dataclass(frozen=True)
class Choice:
    """A categorical parameter: one of a few values without an order.

    Attributes:
        name: its name in points and configuration.
        options: the values: texts, numbers or booleans; at least two, all different.
    """

    name: str
    options: Sequence[Value]

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            ConfigError: if there are fewer than two, two are equal, or one is no value.
        """
        where = f"parameter {self.name!r}"
        given = as_plain(self.options)
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise ConfigError(f"{where}: expected a list of options, got {plain(given)}")
        options = tuple(map(as_plain, given))
        object.__setattr__(self, "options", options)  # hashable, whatever sequence was given
        for option in options:
            valid = isinstance(option, (str, bool, int, float)) and option == option
            require(valid, where, "options that are texts, numbers or booleans", repr(option))
        require(len(options) >= 2, where, "at least 2 options", list(options))
        alike = len({(type(option), option) for option in options}) < len(options)
        expected = "options that differ" + ("" if alike else " (1, 1.0 and True are equal)")
        require(len(set(options)) == len(options), where, expected, list(options))

    @cached_property
    def cells(self) -> Cells:
        """Where its values lie on the unit coordinate."""
        return Cells(len(self.options))

    @property
    def column(self) -> Column:
        """How its values are kept in a table; options of several kinds are kept as text."""
        kinds = {type(option) for option in self.options}
        if kinds <= {int, float}:
            small = all(isinstance(o, int) and abs(o) < 2**63 for o in self.options)
            return "int64" if small else "float64"
        return "bool" if kinds == {bool} else "text"

    def to_value(self, u: float) -> Value:
        """Return the option at unit coordinate ``u`` (clipped to [0, 1])."""
        return self.options[int(self.cells.indices(np.clip(u, 0.0, 1.0)))]

    def to_unit(self, value: object) -> float:
        """Return the unit coordinate of an option; the inverse of :meth:`to_value`.

        Raises:
            ConfigError: as in :meth:`checked`.
        """
        return float(self.cells.units(np.array(self.options.index(self.checked(value)))))

    def checked(self, value: object) -> Value:
        """Return the option that equals a value that was written by hand.

        Raises:
            ConfigError: if there is none.
        """
        for option in self.options:
            if _kind(option) == _kind(value) and option == value:
                return option
        hint = nearest(str(value), map(str, self.options))
        raise ConfigError(f"point: {self.name}: unknown option {value!r}{hint}")


AnyParameter = Parameter | Choice


def _is_real(value: object) -> bool:
    return isinstance(value, Real)


def _kind(value: object) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "boolean"
    if isinstance(value, (int, float, np.integer, np.floating)):
        return "number"
    return "text" if isinstance(value, str) else type(value).__name__


@lru_cache(maxsize=65536)
def _level(
    lower: float, upper: float, scale: Literal["linear", "log"], levels: int, index: int
) -> Decimal:
    """Return the value of a level to 60 digits, from the bounds as they are written.

    Rounded to floating point it is 0.3 and 10.0, not 0.30000000000000004 and 10.000000000000002.
    """
    with localcontext() as context:
        context.prec = 60
        low, high = Decimal(repr(float(lower))), Decimal(repr(float(upper)))
        if index in (0, levels - 1):
            return high if index else low
        share = Decimal(index) / (levels - 1)
        if scale == "linear":
            return low + (high - low) * share
        return (low.ln() + (high.ln() - low.ln()) * share).exp()


@lru_cache(maxsize=1024)
def _broken_level(
    lower: float, upper: float, scale: Literal["linear", "log"], levels: int
) -> Decimal | None:
    """Return the first level that is not a whole number, or None."""
    if scale == "linear":
        width = int(upper) - int(lower)
        return None if width % (levels - 1) == 0 else _level(lower, upper, scale, levels, 1)
    for index in range(levels):
        value = _level(lower, upper, scale, levels, index)
        if abs(value - round(value)) > Decimal("1e-30"):
            return value
    return None
