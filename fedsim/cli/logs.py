"""``fedsim logs``: what a run's objectives and programs printed."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from fedsim.cli.consoles import make_console, print_json, print_text
from fedsim.cli.options import AnyRunFolderArgument, JsonOption
from fedsim.errors import ConfigError

if TYPE_CHECKING:  # takes long to import, and --help does not need it
    from fedsim.results.analysis import Run


def logs(
    folder: AnyRunFolderArgument,
    agent: Annotated[
        int | None, typer.Option("--agent", "-i", help="Only what this agent printed.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a run's objectives and programs printed, by agent and round."""
    from fedsim.results.analysis import load

    run = load(folder)
    _check_agent(run, agent)
    printed = [(one, turn) for one in run.runs for turn in one.printed(agent)]
    if as_json:
        records = [
            {"variant": one.variant, "seed": one.seed, **asdict(turn)} for one, turn in printed
        ]
        print_json({"folder": str(run.folder), "printed": records})
        return
    console = make_console()
    for one, turn in printed:
        whose = turn.whose or f"{turn.process}, not ended"
        print_text(console, f"{one.name}, {whose}:", "bold")
        print_text(console, turn.text.removesuffix("\n"))
    if not printed:
        nobody = "" if agent is None else f" by agent {agent}"
        console.print(f"nothing was printed{nobody}")


def _check_agent(run: Run, agent: int | None) -> None:
    """Refuse an agent that no seed has; of seeds that never started, nobody knows their agents."""
    counts = [one.folder.manifest().get("agents") for one in run.runs]
    known = max((count for count in counts if isinstance(count, int)), default=None)
    if agent is not None and known is not None and not 0 <= agent < known:
        raise ConfigError(f"--agent: expected 0 to {known - 1}, got {agent}")
