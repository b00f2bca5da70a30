"""The serial backend: all agents in this process, no Ray, same results.

The run has its own thread and the caller's thread watches it: a hung objective is reported at its
deadline, and whatever ends the caller's call ends the run between two evaluations.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing

from threadpoolctl import threadpool_limits

from fedsim.config.construct import build_method
from fedsim.errors import Interrupted
from fedsim.files import Fence
from fedsim.record.capture import captured, copied
from fedsim.record.evaluationlog import EvaluationLog
from fedsim.record.logfolder import remove_empty_logs
from fedsim.record.logs import Log
from fedsim.record.position import find_start
from fedsim.record.progress import Progress
from fedsim.record.runfolder import RunFolder
from fedsim.simulation.agents import AgentGroup
from fedsim.simulation.calls import Activity, hung, where
from fedsim.simulation.evaluation import LocalEvaluator
from fedsim.simulation.loop import Notify, Simulation, simulate
from fedsim.streams import streams_kept
from fedsim.usercode.calling import user_stack
from fedsim.workload import Scenario

OWN_LOG = "process.log"
"""The name of what this process prints, in the run folder."""

GRACE_SECONDS = 5.0
"""How long a stopped run may take to finish its current evaluation."""

POLL_SECONDS = 0.05
"""How often the caller's thread looks at the simulation's. The end of the run does not wait."""


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
        self._fence = Fence()

    def run(self) -> None:
        try:
            with self._fence.around(), threadpool_limits(limits=1):
                try:
                    self._simulate()
                finally:
                    remove_empty_logs(self.simulation.folder)
        except BaseException as error:
            self.failure = error
        finally:
            self.done.set()

    def _simulate(self) -> None:
        spec, folder = self.simulation.spec, RunFolder(self.simulation.folder)
        stopped, activity = self.stop.is_set, self.activity
        keep = captured if self.quiet else copied
        with (
            closing(EvaluationLog(folder.evaluations, self.simulation.run)) as log,
            keep(Log(folder.logs / OWN_LOG, "server")) as activity.log,
        ):
            evaluator = LocalEvaluator(spec, self.scenario, activity, stopped, log=log)
            evaluator.needs(0)
            method = build_method(spec, self.scenario)
            group = AgentGroup(spec, self.scenario, method, evaluator, activity, stopped)
            group.program(0)
            start = find_start(folder, int(self.scenario.agents))
            history = start.history()
            group.rebuild(sorted({record.agent for record in history}), history)
            # One thread also for libraries that the first agent's objective has loaded.
            with threadpool_limits(limits=1):
                simulate(
                    self.simulation,
                    start,
                    self.scenario,
                    build_method(spec, self.scenario),  # shares nothing with the agents'
                    group,
                    notify=self._notify,
                    stopped=stopped,
                    agents_are_here=True,
                    log=activity.log,
                )

    def _notify(self, progress: Progress) -> None:
        if not self.stop.is_set():  # else nobody may be listening any more
            self.notify(progress)

    def end(self, seconds: float) -> None:
        """Wait so long for the end; whatever the objective does, nothing is recorded from then on.

        Args:
            seconds: how long the running evaluation may take.
        """
        self.stop.set()
        try:
            if self.is_alive():
                self.done.wait(seconds)
        finally:
            self._fence.close(GRACE_SECONDS)


@streams_kept()
def run_serial(
    simulation: Simulation,
    scenario: Scenario,
    evaluation_deadline: float,
    notify: Notify,
    stopped: Callable[[], bool] = lambda: False,
    quiet: bool = False,
) -> None:
    """Run one simulation in this process, or resume it.

    Whatever ends this call early (Ctrl-C, an exception that a signal handler raises, a hung
    objective), the simulation ends first: at the end of the running evaluation if that comes within
    :data:`GRACE_SECONDS`. Else its thread goes on until the objective returns, but records nothing.

    Args:
        simulation: what to run.
        scenario: the run's scenario.
        evaluation_deadline: seconds that one call of an objective may take.
        notify: called with the progress after each round, from the worker's thread.
        stopped: checked all the time; True ends the run with ``Interrupted``.
        quiet: whether what this process prints goes to the run folder only, and not also on.

    Raises:
        ObjectiveError: if an objective raised, returned an invalid value or missed the deadline.
        Interrupted: after Ctrl-C, or if ``stopped`` returns True.
        FedsimError: for any other failure.
    """
    worker, grace = _Worker(simulation, scenario, notify, quiet), GRACE_SECONDS
    with RunFolder(simulation.folder).locked():
        try:
            worker.start()
            while not worker.done.wait(POLL_SECONDS):
                evaluating = worker.activity.evaluating
                if evaluating and time.monotonic() - evaluating.since > evaluation_deadline:
                    grace = 0.0
                    place = where(evaluating.agent, evaluating.t, evaluating.point)
                    error = hung(place, evaluation_deadline, _stack(worker))
                    worker.activity.show_output(error)
                    raise error
                if stopped():
                    raise Interrupted("stopped from outside")
        except KeyboardInterrupt as error:
            raise Interrupted(str(error) or "stopped by Ctrl-C") from None
        finally:
            worker.end(grace)
    if worker.failure is not None:
        raise worker.failure


def _stack(worker: _Worker) -> str:
    """Return where the worker is right now."""
    frame = sys._current_frames().get(worker.ident or 0)
    return "" if frame is None else f"It hangs here:\n{user_stack(frame)}"
