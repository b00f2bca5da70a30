"""Checks of the arguments of public functions: Python does not check their types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from fedsim.errors import ConfigError, plain

LEAST_INCHES, MOST_INCHES = 1, 100
"""Of a picture's width and height."""

LONGEST_RANGE = 1_000_000
"""A longer ``range`` is not made a list: it may not fit into memory."""


def as_plain(value: Any) -> Any:
    """Return Python's own value for one of numpy's, and a list for an array or a ``range``.

    Anything else, and a ``range`` that is very long, is returned as it is.
    """
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, range) and not value[LONGEST_RANGE:]:
        return list(value)
    return value


@dataclass(frozen=True)
class Kind:
    """What an argument may be.

    Attributes:
        words: the valid values, in words.
        fits: whether a value is one of them.
    """

    words: str
    fits: Callable[[Any], bool]


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_pair(value: Any, fits: Callable[[Any], bool]) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 2 and all(map(fits, value))


def _is_inches(value: Any) -> bool:
    number = isinstance(value, Real) and not isinstance(value, bool)
    return number and LEAST_INCHES <= value <= MOST_INCHES


def _are_texts(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value)


def _are_whole(value: Any) -> bool:
    listed = as_plain(value)
    return isinstance(listed, (list, tuple)) and all(map(_is_whole, listed))


TEXT = Kind("text", lambda value: isinstance(value, str))
TEXTS = Kind("a list of texts", _are_texts)
TEXT_OR_TEXTS = Kind("text, or a list of texts", lambda v: isinstance(v, str) or _are_texts(v))
WHOLE = Kind("a whole number", _is_whole)
WHOLES = Kind("a list of whole numbers", _are_whole)
ROUNDS = Kind("the first and the last round, e.g. (5, 20)", lambda v: _is_pair(v, _is_whole))
INCHES = Kind(
    f"width and height in inches, from {LEAST_INCHES} to {MOST_INCHES}, e.g. (7, 4.2)",
    lambda v: _is_pair(v, _is_inches),
)


def check_arguments(**given: tuple[object, Kind]) -> None:
    """Check arguments by name; None, which stands for a default, is always valid.

    Raises:
        ConfigError: for the first that is wrong.
    """
    for name, (value, kind) in given.items():
        if value is not None and not kind.fits(value):
            raise ConfigError(f"{name}: expected {kind.words}, got {plain(value)[:80]}")
