"""How the command line prints."""

from __future__ import annotations

from rich.console import Console


def make_console(*, stderr: bool = False) -> Console:
    """Return a console that shows users' text as it is: no colours for numbers, no emoji."""
    return Console(stderr=stderr, highlight=False, emoji=False)
