"""Variants: the configurations that a run compares, as overrides of one configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from fedsim.config.construct import find, resolve_section, section_schema
from fedsim.config.model import Config, named
from fedsim.config.reading import drop_replaced
from fedsim.config.schema import validate
from fedsim.config.sweeps import VARIABLE, in_sweep, sections_of_keys
from fedsim.config.words import unknown_key
from fedsim.errors import ConfigError
from fedsim.files import NOISE_CONTROL, slugify
from fedsim.usercode.sources import UserCode

SECTIONS = ("scenario", "method")
"""Those of them that hold a class's settings."""


def expand_variants(
    config: Config, code: UserCode, raw: Mapping[str, Any] | None = None
) -> dict[str, Config]:
    """Return one configuration per variant, by label, without a ``variants`` key.

    A variant's overrides are merged into the configuration. If it names another method (or
    scenario), it inherits those base settings that its own also has and that neither name fixes;
    a group of settings only where its own has the same kind of group.

    Args:
        config: the whole configuration.
        code: the user's modules.
        raw: the configuration as it was written, for errors that name ``grid`` and ``zip``.

    Raises:
        ConfigError: if an override is wrong.
    """
    overrides: Mapping[str, Mapping[str, Any]] = config.variants or {config.method["name"]: {}}
    places = sections_of_keys(raw.get("grid"), raw.get("zip")) if raw else {}
    expanded: dict[str, Config] = {}
    for label, changes in overrides.items():
        if not label.strip():
            raise ConfigError("variants: expected a label for every variant, got an empty one")
        try:
            single = _variant(config, changes, code)
        except ConfigError as error:
            where = f"variants.{label}: " if config.variants else ""
            message = in_sweep(str(error), label, places) if places else f"{where}{error}"
            raise ConfigError(message) from None
        expanded[label] = single
        dp = single.method.get("dp")
        if config.noise_control and isinstance(dp, dict) and "noise_only" in dp:
            twin = single.model_copy(deep=True)
            twin.method["dp"]["noise_only"] = True
            expanded[label + NOISE_CONTROL] = twin
    if config.noise_control and len(expanded) == len(overrides):
        raise ConfigError("noise_control: no variant is private; there is nothing to control")
    _check_folders(list(expanded))
    return expanded


def _variant(config: Config, changes: Mapping[str, Any], code: UserCode) -> Config:
    if not changes:  # already checked and complete
        return config.model_copy(deep=True, update={"variants": {}, "noise_control": False})
    for key in changes:
        if key not in VARIABLE:
            raise ConfigError(unknown_key("", str(key), changes[key], VARIABLE))
    merged = config.model_dump(exclude={"variants", "grid", "zip", "noise_control"})
    changes = {key: named(value) if key in SECTIONS else value for key, value in changes.items()}
    for section in SECTIONS:
        base, change = merged[section], changes.get(section)
        if isinstance(change, Mapping) and change.get("name", base["name"]) != base["name"]:
            merged[section] = _inherited(section, base, str(change["name"]), code)
    merged = _merge(merged, changes)
    method = changes.get("method")
    given = method.get("dp") if isinstance(method, Mapping) else None
    if isinstance(given, Mapping):
        drop_replaced(merged["method"]["dp"], given.keys())
    single = validate(Config, merged, "")
    single.scenario = resolve_section("scenario", single.scenario, code)
    single.method = resolve_section("method", single.method, code)
    return single


def _inherited(section: str, base: Mapping[str, Any], name: str, code: UserCode) -> dict[str, Any]:
    """Return the settings of ``base`` that another class has too, and neither name fixes.

    Groups of settings are two classes' own where only their name is the same.
    """
    fixed = {*find(section, name, code).fixed, *find(section, base["name"], code).fixed}
    known, former = _kinds(section, name, code), _kinds(section, base["name"], code)
    return {
        key: value
        for key, value in base.items()
        if key in known
        and key not in fixed
        and (not isinstance(value, Mapping) or known[key] == former[key])
    }


def _kinds(section: str, name: str, code: UserCode) -> dict[str | None, Any]:
    """Return the annotation of each setting of a class; none for an object."""
    schema = section_schema(section, name, code)
    fields = {} if schema is None else schema.model_fields
    return {field.alias: field.annotation for field in fields.values()}


def _check_folders(labels: Sequence[str]) -> None:
    """Refuse variants that would share a folder, also on disks that ignore case."""
    kept: dict[str, str] = {}
    for label in labels:
        other = kept.setdefault(slugify(label).casefold(), label)
        if other != label:
            raise ConfigError(
                f"variants: {other!r} and {label!r} would share the folder {slugify(label)}; "
                "rename one"
            )


def _merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = deepcopy(dict(base))
    for key, value in changes.items():
        if isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = _merge(merged[key], value)
        else:
            merged[key] = deepcopy(value)
    return merged
