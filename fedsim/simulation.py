"""One run from start to end: the loop over rounds, its checkpoints and its record.

The serial backend and the Ray server both call :func:`simulate`; they differ in the transport.
"""

from __future__ import annotations

import itertools
import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from fedsim.build import RunSpec, build_method, build_scenario
from fedsim.errors import FedsimError, Interrupted, UserCodeError
from fedsim.fleet import Position, RecordingFleet, Transport
from fedsim.imports import user_traceback
from fedsim.journal import JournalWriter, Recorded, cut_torn_line, observations, read_journal
from fedsim.privacy.budget import Budget
from fedsim.privacy.events import SubsampledGaussian
from fedsim.privacy.ledger import Ledger
from fedsim.protocol import AgentId, Release, ServerProgram
from fedsim.runfolder import Checkpoint, RunFolder


@dataclass(frozen=True)
class Simulation:
    """One run: what to simulate and how to keep it.

    Attributes:
        spec: scenario, method, rounds and seed.
        folder: where it is kept.
        system_noise: privacy noise from the operating system instead of the seed.
        budget: refuses releases that would exceed it, or None.
        transcript: whether to write down everything that the server program receives.
    """

    spec: RunSpec
    folder: Path
    system_noise: bool = False
    budget: Budget | None = None
    transcript: bool = False


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
    """

    round: int = -1
    rounds: int = 0
    mean_best: float = float("nan")
    best: float = float("nan")
    spent: Ledger = field(default_factory=Ledger)
    agents: int = 0


@dataclass
class Recorder:
    """Observes a fleet: writes timings and transcript, keeps the progress.

    Attributes:
        progress: how far the run is; replaced, never changed in place.
    """

    timings: IO[str]
    transcript: IO[str] | None
    maximize: bool
    progress: Progress
    best: dict[AgentId, float] = field(default_factory=dict)

    def __call__(self, kind: str, t: int, details: Mapping[str, Any]) -> None:
        """Take note of one event of the fleet."""
        if kind == "step":
            self.note_best(details["records"])
        elif kind == "call":
            self.write({"kind": kind, "t": t, **details})
        elif kind == "release":
            self.write({"kind": kind, "t": t, "seconds": details["seconds"]})
        elif kind == "received" and self.transcript is not None:
            line = {"t": t, **_plain(details["received"])}
            self.transcript.write(json.dumps(line) + "\n")
            self.transcript.flush()

    def note_best(self, records: list[Recorded]) -> None:
        """Keep each agent's best observed value."""
        better = max if self.maximize else min
        for record in records:
            self.best[record.agent] = better(self.best.get(record.agent, record.y), record.y)

    def finish_round(self, t: int, spent: Ledger) -> None:
        """Move the progress to round ``t``."""
        values = list(self.best.values()) or [float("nan")]
        self.progress = replace(
            self.progress,
            round=t,
            mean_best=float(np.mean(values)),
            best=max(values) if self.maximize else min(values),
            spent=spent,
        )

    def write(self, line: Mapping[str, Any]) -> None:
        """Append one line to the timings."""
        self.timings.write(json.dumps(line) + "\n")
        self.timings.flush()


Notify = Callable[[Progress], None]


def simulate(
    simulation: Simulation,
    transport: Transport,
    *,
    notify: Notify = lambda progress: None,
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Run, or go on with, a simulation until its last round.

    Args:
        simulation: what to run; its folder exists and its agents' histories are those of
            :func:`recorded_history`.
        transport: carries calls to the agents.
        notify: told of the progress after each round.
        stopped: asked after each round; True ends the run with ``Interrupted``.

    Raises:
        FedsimError: whatever goes wrong; the journal keeps what was recorded.
    """
    folder = RunFolder(simulation.folder)
    cpu_start = time.process_time()
    scenario = build_scenario(simulation.spec)
    program = build_method(simulation.spec, scenario).server()
    checkpoint = folder.load_checkpoint()
    position, records = _position(folder, checkpoint, scenario.agents)
    journal = JournalWriter(folder.journal)
    transcript = folder.transcript.open("a") if simulation.transcript else None
    recorder = Recorder(
        folder.timings.open("a"),
        transcript,
        scenario.direction == "maximize",
        Progress(-1, simulation.spec.rounds, agents=scenario.agents),
    )
    recorder.note_best(records)
    fleet = RecordingFleet(
        transport,
        tuple(range(scenario.agents)),
        simulation.spec.seed,
        folder,
        journal,
        system_noise=simulation.system_noise,
        budget=simulation.budget,
        position=position,
        observer=recorder,
    )
    try:
        _loop(simulation, program, fleet, checkpoint, recorder, notify, stopped)
        recorder.write({"kind": "end", "server_cpu_seconds": time.process_time() - cpu_start})
    except FedsimError:
        raise
    except Exception as error:
        raise UserCodeError(
            f"method {simulation.spec.method_name!r}: the server failed in round "
            f"{recorder.progress.round + 1}: {type(error).__name__}: {error}",
            user_traceback(error),
        ) from error
    finally:
        journal.close()
        recorder.timings.close()
        if transcript is not None:
            transcript.close()


def _loop(
    simulation: Simulation,
    program: ServerProgram,
    fleet: RecordingFleet,
    checkpoint: Checkpoint | None,
    recorder: Recorder,
    notify: Notify,
    stopped: Callable[[], bool],
) -> None:
    folder = RunFolder(simulation.folder)

    def save(rounds: int) -> None:
        position = fleet.position
        state = program.state()
        folder.save_checkpoint(Checkpoint(rounds, position.lines, position.calls, state))

    if checkpoint is None:
        program.start(fleet)
        save(0)
        done = 0
    else:
        program.restore(checkpoint.state)
        done = checkpoint.rounds
    for t in range(done, simulation.spec.rounds + 1):
        if stopped():
            raise Interrupted(f"stopped after round {t - 1}")
        start = time.perf_counter()
        info = program.round(t, fleet)
        save(t + 1)
        recorder.finish_round(t, fleet.position.ledger)
        seconds = time.perf_counter() - start
        recorder.write({"kind": "round", "t": t, "seconds": seconds, **dict(info)})
        notify(recorder.progress)


def _position(
    folder: RunFolder, checkpoint: Checkpoint | None, agents: int
) -> tuple[Position, list[Recorded]]:
    """Return where the run stands and the evaluations before its checkpoint."""
    cut_torn_line(folder.journal)
    lines = list(read_journal(folder.journal)) if folder.journal.exists() else []
    settled = checkpoint.lines if checkpoint else 0
    records = [record for _, record in observations(lines[:settled])]
    steps = dict.fromkeys(range(agents), 0)
    for record in records:
        steps[record.agent] = record.step + 1
    events = [SubsampledGaussian(**line["event"]) for line in lines[:settled] if "event" in line]
    ledger = Ledger.from_events(events)
    calls = checkpoint.calls if checkpoint else 0
    return Position(steps, ledger, calls, settled, deque(lines[settled:])), records


def recorded_history(folder: RunFolder) -> list[Recorded]:
    """Return the evaluations up to the last checkpoint: the agents' histories on resuming."""
    checkpoint = folder.load_checkpoint()
    if checkpoint is None:
        return []
    settled = itertools.islice(read_journal(folder.journal), checkpoint.lines)
    return [record for _, record in observations(settled)]


def _plain(received: object) -> dict[str, Any]:
    """Return replies or a release as plain lists, for the transcript."""
    if isinstance(received, Release):
        payload = received.payload
        return {"release": None if payload is None else {n: a.tolist() for n, a in payload.items()}}
    assert isinstance(received, tuple)
    return {
        "replies": [
            [r.agent, r.status, {n: np.asarray(a).tolist() for n, a in r.payload.items()}]
            for r in received
        ]
    }
