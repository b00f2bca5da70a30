"""Commands that show runs: ``show`` and ``plot``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedsim.cli.completion import complete_run
from fedsim.cli.consoles import make_console, only_json_on_stdout, print_json
from fedsim.cli.options import JsonOption, RunFolderArgument

if TYPE_CHECKING:  # these take long to import, and --help needs none of them
    from fedsim.results.analysis import SeedRun
    from fedsim.results.status import Status


def show(folder: RunFolderArgument, as_json: JsonOption = False) -> None:
    """Show a run's results, or how far it is; a running run is not disturbed."""
    from fedsim.cli.summary import closing_table, privacy_lines
    from fedsim.results.analysis import load
    from fedsim.results.status import StatusReader

    with only_json_on_stdout(as_json):
        run = load(folder)
        summaries = run.summaries()
        pairs = list(zip(run.runs, summaries, strict=True))
        found = {one: StatusReader(one).read() for one, s in pairs if s["status"] != "done"}
    if as_json:
        records = [{**s, **found[one].record()} if one in found else s for one, s in pairs]
        print_json({"folder": str(run.folder), "runs": records})
        return
    console = make_console()
    if len(found) < len(pairs):
        console.print(closing_table(summaries))
    for one, status in found.items():
        console.print(_sentence(one, status), markup=False, soft_wrap=True)
    if found and not any(status.state in ("running", "waiting") for status in found.values()):
        again = f"continue with: fedsim resume {shlex.quote(str(run.folder))}"
        console.print(again, markup=False, soft_wrap=True)
    for line in privacy_lines(summaries):
        console.print(line, markup=False, soft_wrap=True)


def _sentence(one: SeedRun, status: Status) -> str:
    """Return the status of an unfinished run as a sentence."""
    from fedsim.cli.display import duration, progress_note
    from fedsim.results.digits import significant

    progress, privacy, left = status.progress, status.privacy, status.seconds_left
    told = ""
    if privacy is not None:
        told = (
            f"ε {significant(privacy.epsilon, 3)} ({privacy.accountant}, δ = {privacy.delta:.2g})"
        )
    parts = (
        f"{one.variant}, seed {one.seed}: {status.state}",
        f"{max(0, progress.round)} of {progress.rounds} rounds",
        progress_note(progress, told) if progress.round >= 0 else "",
        f"{progress.evaluations} evaluations" if progress.evaluations else "",
        f"{status.under_way} more done in the next step" if status.under_way else "",
        f"about {duration(left)} left" if left is not None and status.state == "running" else "",
    )
    text = ", ".join(filter(None, parts))
    return f"{text}: {status.reason}" if status.reason else text


def plot(
    folders: Annotated[
        list[Path],
        typer.Argument(help="Run folders; their curves are overlaid.", autocompletion=complete_run),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The picture: PNG, PDF or SVG.")] = Path(
        "fedsim.png"
    ),
) -> None:
    """Draw regret (or best observed value) against rounds: mean and standard error over seeds."""
    from fedsim.dashboards.plots import plot_runs
    from fedsim.results.analysis import load

    print(plot_runs([load(folder) for folder in folders], out))
