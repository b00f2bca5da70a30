"""From a configuration to objects: scenarios and methods by name or ``package.module:Class``.

A class's constructor is its schema: the configuration section is checked against the names,
annotations and defaults of its keyword arguments. ``context``, ``seed`` and ``data_dir`` are
supplied by fedsim and cannot be set in a section.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel

from fedsim.config.limits import check_counts
from fedsim.config.registry import METHODS, SCENARIOS, Entry
from fedsim.config.schema import Settings, constructor_schema, dumped, validate
from fedsim.config.spec import RunSpec
from fedsim.config.words import short, written
from fedsim.errors import ConfigError, nearest
from fedsim.protocol import (
    AgentId,
    Context,
    HasTargets,
    Method,
    PlansCosts,
    PrivacyEvent,
    WarnsOfPlan,
)
from fedsim.space import Space
from fedsim.usercode.calling import expect, offers, user_code
from fedsim.usercode.importing import activate
from fedsim.usercode.loading import class_path
from fedsim.usercode.sources import UserCode
from fedsim.workload import Scenario


def build_scenario(spec: RunSpec) -> Scenario:
    """Return the run's scenario.

    Raises:
        ConfigError: if its name or a setting is wrong, or the class is not a scenario.
        UserCodeError: if its code raises.
    """
    target = find("scenario", spec.scenario_name, spec.code)
    data_dir = None if spec.data_dir is None else Path(spec.data_dir)
    scenario = _construct(target, "scenario", spec.scenario, seed=spec.seed, data_dir=data_dir)
    return require_scenario(scenario, f"scenario.name: {spec.scenario_name}")


def build_method(spec: RunSpec, scenario: Scenario) -> Method:
    """Return the run's method for a scenario; errors as in :func:`build_scenario`."""
    context = Context(scenario.space, int(scenario.agents), spec.rounds, spec.seed)
    if spec.code.sources:
        activate(spec.code)  # a setting of fedsim's own methods may name a class
    target = find("method", spec.method_name, spec.code)
    method = _construct(target, "method", spec.method, context=context)
    return require_method(method, f"method.name: {spec.method_name}")


def planned_costs(method: Method) -> Sequence[PrivacyEvent]:
    """Return the costs of a whole run's releases, as far as the method knows.

    Raises:
        RunError: if they are no privacy events.
        UserCodeError: if the method's code raises.
    """
    return _listed(
        method, PlansCosts, "planned_costs", lambda one: offers(one, PrivacyEvent), "privacy events"
    )


def plan_warnings(method: Method) -> tuple[str, ...]:
    """Return what a method warns of before its run; errors as in :func:`planned_costs`."""
    return _listed(method, WarnsOfPlan, "plan_warnings", lambda one: isinstance(one, str), "texts")


def _listed(
    method: Method, protocol: type[Any], name: str, fits: Callable[[object], bool], expected: str
) -> tuple[Any, ...]:
    """Return what a method's call of this name lists or yields; nothing if it has no such call."""
    what = name.removeprefix("plan_").replace("_", " ")
    with user_code(f"the method failed to return its {what}"):
        if not offers(method, protocol):
            return ()
        given: object = getattr(method, name)()
        listed = isinstance(given, Iterable) and not isinstance(given, (str, bytes, Mapping))
        found = tuple(cast(Iterable[Any], given)) if listed else ()
        known = listed and all(map(fits, found))
    expect(known, f"the method's {name}()", f"a list of {expected}", given)
    return found


def targets_of(method: Method, agents: int) -> tuple[AgentId, ...] | None:
    """Return the agents whose results count, ascending; None if all agents' do.

    Raises:
        RunError: if the method names none, or one that the run does not have.
    """
    with user_code("the method failed to return its target agents"):
        if not offers(method, HasTargets):  # reads a property, which may raise
            return None
        found = sorted(set(method.target_agents))
    known = bool(found) and set(found) <= set(range(agents))
    expect(known, "the method's target_agents", f"some of the agents 0 to {agents - 1}", found)
    return None if len(found) == agents else tuple(map(int, found))


def require_scenario(thing: object, where: str) -> Scenario:
    """Return an object as a scenario.

    Args:
        thing: an instance of a user's class.
        where: its name in errors.

    Raises:
        ConfigError: if an attribute of a scenario is missing or invalid.
        UserCodeError: if one of its properties raises.
    """
    space, direction, agents, _ = _attributes(
        thing, where, ("space", "direction", "agents", "objective"), "a scenario"
    )
    for name, value, good, expected in (
        ("space", space, isinstance(space, Space), "a fedsim.space.Space"),
        ("direction", direction, direction in ("maximize", "minimize"), "maximize or minimize"),
        ("agents", agents, _is_count(agents), "a whole number of at least 1"),
    ):
        if not good:
            raise ConfigError(f"{where}: its {name}: expected {expected}, got {short(value)}")
    return cast(Scenario, thing)


def _is_count(value: Any) -> bool:
    return isinstance(value, Integral) and value is not True and int(value) >= 1


def require_method(thing: object, where: str) -> Method:
    """Return an object as a method; see :func:`require_scenario`."""
    _attributes(thing, where, ("agent", "server"), "a method")
    return cast(Method, thing)


def resolve_section(section: str, given: Settings, code: UserCode) -> dict[str, Any]:
    """Return a ``scenario`` or ``method`` section with all defaults filled in.

    Args:
        section: ``scenario`` or ``method``.
        given: the user's settings, including ``name``.
        code: the user's modules that ``module:Class`` names are imported from.

    Raises:
        ConfigError: if a name is unknown or a value has the wrong type.
    """
    name = str(given["name"])
    entry = find(section, name, code)
    for key, value in entry.fixed.items():
        if key in given and given[key] != value:
            raise ConfigError(
                f"{section}.{key}: {name} fixes it at {written(value)}, got "
                f"{written(given[key])}; choose another {section}.name to change it"
            )
    if entry.is_object:
        if len(given) > 1:
            raise ConfigError(
                f"{section}.{next(key for key in given if key != 'name')}: {name} was given as an "
                "object, which has its settings; give the class to set them here"
            )
        return {"name": name}
    values = dumped(_checked(entry, section, given), section, as_json=True)
    if name in (SCENARIOS if section == "scenario" else METHODS):
        check_counts(section, values)
    return {"name": name, **values}


def section_schema(section: str, name: str, code: UserCode) -> type[BaseModel] | None:
    """Return what checks the settings of a scenario or method; None for an object.

    Raises:
        ConfigError: if the name is unknown, or the constructor cannot be understood.
        UserCodeError: if importing a user's module raises.
    """
    entry = find(section, name, code)
    return None if entry.is_object else constructor_schema(entry.load(), section)


def find(section: str, name: str, code: UserCode) -> Entry:
    """Return the registered entry of a name, or one for a user's ``module:Class``.

    Raises:
        ConfigError: if the name is unknown, or that of an object where a class is needed.
    """
    registered = SCENARIOS if section == "scenario" else METHODS
    if name in registered:
        return registered[name]
    if ":" not in name:
        stem = name.removesuffix(".yaml").removesuffix(".yml")  # a ready configuration's file
        meant = class_path(name) if stem == name else ""
        hint = f"; did you mean {meant!r}?" if meant else nearest(stem, registered)
        own = "" if "did you mean" in hint else "; for a class of your own, use module:Class"
        raise ConfigError(f"{section}.name: unknown name {name!r}{hint}{own}")
    entry = Entry(name, code=code)
    if entry.is_object and section == "method":
        raise ConfigError(
            f"method: expected a name or a class, got an object of {name}; every run builds its "
            "own, with its context"
        )
    try:
        entry.load()
    except ConfigError as error:
        raise ConfigError(f"{section}.name: {error}") from None
    return entry


def _checked(entry: Entry, section: str, given: Settings) -> BaseModel:
    """Return a section's settings, checked against the constructor's keyword arguments."""
    settings = {key: value for key, value in given.items() if key != "name"}
    schema = constructor_schema(entry.load(), section)
    checked = validate(schema, {**settings, **entry.fixed}, section)
    for name in entry.required:
        if name in settings and settings[name] is None:
            raise ConfigError(
                f"{section}.{name}: {given['name']} needs it, got null; choose another "
                f"{section}.name to run without it"
            )
    return checked


def _construct(entry: Entry, section: str, given: Settings, **supplied: object) -> object:
    if entry.is_object:
        return entry.load()
    checked = _checked(entry, section, given)
    target = entry.load()
    wanted = inspect.signature(target).parameters
    fields = type(checked).model_fields.items()
    arguments = {str(field.alias): getattr(checked, name) for name, field in fields}
    arguments |= {name: value for name, value in supplied.items() if name in wanted}
    with user_code(f"{section}.name: {given['name']} cannot be built"):
        return target(**arguments)


def _attributes(thing: object, where: str, names: Sequence[str], kind: str) -> list[Any]:
    """Return attributes of a user's object; they may be properties that raise.

    Raises:
        ConfigError: if one is missing.
        UserCodeError: if one raises.
    """
    found = []
    for name in names:
        with user_code(f"{where}: its {name} cannot be read"):
            try:
                found.append(getattr(thing, name))
            except AttributeError:
                if hasattr(type(thing), name):
                    raise  # an AttributeError inside a property's own code
                raise ConfigError(
                    f"{where} is not {kind}: it has no {name}; expected {', '.join(names)}"
                ) from None
    return found
