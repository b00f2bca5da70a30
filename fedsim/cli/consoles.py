"""How the command line prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console


def make_console(*, stderr: bool = False) -> Console:
    """Return a console that shows users' text as it is: no colours for numbers, no emoji."""
    return Console(stderr=stderr, highlight=False, emoji=False)


def print_json(record: Mapping[str, Any]) -> None:
    """Print a record as one line of JSON; NaN and infinity, which JSON lacks, become null."""
    from fedsim.files import format_json

    print(format_json(record))
