"""What a run's processes print, kept in the run folder's ``logs``.

Every process has a file of its own; :mod:`fedsim.record.capture` fills it. What was printed in one
turn, such as an agent's evaluation, is followed by a line that says whose turn it was, so silent
turns leave nothing. Text after the last such line is of the turn that is running, or in which the
process ended. If a file grows too large, its first half is dropped.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fedsim.errors import Interrupted, UserCodeError
from fedsim.files import writing
from fedsim.protocol import AgentId
from fedsim.systemerrors import cannot_write

LARGEST = 4_000_000
"""How large a log may grow, in bytes. A turn that prints more within a second exceeds it."""

LAST_LINES = 30
"""How many lines of its last output an error shows."""

LAST_BYTES = 20_000
"""Where they are looked for: a crash prints its stack, with the innermost call first."""

_FATAL = "Fatal Python error: "

_RUNNING = "running"

_WHOSE = "--- above: "
_DROPPED = b"--- earlier lines were dropped\n"


Turn = str | tuple[AgentId, int]
"""Whose output it is, in words, or an agent and a round."""


@dataclass(frozen=True, slots=True)
class Printed:
    """What was printed in one turn.

    Attributes:
        process: the name of the process.
        whose: e.g. ``agent 3, round 5``; empty if the turn has not ended, or its process died.
        text: the lines.
    """

    process: str
    whose: str
    text: str

    def is_of(self, agent: AgentId) -> bool:
        """Whether it was printed in an agent's turn."""
        running = f"{_RUNNING}/agent-{agent}-"
        return self.whose.startswith(f"agent {agent},") or self.process.startswith(running)


class Log:
    """The file of one process.

    Args:
        path: the file, which is appended to; None: one without a name, for :meth:`drain`.
        owner: whose output it is between two turns, e.g. ``server``.
        largest: its size limit, in bytes.

    Attributes:
        hidden: whether nobody sees what is printed, except in this file.
        standard: the descriptors to open standard output and error from again, by their numbers.

    Raises:
        RunFolderError: if the file cannot be opened.
    """

    def __init__(self, path: Path | None, owner: str, largest: int = LARGEST) -> None:
        self.hidden = False
        self.standard: Mapping[int, int] = {}
        self._path = path
        self._owner = owner
        self._largest = largest
        try:
            self.descriptor = _unnamed() if path is None else _opened(path)
        except OSError as error:
            raise cannot_write(path or Path(tempfile.gettempdir()), error) from error
        self._lock = threading.Lock()
        self._written = False
        self._whose: Turn = ""
        self._start = 0
        if _unfinished(self._from(max(0, self._size() - LAST_BYTES))):
            self._whose = f"{owner}, which ended then"
            self._end_turn()
            self._whose = ""
        self._start = self._size()

    def turn(self, whose: Turn) -> None:
        """Say whose output follows; an empty text: the process's own. It takes 1 to 2 us."""
        if whose == self._whose:
            return
        if self.hidden:  # else all that is printed goes through write
            flush()
        if self.hidden or self._written:
            with self._lock:
                if self._size() > self._start:
                    self._end_turn()
        self._whose, self._written = whose, False

    def reopen(self) -> None:
        """Open standard output and error again if a turn has closed them.

        The next file that is opened would get their numbers, and what is printed.
        """
        for number, descriptor in self.standard.items():
            try:
                os.fstat(number)
            except OSError:
                os.dup2(descriptor, number)

    def write(self, text: str) -> None:
        """Add text to the current turn, if the process's output is not captured."""
        self._written = True
        with _best_effort():
            os.write(self.descriptor, text.encode(errors="replace"))

    def add(self, ended: bytes) -> None:
        """Add what :meth:`drain` returned in another process; not during a turn."""
        with self._lock, _best_effort():
            os.write(self.descriptor, ended)
            self._start = self._size()

    def last_lines(self) -> str:
        """Return the last lines of the current turn; none once the log is closed."""
        flush()
        with self._lock:
            if self.descriptor < 0:
                return ""
            start = max(self._start, self._size() - LAST_BYTES)
            return _last(os.pread(self.descriptor, LAST_BYTES, start).decode(errors="replace"))

    def explain(self, error: UserCodeError) -> None:
        """Add the last lines of the current turn to an error, if nobody has seen them."""
        if self.hidden:
            error.add_output(self.last_lines())

    def drain(self) -> bytes:
        """Return what was printed in turns that have ended, and remove it."""
        with self._lock:
            if self.descriptor < 0:
                return b""
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
        flush()
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
        whose = self._whose or self._owner
        told = f"{_WHOSE}{whose if isinstance(whose, str) else turn_of(*whose)}\n"
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


def flush() -> None:
    """Write out what Python still holds back of this process's output."""
    for name in ("stdout", "stderr"):
        try:  # noqa: SIM105 - several times as fast as suppress
            getattr(sys, name).flush()
        except Exception:  # there is none, it is closed, or a user's own
            pass


def turn_of(agent: AgentId, t: int) -> str:
    """Return how an agent's turn in round ``t`` is named."""
    return f"agent {agent}, round {t}"


def running(agent: AgentId, step: int, index: int) -> str:
    """Return the name of the process that evaluates one proposal, while it does."""
    return f"{_RUNNING}/agent-{agent}-{step}-{index}"


def read_logs(folder: Path) -> Iterator[Printed]:
    """Yield what all logs of a seed hold, in the order of their names; nothing if there are none.

    Args:
        folder: the seed's ``logs``.
    """
    for path in sorted(folder.rglob("*.log")):
        with suppress(FileNotFoundError):  # its process has just ended
            yield from read_log(path, path.relative_to(folder).with_suffix("").as_posix())


def read_log(path: Path, process: str = "") -> Iterator[Printed]:
    """Yield what a log holds, turn after turn.

    Raises:
        OSError: if it cannot be read.
    """
    lines: list[str] = []
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith(_WHOSE):
                yield Printed(process, line.removeprefix(_WHOSE).rstrip("\n"), "".join(lines))
                lines = []
            else:
                lines.append(line)
    if lines:
        yield Printed(process, "", "".join(lines))


def unfinished(path: Path) -> str:
    """Return the last lines of a turn that has not ended; empty if there are none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LAST_BYTES))
            return _last(_unfinished(file.read()))
    except OSError:
        return ""


def _unfinished(end: bytes) -> str:
    """Return what follows the last line that says whose output it was."""
    return re.split(rf"^{_WHOSE}.*\n", end.decode(errors="replace"), flags=re.MULTILINE)[-1]


def _last(text: str) -> str:
    """Return the last lines; of a crash, those around its beginning."""
    lines = text.splitlines(keepends=True)
    crash = next((i for i, line in enumerate(lines) if line.startswith(_FATAL)), None)
    end = len(lines) if crash is None else min(len(lines), crash + LAST_LINES // 2)
    return "".join(lines[max(0, end - LAST_LINES) : end])
