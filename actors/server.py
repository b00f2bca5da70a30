"""The coordinating actor: owns the server program, the hosts and the journal of a run."""

from __future__ import annotations

import threading
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import ray
from threadpoolctl import threadpool_limits

from fedsim.actors.evaluator import TaskEvaluator
from fedsim.actors.pool import HostPool
from fedsim.actors.transport import RayTransport
from fedsim.config.construct import build_method
from fedsim.config.model import DeadlinesConfig
from fedsim.record.capture import captured
from fedsim.record.evaluationlog import EvaluationLog
from fedsim.record.logfolder import LogFolder, remove_empty_logs
from fedsim.record.logs import Log
from fedsim.record.position import Start, find_start
from fedsim.record.progress import Progress
from fedsim.record.runfolder import RunFolder
from fedsim.running.jobs import Job, run_job
from fedsim.simulation.loop import Simulation, simulate
from fedsim.workload import Scenario


@dataclass(frozen=True)
class Progressed:
    """A job's progress; the answer to a question may arrive when the next job has started.

    Attributes:
        folder: the job's folder.
        progress: how far it is.
        waiting: what keeps it waiting, in words; usually empty.
    """

    folder: Path
    progress: Progress
    waiting: str = ""


class SimulationServer:
    """Runs jobs one after another over its own pool of hosts.

    Args:
        hosts: the number of host actors.
        cpus_per_host: CPUs that each asks Ray for.
        deadlines: how long to wait.
    """

    def __init__(self, hosts: int, cpus_per_host: float, deadlines: DeadlinesConfig) -> None:
        threadpool_limits(limits=1)
        self._deadlines = deadlines
        self._pool = HostPool(hosts, cpus_per_host, deadlines)
        self._progress = Progressed(Path(), Progress())
        self._stop = threading.Event()

    def run(self, job: Job) -> None:
        """Run one job to its end, or resume it; write its manifest and its tables.

        Errors as in :func:`fedsim.running.jobs.run_job`.
        """
        simulation = job.simulation
        self._progress = Progressed(simulation.folder, Progress())
        logs = LogFolder.of(job.folder)
        try:
            with captured(logs.open("server")) as printed:
                run_job(job, "ray", partial(self._simulate, simulation, logs, printed))
        finally:
            remove_empty_logs(simulation.folder)

    def _simulate(
        self, simulation: Simulation, logs: LogFolder, printed: Log, scenario: Scenario
    ) -> None:
        folder = RunFolder(simulation.folder)
        log = EvaluationLog(folder.evaluations, simulation.run)
        method, stopped = build_method(simulation.spec, scenario), self._stop.is_set
        with folder.locked(), closing(log), ExitStack() as stack:
            start = find_start(folder, int(scenario.agents))
            transport = self._transport(simulation, start, scenario, folder, log, logs)
            stack.enter_context(closing(transport))
            simulate(
                simulation,
                start,
                scenario,
                method,
                transport,
                notify=self._note,
                stopped=stopped,
                log=printed,
            )

    def _transport(
        self,
        simulation: Simulation,
        start: Start,
        scenario: Scenario,
        folder: RunFolder,
        log: EvaluationLog,
        logs: LogFolder,
    ) -> RayTransport:
        spec, stopped = simulation.spec, self._stop.is_set
        evaluator = None
        if simulation.evaluation is not None:
            agents = range(scenario.agents)
            evaluator = TaskEvaluator(
                spec, scenario.space, agents, self._deadlines, log, logs, stopped
            )
        count = int(scenario.agents)
        return RayTransport(self._pool, spec, folder, count, start, logs, stopped, evaluator)

    def _note(self, progress: Progress) -> None:
        self._progress = replace(self._progress, progress=progress)

    @ray.method(concurrency_group="progress")
    def progress(self) -> Progressed:
        """Return the progress of the current job; answers while it runs."""
        return replace(self._progress, waiting=self._pool.waiting())

    @ray.method(concurrency_group="progress")
    def stop(self) -> None:
        """Stop the current simulation soon, with ``Interrupted``."""
        self._stop.set()


# Ray's type stubs do not know concurrency groups.
ServerActor: Any = ray.remote(num_cpus=0, concurrency_groups={"progress": 1})(  # type: ignore[call-overload]
    SimulationServer
)
