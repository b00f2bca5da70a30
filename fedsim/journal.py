"""The journal: an append-only, deterministic record of everything that happened in a run.

One JSON object per line. The first line names the format; then, for every call of the fleet:

- ``step``: the observations of all agents that took part, and who did not answer;
- ``ask``: what was asked of whom without a step, and who did not answer;
- ``release``: what an aggregator released, its privacy event and diagnostics for the
  experimenter, written after the observations that it rests on.

Two runs of one configuration and seed have equal journals, byte for byte, whatever the backend
and whatever was killed on the way. Programs cannot read it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsim.errors import RunFolderError
from fedsim.protocol import AgentId

HEADER = {"kind": "fedsim-journal", "format": 1}


@dataclass(frozen=True, slots=True)
class Recorded:
    """One evaluation in the scenario's own sign and units.

    Attributes:
        agent: who evaluated.
        step: the agent's own count of steps.
        index: position among the step's proposals.
        u: where, unit-cube coordinates.
        y: the observed value.
        noiseless: the value without noise, if the objective tells.
        source: how the point was chosen.
    """

    agent: AgentId
    step: int
    index: int
    u: tuple[float, ...]
    y: float
    noiseless: float | None
    source: str

    def to_json(self) -> list[Any]:
        """Return the compact form that stands in a journal line."""
        return [
            self.agent,
            self.step,
            self.index,
            list(self.u),
            self.y,
            self.noiseless,
            self.source,
        ]

    @classmethod
    def from_json(cls, row: Sequence[Any]) -> Recorded:
        """Return the evaluation that :meth:`to_json` wrote."""
        agent, step, index, u, y, noiseless, source = row
        return cls(agent, step, index, tuple(u), y, noiseless, source)


Line = dict[str, Any]


def encode(line: Mapping[str, Any]) -> bytes:
    """Return a journal line: compact JSON with shortest exact floats and a newline."""
    return json.dumps(line, separators=(",", ":"), allow_nan=False).encode() + b"\n"


class JournalWriter:
    """Appends lines; each is on disk when :meth:`append` returns.

    Args:
        path: the file; created with its header if it is absent or empty.

    Raises:
        RunFolderError: if the file cannot be opened or written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = path.open("ab", buffering=0)
            if self._file.tell() == 0:
                self._write(encode(HEADER))
        except OSError as error:
            raise RunFolderError(f"{path}: cannot be written: {error.strerror}") from error

    def append(self, line: Mapping[str, Any]) -> None:
        """Write one line and wait until the disk has it.

        Raises:
            RunFolderError: if the disk refuses it; what was recorded before is kept.
        """
        try:
            self._write(encode(line))
            os.fsync(self._file.fileno())
        except OSError as error:
            raise RunFolderError(
                f"{self._path}: cannot be written: {error.strerror}; make room, then "
                "`fedsim resume`"
            ) from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, data: bytes) -> None:
        # An unbuffered write may be short (a nearly full disk): go on until all is out or it fails.
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]


def read_journal(path: Path) -> Iterator[Line]:
    """Yield the journal's lines after the header; a torn last line is left out.

    Raises:
        RunFolderError: if the file is absent, not a journal, of another format, or damaged
            before its last line.
    """
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                if not raw.endswith(b"\n"):
                    return  # torn: the writer was killed in the middle
                try:
                    line = json.loads(raw)
                except ValueError as error:
                    raise RunFolderError(f"{path}: line {number} is damaged: {error}") from error
                if number == 1:
                    if line != HEADER:
                        raise RunFolderError(
                            f"{path}: expected a journal of format {HEADER['format']}, "
                            f"got {raw[:60]!r}; was it written by another version of fedsim?"
                        )
                    continue
                yield line
    except FileNotFoundError as error:
        raise RunFolderError(f"{path}: not found; is this the folder of one seed?") from error
    except OSError as error:
        raise RunFolderError(f"{path}: cannot be read: {error.strerror}") from error


def cut_torn_line(path: Path) -> None:
    """Cut a last line without newline from the journal, if the file exists."""
    if not path.exists():
        return
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        position, chunk = size, 1 << 16
        while position > 0:
            start = max(0, position - chunk)
            file.seek(start)
            found = file.read(position - start).rfind(b"\n")
            if found >= 0:
                file.truncate(start + found + 1)
                return
            position = start
        file.truncate(0)


def observations(lines: Iterable[Line]) -> Iterator[tuple[int, Recorded]]:
    """Yield (round, evaluation) for every evaluation in the journal's lines."""
    for line in lines:
        if line["kind"] == "step":
            for row in line["observations"]:
                yield line["t"], Recorded.from_json(row)
