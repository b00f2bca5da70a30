"""Reads ``timings.jsonl``: how long rounds took, what methods told, which evaluation failed first.

Its first line says to which run it belongs, which earlier versions did not. A resumed run appends
to it. An interrupted round has no line, so the time while a run was stopped
is not counted. A round whose checkpoint was lost is done again, from the journal: it has two lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from fedsim.record.entries import Line
from fedsim.record.lines import LineWriter
from fedsim.record.runfolder import RunFolder

_HEADER = "fedsim-timings"


@dataclass(frozen=True)
class Timings:
    """Totals of the lines of ``timings.jsonl``; empty if it is another run's.

    Attributes:
        round_seconds: pairs of a finished round and its wall seconds; -1 is what comes before
            round 0.
        objective_seconds: CPU seconds in objectives.
        other_seconds: CPU seconds of everything else.
        first_failure: message of the first evaluation that failed and was skipped, or None.
        information: the named numbers that the method's server told about a round, by round; what
            was not finite is None.
        traffic: by the kind of request to agents, the bytes of messages and requests to all, and
            those of their replies.
        bytes_by_round: of each finished round, the bytes of messages and requests to all agents,
            and those of their replies; -1 is what comes before round 0.
        anothers: whether the file is that of another run, or of another seed.
    """

    round_seconds: tuple[tuple[int, float], ...]
    objective_seconds: float
    other_seconds: float
    first_failure: str | None
    information: Mapping[int, Mapping[str, float | None]] = field(default_factory=dict)
    traffic: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    bytes_by_round: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    anothers: bool = False

    def lost(self, rounds: int) -> str:
        """Return what is wrong with the file, after its name; empty if it has all rounds' times.

        Args:
            rounds: how many rounds must be there, from round 0 on.
        """
        if self.anothers:
            return "belongs to another seed, or to another run"
        whole = {t for t, _ in self.round_seconds} >= set(range(rounds))
        return "" if whole else "lacks the times of some rounds"

    def evaluations_per_second(self, evaluations: int, last: int | None = None) -> float | None:
        """Return the rate of evaluations, or None before a round is finished.

        A round that was done again counts once, with its longest time.

        Args:
            evaluations: how many were made.
            last: the last round that they were made in; None: the last one that was timed.
        """
        longest: dict[int, float] = {}
        for t, seconds in self.round_seconds:
            if last is None or t <= last:
                longest[t] = max(seconds, longest.get(t, 0.0))
        total = sum(longest.values())
        return evaluations / total if total > 0 else None

    def seconds_left(self, rounds: int) -> float | None:
        """Estimate how long the next ``rounds`` rounds will take, or None if nothing is known.

        Based on query rounds only: the initial design takes several evaluations.
        """
        queries = [seconds for t, seconds in self.round_seconds if t > 0]
        if rounds <= 0:
            return 0.0
        return rounds * sum(queries) / len(queries) if queries else None


def open_timings(path: Path, run: str) -> LineWriter:
    """Return the writer of a run's timings.

    Args:
        path: the file; created if it does not exist.
        run: the run's fingerprint.

    Raises:
        RunFolderError: if it cannot be written.
    """
    writer = LineWriter(path)
    if writer.empty:
        writer.append({"kind": _HEADER, "run": run})
    return writer


def timings_of(folder: RunFolder) -> Timings:
    """Return the timings of a seed; raises RunFolderError if its manifest is damaged."""
    return read_timings(folder.timings, str(folder.manifest().get("run", "")))


def read_timings(path: Path, run: str = "") -> Timings:
    """Add up a run's timings; empty if it has none yet.

    Args:
        path: the file.
        run: the run's fingerprint; empty if it is not known.
    """
    rounds: list[tuple[int, float]] = []
    objective = total = 0.0
    first_failure: str | None = None
    information: dict[int, Mapping[str, float | None]] = {}
    traffic: dict[str, tuple[int, int]] = {}
    calls = _Calls()
    for line in _lines(path):
        if line["kind"] == _HEADER and run and line.get("run") != run:
            return Timings((), 0.0, 0.0, None, anothers=True)
        calls.add(line)
        if line["kind"] == "round":
            rounds.append((line["t"], line["seconds"]))
            if line.get("info"):
                information[line["t"]] = line["info"]
        if line["kind"] == "failed" and first_failure is None:
            first_failure = line["summary"]
        kind = line.get("request") or line.get("then")
        if line["kind"] == "call" and kind:
            sent, received = traffic.get(kind, (0, 0))
            traffic[kind] = sent + line["sent_bytes"], received + line["received_bytes"]
        objective += line.get("objective_cpu_seconds", 0.0)
        total += line.get("agent_cpu_seconds", 0.0) + line.get("server_cpu_seconds", 0.0)
    other = total - objective
    return Timings(
        tuple(rounds), objective, other, first_failure, information, traffic, calls.by_round
    )


class _Calls:
    """Adds up the bytes of the calls of each round.

    A round that was interrupted has no line, and its calls are there again after the resume; one
    whose checkpoint was lost has two lines, of which the last counts.
    """

    def __init__(self) -> None:
        self.by_round: dict[int, tuple[int, int]] = {}
        self._open: list[tuple[int, int, int]] = []

    def add(self, line: Line) -> None:
        """Take the next line."""
        if line["kind"] == "call":
            number = line.get("call", -1)
            if line.get("request") is None and number >= 0:  # the call itself, from its start
                self._open = [one for one in self._open if one[0] < number]
            self._open.append((number, line.get("sent_bytes", 0), line.get("received_bytes", 0)))
        elif line["kind"] == "round":
            sent, received = (sum(one[i] for one in self._open) for i in (1, 2))
            self.by_round[line["t"]] = sent, received
            self._open = []


def _lines(path: Path) -> Iterator[Line]:
    """Yield the complete lines; damaged or half-written ones are skipped."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for raw in file:
            with suppress(ValueError):
                line = json.loads(raw)
                if isinstance(line, dict) and "kind" in line:
                    yield line
