"""Evaluations of the call under way, kept until the journal has all of them.

A step's observations reach the journal together, in agent order. Until then a run that is stopped
or killed would lose what its agents evaluated already, which may have taken hours. They are
therefore kept beside it, in the order in which they come, and taken up when the run goes on.
"""

from __future__ import annotations

import json
from pathlib import Path

from fedsim.errors import cannot_write
from fedsim.protocol import AgentId, Proposal
from fedsim.record.entries import Line, Recorded
from fedsim.record.lines import LineWriter


class EvaluationLog:
    """What the agents have evaluated since the last line of the journal.

    Args:
        path: the file that keeps it.
        run: the fingerprint of the run that it belongs to.
    """

    def __init__(self, path: Path, run: str) -> None:
        self._path = path
        self._run = run
        self._settled: int | None = None
        self._writer: LineWriter | None = None
        self._found: dict[tuple[AgentId, int, int], Recorded] = {}

    def begin(self, settled: int) -> None:
        """Prepare for a call; what belongs to another one is forgotten.

        Args:
            settled: journal lines that were written before the call; they name it.

        Raises:
            RunFolderError: if the file cannot be written.
        """
        if settled == self._settled:
            return
        first = self._settled is None
        records = kept_evaluations(self._path, self._run, settled) if first else None
        self.close()
        if records is None:
            self._remove()
        self._found = {(r.agent, r.step, r.index): r for r in records or ()}
        self._settled = settled
        self._writer = LineWriter(self._path)
        if records is None:
            self._writer.append(_header(self._run, settled))

    def find(self, agent: AgentId, step: int, index: int, proposal: Proposal) -> Recorded | None:
        """Return the evaluation of a proposal, if it was made already."""
        record = self._found.get((agent, step, index))
        same = record and (record.u, record.source) == (tuple(proposal.u), proposal.source)
        return record if same else None

    def add(self, record: Recorded) -> None:
        """Keep an evaluation; raises RunFolderError if the disk refuses it."""
        assert self._writer is not None
        self._writer.append({"evaluation": record.to_json()})

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()

    def _remove(self) -> None:
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            raise cannot_write(self._path, error) from error


def kept_evaluations(path: Path, run: str, settled: int) -> list[Recorded] | None:
    """Return what a log keeps of one call, or None if it is no use.

    It is of none if it is absent, damaged or of another call or run: it is a spare.

    Args:
        path: the log's file.
        run: the run's fingerprint.
        settled: journal lines that were written before the call.
    """
    try:
        first, *rows = map(json.loads, path.read_bytes().split(b"\n")[:-1])
        records = [Recorded.from_json(row["evaluation"]) for row in rows]
    except (OSError, ValueError, TypeError, LookupError):
        return None
    return records if first == _header(run, settled) else None


def _header(run: str, settled: int) -> Line:
    return {"run": run, "settled": settled}
