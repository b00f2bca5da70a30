"""What is printed when a run is done: the table, the privacy, the warnings and the picture."""

from __future__ import annotations

import shlex
from typing import Any

from rich.console import Console

from fedsim.cli.summary import closing_table, privacy_lines
from fedsim.results.analysis import Run
from fedsim.results.comparison import control_differences


def close(run: Run, console: Console) -> dict[str, Any]:
    """Print the outcome, draw the picture and return both as a record."""
    from fedsim.dashboards.plots import plot

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
    if any(one.folder.logs.exists() for one in run.runs):
        console.print(f"what was printed: fedsim logs {told}", markup=False, soft_wrap=True)
    picture = plot(run, run.folder / "progress.png").path
    console.print(f"folder  {run.folder}\npicture {picture}", markup=False, soft_wrap=True)
    result: dict[str, Any] = {"folder": str(run.folder), "picture": str(picture), "status": "done"}
    if len(summaries) == 1:
        result = {**summaries[0], **result}
    return {**result, "runs": summaries}
