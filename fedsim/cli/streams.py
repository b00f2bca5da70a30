"""The standard streams of the command line's process: open, and never a reason to fail a run."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Any, TextIO, cast

from fedsim.streams import is_descriptor

STREAMS = ("stdin", "stdout", "stderr")

LEAST_COLUMNS = 20
"""Nobody reads in a narrower terminal: its width is taken as unknown."""


def make_usable() -> None:
    """Make the streams usable, whatever the caller did to them.

    - A closed one (``>&-``) becomes ``/dev/null``: else the next file that is opened, such as a
      journal, would get its number, and what a user's library prints would end up there.
    - A terminal or locale without Greek letters is no error.
    - What cannot be written to stderr is lost: a run does not end because its log or its terminal
      is gone.
    """
    for number, name in enumerate(STREAMS):
        if getattr(sys, name) is None or not is_descriptor(number):
            _point_at_nothing(number)
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    sys.stderr = cast(TextIO, _Lossy(sys.stderr))


def forget_impossible_size(environ: MutableMapping[str, str]) -> None:
    """Remove a terminal's size that is not one, such as the ``COLUMNS=0`` of some containers.

    Libraries that print take it at its word, and then print nothing.

    Args:
        environ: the process's environment; changed.
    """
    for name, least in (("COLUMNS", LEAST_COLUMNS), ("LINES", 1)):
        given = environ.get(name, "")
        if given.isdigit() and int(given) < least:
            del environ[name]


def discard_output() -> None:
    """Discard what is buffered for stdout, so that Python's own last flush does not fail."""
    with suppress(io.UnsupportedOperation):  # it has no number: a test's own stream
        _point_at_nothing(sys.stdout.fileno())


def _point_at_nothing(number: int) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    if nothing != number:
        os.dup2(nothing, number)
        os.close(nothing)
    os.set_inheritable(number, True)


class _Lossy:
    """A text stream whose failures to write are ignored.

    Args:
        stream: the stream.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text, or lose it."""
        with suppress(OSError, ValueError):  # closed or detached by a user's code
            return self._stream.write(text)
        return self._lose(len(text))

    def flush(self) -> None:
        """Flush, or lose what is buffered."""
        with suppress(OSError, ValueError):
            return self._stream.flush()
        self._lose(0)
        return None

    def close(self) -> None:
        """Stay open, for what is still to be said."""
        self.flush()

    def _lose(self, length: int) -> int:
        with suppress(OSError, ValueError):
            _point_at_nothing(self._stream.fileno())
        return length

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
