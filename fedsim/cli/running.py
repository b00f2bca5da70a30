"""``fedsim run`` and ``fedsim resume``."""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from fedsim.cli.consoles import make_console, print_json
from fedsim.cli.display import LiveDisplay
from fedsim.cli.summary import closing_table, privacy_lines, privacy_sentence
from fedsim.config.experiment import Experiment, prepare
from fedsim.config.model import delta_of
from fedsim.files import format_yaml
from fedsim.preflight import check, choose_backend
from fedsim.runner import resume as resume_run
from fedsim.runner import run as start_run

if TYPE_CHECKING:  # imports pandas
    from fedsim.results.analysis import Run

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON line on stdout.")]


def run(
    source: Annotated[
        str | None, typer.Argument(metavar="[FILE|NAME]", help="A file or a ready configuration.")
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="e.g. method.surrogate.beta=2"),
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="e.g. 3, 0-9 or 1,4,7-9")] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; must not exist.")] = None,
    backend: Annotated[str | None, typer.Option(help="auto, serial or ray")] = None,
    agents_per_actor: Annotated[
        str | None, typer.Option(help="How many agents share a Ray actor, or auto.")
    ] = None,
    address: Annotated[str | None, typer.Option(help="An existing Ray cluster.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of the data sets.")] = None,
    noise_control: Annotated[
        bool, typer.Option("--noise-control", help="Also run each private variant on noise alone.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would run.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a simulation: without arguments, the synthetic DP-FTS-DE scenario."""
    given = {
        "seeds": seeds,
        "backend": backend,
        "agents_per_actor": agents_per_actor,
        "address": address,
    }
    # Quoted, so that 10.0.0.1:6379 is not read as a number in base 60.
    overrides = [f"{key}={json.dumps(value)}" for key, value in given.items() if value is not None]
    overrides += ["noise_control=true"] if noise_control else []
    with only_json_on_stdout(as_json):
        experiment = prepare(source, [*overrides, *(assignments or [])], data)
        if not dry_run:
            console = make_console(stderr=as_json)
            with LiveDisplay(console) as display:
                finished = start_run(experiment, out=out, listener=display)
            result = _close(finished, console)
        elif as_json:
            result = _planned(experiment)
        else:
            _dry_run(experiment)
    if as_json:
        print_json(result)


def resume(
    folder: Annotated[Path, typer.Argument(help="The run folder.")], as_json: JsonOption = False
) -> None:
    """Resume an unfinished run from its last recorded evaluation."""
    with only_json_on_stdout(as_json):
        console = make_console(stderr=as_json)
        with LiveDisplay(console) as display:
            finished = resume_run(folder, listener=display)
        result = _close(finished, console)
    if as_json:
        print_json(result)


def only_json_on_stdout(wanted: bool) -> AbstractContextManager[object]:
    """Return a context in which all prints, including those of a user's code, go to stderr."""
    return redirect_stdout(sys.stderr) if wanted else nullcontext()


def _close(run: Run, console: Console) -> dict[str, Any]:
    """Print the outcome, draw the picture and return both as a record."""
    from fedsim.dashboards.plots import plot_runs
    from fedsim.results.comparison import control_differences

    summaries = run.summaries()
    console.print(closing_table(summaries))
    for line in privacy_lines(summaries):
        console.print(line, markup=False, soft_wrap=True)
    refused = sum(s.get("releases_refused", 0) for s in summaries)
    if refused:
        console.print(f"releases refused by privacy.budget: {refused}; agents continued alone")
    for warning in sorted({w for s in run.runs for w in s.folder.manifest().get("warnings", [])}):
        console.print(f"warning: {warning}", style="yellow", markup=False, soft_wrap=True)
    for found in control_differences(run):
        console.print(found.sentence(), markup=False, soft_wrap=True)
    told = shlex.quote(str(run.folder))
    console.print(f"best points: fedsim best {told}", markup=False, soft_wrap=True)
    picture = plot_runs([run], run.folder / "progress.png")
    console.print(f"folder  {run.folder}\npicture {picture}", markup=False, soft_wrap=True)
    result: dict[str, Any] = {"folder": str(run.folder), "picture": str(picture), "status": "done"}
    if len(summaries) == 1:
        result = {**summaries[0], **result}
    return {**result, "runs": summaries}


def _planned(experiment: Experiment) -> dict[str, Any]:
    """Return the resolved configuration, the resource plan and the planned privacy loss."""
    from fedsim.results.losses import epsilons

    checks = check(experiment)
    jobs = sum(len(variant.seeds) for variant in experiment.variants.values())
    backend, plan = choose_backend(experiment, checks, jobs)
    return {
        "config": experiment.config.model_dump(mode="json"),
        "backend": backend,
        "plan": plan,
        "epsilon": {
            label: epsilons(checks[label].costs, delta_of(variant, checks[label].agents))
            for label, variant in experiment.variants.items()
        },
    }


def _dry_run(experiment: Experiment) -> None:
    planned = _planned(experiment)
    print(format_yaml(planned["config"]), end="")
    print(f"# backend: {planned['backend']}\n# plan: {planned['plan']}")
    for label, epsilon in planned["epsilon"].items():
        print(
            f"# {label}: "
            + (f"privacy: {privacy_sentence(epsilon)}" if epsilon else "no privacy loss")
        )
