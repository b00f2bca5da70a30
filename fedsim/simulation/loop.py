"""One run from start to end: the loop over rounds, its checkpoints and its record.

The serial backend and the Ray server both call :func:`simulate`; they differ in the transport.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from numbers import Real
from pathlib import Path

from fedsim.config.construct import targets_of
from fedsim.config.spec import RunSpec
from fedsim.errors import Interrupted, UserCodeError
from fedsim.fingerprints import with_noise
from fedsim.payloads import frozen
from fedsim.privacy.budget import Budget
from fedsim.protocol import (
    AggregatingServer,
    Aggregator,
    Method,
    RoundInfo,
    ServerProgram,
    State,
    Stateful,
)
from fedsim.record.journal import open_journal
from fedsim.record.lines import LineWriter
from fedsim.record.logs import Log
from fedsim.record.observer import Event, StepTaken
from fedsim.record.position import Start
from fedsim.record.progress import Progress, Recorder
from fedsim.record.runfolder import Checkpoint, RunFolder
from fedsim.record.tally import Tally
from fedsim.record.timings import open_timings
from fedsim.resources import Resources
from fedsim.simulation.exchange import Transport
from fedsim.simulation.fleet import RecordingFleet
from fedsim.simulation.releases import Releases
from fedsim.simulation.rounds import servers_fault
from fedsim.usercode.calling import expect, offers, user_code
from fedsim.workload import Scenario


@dataclass(frozen=True)
class Simulation:
    """One run: what to simulate and how to keep it.

    Attributes:
        spec: scenario, method, rounds and seed.
        folder: the folder that it is kept in, absolute: a server actor has another working
            directory, and an objective may change it.
        system_noise: privacy noise from the operating system instead of the seed.
        budget: refuses releases that would exceed it, or None.
        transcript: whether to record everything that the server program receives.
        evaluation: the resources that an evaluation needs if it runs as a separate task, or None.
    """

    spec: RunSpec
    folder: Path
    system_noise: bool = False
    budget: Budget | None = None
    transcript: bool = False
    evaluation: Resources | None = None

    @property
    def run(self) -> str:
        """Names the run in its files: everything that its journal depends on."""
        return with_noise(self.spec.fingerprint, system=self.system_noise)


Notify = Callable[[Progress], None]


def simulate(
    simulation: Simulation,
    start: Start,
    scenario: Scenario,
    method: Method,
    transport: Transport,
    *,
    notify: Notify = lambda progress: None,
    stopped: Callable[[], bool] = lambda: False,
    agents_are_here: bool = False,
    log: Log | None = None,
) -> None:
    """Run a simulation until its last round, or resume it.

    Args:
        simulation: what to run; its folder exists.
        start: where it stands; the agents have been rebuilt from its history. It is used up.
        scenario: the run's scenario.
        method: the run's method; makes the server program.
        transport: carries calls to the agents.
        notify: called with the progress after each round, and each step before round 0.
        stopped: checked after each round; True ends the run with ``Interrupted``.
        agents_are_here: whether the agents work in this thread; their CPU time is then not
            the server's.
        log: what this process prints, or None if nothing keeps it.

    Raises:
        FedsimError: for any failure; the journal keeps what was recorded.
    """
    spec, folder = simulation.spec, RunFolder(simulation.folder)
    with user_code(f"method {spec.method_name!r}: the server cannot be built"):
        program = method.server()
        members = "an object with start, round, state and restore"
        expect(offers(program, ServerProgram), "server()", members, program)
        aggregators = aggregators_of(program)
    position = start.position
    with ExitStack() as files:
        timings = files.enter_context(closing(open_timings(folder.timings, simulation.run)))
        transcript = None
        if simulation.transcript:
            transcript = files.enter_context(closing(LineWriter(folder.transcript)))
        journal = files.enter_context(closing(open_journal(folder.journal, simulation.run)))
        maximize = scenario.direction == "maximize"
        targets = targets_of(method, scenario.agents)
        tally = Tally(int(scenario.agents), maximize, folder.manifest().get("optima"), targets)
        recorder = Recorder(timings, transcript, spec.rounds, tally)
        recorder.note_history(start.settled)
        start.settled.clear()  # it may be large, and nobody needs it any more
        kept = folder if simulation.system_noise else None
        releases = Releases(
            position, journal, spec.seed, recorder, simulation.budget, kept, simulation.run
        )

        def observe(event: Event) -> None:
            recorder(event)
            if isinstance(event, StepTaken) and event.entry.t < 0:  # it may take long
                recorder.finish_round(-1, position.ledger)
                notify(recorder.progress)

        fleet = RecordingFleet(
            transport,
            tuple(range(scenario.agents)),
            spec.seed,
            position,
            journal,
            observe,
            releases,
            aggregators,
            spec.availability,
            log,
        )
        stopwatch = _Stopwatch(recorder, agents_are_here)
        _Loop(simulation, program, aggregators, fleet, recorder, stopwatch).run(
            start.checkpoint, notify, stopped
        )


def aggregators_of(program: ServerProgram) -> Mapping[str, Aggregator]:
    """Return the aggregators that a server program uses, by name.

    Raises:
        RunError: if they are not aggregators by names of letters, digits and underscores.
    """
    if not offers(program, AggregatingServer):
        return {}
    found: object = program.aggregators
    expect(isinstance(found, Mapping), "aggregators", "aggregators by name", found)
    for name, aggregator in program.aggregators.items():
        good = isinstance(name, str) and name.isidentifier()
        expect(good, "aggregators", "names of letters, digits and underscores", name)
        members = "an object with cost, aggregate, state and restore"
        expect(offers(aggregator, Aggregator), f"aggregators: {name}", members, aggregator)
    return dict(program.aggregators)


class _Stopwatch:
    """Measures each round's wall time and the server's own CPU time.

    Args:
        recorder: knows the agents' CPU time.
        agents_are_here: whether the agents work in this thread.
    """

    def __init__(self, recorder: Recorder, agents_are_here: bool) -> None:
        self._recorder = recorder
        self._agents_are_here = agents_are_here
        self._last = self._read()

    def lap(self) -> dict[str, float]:
        """Return the times since the last lap."""
        (wall, cpu), self._last = self._last, self._read()
        return {"seconds": self._last[0] - wall, "server_cpu_seconds": self._last[1] - cpu}

    def _read(self) -> tuple[float, float]:
        if self._agents_are_here:
            return time.perf_counter(), time.thread_time() - self._recorder.agent_cpu_seconds
        return time.perf_counter(), time.process_time()


@dataclass(frozen=True)
class _Loop:
    """The rounds of one run, and a checkpoint after each."""

    simulation: Simulation
    program: ServerProgram
    aggregators: Mapping[str, Aggregator]
    fleet: RecordingFleet
    recorder: Recorder
    stopwatch: _Stopwatch

    def run(
        self, checkpoint: Checkpoint | None, notify: Notify, stopped: Callable[[], bool]
    ) -> None:
        """Run all rounds after a checkpoint, or from the start if it is None."""
        if checkpoint is None:
            with self._server(-1, "to start"):
                self.program.start(self.fleet)
            self._finish(0, {})
        else:
            self._restore(checkpoint)
        rounds = self.simulation.spec.rounds
        for t in range(checkpoint.rounds if checkpoint else 0, rounds + 1):
            if stopped():
                raise Interrupted(f"stopped before round {t}")
            with self._server(t, f"in round {t}"):
                numbers = _numbers(self.program.round(t, self.fleet))
            self._finish(t + 1, numbers)
            self.recorder.finish_round(t, self.fleet.position.ledger)
            notify(self.recorder.progress)

    @contextmanager
    def _server(self, t: int, doing: str) -> Iterator[None]:
        """Run the server program in round ``t``; its errors show what it printed last."""
        self.fleet.round.begin(t)
        log = self.fleet.log
        if log is not None:
            log.turn(f"server, round {t}")
        try:
            with user_code(f"{self._words} {doing}"):
                yield
                self.fleet.round.end()
        except UserCodeError as error:
            if log is not None:
                log.explain(error)
            raise

    def _restore(self, checkpoint: Checkpoint) -> None:
        with user_code(f"{self._words} to restore its state"):
            self.program.restore(checkpoint.state)
            for name, aggregator in self.aggregators.items():
                aggregator.restore(checkpoint.aggregators.get(name, {}))

    def _finish(self, rounds: int, numbers: Mapping[str, float | None]) -> None:
        """Write the timings and the checkpoint of a round, after which it is not done again."""
        with user_code(f"{self._words} to return its state"), servers_fault():
            state = _state(self.program, "the server's state()")
            aggregators = {
                name: _state(one, f"the state() of aggregator {name}")
                for name, one in self.aggregators.items()
            }
        self.recorder.timings.append(
            {"kind": "round", "t": rounds - 1, **self.stopwatch.lap(), "info": numbers}
        )
        RunFolder(self.simulation.folder).save_checkpoint(
            Checkpoint(rounds, self.fleet.position.entries, state, aggregators)
        )

    @property
    def _words(self) -> str:
        return f"method {self.simulation.spec.method_name!r}: the server failed"


def _state(program: Stateful, whose: str) -> State:
    return frozen(program.state(), whose)


def _numbers(info: RoundInfo | None) -> dict[str, float | None]:
    """Return a round's diagnostics for the record; what is not finite is None.

    Raises:
        ProtocolError: if they are not named numbers.
    """
    given: object = {} if info is None else info
    known = isinstance(given, Mapping) and all(isinstance(x, Real) for x in given.values())
    with servers_fault():
        told = "named numbers, such as {'loss': 0.5}, or None"
        expect(known, "what the server's round() returns", told, given)
    return {n: float(x) if math.isfinite(x) else None for n, x in (info or {}).items()}
