"""The serial backend: all agents in this process, no Ray, same results.

The run has its own thread and the caller's thread watches it: a hung objective is reported at its
deadline, and Ctrl-C ends the run between two agents.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import closing

from threadpoolctl import threadpool_limits

from fedsim.config.construct import build_method
from fedsim.errors import Interrupted
from fedsim.imports import user_stack
from fedsim.record.evaluationlog import EvaluationLog
from fedsim.record.logs import Log, captured, copied
from fedsim.record.runfolder import RunFolder
from fedsim.simulation.agents import AgentGroup
from fedsim.simulation.calls import Activity, hung, where
from fedsim.simulation.evaluation import LocalEvaluator
from fedsim.simulation.loop import Notify, Simulation, recorded_history, simulate
from fedsim.workload import Scenario

OWN_LOG = "process.log"
"""The name of what this process prints in the run folder."""

GRACE_SECONDS = 5.0
"""How long a stopped run may take to finish its current evaluation."""


class _Worker(threading.Thread):
    """Runs one simulation, then sets ``done``; ``failure`` holds what it raised.

    Wait for ``done``, not with ``join``: in Python 3.11, a ``join`` interrupted by Ctrl-C makes the
    thread look finished.
    """

    def __init__(
        self, simulation: Simulation, scenario: Scenario, notify: Notify, quiet: bool
    ) -> None:
        super().__init__(daemon=True, name="fedsim-serial")
        self.simulation = simulation
        self.scenario = scenario
        self.notify = notify
        self.quiet = quiet
        self.stop = threading.Event()
        self.done = threading.Event()
        self.activity = Activity()
        self.failure: BaseException | None = None

    def run(self) -> None:
        spec, folder = self.simulation.spec, RunFolder(self.simulation.folder)
        try:
            log = EvaluationLog(folder.evaluations, self.simulation.run)
            keep = captured if self.quiet else copied
            with (
                folder.locked(),
                closing(log),
                threadpool_limits(limits=1),
                keep(Log(folder.logs / OWN_LOG, "server")) as self.activity.log,
            ):
                stopped, activity = self.stop.is_set, self.activity
                evaluator = LocalEvaluator(spec, self.scenario, activity, stopped, log=log)
                evaluator.needs(0)
                method = build_method(spec, self.scenario)
                group = AgentGroup(spec, self.scenario, method, evaluator, activity, stopped)
                group.program(0)
                history = recorded_history(folder)
                group.rebuild(sorted({record.agent for record in history}), history)
                # One thread also for libraries that the first agent's objective has loaded.
                with threadpool_limits(limits=1):
                    simulate(
                        self.simulation,
                        self.scenario,
                        build_method(spec, self.scenario),  # shares nothing with the agents'
                        group,
                        notify=self.notify,
                        stopped=stopped,
                        agents_are_here=True,
                    )
        except BaseException as error:
            self.failure = error
        finally:
            self.done.set()


def run_serial(
    simulation: Simulation,
    scenario: Scenario,
    evaluation_deadline: float,
    notify: Notify,
    quiet: bool = False,
) -> None:
    """Run one simulation in this process, or resume it.

    Args:
        simulation: what to run.
        scenario: the run's scenario.
        evaluation_deadline: seconds that one call of an objective may take.
        notify: called with the progress after each round, from the worker's thread.
        quiet: whether what this process prints goes to the run folder only, and not also on.

    Raises:
        ObjectiveError: if an objective raised, returned an invalid value or missed the deadline.
        Interrupted: after Ctrl-C.
        FedsimError: for any other failure.
    """
    worker = _Worker(simulation, scenario, notify, quiet)
    worker.start()
    try:
        while not worker.done.wait(0.05):
            evaluating = worker.activity.evaluating
            if evaluating and time.monotonic() - evaluating.since > evaluation_deadline:
                worker.stop.set()
                place = where(evaluating.agent, evaluating.t, evaluating.point)
                error = hung(place, evaluation_deadline, _stack(worker))
                worker.activity.show_output(error)
                raise error
    except KeyboardInterrupt:
        worker.stop.set()
        worker.done.wait(GRACE_SECONDS)
        raise Interrupted("stopped by Ctrl-C") from None
    if worker.failure is not None:
        raise worker.failure


def _stack(worker: _Worker) -> str:
    """Return where the worker is right now."""
    frame = sys._current_frames().get(worker.ident or 0)
    return "" if frame is None else f"It hangs here:\n{user_stack(frame)}"
