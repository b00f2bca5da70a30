"""How far a run is, and the durations that it leaves behind."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fedsim.payloads import as_lists
from fedsim.privacy.ledger import Ledger
from fedsim.protocol import AgentId, Release, Replies
from fedsim.record.journal import Failed, LineWriter, Recorded


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Attributes:
        round: the last finished round, -1 before the initial design.
        rounds: the number of rounds after it.
        mean_best: mean over agents of the best observed value so far, in the scenario's sign.
        best: the best of them.
        spent: the privacy ledger so far.
        agents: the number of agents.
        present: how many of them took part in the last round.
        evaluations: how many there are, those before a resume included.
        failed: how many failed and were skipped, since the start or the last resume.
        evaluations_per_second: since the start or the last resume.
    """

    round: int = -1
    rounds: int = 0
    mean_best: float = float("nan")
    best: float = float("nan")
    spent: Ledger = field(default_factory=Ledger)
    agents: int = 0
    present: int = 0
    evaluations: int = 0
    failed: int = 0
    evaluations_per_second: float = field(default=float("nan"), compare=False)


@dataclass
class Recorder:
    """Observes a fleet: writes timings and transcript, keeps the progress.

    Attributes:
        timings: durations of calls, releases and rounds, and what is known of failed evaluations.
        transcript: everything that the server program receives, or None.
        maximize: whether larger is better.
        progress: how far the run is; replaced, never changed in place.
        best: each agent's best observed value so far.
        agent_cpu_seconds: CPU time of all agents so far.
        earlier: evaluations made before this process took the run over.
        started: ``time.monotonic()`` when it did.
    """

    timings: LineWriter
    transcript: LineWriter | None
    maximize: bool
    progress: Progress
    best: dict[AgentId, float] = field(default_factory=dict)
    agent_cpu_seconds: float = 0.0
    earlier: int = 0
    started: float = field(default_factory=time.monotonic)

    def __call__(self, kind: str, t: int, details: Mapping[str, Any]) -> None:
        """Take note of one event of the fleet."""
        if kind == "step":
            self._note(details["records"])
            self.earlier += len(details["records"]) if details["replayed"] else 0
            self._note_failures(t, details["failed"])
            self.progress = replace(self.progress, present=details["agents"])
        elif kind == "call":
            self.agent_cpu_seconds += details["agent_cpu_seconds"]
            self.timings.append({"kind": kind, "t": t, **details})
        elif kind == "release":
            self.timings.append({"kind": kind, "t": t, "seconds": details["seconds"]})
        elif kind == "received" and self.transcript is not None:
            line = {"kind": kind, "t": t, "call": details["call"]}
            self.transcript.append({**line, **_plain(details["received"])})

    def note_history(self, records: Sequence[Recorded]) -> None:
        """Take note of the evaluations that were made before."""
        self._note(records)
        self.earlier = len(records)

    def finish_round(self, t: int, spent: Ledger) -> None:
        """Move the progress to round ``t``."""
        values = list(self.best.values()) or [math.nan]
        made = self.progress.evaluations - self.earlier
        self.progress = replace(
            self.progress,
            round=t,
            mean_best=float(np.mean(values)),
            best=max(values) if self.maximize else min(values),
            spent=spent,
            evaluations_per_second=made / max(time.monotonic() - self.started, 1e-9),
        )

    def _note(self, records: Sequence[Recorded]) -> None:
        better = max if self.maximize else min
        for record in records:
            self.best[record.agent] = better(self.best.get(record.agent, record.y), record.y)
        count = self.progress.evaluations + len(records)
        self.progress = replace(self.progress, evaluations=count)

    def _note_failures(self, t: int, failed: Sequence[Failed]) -> None:
        for failure in failed:
            told = {"summary": failure.summary, "traceback": failure.traceback}
            self.timings.append({"kind": "failed", "t": t, **told})
        self.progress = replace(self.progress, failed=self.progress.failed + len(failed))


def _plain(received: Replies | Release) -> dict[str, Any]:
    """Return replies or a release as plain lists, for the transcript."""
    if isinstance(received, Release):
        payload = received.payload
        return {"release": None if payload is None else as_lists(payload)}
    return {"replies": [[r.agent, r.status, as_lists(r.payload)] for r in received]}
