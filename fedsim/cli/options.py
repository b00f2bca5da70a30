"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedsim.cli.completion import complete_assignment, complete_run


def _quiet(context: typer.Context, wanted: bool) -> None:
    context.obj.quiet |= wanted


def _verbose(context: typer.Context, wanted: bool) -> None:
    context.obj.verbose |= wanted


BestAgentOption = Annotated[
    bool, typer.Option("--best-agent", help="The best agent's value, not the mean of agents.")
]
JobsOption = Annotated[
    str, typer.Option("--jobs", metavar="N", help="Seeds and variants at a time, or auto.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON line on stdout.")]
LabelOption = Annotated[
    list[str] | None, typer.Option(help="What to call a run: once for each folder.")
]
QuietOption = Annotated[
    bool,
    typer.Option("--quiet", "-q", callback=_quiet, help="Print only errors and the result."),
]
VerboseOption = Annotated[
    bool,
    typer.Option("--verbose", "-v", callback=_verbose, help="Say where in fedsim an error was."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="e.g. method.surrogate.beta=2",
        autocompletion=complete_assignment,
    ),
]
RunFolderArgument = Annotated[
    Path, typer.Argument(help="A run folder.", autocompletion=complete_run)
]
AnyRunFolderArgument = Annotated[
    Path,
    typer.Argument(help="A run folder, or that of a variant or seed.", autocompletion=complete_run),
]
