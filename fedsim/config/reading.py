"""Raw configurations: files, the ready ones that ship with fedsim, mappings, and assignments."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from itertools import islice
from pathlib import Path
from typing import Any, cast

import yaml

from fedsim.config.ready import ready_names, ready_text
from fedsim.config.words import short
from fedsim.errors import ConfigError, RunFolderError, closest, nearest, of_option
from fedsim.files import read_yaml, user_path
from fedsim.yamltext import parse_yaml

DEFAULT = "private-sharing"

NOISE, TARGET = ("noise_multiplier",), ("epsilon", "delta")
"""Settings of ``method.dp`` that replace each other; see :mod:`fedsim.config.targets`."""


def read_config(source: str | Path | Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the raw configuration of a file, a ready name, or a mapping (None: the default).

    Raises:
        ConfigError: if there is no such file or name.
    """
    if isinstance(source, Mapping):
        return dict(source)
    text = str(source or DEFAULT)
    if text in ready_names():
        loaded: dict[str, Any] = parse_yaml(ready_text(text))
        return loaded
    path = user_path(text)
    if path.suffix == ".py":
        raise ConfigError(
            f"{text}: a Python file; expected a configuration, whose scenario.name may be "
            f"{path.stem}:Class"
        )
    if path.is_dir():
        raise ConfigError(f"{text}: a folder; {_in_folder(path)}")
    if not path.is_file():
        beside = [p for ext in ("yaml", "yml") for p in path.parent.glob(f"*.{ext}")]
        meant = closest(text, [*ready_names(), *map(str, beside)])
        valid = [*ready_names(), *map(str, filter(_is_configuration, beside))]
        hint = f"; did you mean {meant!r}?" if meant else nearest(text, valid)
        raise ConfigError(f"{text}: neither a file nor a ready configuration{hint}")
    return read_yaml(path)


def _is_configuration(path: Path) -> bool:
    """Return whether a file looks like a configuration: it may be any YAML file."""
    try:
        return path.is_file() and "scenario" in read_yaml(path)
    except RunFolderError:
        return False


def _in_folder(path: Path) -> str:
    """Return what may have been meant by a folder where a configuration was expected."""
    told = shlex.quote(str(path))
    if (path / "origin.yaml").exists():
        again = shlex.quote(str(path / "config.yaml"))
        return f"`fedsim resume {told}` continues this run, `fedsim run {again}` starts it again"
    files = (one for ending in ("yaml", "yml") for one in path.glob(f"*.{ending}"))
    found = list(islice(filter(_is_configuration, files), 2))
    if len(found) == 1:  # of several, none is meant more than another
        return f"expected a file: did you mean {str(found[0])!r}?"
    return "expected a configuration file, or a ready one: `fedsim list` shows them"


def require_assignments(given: object) -> None:
    """Refuse overrides that are not a list of texts: a text is a sequence of texts, too.

    Raises:
        ConfigError: if they are not.
    """
    fits = isinstance(given, Iterable) and not isinstance(given, (str, bytes, Mapping))
    if not fits or not all(isinstance(one, str) for one in cast(Iterable[object], given)):
        raise ConfigError(
            "overrides: expected a list of texts 'key=value', such as ['rounds=2'], got "
            f"{short(given)}"
        )


def apply_overrides(raw: dict[str, Any], assignments: Sequence[str]) -> dict[str, Any]:
    """Return ``raw`` with ``dotted.key=value`` assignments; values are read as YAML.

    Raises:
        ConfigError: if they are not a list of texts, an assignment has no ``=``, or its path goes
            through a value without keys.
    """
    require_assignments(assignments)
    result = deepcopy(raw)
    given: dict[tuple[str, ...], dict[str, Any]] = {}  # by path: the mapping that holds it
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not key.strip():
            raise of_option(
                "--set", ConfigError(f"overrides: expected key=value, got {assignment!r}")
            )
        try:
            value = parse_yaml(text)
        except yaml.YAMLError:
            raise of_option(
                "--set", ConfigError(f"overrides: {key}: cannot read the value {text!r} as YAML")
            ) from None
        node = result
        *parents, last = key.strip().split(".")
        if last in ("scenario", "method", "name") and value == {text.strip()[:-1]: None}:
            value = text.strip()  # a module without a class, not a mapping
        if not all(map(str.strip, [*parents, last])):
            raise of_option(
                "--set",
                ConfigError(
                    f"overrides: {key}: expected names with one dot between them, such as "
                    "method.initial_points"
                ),
            )
        for part in parents:
            if node.get(part) is None:
                node[part] = {}
            if part in ("scenario", "method") and isinstance(node[part], str):
                node[part] = {"name": node[part]}
            node = node[part]
            if not isinstance(node, dict):
                raise of_option(
                    "--set", ConfigError(f"overrides: {key}: {part!r} has no keys of its own")
                )
        node[last] = value
        given[*parents, last] = node
    for path, node in given.items():
        if path[-3:-1] == ("method", "dp"):
            drop_replaced(node, [last for *parents, last in given if parents == [*path[:-1]]])
    return result


def drop_replaced(dp: dict[str, Any], given: Collection[str]) -> None:
    """Remove from ``method.dp`` what newer settings replace: the noise by a target, or the reverse.

    Args:
        dp: the merged settings; changed.
        given: the names of the newer ones.
    """
    new_noise = dp.get("noise_multiplier") is not None and "noise_multiplier" in given
    new_target = dp.get("epsilon") is not None and bool({*TARGET} & {*given})
    if new_noise != new_target:
        for name in TARGET if new_noise else NOISE:
            dp.pop(name, None)
