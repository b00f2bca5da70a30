"""One run from start to end: the loop over rounds, its checkpoints and its record.

The serial backend and the Ray server both call :func:`simulate`; they differ in the transport.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedsim.config.construct import build_method, build_scenario
from fedsim.config.spec import RunSpec
from fedsim.errors import Interrupted
from fedsim.imports import user_code
from fedsim.privacy.budget import Budget
from fedsim.protocol import RoundInfo, ServerProgram
from fedsim.record.journal import LineWriter, Recorded, observations, open_journal, read_journal
from fedsim.record.position import find_position
from fedsim.record.progress import Progress, Recorder
from fedsim.record.runfolder import Checkpoint, RunFolder
from fedsim.resources import Resources
from fedsim.simulation.fleet import RecordingFleet, Transport


@dataclass(frozen=True)
class Simulation:
    """One run: what to simulate and how to keep it.

    Attributes:
        spec: scenario, method, rounds and seed.
        folder: where it is kept.
        system_noise: privacy noise from the operating system instead of the seed.
        budget: refuses releases that would exceed it, or None.
        transcript: whether to write down everything that the server program receives.
        evaluation: what an evaluation needs of a cluster, where it runs as a task of its own, or
            None.
    """

    spec: RunSpec
    folder: Path
    system_noise: bool = False
    budget: Budget | None = None
    transcript: bool = False
    evaluation: Resources | None = None


Notify = Callable[[Progress], None]


def simulate(
    simulation: Simulation,
    transport: Transport,
    *,
    notify: Notify = lambda progress: None,
    stopped: Callable[[], bool] = lambda: False,
    agents_are_here: bool = False,
) -> None:
    """Run, or go on with, a simulation until its last round.

    Args:
        simulation: what to run; its folder exists and its agents' histories are those of
            :func:`recorded_history`.
        transport: carries calls to the agents.
        notify: told of the progress after each round.
        stopped: asked after each round; True ends the run with ``Interrupted``.
        agents_are_here: whether the agents work in this thread; their CPU time is then not
            the server's.

    Raises:
        FedsimError: whatever goes wrong; the journal keeps what was recorded.
    """
    folder = RunFolder(simulation.folder)
    scenario = build_scenario(simulation.spec)
    program = build_method(simulation.spec, scenario).server()
    checkpoint = folder.load_checkpoint()
    position, records = find_position(folder, checkpoint, scenario.agents)
    with ExitStack() as files:
        timings = files.enter_context(closing(LineWriter(folder.timings)))
        transcript = None
        if simulation.transcript:
            transcript = files.enter_context(closing(LineWriter(folder.transcript)))
        maximize = scenario.direction == "maximize"
        progress = Progress(-1, simulation.spec.rounds, agents=scenario.agents)
        recorder = Recorder(timings, transcript, maximize, progress)
        recorder.note_history(records)
        fleet = RecordingFleet(
            transport,
            tuple(range(scenario.agents)),
            simulation.spec.seed,
            folder,
            files.enter_context(closing(open_journal(folder.journal, simulation.spec.fingerprint))),
            system_noise=simulation.system_noise,
            budget=simulation.budget,
            position=position,
            observer=recorder,
            availability=simulation.spec.availability,
        )
        stopwatch = _Stopwatch(recorder, agents_are_here)
        _loop(simulation, program, fleet, checkpoint, recorder, stopwatch, notify, stopped)


class _Stopwatch:
    """Measures the wall time, and the server's own CPU time, of one round after another.

    Args:
        recorder: knows the CPU time of the agents.
        agents_are_here: whether that was spent in this thread.
    """

    def __init__(self, recorder: Recorder, agents_are_here: bool) -> None:
        self._recorder = recorder
        self._agents_are_here = agents_are_here
        self._last = self._read()

    def lap(self) -> dict[str, float]:
        """Return what passed since the last lap."""
        (wall, cpu), self._last = self._last, self._read()
        return {"seconds": self._last[0] - wall, "server_cpu_seconds": self._last[1] - cpu}

    def _read(self) -> tuple[float, float]:
        if self._agents_are_here:
            return time.perf_counter(), time.thread_time() - self._recorder.agent_cpu_seconds
        return time.perf_counter(), time.process_time()


def _loop(
    simulation: Simulation,
    program: ServerProgram,
    fleet: RecordingFleet,
    checkpoint: Checkpoint | None,
    recorder: Recorder,
    stopwatch: _Stopwatch,
    notify: Notify,
    stopped: Callable[[], bool],
) -> None:
    words = f"method {simulation.spec.method_name!r}: the server failed"

    def finish(rounds: int, info: RoundInfo | None) -> None:
        position = fleet.position
        with user_code(f"{words} to tell its state"):
            state = {name: np.asarray(array) for name, array in program.state().items()}
            told = {n: float(x) if math.isfinite(x) else None for n, x in (info or {}).items()}
        RunFolder(simulation.folder).save_checkpoint(
            Checkpoint(rounds, position.lines, position.calls, state)
        )
        recorder.timings.append({"kind": "round", "t": rounds - 1, **stopwatch.lap(), "info": told})

    if checkpoint is None:
        with user_code(f"{words} to start"):
            program.start(fleet)
        finish(0, None)
    else:
        with user_code(f"{words} to restore its state"):
            program.restore(checkpoint.state)
    for t in range(checkpoint.rounds if checkpoint else 0, simulation.spec.rounds + 1):
        if stopped():
            raise Interrupted(f"stopped before round {t}")
        with user_code(f"{words} in round {t}"):
            info = program.round(t, fleet)
        finish(t + 1, info)
        recorder.finish_round(t, fleet.position.ledger)
        notify(recorder.progress)


def recorded_history(folder: RunFolder) -> list[Recorded]:
    """Return the evaluations up to the last checkpoint: the agents' histories on resuming."""
    checkpoint = folder.load_checkpoint()
    if checkpoint is None:
        return []
    settled = itertools.islice(read_journal(folder.journal), checkpoint.lines)
    return [record for _, record in observations(settled)]
