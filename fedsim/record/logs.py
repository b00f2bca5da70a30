"""What a run's processes print, kept in the run folder's ``logs``.

Every process has a file of its own. What was printed in one turn, such as an agent's evaluation, is
followed by a line that says whose turn it was, so silent turns leave nothing. Text after the last
such line is of the turn that is running, or in which the process ended.

Standard output and error are redirected as files, which keeps what C code and the processes that an
objective starts print, too. If a file grows too large, its first half is dropped.
"""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from fedsim.errors import Interrupted, cannot_write
from fedsim.files import writing

LARGEST = 4_000_000
"""How large a log may grow, in bytes. A turn that prints more within a second exceeds it."""

CHECK_SECONDS = 1.0
"""How often a log's size is checked during a turn."""

LAST_LINES = 20
LAST_BYTES = 4_000
"""How much of its last output an error shows."""

_WHOSE = "--- above: "
_DROPPED = b"--- earlier lines were dropped\n"


@dataclass(frozen=True, slots=True)
class Printed:
    """What was printed in one turn.

    Attributes:
        whose: e.g. ``agent 3, round 5``; empty if the turn has not ended, or its process died.
        text: the lines.
    """

    whose: str
    text: str


class Log:
    """The file of one process.

    Args:
        path: the file, which is appended to; None: one without a name, for :meth:`drain`.
        owner: whose output it is between two turns, e.g. ``server``.
        largest: its size limit, in bytes.

    Attributes:
        hidden: whether nobody sees what is printed, except in this file.

    Raises:
        RunFolderError: if the file cannot be opened.
    """

    def __init__(self, path: Path | None, owner: str, largest: int = LARGEST) -> None:
        self.hidden = False
        self._path = path
        self._owner = owner
        self._largest = largest
        try:
            self.descriptor = _unnamed() if path is None else _opened(path)
        except OSError as error:
            raise cannot_write(path or Path(tempfile.gettempdir()), error) from error
        self._lock = threading.Lock()
        self._whose = ""
        self._start = self._size()

    def turn(self, whose: str) -> None:
        """Say whose output follows; an empty text: the process's own."""
        if whose == self._whose:
            return
        _flush()
        with self._lock:
            if self._size() > self._start:
                self._end_turn()
        self._whose = whose

    def write(self, text: str) -> None:
        """Add text to the current turn."""
        with _best_effort():
            os.write(self.descriptor, text.encode(errors="replace"))

    def last_lines(self) -> str:
        """Return the last lines of the current turn; none once the log is closed."""
        _flush()
        if self.descriptor < 0:
            return ""
        with self._lock:
            start = max(self._start, self._size() - LAST_BYTES)
            return _last(os.pread(self.descriptor, LAST_BYTES, start).decode(errors="replace"))

    def drain(self) -> bytes:
        """Return what was printed in turns that have ended, and remove it."""
        with self._lock:
            everything = self._from(0)
            ended, rest = everything[: self._start], everything[self._start :]
            if ended:
                self._replace(rest, 0)
            return ended

    def check_size(self) -> None:
        """Drop the first half of the file, or more, if it is too large."""
        with self._lock:
            if self._size() > self._largest:
                self._drop_half()

    def close(self) -> None:
        """Close the file; remove it if it is empty."""
        _flush()
        with self._lock:
            if self._size() > self._start:
                self._end_turn()
        if self._path is not None and self._size() == 0:
            with _best_effort():
                self._path.unlink()
        # Who still holds it must not write to another file that gets this number.
        descriptor, self.descriptor = self.descriptor, -1
        os.close(descriptor)

    def _end_turn(self) -> None:
        whole = os.pread(self.descriptor, 1, self._size() - 1) == b"\n"
        told = f"{_WHOSE}{self._whose or self._owner}\n"
        with _best_effort():
            os.write(self.descriptor, (told if whole else f"\n{told}").encode())
        self._start = self._size()
        if self._start > self._largest:
            self._drop_half()

    def _drop_half(self) -> None:
        size = self._size()
        rest = self._from(size - self._largest // 2).partition(b"\n")[2]
        self._replace(_DROPPED + rest, self._start - size + len(rest) + len(_DROPPED))

    def _from(self, offset: int) -> bytes:
        return os.pread(self.descriptor, self._size() - offset, offset)

    def _replace(self, content: bytes, start: int) -> None:
        """Write the file anew; what other processes print at that moment may be lost."""
        with _best_effort():
            os.ftruncate(self.descriptor, 0)
            os.write(self.descriptor, content)
            self._start = max(0, start)

    def _size(self) -> int:
        return os.fstat(self.descriptor).st_size


def _opened(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)


def _unnamed() -> int:
    descriptor, name = tempfile.mkstemp(prefix="fedsim-")
    os.close(descriptor)
    try:
        return _opened(Path(name))
    finally:
        Path(name).unlink()


@contextmanager
def _best_effort() -> Iterator[None]:
    """Let writes fail: a full disk also stops the journal, which says so."""
    with suppress(OSError, Interrupted), writing():
        yield


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # there is none, or it is closed
            stream.flush()


@contextmanager
def captured(log: Log) -> Iterator[Log]:
    """Send all that this process and those that it starts print to a log; close it at the end."""
    _flush()
    before = sys.stdout, sys.stderr
    kept = [(number, os.dup(number)) for number in (1, 2)]
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(CHECK_SECONDS):
            log.check_size()

    watcher = threading.Thread(target=watch, daemon=True, name="fedsim-log")
    try:
        for number, _ in kept:
            os.dup2(log.descriptor, number)
        # A new stream for each: the old ones may go elsewhere, as in a notebook.
        sys.stdout, sys.stderr = _stream(1), _stream(2)
        log.hidden = True
        watcher.start()
        yield log
    finally:
        _flush()
        sys.stdout, sys.stderr = before
        for number, old in kept:
            os.dup2(old, number)
            os.close(old)
        ended.set()
        watcher.join()
        log.close()


def _stream(descriptor: int) -> TextIO:
    binary = io.BufferedWriter(io.FileIO(descriptor, "w", closefd=False))
    return io.TextIOWrapper(binary, "utf-8", errors="replace", line_buffering=True)


class _Copying:
    """A stream that copies to a log what one thread writes."""

    def __init__(self, stream: Any, log: Log, thread: int) -> None:
        self._stream = stream
        self._log = log
        self._thread = thread

    def write(self, text: str) -> Any:
        """Write text, as the stream does."""
        if threading.get_ident() == self._thread:
            self._log.write(text)
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def copied(log: Log) -> Iterator[Log]:
    """Copy what this thread prints from Python to a log, and close it at the end."""
    before = sys.stdout, sys.stderr
    copying = tuple(_Copying(stream, log, threading.get_ident()) for stream in before)
    sys.stdout, sys.stderr = copying
    try:
        yield log
    finally:
        if (sys.stdout, sys.stderr) == copying:  # else somebody has replaced them since
            sys.stdout, sys.stderr = before
        log.close()


def read_log(path: Path) -> Iterator[Printed]:
    """Yield what a log holds, turn after turn.

    Raises:
        OSError: if it cannot be read.
    """
    lines: list[str] = []
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith(_WHOSE):
                yield Printed(line.removeprefix(_WHOSE).rstrip("\n"), "".join(lines))
                lines = []
            else:
                lines.append(line)
    if lines:
        yield Printed("", "".join(lines))


def unfinished(path: Path) -> str:
    """Return the last lines of a turn that has not ended; empty if there are none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LAST_BYTES))
            found = file.read().decode(errors="replace")
    except OSError:
        return ""
    return _last(re.split(rf"^{_WHOSE}.*\n", found, flags=re.MULTILINE)[-1])


def _last(text: str) -> str:
    return "".join(text.splitlines(keepends=True)[-LAST_LINES:])
