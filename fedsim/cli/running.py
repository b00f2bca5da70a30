"""``fedsim run`` and ``fedsim resume``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedsim.cli.completion import complete_backend, complete_source
from fedsim.cli.consoles import make_console, only_json_on_stdout, print_json, print_text
from fedsim.cli.options import (
    JobsOption,
    JsonOption,
    QuietOption,
    RunFolderArgument,
    SetOption,
    VerboseOption,
)
from fedsim.streams import streams_kept

if TYPE_CHECKING:  # these take long to import, and --help needs none of them
    from fedsim.running.jobs import Listener


def run(
    context: typer.Context,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE|NAME]",
            help="A file or a ready configuration.",
            autocompletion=complete_source,
        ),
    ] = None,
    assignments: SetOption = None,
    seeds: Annotated[str | None, typer.Option(help="e.g. 3, 0-9 or 1,4,7-9")] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; must not exist.")] = None,
    backend: Annotated[
        str | None, typer.Option(help="auto, serial or ray", autocompletion=complete_backend)
    ] = None,
    agents_per_actor: Annotated[
        str | None, typer.Option(help="How many agents share a Ray actor, or auto.")
    ] = None,
    address: Annotated[str | None, typer.Option(help="An existing Ray cluster.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of the data sets.")] = None,
    jobs: JobsOption = "auto",
    noise_control: Annotated[
        bool, typer.Option("--noise-control", help="Also run each private variant on noise alone.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would run.")] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Run a simulation: without arguments, agents that share privately, beside agents alone."""
    from fedsim.config.experiment import prepare

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
        if dry_run:
            from fedsim.cli.planning import planned, print_plan

            result = planned(experiment, jobs)
            if not as_json:
                print_plan(result)
        else:
            from fedsim.cli.closing import close
            from fedsim.results.analysis import load
            from fedsim.runner import run as start

            with followed(context) as listener:
                path = start(experiment, out=out, jobs=jobs, listener=listener)
            result = close(load(path), make_console(quiet=as_json and context.obj.quiet))
    if as_json:
        print_json(result)


def resume(
    context: typer.Context,
    folder: RunFolderArgument,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="e.g. backend=serial, seeds=0-9"),
    ] = None,
    jobs: JobsOption = "auto",
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Resume an unfinished run from its last recorded evaluation."""
    from fedsim.cli.closing import close
    from fedsim.results.analysis import load
    from fedsim.runner import resume as resume_run

    with only_json_on_stdout(as_json):
        done = _done(folder)
        with followed(context) as listener:
            path = resume_run(folder, overrides=assignments or (), jobs=jobs, listener=listener)
        finished = load(path)
        resumed = done < len(finished.runs)
        if not resumed:
            notes = make_console(stderr=True, quiet=context.obj.quiet)
            print_text(notes, f"{folder}: already done, there is nothing to resume")
        console = make_console(quiet=as_json and context.obj.quiet)
        result = {**close(finished, console), "resumed": resumed}
    if as_json:
        print_json(result)


@contextmanager
def followed(context: typer.Context) -> Iterator[Listener]:
    """Yield the listener that shows a run's progress on stderr, unless nobody wants to see it."""
    if context.obj.quiet:
        from fedsim.running.jobs import Listener

        yield Listener()
        return
    from fedsim.cli.display import LiveDisplay

    with streams_kept(), LiveDisplay(make_console(stderr=True)) as display:
        yield display


def _done(folder: Path) -> int:
    """Return how many seeds of a run are done; 0 if it cannot be read."""
    from fedsim.errors import RunFolderError
    from fedsim.results.analysis import load

    try:
        return sum(one.status == "done" for one in load(folder).runs)
    except RunFolderError:  # resuming explains it
        return 0
