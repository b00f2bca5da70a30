"""From a configuration to objects: scenarios and methods by name or ``package.module:Class``.

A class's constructor is its schema: the configuration section is checked against the names,
annotations and defaults of its keyword arguments. ``context``, ``seed`` and ``data_dir`` are
supplied by fedsim and cannot be set in a section.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from fedsim.errors import ConfigError, FedsimError, UserCodeError, nearest
from fedsim.imports import user_traceback
from fedsim.protocol import Context, Method, Scenario
from fedsim.registry import METHODS, SCENARIOS, Entry

SUPPLIED = ("self", "context", "seed", "data_dir")
Settings = Mapping[str, Any]


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
        ConfigError: if its name or a setting is wrong.
        UserCodeError: if its constructor raises.
    """
    target = find("scenario", spec.scenario_name, spec.import_from)
    data_dir = None if spec.data_dir is None else Path(spec.data_dir)
    scenario = _construct(target, "scenario", spec.scenario, seed=spec.seed, data_dir=data_dir)
    if not isinstance(scenario, Scenario):
        raise ConfigError(
            f"scenario.name: {spec.scenario_name} is not a scenario: expected a class with "
            "space, direction, agents and objective(agent)"
        )
    return scenario


def build_method(spec: RunSpec, scenario: Scenario) -> Method:
    """Return the run's method for a scenario; errors as in :func:`build_scenario`."""
    context = Context(scenario.space, scenario.agents, spec.rounds, spec.seed)
    target = find("method", spec.method_name, spec.import_from)
    method = _construct(target, "method", spec.method, context=context)
    if not isinstance(method, Method):
        raise ConfigError(
            f"method.name: {spec.method_name} is not a method: expected a class with "
            "agent(agent) and server()"
        )
    return method


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
    settings = {key: value for key, value in given.items() if key != "name"}
    for key, value in entry.fixed.items():
        if key in settings and settings[key] != value:
            raise ConfigError(
                f"{section}.{key}: {name} fixes it at {value!r}, got {settings[key]!r}; "
                f"choose another {section}.name to change it"
            )
    model = _schema(entry.load(), section)
    values = validate(model, {**settings, **entry.fixed}, section)
    return {"name": name, **values.model_dump(mode="json")}


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


def validate(model: type[BaseModel], values: Settings, where: str) -> BaseModel:
    """Return ``values`` checked by a pydantic model.

    Raises:
        ConfigError: for the first wrong key or value, named by its dotted path.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ConfigError(_explain(error, model, where)) from None


def _explain(error: ValidationError, model: type[BaseModel], where: str) -> str:
    first = error.errors()[0]
    path = ".".join(str(part) for part in (where, *first["loc"]) if str(part))
    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        valid = _names_at(model, first["loc"][:-1])
        return f"{path}: unknown key{nearest(str(first['loc'][-1]), valid)}"
    if first["type"] == "missing":
        return f"{path}: missing; it has no default"
    message = first["msg"][0].lower() + first["msg"][1:]
    return f"{path}: {message}, got {first['input']!r}"


def _names_at(model: Any, location: tuple[int | str, ...]) -> list[str]:
    """Return the keys that are valid at a location inside a model of models and dataclasses."""
    for part in location:
        hint = typing.get_type_hints(model).get(str(part))
        if hint is not None:  # pydantic adds the names of union members, which are no fields
            model = next((c for c in (hint, *typing.get_args(hint)) if _has_fields(c)), model)
    if inspect.isclass(model) and issubclass(model, BaseModel):
        return list(model.model_fields)
    return list(getattr(model, "__dataclass_fields__", {}))


def _has_fields(candidate: object) -> bool:
    return inspect.isclass(candidate) and (
        issubclass(candidate, BaseModel) or hasattr(candidate, "__dataclass_fields__")
    )


def _schema(target: type, section: str) -> type[BaseModel]:
    """Return a pydantic model of a constructor's keyword arguments."""
    hints = typing.get_type_hints(vars(target).get("__init__", target.__init__))
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(target).parameters.items():
        if name in SUPPLIED or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[name] = (hints.get(name, Any), default)
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=True, validate_default=False)
    return create_model(f"{section}:{target.__name__}", __config__=config, **fields)


def _construct(entry: Entry, section: str, given: Settings, **supplied: object) -> object:
    target = entry.load()
    settings = {key: value for key, value in given.items() if key != "name"}
    model = validate(_schema(target, section), {**settings, **entry.fixed}, section)
    wanted = inspect.signature(target).parameters
    arguments = {name: getattr(model, name) for name in type(model).model_fields}
    arguments |= {name: value for name, value in supplied.items() if name in wanted}
    try:
        return target(**arguments)
    except FedsimError:
        raise
    except Exception as error:
        raise UserCodeError(
            f"{section}.name: {given['name']} cannot be built: {type(error).__name__}: {error}",
            user_traceback(error),
        ) from None
