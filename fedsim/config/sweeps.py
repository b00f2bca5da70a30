"""Sweeps: ``grid`` and ``zip`` write many variants in a few lines.

    grid: {method.subregions: [1, 2], rounds: [10, 20]}         every value with every other: 4
    zip: {privacy.delta: [1e-3, 1e-5], scenario.agents: [10, 100]}   the first, then the second: 2

Both, and ``variants``, are crossed with one another.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from fedsim.config.words import short
from fedsim.errors import ConfigError, nearest
from fedsim.keys import short_names, value_text

VARIABLE = ("scenario", "method", "rounds", "privacy", "availability")
"""The keys that a variant may override."""

MOST_VARIANTS = 10_000

Changes = dict[str, Any]
Axis = Sequence[tuple[tuple[str, Any], ...]]
"""The places of one sweep: at each, the keys that change and their values."""


def flattened(value: Any, where: str = "") -> Any:
    """Return ``grid`` or ``zip`` with dotted keys: nested mappings are keys of keys."""
    if not isinstance(value, Mapping):
        return value
    found: dict[str, Any] = {}
    for key, inner in value.items():
        name = f"{where}.{key}" if where else str(key)
        new = flattened(inner, name) if isinstance(inner, Mapping) else {name: inner}
        if twice := found.keys() & new.keys():
            raise ConfigError(f"{min(twice)}: appears twice in a sweep")
        found |= new
    return found


def swept(
    variants: Mapping[str, Changes],
    grid: Mapping[str, Sequence[Any]],
    side_by_side: Mapping[str, Sequence[Any]],
) -> dict[str, Changes]:
    """Return the variants of a sweep: overrides by label.

    Args:
        variants: overrides by label; each is swept. If there are none, the base is.
        grid: values by dotted key, crossed.
        side_by_side: values by dotted key, all lists of one length: ``zip``.

    Raises:
        ConfigError: if a key may not vary, or the values do not fit together.
    """
    if not grid and not side_by_side:
        return dict(variants)
    _check(grid, side_by_side)
    axes: list[Axis] = [[((key, value),) for value in values] for key, values in grid.items()]
    if side_by_side:
        columns = [[(key, value) for value in values] for key, values in side_by_side.items()]
        axes.append(list(zip(*columns, strict=True)))
    for axis in axes:
        _require_different(axis, "grid" if axis[0][0][0] in grid else "zip")
    count, where = math.prod(map(len, axes)) * max(1, len(variants)), "grid" if grid else "zip"
    if count > MOST_VARIANTS:
        raise ConfigError(f"{where}: expected at most {MOST_VARIANTS:,} variants, got {count:,}")
    names = short_names([*grid, *side_by_side])
    found: dict[str, Changes] = {}
    for label, changes in (variants or {"": {}}).items():
        for places in itertools.product(*axes):
            settings = list(itertools.chain.from_iterable(places))
            told = [f"{names[key]}={value_text(value)}" for key, value in settings]
            name = ", ".join(filter(None, [label, *told]))
            if name in found:
                raise ConfigError(
                    f"{where}: two variants would be called {name}; a value appears twice"
                )
            try:
                found[name] = _changed(changes, settings)
            except ConfigError as error:
                raise ConfigError(
                    in_sweep(str(error), name, sections_of_keys(grid, side_by_side))
                ) from None
    return found


def sections_of_keys(grid: Any, side_by_side: Any) -> dict[str, str]:
    """Return where the keys of a sweep are written, by dotted key: ``grid`` or ``zip``.

    Args:
        grid: as it was given.
        side_by_side: the same, of ``zip``.
    """
    told = {"grid": flattened(grid), "zip": flattened(side_by_side)}
    return {key: where for where, keys in told.items() if isinstance(keys, Mapping) for key in keys}


def in_sweep(message: str, label: str, places: Mapping[str, str]) -> str:
    """Return what is wrong with a variant of a sweep, by the key that was written.

    Args:
        message: what is wrong; it begins with a key of the variant, and a colon.
        label: the variant's label.
        places: see :func:`sections_of_keys`.
    """
    wrong, _, rest = message.partition(": ")
    rest = f"in the variant {label}: {rest}" if ", " in label else rest
    # The key that is wrong, one that holds it, or one in it, which made it wrong.
    for key in sorted(places, key=len, reverse=True):
        if f"{wrong}.".startswith(f"{key}."):
            return f"{places[key]}.{wrong}: {rest}"
    for key in places:
        if key.startswith(f"{wrong}."):
            return f"{places[key]}.{key}: {rest}"
    return f"{' and '.join(dict.fromkeys(places.values()))}: variant {label}: {message}"


def _check(grid: Mapping[str, Any], side_by_side: Mapping[str, Any]) -> None:
    for where, section in (("grid", grid), ("zip", side_by_side)):
        for key, values in section.items():
            first = key.partition(".")[0]
            if first == "seeds":
                raise ConfigError(f"{where}.seeds: every variant runs all seeds; use the key seeds")
            if first not in VARIABLE:
                raise ConfigError(f"{where}.{key}: unknown key{nearest(first, VARIABLE)}")
            if not isinstance(values, (list, tuple)) or not values:
                raise ConfigError(f"{where}.{key}: expected a list of values, got {short(values)}")
    if both := grid.keys() & side_by_side.keys():
        raise ConfigError(f"zip.{min(both)}: is in grid, too")
    lengths = {key: len(values) for key, values in side_by_side.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{key} has {length}" for key, length in lengths.items())
        raise ConfigError(f"zip: expected lists of one length, got different ones: {told}")


def _require_different(axis: Axis, where: str) -> None:
    """Refuse a sweep that has the same values at two places: 1 and 1.0 are the same number."""
    known: dict[str, str] = {}
    for place in axis:
        text = ", ".join(value_text(value) for _, value in place)
        first = known.setdefault(json.dumps([_plain(v) for _, v in place], sort_keys=True), text)
        if first != text:
            keys = ", ".join(key for key, _ in place)
            raise ConfigError(f"{where}.{keys}: {first} and {text} are the same; leave one out")


def _plain(value: Any) -> Any:
    """Return a value with whole numbers in place of equal ones of another type."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def _changed(changes: Changes, settings: Sequence[tuple[str, Any]]) -> Changes:
    """Return a variant's overrides with further ones; those of whole sections come first."""
    result = deepcopy(changes)
    for key, value in sorted(settings, key=lambda setting: setting[0].count(".")):
        node, (*parents, last) = result, key.split(".")
        for part in parents:
            inner = node.get(part)
            if isinstance(inner, str) and part in ("scenario", "method"):
                inner = {"name": inner}
            if inner is not None and not isinstance(inner, dict):
                raise ConfigError(f"{key}: {part} is {inner!r} there, which has no keys")
            node[part] = inner = {} if inner is None else inner
            node = inner
        node[last] = deepcopy(value)
    return result
