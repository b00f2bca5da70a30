"""What is printed when a run is done: the table, the privacy, the warnings and the picture."""

from __future__ import annotations

import shlex
from typing import Any

from rich.console import Console

from fedsim.cli.consoles import print_text
from fedsim.cli.summary import print_outcome, privacy_lines
from fedsim.results.analysis import Run
from fedsim.results.comparison import control_differences


def close(run: Run, console: Console) -> dict[str, Any]:
    """Print the outcome, draw the picture and return both as a record."""
    from fedsim.dashboards.plots import plot

    summaries = run.summaries()
    print_outcome(console, summaries)
    for line in privacy_lines(summaries):
        print_text(console, line)
    refused = sum(s.get("releases_refused", 0) for s in summaries)
    if refused:
        console.print(f"releases refused by privacy.budget: {refused}; agents continued alone")
    for warning in sorted({w for s in run.runs for w in s.folder.manifest().get("warnings", [])}):
        print_text(console, f"warning: {warning}", "yellow")
    for found in control_differences(run):
        print_text(console, found.sentence())
    told = shlex.quote(str(run.folder))
    print_text(console, f"best points: fedsim best {told}")
    if any(one.folder.logs.exists() for one in run.runs):
        print_text(console, f"what was printed: fedsim logs {told}")
    picture = plot(run, out=run.folder / "progress.png").path
    print_text(console, f"folder  {run.folder}\npicture {picture}")
    result: dict[str, Any] = {"folder": str(run.folder), "picture": str(picture), "status": "done"}
    if len(summaries) == 1:
        result = {**summaries[0], **result}
    return {**result, "runs": summaries}
