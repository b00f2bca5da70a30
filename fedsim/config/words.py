"""What is wrong with a configuration, in words.

pydantic finds the mistake; its messages speak of types and validation. Here they become "expected
..., got ...", for people who write YAML.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import typing
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from fedsim.errors import closest, nearest, plain
from fedsim.usercode.calling import class_of

Location = tuple[int | str, ...]

_WHOLE, _NUMBER, _LIST, _MAPPING = "a whole number", "a number", "a list", "a mapping"
_EXPECTED = {
    **dict.fromkeys(("int_type", "int_parsing", "int_parsing_size", "int_from_float"), _WHOLE),
    **dict.fromkeys(("float_type", "float_parsing"), _NUMBER),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "frozen_set_type"), _LIST),
    **dict.fromkeys(("dict_type", "mapping_type", "model_type", "dataclass_type"), _MAPPING),
    "finite_number": "a finite number",
    "string_type": "text",
    "none_required": "null",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "greater_than_equal": "a number of at least {ge}",
    "greater_than": "a number above {gt}",
    "less_than_equal": "a number of at most {le}",
    "less_than": "a number below {lt}",
    "too_short": "at least {min_length} value(s)",
    "too_long": "at most {max_length} value(s)",
}
"""What was expected, by pydantic's kind of error, with the names of its context."""

_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")


def explain(
    mistakes: Sequence[ErrorDetails],
    model: type[BaseModel],
    values: Mapping[str, Any],
    where: str,
) -> str:
    """Return the first of pydantic's errors in words.

    Args:
        mistakes: all of them.
        model: what the values were checked by.
        values: the values.
        where: their place, or an empty string.
    """
    errors = [(_location(values, e["loc"], e["type"]), e) for e in mistakes]
    location, first = errors[0]
    for place, e in errors:
        # A union reports every member; the member that the value resembles fails deepest inside.
        if len(place) > len(location) and place[: len(location)] == location:
            location, first = place, e
    parent, path = _path(where, location[:-1]), _path(where, location)
    beside = {
        str(place[-1]): e["input"]
        for place, e in errors
        if e["type"] in _UNKNOWN and place[:-1] == location[:-1]
    }
    if first["type"] == "missing":
        return missing_key(parent, str(location[-1]), beside)
    if first["type"] in _UNKNOWN:
        return unknown_key(parent, str(location[-1]), first["input"], _names_at(model, location))
    if first["type"] == "invalid_key":
        return f"{path or 'null'}: expected text as a key, got {short(first['input'])}"
    same = [e for place, e in errors if place == location]  # a union's alternatives
    message = _expected(same, list(_fields_at(model, location)))
    return f"{path}: {message}, got {short(first['input'])}{_nearest_choice(same)}"


def unknown_key(where: str, key: str, value: object, valid: Collection[str]) -> str:
    """Return that a key is unknown, and which one may be meant.

    Args:
        where: the place of the mapping that has it, or an empty string.
        key: the key.
        value: its value.
        valid: the keys that the mapping may have.
    """
    path, first = _path(where, (key,)), key.partition(".")[0]
    if first != key and first in valid:
        inside = f" in {where}" if where else ""
        return (
            f"{path}: unknown key; only grid, zip and --set (overrides) have keys with dots: write "
            f"{nested(key, value)}{inside}"
        )
    return f"{path}: unknown key{nearest(first, valid)}"


def misplaced_key(key: str, value: object, places: Sequence[str]) -> str:
    """Return that a key is unknown at the top, and where it belongs: one or more dotted keys."""
    told = " or ".join(places)
    return f"{key}: unknown key; did you mean {told}? Write {nested(places[0], value)}"


def places_of(key: str, model: Any, where: str = "") -> list[str]:
    """Return the dotted keys inside a model and its sections that end with a key."""
    found = []
    for name, hint in _fields(model).items():
        path = _path(where, (name,))
        found += [path] if name == key and where else []
        for inner in (hint, *typing.get_args(hint)):
            found += places_of(key, inner, path)
    return found


def nested(key: str, value: object) -> str:
    """Return a dotted key and its value as YAML has them: ``a.b`` is ``a: {b: value}``."""
    first, *inner = key.split(".")
    opened = "".join(f"{{{part}: " for part in inner)
    return f"{first}: {opened}{written(value)}{'}' * len(inner)}"


def missing_key(where: str, key: str, beside: Mapping[str, object]) -> str:
    """Return that a key is missing, and what may be a misspelling of it.

    Args:
        where: the place of the mapping that lacks it, or an empty string.
        key: the key.
        beside: the mapping's keys that are unknown, and their values.
    """
    for given, value in beside.items():
        if closest(given.partition(".")[0], [key]):
            return unknown_key(where, given, value, [key])
    got = f"; got {', '.join(map(repr, beside))} in its place" if beside else ""
    return f"{_path(where, (key,))}: missing; it has no default{got}"


def short(value: object) -> str:
    """Return a value as text for an error, at most 80 characters; booleans as YAML has them."""
    text = plain(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def written(value: object) -> str:
    """Return a value as YAML has it in one line; what is long or has no such text is shortened."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return short(value)
    return text if len(text) <= 80 else "..."


def _path(where: str, location: Location) -> str:
    return ".".join(str(part) for part in (where, *location) if str(part))


def _expected(errors: Sequence[ErrorDetails], keys: Sequence[str]) -> str:
    """Return what would do, by the errors of all alternatives; ``keys`` are those of a mapping."""
    told, other = [], []
    for error in errors:
        text = _EXPECTED.get(error["type"], "")
        if text == _MAPPING and keys:
            text += f" such as {{{keys[0]}: ...}}"
        elif text:
            limits = {name: _limit(value) for name, value in error.get("ctx", {}).items()}
            text = text.format(**limits).replace(" 1 value(s)", " 1 value").replace("(s)", "s")
        elif error["msg"].startswith("Input should be "):
            text = error["msg"].removeprefix("Input should be ")
        else:  # a check of the user's own
            message = error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
            other.append(message[:1].lower() + message[1:] or _without_words(error))
        told.append(text)
    if found := list(dict.fromkeys(filter(None, told))):
        return f"expected {', or '.join(found)}"
    return other[0]


def _without_words(error: ErrorDetails) -> str:
    """Return what an exception without a message says."""
    return f"its check raised {class_of(error.get('ctx', {}).get('error'))}"


def _limit(value: object) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.10g}" if isinstance(value, float) else str(value)


def _nearest_choice(errors: Sequence[ErrorDetails]) -> str:
    """Return which of the allowed words may be meant, if any."""
    choices = [e["ctx"]["expected"] for e in errors if e["type"] == "literal_error"]
    allowed = [word.strip("'") for choice in choices for word in choice.split() if "'" in word]
    meant = closest(str(errors[0]["input"]), [word.rstrip("',") for word in allowed])
    return f"; did you mean {meant!r}?" if meant else ""


def _location(values: Any, location: Location, kind: str) -> Location:
    """Return an error's location without the names of union members that pydantic adds to it."""
    kept = []
    for number, part in enumerate(location, start=1):
        absent = kind == "missing" and number == len(location)
        if isinstance(values, Mapping) and (part in values or absent):
            kept.append(part)
            values = values.get(part)
        elif isinstance(values, (list, tuple)) and isinstance(part, int):
            kept.append(part)
            values = values[part] if part < len(values) else None
    return tuple(kept)


def _names_at(model: Any, location: Location) -> list[str]:
    """Return the valid names of a location's last key."""
    return list(_fields_at(model, location[:-1]))


def _fields_at(model: Any, location: Location) -> dict[str, Any]:
    """Return the keys at a location inside nested models and dataclasses, and their types."""
    fields = _fields(model)
    for part in location:
        hint = fields.get(str(part))
        fields = next(filter(None, map(_fields, (hint, *typing.get_args(hint)))), {})
    return fields


def _fields(model: Any) -> dict[str, Any]:
    """Return the keys of a model or dataclass and their types; nothing for other types."""
    if inspect.isclass(model) and issubclass(model, BaseModel):
        return {f.alias or name: f.annotation for name, f in model.model_fields.items()}
    if inspect.isclass(model) and dataclasses.is_dataclass(model):
        hints = typing.get_type_hints(model)
        return {field.name: hints[field.name] for field in dataclasses.fields(model) if field.init}
    return {}
