"""How the command line prints."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from typing import Any

from rich.console import Console

from fedsim.cli.streams import LEAST_COLUMNS

USUAL_COLUMNS = 80


def make_console(*, stderr: bool = False, quiet: bool = False) -> Console:
    """Return a console that shows users' text as it is: no colours for numbers, no emoji.

    Args:
        stderr: where it prints.
        quiet: print nothing.
    """
    # What it is now: a user's code may replace it.
    file = sys.stderr if stderr else sys.stdout
    console = Console(file=file, quiet=quiet, highlight=False, emoji=False)
    if console.width < LEAST_COLUMNS:
        console.width = USUAL_COLUMNS
    return console


def print_text(console: Console, text: str, style: str | None = None) -> None:
    """Print a text as it is: the terminal breaks its lines, and brackets are no markup."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def print_json(record: Mapping[str, Any]) -> None:
    """Print a record as one line of JSON; NaN and infinity, which JSON lacks, become null."""
    from fedsim.files import format_json

    print(format_json(record))


def only_json_on_stdout(wanted: bool) -> AbstractContextManager[object]:
    """Return a context in which all prints, including those of a user's code, go to stderr."""
    return redirect_stdout(sys.stderr) if wanted else nullcontext()
