"""``fedsim runs``: lists the runs under a folder."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedsim.cli.completion import complete_run
from fedsim.cli.consoles import make_console, print_json
from fedsim.cli.options import JsonOption
from fedsim.errors import listed

if TYPE_CHECKING:  # takes long to import, and --help does not need it
    from rich.table import Table

    from fedsim.results.listing import RunSummary

RUNS = Path("runs")
_COLOURS = {"done": "green", "running": "cyan", "failed": "bold red", "damaged": "bold red"}


def runs(
    folder: Annotated[
        Path,
        typer.Argument(help="Where to look, three levels down.", autocompletion=complete_run),
    ] = RUNS,
    as_json: JsonOption = False,
) -> None:
    """List runs: their status, how long ago they were started, and what they compare."""
    from fedsim.results.listing import list_runs

    nothing_yet = folder == RUNS and not folder.exists()
    found = [] if nothing_yet else list_runs(folder)
    if as_json:
        print_json({"folder": str(folder), "runs": [run.record() for run in found]})
    elif not found:
        print(f"no runs in {folder}; `fedsim run` makes one")
    else:
        from fedsim.cli.tables import print_table

        print_table(make_console(), _table(found, datetime.now(UTC)))


def _table(found: list[RunSummary], now: datetime) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("folder", overflow="fold")
    for name in ("status", "started", "rounds", "done"):
        table.add_column(name, justify="right" if name == "rounds" else "left", no_wrap=True)
    table.add_column("variants", overflow="fold")
    for run in found:
        cells = (
            Text(str(run.folder)),
            Text(run.status, style=_COLOURS.get(run.status, "yellow")),
            "" if run.started is None else age(now - run.started),
            str(run.rounds),
            f"{run.done} of {run.jobs}",
            Text(_variants(run)),
        )
        table.add_row(*cells)
    return table


def _variants(run: RunSummary) -> str:
    """Return the first three labels, and how many there are."""
    more = len(run.variants) - 3
    return listed(run.variants[:3]) + (f" and {more} more" if more > 0 else "")


def age(time: timedelta) -> str:
    """Return how long ago something was, in its largest unit: seconds to days."""
    seconds = max(0, round(time.total_seconds()))
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if count := seconds // length:
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"
