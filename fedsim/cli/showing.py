"""Commands that show or prepare: ``list``, ``show``, ``init``, ``evaluate`` and ``plot``."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from fedsim.cli.consoles import make_console, print_json
from fedsim.cli.display import duration, progress_note
from fedsim.cli.running import JsonOption, only_json_on_stdout
from fedsim.cli.summary import closing_table, privacy_lines
from fedsim.config.construct import build_scenario
from fedsim.config.experiment import prepare
from fedsim.config.reading import read_config, ready_names, ready_text
from fedsim.config.registry import METHODS, SCENARIOS
from fedsim.errors import ConfigError, RunFolderError, cannot_write
from fedsim.results.digits import significant
from fedsim.rng import Keys
from fedsim.simulation.evaluation import build_objective, call_once

if TYPE_CHECKING:
    from fedsim.results.seeds import SeedRun
    from fedsim.results.status import Status


def list_names(as_json: JsonOption = False) -> None:
    """List scenarios, methods and ready configurations."""
    ready = {name: str(read_config(name)["method"]["name"]) for name in ready_names()}
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


def show(
    folder: Annotated[Path, typer.Argument(help="A run folder.")], as_json: JsonOption = False
) -> None:
    """Show a run's results, or how far it is; a running run is not disturbed."""
    from fedsim.results.analysis import load

    with only_json_on_stdout(as_json):
        run = load(folder)
        seeds = [_shown(one) for one in run.runs]
    if as_json:
        print_json({"folder": str(run.folder), "runs": [seed.record for seed in seeds]})
        return
    console = make_console()
    records = [seed.record for seed in seeds]
    states = {seed.record["status"] for seed in seeds}
    if "done" in states:
        console.print(closing_table(records))
    for line in (*filter(None, (seed.sentence for seed in seeds)), *privacy_lines(records)):
        console.print(line, markup=False, soft_wrap=True)
    if states & {"done", "running", "interrupted", "failed", "stopped"}:
        told = shlex.quote(str(run.folder))
        console.print(f"best points: fedsim best {told}", markup=False, soft_wrap=True)
    if states - {"done", "damaged"} and not states & {"running", "waiting"}:
        whole = shlex.quote(str(run.whole))
        console.print(f"continue with: fedsim resume {whole}", markup=False, soft_wrap=True)
    if states == {"damaged"}:
        raise RunFolderError(f"{run.folder}: every seed is damaged")


@dataclass(frozen=True)
class _Shown:
    """What is shown of a seed: its record, and a sentence unless it is done."""

    record: dict[str, Any]
    sentence: str = ""


def _shown(one: SeedRun) -> _Shown:
    from fedsim.results.status import StatusReader

    try:
        summary = one.summary()
        if summary["status"] == "done":
            return _Shown(summary)
        status = StatusReader(one).read()
    except RunFolderError as error:
        named = {"variant": one.variant, "seed": one.seed, "folder": str(one.folder.path)}
        damaged = {**named, "status": "damaged", "reason": str(error)}
        return _Shown(damaged, f"{one.name}: damaged: {error}")
    return _Shown({**summary, **status.record()}, _sentence(one, status))


def _sentence(one: SeedRun, status: Status) -> str:
    """Return the status of an unfinished run as a sentence."""
    progress, privacy, left = status.progress, status.privacy, status.seconds_left
    told = ""
    if privacy is not None:
        told = (
            f"ε {significant(privacy.epsilon, 3)} ({privacy.accountant}, δ = {privacy.delta:.2g})"
        )
    parts = (
        f"{one.name}: {status.state}",
        f"{max(0, progress.round)} of {progress.rounds} rounds",
        progress_note(progress, told) if progress.round >= 0 else "",
        f"{progress.evaluations} evaluations" if progress.evaluations else "",
        f"{status.under_way} more done in the next step" if status.under_way else "",
        f"about {duration(left)} left" if left is not None and status.state == "running" else "",
    )
    text = ", ".join(filter(None, parts))
    return ": ".join(filter(None, (text, status.reason, status.lost)))


def init(
    name: Annotated[str, typer.Argument(help="A ready configuration; `fedsim list` shows them.")],
) -> None:
    """Copy a ready configuration into the current folder, to edit and run."""
    path = Path(f"{name}.yaml")
    text = ready_text(name)
    if path.exists():
        raise RunFolderError(f"{path}: already exists; move it away first")
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise cannot_write(path, error) from error
    print(f"{path} written; edit it, then: fedsim run {path}")


def evaluate(
    scenario: Annotated[str, typer.Argument(help="A scenario's name, module:Class, or a file.")],
    point: Annotated[str, typer.Option(help='JSON: {"C": 1, "gamma": 0.1} or [1, 0.1]')],
    agent: Annotated[int, typer.Option("--agent", "-i", help="Which agent's objective.")] = 0,
    noiseless: Annotated[bool, typer.Option(help="The value without observation noise.")] = False,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="e.g. scenario.agents=9")
    ] = None,
    seed: Annotated[int, typer.Option(help="The run's seed.")] = 0,
    data: Annotated[Path | None, typer.Option(help="Folder of the data sets.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Call one agent's objective once."""
    with only_json_on_stdout(as_json):
        experiment = prepare(_source(scenario), [f"seeds={seed}", *(assignments or [])], data)
        spec = experiment.spec(next(iter(experiment.variants.values())), seed)
        built = build_scenario(spec)
        if not 0 <= agent < built.agents:
            raise ConfigError(f"--agent: expected 0 to {built.agents - 1}, got {agent}")
        named = built.space.checked(_point(point))
        objective = build_objective(spec, built, agent)
        where = f"agent {agent}, point {named}"
        found = call_once(objective, named, Keys(seed, agent, 0)("objective"), where)
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
        point = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"--point: not valid JSON: {error}") from None
    if not isinstance(point, (dict, list)):
        raise ConfigError(f"--point: expected an object or a list, got {text}")
    return point


def _source(scenario: str) -> Any:
    """Return a scenario's configuration: that of a file or ready name, else a minimal one."""
    if scenario in ready_names() or Path(scenario).is_file():
        return read_config(scenario)
    return {"scenario": {"name": scenario}, "method": {"name": "random-search"}, "rounds": 1}


def plot(
    folders: Annotated[list[Path], typer.Argument(help="Run folders; their curves are overlaid.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The picture: PNG, PDF or SVG.")] = Path(
        "fedsim.png"
    ),
) -> None:
    """Draw regret (or best observed value) against rounds: mean and standard error over seeds."""
    from fedsim.dashboards.plots import plot_runs
    from fedsim.results.analysis import load

    print(plot_runs([load(folder) for folder in folders], out))
