"""Evaluations of the current call, kept until the journal has all of them.

A step's observations are written to the journal together, in agent order. A run that is stopped or
killed before that would lose evaluations that may have taken hours. So they are also kept in a
file of their own, in the order in which they finish, and reused when the run resumes.
"""

from __future__ import annotations

from pathlib import Path

from fedsim.files import writing
from fedsim.protocol import AgentId, Proposal
from fedsim.record.entries import Line, Recorded
from fedsim.record.lines import LineWriter, unseal
from fedsim.systemerrors import UNREADABLE, cannot_read, cannot_write


class EvaluationLog:
    """What the agents have evaluated since the last entry of the journal.

    Args:
        path: the file.
        run: the fingerprint of the run.
    """

    def __init__(self, path: Path, run: str) -> None:
        self._path = path
        self._run = run
        self._settled: int | None = None
        self._writer: LineWriter | None = None
        self._found: dict[tuple[AgentId, int, int], Recorded] = {}

    def begin(self, settled: int) -> None:
        """Prepare for a call; drop the evaluations of any other call.

        Args:
            settled: number of journal entries before the call; identifies it.

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
        self._writer = LineWriter(self._path, sealed=True)
        if records is None:
            self._writer.append(_header(self._run, settled))

    def find(self, agent: AgentId, step: int, index: int, proposal: Proposal) -> Recorded | None:
        """Return the evaluation of a proposal, if there is one."""
        record = self._found.get((agent, step, index))
        same = record and (record.u, record.source) == (tuple(proposal.u), proposal.source)
        return record if same else None

    def add(self, record: Recorded) -> None:
        """Keep an evaluation; raises RunFolderError if it cannot be written."""
        assert self._writer is not None
        self._writer.append({"evaluation": record.to_json()})

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()

    def _remove(self) -> None:
        with writing():
            try:
                self._path.unlink(missing_ok=True)
            except OSError as error:
                raise cannot_write(self._path, error) from error


def kept_evaluations(path: Path, run: str, settled: int) -> list[Recorded] | None:
    """Return the evaluations that a log holds of one call, or None if it cannot be used.

    It cannot if it is missing, damaged, or from another call or run: the log only saves work.

    Args:
        path: the log's file.
        run: the run's fingerprint.
        settled: number of journal entries before the call.

    Raises:
        DiskError: if nothing is wrong with the file, but the system opens no more.
    """
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
        first, *rows = (unseal(b"%b\n" % x, i, needed=True) for i, x in enumerate(lines, 1))
        records = [Recorded.from_json(row["evaluation"]) for row in rows]
    except OSError as error:
        if error.errno in UNREADABLE:
            raise cannot_read(path, error) from error
        return None
    except (ValueError, TypeError, LookupError):
        return None
    return records if first == _header(run, settled) else None


def _header(run: str, settled: int) -> Line:
    return {"run": run, "settled": settled}
