"""Files of JSON lines that survive a crash: journals, timings, transcripts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from fedsim.errors import cannot_write


class Appender(Protocol):
    """Takes JSON lines, one after another; a list does, too."""

    def append(self, line: Mapping[str, Any], /) -> None:
        """Write one line."""
        ...


def encode(line: Mapping[str, Any]) -> bytes:
    """Return a journal line: compact JSON with shortest exact floats and a newline."""
    return json.dumps(line, separators=(",", ":"), allow_nan=False).encode() + b"\n"


class LineWriter:
    """Appends whole lines to a file, past all buffers.

    Args:
        path: the file; created if it is absent. A last line that a crash tore is cut first.
        sync: whether each line is on disk when :meth:`append` returns.

    Raises:
        RunFolderError: if the file cannot be opened.
    """

    def __init__(self, path: Path, *, sync: bool = False) -> None:
        self._path = path
        self._sync = sync
        cut_torn_line(path)
        try:
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise cannot_write(path, error) from error

    @property
    def empty(self) -> bool:
        """Whether nothing was written yet, by whomever."""
        return self._file.tell() == 0

    def append(self, line: Mapping[str, Any]) -> None:
        """Write one line.

        Raises:
            RunFolderError: if the disk refuses it; what was written before is kept.
        """
        # An unbuffered write may be short (a nearly full disk): go on until all is out or it fails.
        rest = memoryview(encode(line))
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
            if self._sync:
                os.fsync(self._file.fileno())
        except OSError as error:
            raise cannot_write(self._path, error) from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def cut_torn_line(path: Path) -> None:
    """Cut a last line without newline from a file of lines, if it exists.

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
