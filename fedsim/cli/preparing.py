"""Commands for before a run: ``list``, ``init`` and ``evaluate``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fedsim.cli.completion import complete_ready, complete_scenario
from fedsim.cli.consoles import make_console, only_json_on_stdout, print_json
from fedsim.cli.options import JsonOption, SetOption
from fedsim.errors import ConfigError, RunFolderError
from fedsim.systemerrors import cannot_write


def list_names(as_json: JsonOption = False) -> None:
    """List scenarios, methods and ready configurations."""
    from rich.table import Table

    from fedsim.config.ready import ready_names, ready_text
    from fedsim.config.registry import METHODS, SCENARIOS
    from fedsim.yamltext import parse_yaml

    ready = {name: str(parse_yaml(ready_text(name))["method"]["name"]) for name in ready_names()}
    found = {
        "configurations": {name: f"ready to run, with {method}" for name, method in ready.items()},
        "scenarios": {name: entry.summary for name, entry in SCENARIOS.items()},
        "methods": {name: entry.summary for name, entry in METHODS.items()},
    }
    if as_json:
        print_json(found)
        return
    for kind, names in found.items():
        table = Table(title=kind, title_justify="left", show_header=False, box=None)
        for name, summary in names.items():
            table.add_row(name, summary)
        make_console().print(table)


def init(
    name: Annotated[
        str,
        typer.Argument(
            help="A ready configuration; `fedsim list` shows them.", autocompletion=complete_ready
        ),
    ],
) -> None:
    """Copy a ready configuration into the current folder, to edit and run."""
    from fedsim.config.ready import ready_text

    path = Path(f"{name}.yaml")
    text = ready_text(name)
    if path.exists():
        raise RunFolderError(f"{path}: already exists; move it away first")
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise cannot_write(path, error, "write it again") from error
    print(f"{path} written; edit it, then: fedsim run {path}")


def evaluate(
    scenario: Annotated[
        str,
        typer.Argument(
            help="A scenario's name, module:Class, or a file.", autocompletion=complete_scenario
        ),
    ],
    point: Annotated[str, typer.Option(help='JSON: {"C": 1, "gamma": 0.1} or [1, 0.1]')],
    agent: Annotated[int, typer.Option("--agent", "-i", help="Which agent's objective.")] = 0,
    noiseless: Annotated[bool, typer.Option(help="The value without observation noise.")] = False,
    assignments: SetOption = None,
    seed: Annotated[int, typer.Option(help="The run's seed.")] = 0,
    data: Annotated[Path | None, typer.Option(help="Folder of the data sets.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Call one agent's objective once."""
    from fedsim.running.evaluating import evaluate_once

    told = list(assignments or [])
    with only_json_on_stdout(as_json):
        named, found = evaluate_once(
            scenario, _point(point), agent=agent, seed=seed, overrides=told, data_dir=data
        )
    if noiseless and found.noiseless is None:
        raise ConfigError(f"--noiseless: {scenario} does not return noiseless values")
    value = found.noiseless if noiseless else found.y
    record = {"value": value, "point": named, "agent": agent}
    if as_json:
        print_json(record)
    else:
        print(f"{value!r} at {named}")


def _point(text: str) -> Any:
    try:
        point = json.loads(text, object_pairs_hook=_once_each)
    except ValueError as error:
        raise ConfigError(f"--point: not valid JSON: {error}") from None
    if not isinstance(point, (dict, list)):
        raise ConfigError(f"--point: expected an object or a list, got {text}")
    return point


def _once_each(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"--point: {twice!r} is given twice")
    return found
