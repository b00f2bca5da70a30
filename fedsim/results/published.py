"""Published tables, to be shown beside our own numbers.

A table is a YAML file: what it is, how our numbers are to be made, and its values by row (problem)
and column (method)::

    source: FBO-FedGP, Table 2
    metric: seconds               # of `fedsim compare`, if not the default
    best_agent: false
    problem: [scenario.agents]    # what tells rows apart, if not all of the scenario that changes
    method: [method.support.size] # what tells columns apart, if not all that changes in a problem
    values:
      10: {8: 167.36, 16: 174.56}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from fedsim.errors import ConfigError, nearest, of_option
from fedsim.files import user_path
from fedsim.keys import value_text
from fedsim.yamltext import parse_yaml


class Published(BaseModel):
    """A published table.

    Attributes:
        source: where it was published.
        metric: what our numbers beside it are; None: the default.
        best_agent: whether they are the best agent's.
        problem: the keys that tell rows apart; none: the default.
        method: the keys that tell columns apart; none: the default.
        values: by row and column.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    metric: str | None = None
    best_agent: bool = False
    problem: tuple[str, ...] = ()
    method: tuple[str, ...] = ()
    values: dict[str, dict[str, float]]


@dataclass(frozen=True)
class Beside:
    """A published table beside ours.

    Attributes:
        source: where it was published.
        methods: its methods, in order; those that we have are called as ours.
        values: by our problem and method; those that are not published are missing.
    """

    source: str
    methods: tuple[str, ...]
    values: Mapping[tuple[str, str], float]


def published_names() -> list[str]:
    """Return the names of the published tables that ship with fedsim."""
    names = [one.name for one in _folder().iterdir()]
    return sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))


def read_published(given: str | Path) -> Published:
    """Return a published table.

    Args:
        given: the name of one that ships with fedsim, or a YAML file.

    Raises:
        ConfigError: if there is no such table, or it is not one.
    """
    names, path = published_names(), user_path(given)
    try:
        if str(given) in names:
            text = _folder().joinpath(f"{given}.yaml").read_text("utf-8")
        elif path.is_file():
            text = path.read_text("utf-8")
        else:
            raise of_option(
                "--published",
                ConfigError(
                    f"published: no file, and no table of fedsim: {str(given)!r}"
                    f"{nearest(str(given), names)}"
                ),
            )
        return Published.model_validate(_texts(parse_yaml(text)))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise of_option(
            "--published", ConfigError(f"published: {given}: {where}: {first['msg']}")
        ) from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise of_option(
            "--published", ConfigError(f"published: {given}: cannot be read: {error}")
        ) from None


def put_beside(table: Published, problems: Sequence[str], methods: Sequence[str]) -> Beside:
    """Match a published table's rows and columns with our problems and methods.

    Case, spaces, ``-`` and ``_`` do not count, and ``size=8`` also matches ``8``.

    Args:
        table: the table.
        problems: our problems.
        methods: our methods.

    Raises:
        ConfigError: if no row is one of our problems.
    """
    columns = dict.fromkeys(name for row in table.values.values() for name in row)
    rows, called = _matches(table.values, problems), _matches(columns, methods)
    if not rows:
        raise of_option(
            "--published",
            ConfigError(
                f"published: none of our problems ({', '.join(problems)}) is in {table.source}: "
                f"{', '.join(table.values)}"
            ),
        )
    values = {
        (rows[row], called.get(column, column)): value
        for row, own in table.values.items()
        if row in rows
        for column, value in own.items()
    }
    return Beside(table.source, tuple(called.get(one, one) for one in columns), values)


def _matches(theirs: Mapping[str, object], ours: Sequence[str]) -> dict[str, str]:
    """Return our names by theirs."""
    known = {_plain(name.rpartition("=")[2]): name for name in reversed(ours)}
    known |= {_plain(name): name for name in reversed(ours)}
    return {name: known[_plain(name)] for name in theirs if _plain(name) in known}


def _plain(name: str) -> str:
    return name.casefold().translate({ord(letter): None for letter in " -_"})


def _texts(found: Any) -> Any:
    """Return a parsed file with all keys as texts, such as numbers of agents."""
    if not isinstance(found, Mapping):
        return found
    return {value_text(key): _texts(value) for key, value in found.items()}


def _folder() -> Any:
    return resources.files("fedsim.scenarios").joinpath("published")
