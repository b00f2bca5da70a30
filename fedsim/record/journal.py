"""The journal: an append-only, deterministic record of everything that happened in a run.

One JSON object per line. The first line names the format and the run; then, for every call of
the fleet:

- ``step``: the observations of all agents that took part, which evaluations failed and were
  skipped, and who was absent;
- ``ask``: what was asked of whom without a step, and who was absent;
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

import numpy as np

from fedsim.errors import ObjectiveError, RunFolderError, cannot_write
from fedsim.protocol import AgentId, Evaluation, Proposal

HEADER = {"kind": "fedsim-journal", "format": 1}


@dataclass(frozen=True)  # frozen with slots is slow to pickle
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

    @classmethod
    def made(
        cls, agent: AgentId, step: int, index: int, proposal: Proposal, value: Evaluation
    ) -> Recorded:
        """Return the record of a proposal and its value."""
        u = tuple(np.asarray(proposal.u).tolist())
        return cls(agent, step, index, u, value.y, value.noiseless, proposal.source)

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


@dataclass(frozen=True)
class Failed:
    """One evaluation that failed and was skipped.

    Attributes:
        agent: whose.
        step: the agent's own count of steps.
        index: position among the step's proposals.
        u: where, unit-cube coordinates.
        source: how the point was chosen.
        reason: what happened, in words that do not depend on where it ran.
        summary: the whole message; not in the journal.
        traceback: the user's own, or an empty string; not in the journal.
    """

    agent: AgentId
    step: int
    index: int
    u: tuple[float, ...]
    source: str
    reason: str
    summary: str = ""
    traceback: str = ""

    @classmethod
    def made(
        cls, agent: AgentId, step: int, index: int, proposal: Proposal, error: ObjectiveError
    ) -> Failed:
        """Return the record of a proposal whose evaluation failed."""
        u = tuple(np.asarray(proposal.u).tolist())
        told = error.reason, error.summary, error.user_traceback
        return cls(agent, step, index, u, proposal.source, *told)

    def to_json(self) -> list[Any]:
        """Return the compact form that stands in a journal line."""
        return [self.agent, self.step, self.index, list(self.u), self.source, self.reason]


Line = dict[str, Any]


def step_line(
    t: int, records: Sequence[Recorded], failed: Sequence[Failed], absent: Sequence[AgentId]
) -> Line:
    """Return the line of a step: who evaluated what, what failed, and who was absent."""
    line: Line = {"kind": "step", "t": t, "observations": [r.to_json() for r in records]}
    if failed:
        line["failed"] = [failure.to_json() for failure in failed]
    return {**line, **absent_entry(absent)}


def absent_entry(agents: Sequence[AgentId]) -> Line:
    """Return what a line says of absent agents: nothing if there are none."""
    return {"absent": list(agents)} if agents else {}


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


def open_journal(path: Path, fingerprint: str) -> LineWriter:
    """Return a writer of a journal, whose every line is on disk at once.

    Args:
        path: the file; created with its header if it is absent.
        fingerprint: of the run that it is the journal of.

    Raises:
        RunFolderError: if it cannot be written, or is the journal of another run.
    """
    writer = LineWriter(path, sync=True)
    if writer.empty:
        writer.append({**HEADER, "run": fingerprint})
    elif journal_run(path) != fingerprint:
        writer.close()
        raise RunFolderError(
            f"{path}: belongs to other settings than config.yaml beside it: what was recorded "
            "would be mixed with something else; restore config.yaml, or start a new run"
        )
    return writer


def journal_run(path: Path) -> str:
    """Return the fingerprint of the run that a journal belongs to; empty if it is torn."""
    with path.open("rb") as file:
        raw = file.readline()
    return str(json.loads(raw).get("run", "")) if raw.endswith(b"\n") else ""


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
                if not isinstance(line, dict) or "kind" not in line:
                    raise RunFolderError(f"{path}: line {number} is damaged: {raw[:60]!r}")
                if number == 1:
                    if {**line, **HEADER} != line:
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


def last_steps(lines: Iterable[Line]) -> dict[AgentId, int]:
    """Return the last step that each agent took, by the journal's lines."""
    found: dict[AgentId, int] = {}
    for line in lines:
        if line["kind"] == "step":
            for agent, step, *_ in [*line["observations"], *line.get("failed", ())]:
                found[agent] = step
    return found


def observations(lines: Iterable[Line]) -> Iterator[tuple[int, Recorded]]:
    """Yield (round, evaluation) for every evaluation in the journal's lines."""
    for line in lines:
        if line["kind"] == "step":
            for row in line["observations"]:
                yield line["t"], Recorded.from_json(row)
