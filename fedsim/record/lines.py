"""Files of JSON lines that survive a crash: journals, timings, transcripts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from fedsim.errors import cannot_write
from fedsim.files import sync, writing


class Appender(Protocol):
    """Takes JSON lines, one after another; a list also works."""

    def append(self, line: Mapping[str, Any], /) -> None:
        """Write one line."""
        ...


def encode(line: Mapping[str, Any]) -> bytes:
    """Return a line: compact JSON with a newline; floats as short as exactness allows.

    Raises:
        ValueError: if a number is not finite; a journal without it would not be the truth.
    """
    return json.dumps(line, separators=(",", ":"), allow_nan=False).encode() + b"\n"


class LineWriter:
    """Appends whole lines to a file, unbuffered.

    Args:
        path: the file; created if it does not exist. A last line cut short by a crash is removed.
        sync: whether each line is on disk when :meth:`append` returns, if the file system can.

    Raises:
        RunFolderError: if the file cannot be opened.
    """

    def __init__(self, path: Path, *, sync: bool = False) -> None:
        self._path = path
        self._sync = sync
        with writing():
            cut_torn_line(path)
            try:
                self._file = path.open("ab", buffering=0)
            except OSError as error:
                raise cannot_write(path, error) from error

    @property
    def empty(self) -> bool:
        """Whether the file is empty."""
        return self._file.tell() == 0

    def append(self, line: Mapping[str, Any]) -> None:
        """Write one line.

        Raises:
            RunFolderError: if it cannot be written; earlier lines are kept.
        """
        # An unbuffered write may be short (nearly full disk): repeat until all is out or it fails.
        rest = memoryview(encode(line))
        with writing():
            try:
                while rest:
                    rest = rest[self._file.write(rest) :]
                if self._sync:
                    sync(self._file.fileno())
            except OSError as error:
                raise cannot_write(self._path, error) from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def cut_torn_line(path: Path) -> None:
    """Remove a last line without newline from a file, if it exists.

    Raises:
        RunFolderError: if the file cannot be written.
    """
    if not path.is_file():
        return
    try:
        with path.open("r+b") as file:
            end = 0
            for raw in file:
                end += len(raw) if raw.endswith(b"\n") else 0
            file.truncate(end)
    except OSError as error:
        raise cannot_write(path, error) from error
