"""Reading ``timings.jsonl``: how long the rounds of a run took, and which evaluation failed first.

A resumed run appends to it. A round that was cut short has no line, so that the time that a stopped
run lay still is not counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fedsim.record.entries import Line


@dataclass(frozen=True)
class Timings:
    """What the lines of ``timings.jsonl`` add up to.

    Attributes:
        round_seconds: wall seconds of rounds 0, 1, ..., as they were finished.
        objective_seconds: CPU seconds in objectives.
        other_seconds: CPU seconds of everything else.
        first_failure: what is known of the first evaluation that failed and was skipped, or None.
    """

    round_seconds: tuple[tuple[int, float], ...]
    objective_seconds: float
    other_seconds: float
    first_failure: str | None

    def evaluations_per_second(self, evaluations: int) -> float | None:
        """Return the rate at which evaluations were made, or None before a round is finished."""
        seconds = sum(seconds for _, seconds in self.round_seconds)
        return evaluations / seconds if seconds > 0 else None

    def seconds_left(self, rounds: int) -> float | None:
        """Estimate how long the next ``rounds`` rounds will take, or None if nothing is known.

        The initial design tells nothing of it: it is several evaluations long.
        """
        queries = [seconds for t, seconds in self.round_seconds if t > 0]
        if rounds <= 0:
            return 0.0
        return rounds * sum(queries) / len(queries) if queries else None


def read_timings(path: Path) -> Timings:
    """Add up a run's timings; those of a run that has none yet are empty."""
    rounds: list[tuple[int, float]] = []
    objective = total = 0.0
    first_failure: str | None = None
    for line in _lines(path):
        if line["kind"] == "round" and line["t"] >= 0:
            rounds.append((line["t"], line["seconds"]))
        if line["kind"] == "failed" and first_failure is None:
            first_failure = line["summary"]
        objective += line.get("objective_cpu_seconds", 0.0)
        total += line.get("agent_cpu_seconds", 0.0) + line.get("server_cpu_seconds", 0.0)
    return Timings(tuple(rounds), objective, total - objective, first_failure)


def _lines(path: Path) -> Iterator[Line]:
    """Yield the whole lines; one that is damaged, or half-written, tells nothing."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for raw in file:
            with suppress(ValueError):
                line = json.loads(raw)
                if isinstance(line, dict) and "kind" in line:
                    yield line
