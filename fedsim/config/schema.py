"""Checks settings against a schema; errors name the key by its full path.

A schema is a pydantic model: one written by hand, such as ``Config``, or one made from a class's
constructor.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, TypeVar, get_origin

import numpy as np
import yaml
from numpy.typing import NDArray
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    create_model,
)
from pydantic.errors import PydanticUserError
from pydantic_core import ErrorDetails, PydanticSerializationError

from fedsim.arguments import as_plain
from fedsim.config.words import explain, short
from fedsim.errors import ConfigError, plain
from fedsim.usercode.calling import user_code, words_of
from fedsim.usercode.given import name_of
from fedsim.yamltext import parse_yaml

SUPPLIED = ("self", "context", "seed", "data_dir")
"""Arguments that fedsim supplies to constructors; they are not settings."""

Settings = Mapping[str, Any]
Model = TypeVar("Model", bound=BaseModel)


def validate(model: type[Model], values: Settings, where: str) -> Model:
    """Return ``values`` checked by a pydantic model.

    Raises:
        ConfigError: for the first wrong key or value, named by its dotted path.
        UserCodeError: if a check in a user's own class of settings fails in another way than by
            ``ValueError`` or ``AssertionError``.
    """
    checked, mistakes = None, list[ErrorDetails]()
    # Fedsim's own schema, which has no place, calls no code of a user's.
    with user_code(f"{where}: its settings cannot be checked") if where else nullcontext():
        try:
            checked = model.model_validate(values)
        except ValidationError as error:
            mistakes = error.errors()
    if checked is None:
        raise ConfigError(explain(mistakes, model, values, where))
    _refuse_nonsense(values, dumped(checked, where), where)
    return checked


def dumped(checked: BaseModel, where: str, *, as_json: bool = False) -> dict[str, Any]:
    """Return checked settings as a mapping.

    Args:
        checked: the settings.
        where: their place, or an empty string.
        as_json: with values that a file can hold.

    Raises:
        ConfigError: if a value is of a class that cannot be written.
    """
    mode = "json" if as_json else "python"
    try:  # without pydantic's warnings: a default of another type is refused when it is used
        return checked.model_dump(mode=mode, by_alias=True, warnings=False)
    except PydanticSerializationError as error:
        raise ConfigError(_not_plain(checked, where, words_of(error))) from None


def _not_plain(checked: BaseModel, where: str, why: str) -> str:
    """Return which setting's value cannot be written to a file, in words."""
    expected = "numbers, texts, booleans, lists, mappings and dataclasses of them"
    for name, field in type(checked).model_fields.items():
        try:
            checked.model_dump(mode="json", include={name}, warnings=False)
        except PydanticSerializationError:
            path = ".".join(filter(None, (where, field.alias or name)))
            default = "" if name in checked.model_fields_set else " as its default"
            value = short(getattr(checked, name))
            return f"{path}: expected what a file can hold{default} ({expected}), got {value}"
    return f"{where}: expected {expected}: {why}"


def constructor_schema(target: type, section: str) -> type[BaseModel]:
    """Return a pydantic model of a constructor's keyword arguments; its fields' aliases are theirs.

    Raises:
        ConfigError: if the constructor's signature or annotations cannot be understood.
        UserCodeError: if a class that they name, or a default of its, raises.
    """
    with user_code(f"{section}.name: {name_of(target)}: its constructor cannot be understood"):
        return _constructor_schema(target, section)


def _constructor_schema(target: type, section: str) -> type[BaseModel]:
    found: dict[str, Any] = {}
    try:
        for name, parameter in inspect.signature(target, eval_str=True).parameters.items():
            if name in SUPPLIED or parameter.kind in (
                parameter.VAR_KEYWORD,
                parameter.VAR_POSITIONAL,
            ):
                continue
            kind, default = _kind_and_default(parameter)
            # pydantic restricts field names: it gets numbered ones, with the real names as aliases.
            field = Field(default, alias=name)
            kind = Annotated[kind, BeforeValidator(_Completion(default))]
            found[f"setting_{len(found)}"] = (kind, field)
        config = ConfigDict(
            extra="forbid",
            arbitrary_types_allowed=True,
            allow_inf_nan=False,
            ser_json_inf_nan="constants",
        )
        return create_model(f"{section}:{target.__name__}", __config__=config, **found)
    except (NameError, AttributeError, TypeError, ValueError, PydanticUserError) as error:
        raise ConfigError(
            f"{section}.name: {name_of(target)}: the annotations of its constructor cannot be "
            f"understood: {words_of(error)}"
        ) from None


def _kind_and_default(parameter: inspect.Parameter) -> tuple[Any, Any]:
    """Return a setting's type and default, ``...`` if it has none.

    A file has numbers and lists where Python has those of numpy: a scalar becomes Python's own, and
    where the default is an array of numbers, a list becomes one.
    """
    kind = Any if parameter.annotation is parameter.empty else parameter.annotation
    default = ... if parameter.default is parameter.empty else parameter.default
    if isinstance(default, np.generic):
        return (type(as_plain(default)) if kind is type(default) else kind), as_plain(default)
    takes_array = kind is Any or np.ndarray in (kind, get_origin(kind))
    if takes_array and isinstance(default, np.ndarray) and default.dtype.kind in "biuf":
        kind = Annotated[Any, AfterValidator(_AsArray(default)), PlainSerializer(as_plain)]
    return kind, default


class _AsArray:
    """Turns a list into an array of the kind that a default has."""

    def __init__(self, default: NDArray[Any]) -> None:
        self._default = default

    def __call__(self, given: Any) -> NDArray[Any]:
        kind, like = self._default.dtype, f"an array of numbers like {short(self._default)}"
        try:
            found = np.asarray(given)
            fits = found.size == 0 or np.can_cast(found.dtype, kind, "same_kind")
            if not fits or (found.ndim == 0) != (self._default.ndim == 0):
                raise ValueError
            return found.astype(kind)
        except (ValueError, TypeError, OverflowError):
            raise ValueError(f"expected {like}") from None


class _Completion:
    """Completes a group of settings that is partly given, from the constructor's default for it.

    What that default shares with its class's own (``Group()``, if the class has one) is left to the
    class, where one setting may replace another.
    """

    def __init__(self, default: object) -> None:
        self._own: dict[str, Any] = {}
        if is_dataclass(default) and not isinstance(default, type) and _has_default(type(default)):
            usual = type(default)()
            values = {one.name: getattr(default, one.name) for one in fields(default)}
            self._own = {k: value for k, value in values.items() if value != getattr(usual, k)}

    def __call__(self, given: Any) -> Any:
        return self._own | dict(given) if self._own and isinstance(given, Mapping) else given


def _has_default(group: type) -> bool:
    parameters = inspect.signature(group).parameters.values()
    return all(one.default is not one.empty for one in parameters)


def _refuse_nonsense(given: Any, checked: Any, path: str) -> None:
    """Refuse NaN, booleans that pydantic read as the numbers 1 and 0, and the reverse.

    Text counts as what YAML 1.2 reads it as: ``"true"`` and ``"1000"`` are a boolean and a number,
    ``"on"`` and ``"1_000"`` are not.
    """
    boolean = isinstance(given, bool) and isinstance(checked, (int, float)) and given is not checked
    if boolean or (isinstance(given, float) and math.isnan(given)):
        raise ConfigError(f"{path}: expected a number, got {plain(given)}")
    number = isinstance(checked, (int, float)) and not isinstance(checked, bool)
    if isinstance(given, str) and number and _only_python_reads(given, checked):
        kind = "a whole number" if isinstance(checked, int) else "a number"
        hint = f"; did you mean {checked}?" if math.isfinite(checked) else ""
        raise ConfigError(f"{path}: expected {kind}, got {short(given)}{hint}")
    if isinstance(checked, bool) and isinstance(given, (int, float, str)) and given is not checked:
        written = str(checked).lower()
        if not isinstance(given, str) or given.lower() != written:
            raise ConfigError(
                f"{path}: expected true or false, got {short(given)}; did you mean {written}?"
            )
    if isinstance(given, Mapping) and isinstance(checked, Mapping):
        for key in given.keys() & checked.keys():
            _refuse_nonsense(given[key], checked[key], f"{path}.{key}" if path else str(key))
    elif isinstance(given, (list, tuple)) and isinstance(checked, (list, tuple)):
        for i, (before, after) in enumerate(zip(given, checked, strict=False)):
            _refuse_nonsense(before, after, f"{path}.{i}")


def _only_python_reads(text: str, number: float) -> bool:
    """Return whether a text is a number as Python writes it, but not YAML, such as ``1_000``.

    What neither reads as that number was converted by a class of the user's own.
    """
    try:
        if str(float(text)) != str(float(number)):  # NaN is not equal to itself
            return False
        read = parse_yaml(text)
    except (ValueError, OverflowError):
        return False
    except yaml.YAMLError:
        return True
    return isinstance(read, bool) or not isinstance(read, (int, float)) or read != number
