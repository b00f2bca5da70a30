"""What to do about a file of a seed that is lost, damaged or another seed's.

Each kind of damage has one advice, with the same words wherever it is said.
"""

from __future__ import annotations

REMAKE = "remove it and resume the run: the journal holds everything that is needed"
"""About a manifest or a checkpoint that is damaged."""

RESTART = (
    "restore it from a copy, or move the seed's folder out of the run folder and resume the run, "
    "which does the seed again from its start"
)
"""About a journal of which nothing can be used."""

_GO_ON = (
    "remove manifest.json and state/checkpoint.npz beside it and resume the run, which does again "
    "what the journal lacks"
)

REDO = f"restore it from a copy, or {_GO_ON}"
"""About a journal that lost its end."""


def of_damaged_line(number: int) -> str:
    """Return what to do about a journal with a damaged line.

    Args:
        number: the first damaged line, from 1; before it the journal is whole.
    """
    return (
        f"restore it from a copy, or cut it before that line, {_GO_ON}" if number > 1 else RESTART
    )
