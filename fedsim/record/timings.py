"""Reads ``timings.jsonl``: how long rounds took, what methods told, which evaluation failed first.

A resumed run appends to it. An interrupted round has no line, so the time while a run was stopped
is not counted. A round whose checkpoint was lost is done again, from the journal: it has two lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from fedsim.record.entries import Line


@dataclass(frozen=True)
class Timings:
    """Totals of the lines of ``timings.jsonl``.

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
    """

    round_seconds: tuple[tuple[int, float], ...]
    objective_seconds: float
    other_seconds: float
    first_failure: str | None
    information: Mapping[int, Mapping[str, float | None]] = field(default_factory=dict)
    traffic: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def evaluations_per_second(self, evaluations: int) -> float | None:
        """Return the rate of evaluations, or None before a round is finished."""
        seconds = sum(seconds for _, seconds in self.round_seconds)
        return evaluations / seconds if seconds > 0 else None

    def seconds_left(self, rounds: int) -> float | None:
        """Estimate how long the next ``rounds`` rounds will take, or None if nothing is known.

        Based on query rounds only: the initial design takes several evaluations.
        """
        queries = [seconds for t, seconds in self.round_seconds if t > 0]
        if rounds <= 0:
            return 0.0
        return rounds * sum(queries) / len(queries) if queries else None


def read_timings(path: Path) -> Timings:
    """Add up a run's timings; empty if it has none yet."""
    rounds: list[tuple[int, float]] = []
    objective = total = 0.0
    first_failure: str | None = None
    information: dict[int, Mapping[str, float | None]] = {}
    traffic: dict[str, tuple[int, int]] = {}
    for line in _lines(path):
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
    return Timings(tuple(rounds), objective, other, first_failure, information, traffic)


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
