"""Standard output and error of Python, which a user's code may close, detach or replace."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

_NUMBERS = {"stdout": 1, "stderr": 2}


@contextmanager
def streams_kept() -> Iterator[None]:
    """Let ``sys.stdout`` and ``sys.stderr`` be after the block what they were before, and open.

    One that the block has closed is opened again from its descriptor. Use it where a user's code is
    waited for, not in a thread that may be left behind.
    """
    before = {name: getattr(sys, name, None) for name in _NUMBERS}
    was_open = {name: is_open(stream) for name, stream in before.items()}
    try:
        yield
    finally:
        for name, stream in before.items():
            lost = was_open[name] and not is_open(stream)
            setattr(sys, name, _opened(_NUMBERS[name]) if lost else stream)


def is_open(stream: Any) -> bool:
    """Return whether a stream is neither missing, closed nor detached."""
    try:
        return stream is not None and not getattr(stream, "closed", False)
    except ValueError:  # it is detached
        return False


def is_descriptor(number: int) -> bool:
    """Return whether a file is open under a number."""
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _opened(number: int) -> TextIO:
    known = is_descriptor(number)
    where = number if known else os.devnull
    return open(where, "w", encoding="utf-8", errors="replace", closefd=not known)
