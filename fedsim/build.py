"""From a configuration to objects: scenarios and methods by name or ``package.module:Class``.

A class's constructor is its schema: the configuration section is checked against the names,
annotations and defaults of its keyword arguments. ``context``, ``seed`` and ``data_dir`` are
supplied by fedsim and cannot be set in a section.
"""

from __future__ import annotations

import inspect
import math
import sys
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError

from fedsim.errors import ConfigError, nearest
from fedsim.imports import user_code
from fedsim.protocol import Context, Method, Scenario
from fedsim.registry import METHODS, SCENARIOS, Entry
from fedsim.space import Space

SUPPLIED = ("self", "context", "seed", "data_dir")
Settings = Mapping[str, Any]
Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class RunSpec:
    """Everything that a process needs to build its part of one run.

    Attributes:
        scenario: the resolved ``scenario`` section, with its ``name``.
        method: the resolved ``method`` section, with its ``name``.
        rounds: number of queries after the initial design.
        seed: the run's seed.
        data_dir: where data sets lie, or None.
        import_from: the folder that ``module:Class`` names are imported from.
    """

    scenario: Settings
    method: Settings
    rounds: int
    seed: int
    data_dir: str | None
    import_from: str

    @property
    def scenario_name(self) -> str:
        """The scenario's name as configured."""
        return str(self.scenario["name"])

    @property
    def method_name(self) -> str:
        """The method's name as configured."""
        return str(self.method["name"])


def build_scenario(spec: RunSpec) -> Scenario:
    """Return the run's scenario.

    Raises:
        ConfigError: if its name or a setting is wrong, or the class is not a scenario.
        UserCodeError: if its code raises.
    """
    target = find("scenario", spec.scenario_name, spec.import_from)
    data_dir = None if spec.data_dir is None else Path(spec.data_dir)
    scenario = _construct(target, "scenario", spec.scenario, seed=spec.seed, data_dir=data_dir)
    return require_scenario(scenario, f"scenario.name: {spec.scenario_name}")


def build_method(spec: RunSpec, scenario: Scenario) -> Method:
    """Return the run's method for a scenario; errors as in :func:`build_scenario`."""
    context = Context(scenario.space, scenario.agents, spec.rounds, spec.seed)
    target = find("method", spec.method_name, spec.import_from)
    method = _construct(target, "method", spec.method, context=context)
    return require_method(method, f"method.name: {spec.method_name}")


def require_scenario(thing: object, where: str) -> Scenario:
    """Return an object as what it should be.

    Args:
        thing: what a user's class made.
        where: names it in errors.

    Raises:
        ConfigError: if it lacks something of a scenario.
        UserCodeError: if one of its properties raises.
    """
    space, direction, agents, _ = _attributes(
        thing, where, ("space", "direction", "agents", "objective"), "a scenario"
    )
    for name, value, good, expected in (
        ("space", space, isinstance(space, Space), "a fedsim.space.Space"),
        ("direction", direction, direction in ("maximize", "minimize"), "maximize or minimize"),
        ("agents", agents, type(agents) is int and agents >= 1, "a whole number of at least 1"),
    ):
        if not good:
            raise ConfigError(f"{where}: its {name}: expected {expected}, got {_short(value)}")
    return typing.cast(Scenario, thing)


def require_method(thing: object, where: str) -> Method:
    """Return an object as what it should be; see :func:`require_scenario`."""
    _attributes(thing, where, ("agent", "server"), "a method")
    return typing.cast(Method, thing)


def resolve_section(section: str, given: Settings, import_from: str) -> dict[str, Any]:
    """Return a ``scenario`` or ``method`` section with every default filled in.

    Args:
        section: ``scenario`` or ``method``.
        given: what the user set, with ``name``.
        import_from: the folder that ``module:Class`` names are imported from.

    Raises:
        ConfigError: if a name is unknown or a value has the wrong type.
    """
    name = str(given["name"])
    entry = find(section, name, import_from)
    for key, value in entry.fixed.items():
        if key in given and given[key] != value:
            raise ConfigError(
                f"{section}.{key}: {name} fixes it at {value!r}, got {given[key]!r}; "
                f"choose another {section}.name to change it"
            )
    values = _checked(entry, section, given)
    return {"name": name, **values.model_dump(mode="json", by_alias=True)}


def find(section: str, name: str, import_from: str) -> Entry:
    """Return the registered entry of a name, or one for a user's ``module:Class``.

    Raises:
        ConfigError: if there is no such name.
    """
    registered = SCENARIOS if section == "scenario" else METHODS
    if name in registered:
        return registered[name]
    if ":" not in name:
        raise ConfigError(
            f"{section}.name: unknown name {name!r}{nearest(name, registered)}; a class of your "
            "own is named module:Class"
        )
    if import_from not in sys.path:
        sys.path.insert(0, import_from)
    return Entry(name)


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


def _explain(error: ValidationError, model: type[BaseModel], values: Settings, where: str) -> str:
    errors = error.errors()
    first = errors[0]
    location = _location(values, first["loc"])
    path = ".".join(str(part) for part in (where, *location) if str(part))
    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        valid = _names_at(model, location[:-1])
        return f"{path}: unknown key{nearest(str(location[-1]), valid)}"
    if first["type"] == "missing":
        return f"{path}: missing; it has no default"
    # A union reports every member: the value may be this or that.
    same = [e["msg"] for e in errors if _location(values, e["loc"]) == location]
    message = ", or ".join(m[0].lower() + m[1:] for m in dict.fromkeys(same))
    return f"{path}: {message}, got {_short(first['input'])}"


def _location(values: Any, location: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Return a location without the names of union members that pydantic mixes into it."""
    kept = []
    for part in location:
        if isinstance(values, Mapping):
            kept.append(part)
            values = values.get(part)
        elif isinstance(values, (list, tuple)) and isinstance(part, int):
            kept.append(part)
            values = values[part] if part < len(values) else None
    return tuple(kept)


def _names_at(model: Any, location: tuple[int | str, ...]) -> list[str]:
    """Return the keys that are valid at a location inside a model of models and dataclasses."""
    fields = _fields(model)
    for part in location:
        hint = fields.get(str(part))
        fields = next(filter(None, map(_fields, (hint, *typing.get_args(hint)))), {})
    return list(fields)


def _fields(model: Any) -> dict[str, Any]:
    """Return the keys of a model or dataclass and their types; nothing for other types."""
    if inspect.isclass(model) and issubclass(model, BaseModel):
        return {f.alias or name: f.annotation for name, f in model.model_fields.items()}
    if hasattr(model, "__dataclass_fields__"):
        hints = typing.get_type_hints(model)
        return {name: hints[name] for name in model.__dataclass_fields__}
    return {}


def _refuse_nonsense(given: Any, checked: Any, path: str) -> None:
    """Refuse NaN, and true and false where pydantic took them for the numbers 1 and 0."""
    boolean = isinstance(given, bool) and isinstance(checked, (int, float)) and given is not checked
    if boolean or (isinstance(given, float) and math.isnan(given)):
        raise ConfigError(f"{path}: expected a number, got {given}")
    if isinstance(given, Mapping) and isinstance(checked, Mapping):
        for key in given.keys() & checked.keys():
            _refuse_nonsense(given[key], checked[key], f"{path}.{key}" if path else str(key))
    elif isinstance(given, (list, tuple)) and isinstance(checked, (list, tuple)):
        for i, (before, after) in enumerate(zip(given, checked, strict=False)):
            _refuse_nonsense(before, after, f"{path}.{i}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _checked(entry: Entry, section: str, given: Settings) -> BaseModel:
    """Return a section's settings, checked against the constructor's keyword arguments."""
    settings = {key: value for key, value in given.items() if key != "name"}
    schema = _schema(entry.load(), section)
    checked = validate(schema, {**settings, **entry.fixed}, section)
    for name in entry.required:
        if name in settings and settings[name] is None:
            raise ConfigError(
                f"{section}.{name}: {given['name']} needs it, got null; choose another "
                f"{section}.name to do without"
            )
    return checked


def _schema(target: type, section: str) -> type[BaseModel]:
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
            # pydantic has opinions about names: it sees numbered ones, and the true as aliases.
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


def _construct(entry: Entry, section: str, given: Settings, **supplied: object) -> object:
    checked = _checked(entry, section, given)
    target = entry.load()
    wanted = inspect.signature(target).parameters
    fields = type(checked).model_fields.items()
    arguments = {str(field.alias): getattr(checked, name) for name, field in fields}
    arguments |= {name: value for name, value in supplied.items() if name in wanted}
    with user_code(f"{section}.name: {given['name']} cannot be built"):
        return target(**arguments)


def _attributes(thing: object, where: str, names: Sequence[str], kind: str) -> list[Any]:
    """Return a user's object's attributes, which may be properties that raise.

    Raises:
        ConfigError: if it lacks one.
        UserCodeError: if one raises.
    """
    found = []
    for name in names:
        with user_code(f"{where}: its {name} cannot be read"):
            try:
                found.append(getattr(thing, name))
            except AttributeError:
                if hasattr(type(thing), name):
                    raise  # a property whose own code lacks something
                raise ConfigError(
                    f"{where} is not {kind}: it has no {name}; expected {', '.join(names)}"
                ) from None
    return found
