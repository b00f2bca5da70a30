"""Checks settings against a schema; errors name the key by its full path.

A schema is a pydantic model: one written by hand, such as ``Config``, or one made from a class's
constructor.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic_core import ErrorDetails

from fedsim.errors import ConfigError, nearest

SUPPLIED = ("self", "context", "seed", "data_dir")
"""Arguments that fedsim supplies to constructors; they are not settings."""

Settings = Mapping[str, Any]
Model = TypeVar("Model", bound=BaseModel)


def validate(model: type[Model], values: Settings, where: str) -> Model:
    """Return ``values`` checked by a pydantic model.

    Raises:
        ConfigError: for the first wrong key or value, named by its dotted path.
    """
    try:
        found = model.model_validate(values)
    except ValidationError as error:
        raise ConfigError(_explain(error, model, values, where)) from None
    _refuse_nonsense(values, found.model_dump(by_alias=True), where)
    return found


def constructor_schema(target: type, section: str) -> type[BaseModel]:
    """Return a pydantic model of a constructor's keyword arguments; its fields' aliases are theirs.

    Raises:
        ConfigError: if the constructor's signature or annotations cannot be understood.
    """
    fields: dict[str, Any] = {}
    try:
        for name, parameter in inspect.signature(target, eval_str=True).parameters.items():
            if name in SUPPLIED or parameter.kind in (
                parameter.VAR_KEYWORD,
                parameter.VAR_POSITIONAL,
            ):
                continue
            default = ... if parameter.default is parameter.empty else parameter.default
            # pydantic restricts field names: it gets numbered ones, with the real names as aliases.
            field = Field(default, alias=name)
            annotated = parameter.annotation is not parameter.empty
            kind = parameter.annotation if annotated else Any
            fields[f"setting_{len(fields)}"] = (kind, field)
        config = ConfigDict(
            extra="forbid",
            arbitrary_types_allowed=True,
            allow_inf_nan=False,
            ser_json_inf_nan="constants",
        )
        return create_model(f"{section}:{target.__name__}", __config__=config, **fields)
    except (NameError, TypeError, ValueError, PydanticUserError) as error:
        raise ConfigError(
            f"{section}.name: {target.__module__}:{target.__qualname__}: the annotations of its "
            f"constructor cannot be understood: {error}"
        ) from None


def short(value: object) -> str:
    """Return a value as text for an error, at most 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _explain(error: ValidationError, model: type[BaseModel], values: Settings, where: str) -> str:
    errors = [(_location(values, e["loc"], e["type"]), e) for e in error.errors()]
    location, first = errors[0]
    for place, e in errors:
        # A union reports every member; the member that the value resembles fails deepest inside.
        if len(place) > len(location) and place[: len(location)] == location:
            location, first = place, e
    path = ".".join(str(part) for part in (where, *location) if str(part))
    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        valid = _names_at(model, location[:-1])
        return f"{path}: unknown key{nearest(str(location[-1]), valid)}"
    if first["type"] == "missing":
        return f"{path}: missing; it has no default"
    same = [e for place, e in errors if place == location]  # a union's alternatives
    message = ", or ".join(dict.fromkeys(_words(e["msg"]) for e in same))
    return f"{path}: {message}, got {short(first['input'])}{_nearest_choice(same)}"


def _words(message: str) -> str:
    """Return pydantic's message without the names of Python classes."""
    text = re.sub(r" or (an )?instance of \w+", "", message[0].lower() + message[1:])
    return re.sub(r"(valid )?dictionary", "mapping", text)


def _nearest_choice(errors: Sequence[ErrorDetails]) -> str:
    """Return which of the allowed words may be meant, if any."""
    choices = [e["ctx"]["expected"] for e in errors if e["type"] == "literal_error"]
    allowed = [word for choice in choices for word in re.findall("'(.*?)'", choice)]
    hint = nearest(str(errors[0]["input"]), allowed)
    return hint if "did you mean" in hint else ""


def _location(values: Any, location: tuple[int | str, ...], kind: str) -> tuple[int | str, ...]:
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


def _names_at(model: Any, location: tuple[int | str, ...]) -> list[str]:
    """Return the valid keys at a location inside nested models and dataclasses."""
    fields = _fields(model)
    for part in location:
        hint = fields.get(str(part))
        fields = next(filter(None, map(_fields, (hint, *typing.get_args(hint)))), {})
    return list(fields)


def _fields(model: Any) -> dict[str, Any]:
    """Return the keys of a model or dataclass and their types; nothing for other types."""
    if inspect.isclass(model) and issubclass(model, BaseModel):
        return {f.alias or name: f.annotation for name, f in model.model_fields.items()}
    if inspect.isclass(model) and dataclasses.is_dataclass(model):
        hints = typing.get_type_hints(model)
        return {field.name: hints[field.name] for field in dataclasses.fields(model) if field.init}
    return {}


def _refuse_nonsense(given: Any, checked: Any, path: str) -> None:
    """Refuse NaN, and booleans that pydantic read as the numbers 1 and 0."""
    boolean = isinstance(given, bool) and isinstance(checked, (int, float)) and given is not checked
    if boolean or (isinstance(given, float) and math.isnan(given)):
        raise ConfigError(f"{path}: expected a number, got {given}")
    if isinstance(given, Mapping) and isinstance(checked, Mapping):
        for key in given.keys() & checked.keys():
            _refuse_nonsense(given[key], checked[key], f"{path}.{key}" if path else str(key))
    elif isinstance(given, (list, tuple)) and isinstance(checked, (list, tuple)):
        for i, (before, after) in enumerate(zip(given, checked, strict=False)):
            _refuse_nonsense(before, after, f"{path}.{i}")
