"""How far a run is, and how long its parts took."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from fedsim.files import finite
from fedsim.payloads import as_record
from fedsim.privacy.ledger import Ledger
from fedsim.protocol import AgentId, Release, Replies
from fedsim.record.entries import Entry, Failed
from fedsim.record.lines import LineWriter
from fedsim.record.observer import (
    AggregatorReceived,
    CallFinished,
    Event,
    ReleaseMade,
    StepTaken,
)
from fedsim.record.tally import Scores, Tally


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Attributes:
        round: the last finished round, -1 before the initial design.
        rounds: the number of rounds after it.
        scores: how good the agents' points are.
        metric: the score that the run is judged by, see :attr:`Tally.metric`.
        spent: the privacy ledger so far.
        agents: the number of agents.
        targets: those whose results count; None: all.
        present: how many of those took part in the last round.
        evaluations: how many succeeded, including those before a resume.
        failed: how many failed and were skipped, including those before a resume.
        evaluations_per_second: since the start or the last resume.
    """

    round: int = -1
    rounds: int = 0
    scores: Scores = field(default_factory=Scores)
    metric: str = "best_observed"
    spent: Ledger = field(default_factory=Ledger)
    agents: int = 0
    targets: tuple[AgentId, ...] | None = None
    present: int = 0
    evaluations: int = 0
    failed: int = 0
    evaluations_per_second: float = field(default=math.nan, compare=False)

    @classmethod
    def of(cls, tally: Tally, rounds: int, spent: Ledger, per_second: float | None) -> Progress:
        """Return the progress according to a tally."""
        return cls(
            round=tally.round,
            rounds=rounds,
            scores=tally.scores(),
            metric=tally.metric,
            spent=spent,
            agents=tally.agents,
            targets=tally.targets,
            present=len(tally.present),
            evaluations=tally.evaluations,
            failed=tally.failed,
            evaluations_per_second=math.nan if per_second is None else per_second,
        )


@dataclass
class Recorder:
    """Observes a fleet: writes timings and transcript, and keeps the tally.

    Attributes:
        timings: durations of calls, releases and rounds, and details of failed evaluations.
        transcript: everything that the server receives, or None: the server program, and those
            of its aggregators that run at the server.
        rounds: the number of rounds after the initial design.
        tally: the entries so far.
        progress: how far the run is; replaced, never changed in place.
        agent_cpu_seconds: CPU time of all agents so far.
        earlier: evaluations made before this process took over the run.
        started: ``time.monotonic()`` when it took over.
    """

    timings: LineWriter
    transcript: LineWriter | None
    rounds: int
    tally: Tally
    progress: Progress = field(init=False)
    agent_cpu_seconds: float = 0.0
    earlier: int = 0
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.progress = Progress(
            rounds=self.rounds, agents=self.tally.agents, targets=self.tally.targets
        )

    def __call__(self, event: Event) -> None:
        """Record one event of the fleet."""
        if isinstance(event, StepTaken):
            self.tally.add(event.entry)
            if event.replayed:
                self.earlier += len(event.entry.observations)
            else:
                for failure in event.entry.failed:
                    self._note_failure(event.entry.t, failure)
        elif isinstance(event, CallFinished):
            self.agent_cpu_seconds += event.agent_cpu_seconds
            told = {name: value for name, value in asdict(event).items() if value is not None}
            self.timings.append({"kind": "call", **told})
        elif isinstance(event, ReleaseMade):
            self.timings.append({"kind": "release", **asdict(event)})
        elif self.transcript is None:
            pass
        elif isinstance(event, AggregatorReceived):
            told = {"t": event.t, "call": event.call, "request": event.request}
            self.transcript.append({"kind": "aggregated", **told, **_plain(event.replies)})
        else:
            told = {"t": event.t, "call": event.call, **_plain(event.received)}
            self.transcript.append({"kind": "received", **told})

    def note_history(self, entries: Iterable[Entry]) -> None:
        """Record what happened before this process took over the run."""
        for entry in entries:
            self.tally.add(entry)
        self.earlier = self.tally.evaluations

    def finish_round(self, t: int, spent: Ledger) -> None:
        """Move the progress to round ``t``."""
        made = self.tally.evaluations - self.earlier
        rate = made / max(time.monotonic() - self.started, 1e-9)
        self.progress = replace(Progress.of(self.tally, self.rounds, spent, rate), round=t)

    def _note_failure(self, t: int, failure: Failed) -> None:
        told = {"summary": failure.summary, "traceback": failure.traceback}
        self.timings.append({"kind": "failed", "t": t, **told})


def _plain(received: Replies | Release) -> dict[str, Any]:
    """Return what the server program received, as plain lists for the transcript.

    JSON has neither NaN nor infinity, which a method's own payloads may hold: they become None.
    """
    if isinstance(received, Release):
        return {"release": finite(as_record(received.payload))}
    return {"replies": [[r.agent, r.status, finite(as_record(r.payload))] for r in received]}
