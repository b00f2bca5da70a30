"""``fedsim logs``: what a run's objectives and programs printed."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from fedsim.cli.completion import complete_run
from fedsim.cli.consoles import make_console, print_json
from fedsim.cli.options import JsonOption


def logs(
    folder: Annotated[
        Path,
        typer.Argument(
            help="A run folder, or that of a variant or seed.", autocompletion=complete_run
        ),
    ],
    agent: Annotated[
        int | None, typer.Option("--agent", "-i", help="Only what this agent printed.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a run's objectives and programs printed, by agent and round."""
    from fedsim.results.analysis import load

    run = load(folder)
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
        console.print(f"{one.name}, {whose}:", style="bold", markup=False, soft_wrap=True)
        console.print(turn.text.removesuffix("\n"), markup=False, soft_wrap=True)
    if not printed:
        nobody = "" if agent is None else f" by agent {agent}"
        console.print(f"nothing was printed{nobody}")
