"""What is printed when a run is done: the table, the privacy, the warnings and the picture."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from rich.console import Console

from fedsim.cli.consoles import make_console, print_text
from fedsim.cli.summary import print_outcome, privacy_lines
from fedsim.errors import FedsimError, of_run
from fedsim.results.alone import gains_over_alone
from fedsim.results.analysis import Run
from fedsim.results.comparison import control_differences


def close(run: Run, console: Console) -> dict[str, Any]:
    """Print the outcome, draw the picture and return both as a record.

    Its shape does not depend on the run: what holds for a seed is in ``runs``. If the picture
    cannot be drawn, the outcome is there all the same, with a warning.
    """
    with of_run(run.folder):
        return _closed(run, console)


def _closed(run: Run, console: Console) -> dict[str, Any]:
    summaries = run.summaries()
    print_outcome(console, summaries)
    for line in privacy_lines(summaries):
        print_text(console, line)
    refused = sum(s.get("releases_refused", 0) for s in summaries)
    if refused:
        console.print(f"releases refused by privacy.budget: {refused}; agents continued alone")
    warnings = sorted({warning for seed in run.runs for warning in seed.warnings})
    for warning in warnings:
        print_text(console, f"warning: {warning}", "yellow")
    for found in control_differences(run):
        print_text(console, found.sentence())
    for sentence in gains_over_alone(run):
        print_text(console, sentence)
    told = shlex.quote(str(run.folder))
    if any(one.get("agents_with_values") for one in summaries):
        print_text(console, f"best points: fedsim best {told}")
    if any(one.folder.logs.exists() for one in run.runs):
        print_text(console, f"what was printed: fedsim logs {told}")
    picture, why = _picture(run)
    if why:
        warnings.append(why)
        print_text(make_console(stderr=True), f"warning: {why}", "yellow")
    print_text(console, f"folder  {run.folder}" + (f"\npicture {picture}" if picture else ""))
    return {
        "folder": str(run.folder),
        "picture": None if picture is None else str(picture),
        "status": "done",
        "warnings": warnings,
        "runs": summaries,
    }


def _picture(run: Run) -> tuple[Path | None, str]:
    """Return the picture's path, or None and why there is no picture."""
    from fedsim.dashboards.plots import plot

    try:
        return plot(run, out=run.folder / "progress.png").path, ""
    except FedsimError as error:
        return None, f"the run is done, but its picture is not drawn: {error}"
