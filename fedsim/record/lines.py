"""Files of JSON lines that survive a crash: journals, timings, transcripts.

Where other values than those that were written would falsify a run, lines have checksums.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from fedsim.files import sync, writing
from fedsim.systemerrors import cannot_write

_SEAL = re.compile(rb',"crc":"([0-9a-f]{8})"}\n\Z')


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


def seal(line: bytes, number: int) -> bytes:
    """Return an encoded line with its checksum, which also depends on its place in the file.

    Args:
        line: from :func:`encode`.
        number: its number in the file, from 1.
    """
    return b'%b,"crc":"%08x"}\n' % (line[:-2], zlib.crc32(line, number))


def unseal(raw: bytes, number: int, *, needed: bool) -> Any:
    """Return what a line holds, without its checksum.

    Args:
        raw: the line, with its newline.
        number: its number in the file, from 1.
        needed: whether it must have a checksum.

    Raises:
        ValueError: if it is not JSON, or not what was written there.
    """
    match = _SEAL.search(raw)
    if match is None:
        if needed:
            raise ValueError("it has no checksum")
        return json.loads(raw)
    line = raw[: match.start()] + b"}\n"
    if zlib.crc32(line, number) != int(match[1], 16):
        raise ValueError("its checksum is wrong: it was changed or moved after it was written")
    return json.loads(line)


class LineWriter:
    """Appends whole lines to a file, unbuffered.

    Args:
        path: the file; created if it does not exist. A last line cut short by a crash is removed.
        sync: whether each line is on disk when :meth:`append` returns, if the file system can.
        sealed: whether lines get checksums; see :func:`seal`.

    Raises:
        RunFolderError: if the file cannot be opened.
    """

    def __init__(self, path: Path, *, sync: bool = False, sealed: bool = False) -> None:
        self._path = path
        self._sync = sync
        self._sealed = sealed
        with writing():
            self._lines = cut_torn_line(path)
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
        encoded = encode(line)
        if self._sealed:
            encoded = seal(encoded, self._lines + 1)
        rest = memoryview(encoded)
        with writing():
            try:
                while rest:
                    rest = rest[self._file.write(rest) :]
                if self._sync:
                    sync(self._file.fileno())
            except OSError as error:
                raise cannot_write(self._path, error) from error
        self._lines += 1

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def cut_torn_line(path: Path) -> int:
    """Remove a last line without newline from a file, if it exists; return how many are left.

    Raises:
        RunFolderError: if the file cannot be written.
    """
    if not path.is_file():
        return 0
    lines = 0
    try:
        with path.open("r+b") as file:
            end = 0
            for raw in file:
                if raw.endswith(b"\n"):
                    end, lines = end + len(raw), lines + 1
            file.truncate(end)
    except OSError as error:
        raise cannot_write(path, error) from error
    return lines
