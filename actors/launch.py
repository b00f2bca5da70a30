"""The driver's side: starts servers, gives them jobs, reports their progress, cleans up."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from fedsim.actors.cluster import cluster
from fedsim.actors.nodes import check_room, reason, unforeseen
from fedsim.actors.plan import Plan, plan_for
from fedsim.actors.server import Progressed, ServerActor
from fedsim.config.model import Config
from fedsim.errors import FedsimError, Interrupted, ResourceError, RunError
from fedsim.record.locking import is_locked
from fedsim.resources import usable_cpus
from fedsim.running.jobs import SILENT_SECONDS, Job, Listener

POLL_SECONDS = 0.5
"""How often servers are asked for their progress, in seconds; asking costs every process time. A
finished job does not wait for it."""

GRACE_SECONDS = 5.0
"""How long servers may take to close what they are writing, once a run is stopped."""


@dataclass
class _Slot:
    """A server actor and its job.

    Attributes:
        server: the actor.
        job: what it runs.
        deadline: how long it may be silent, in seconds.
        running: its answer when the job ends.
        asked: the pending question for its progress.
        heard: when it last answered.
        waiting: what kept it waiting, when a listener was last told.
    """

    server: Any
    job: Job
    deadline: float
    running: Any = None
    asked: Any = None
    heard: float = field(default_factory=time.monotonic)
    waiting: str = ""

    def start(self, job: Job, listener: Listener) -> None:
        listener.started(job)
        self.job = job
        self.running = self.server.run.remote(job)
        self.asked = self.server.progress.remote()

    def tell(self, waiting: str, listener: Listener) -> None:
        """Tell a listener what keeps the job waiting, and when nothing does any longer."""
        if waiting or self.waiting:
            self.waiting = waiting
            listener.waiting(self.job, waiting)


def run_on_ray(
    jobs: Sequence[Job], at_a_time: int, config: Config, agents: int, listener: Listener
) -> None:
    """Run jobs on Ray, several at a time.

    Args:
        jobs: what to run.
        at_a_time: how many may run at a time.
        config: the whole configuration.
        agents: the number of agents of the largest run.
        listener: follows the run.

    Raises:
        FedsimError: for the first failure; the other jobs are stopped.
    """
    needs = [job.simulation.evaluation for job in jobs]
    expected = plan_for(agents, at_a_time, config, usable_cpus(), needs)
    with cluster(config.address, expected.actors + expected.tasks, config.deadlines.start):
        resources = ray.cluster_resources()
        plan = plan_for(agents, at_a_time, config, resources.get("CPU", 1.0), needs)
        for need in filter(None, needs):
            check_room(need, "an evaluation")
        if config.address is not None:
            plan.check_memory(resources.get("memory", float("inf")) / 1e6)
        try:
            _run_jobs(jobs, plan, config, listener)
        except SystemError as error:
            if error.__cause__ is None:
                raise
            raise error.__cause__ from None  # what a signal handler raised while Ray's code ran


def _run_jobs(jobs: Sequence[Job], plan: Plan, config: Config, listener: Listener) -> None:
    waiting, slots = deque(jobs), list[_Slot]()
    try:
        for _ in range(min(plan.parallel, len(jobs))):
            server = _server(plan, config)
            slots.append(_Slot(server, waiting[0], config.deadlines.start))
            slots[-1].start(waiting.popleft(), listener)
        while slots:
            _advance(slots, waiting, listener)
    except BaseException:
        _stop(slots)
        raise
    finally:
        for slot in slots:
            ray.kill(slot.server)
        _await_end(slots)


def _server(plan: Plan, config: Config) -> Any:
    # On the driver's node: the run folder is here.
    node = ray.get_runtime_context().get_node_id()
    return ServerActor.options(
        scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)
    ).remote(plan.hosts, plan.cpus_per_host, config.deadlines)


def _advance(slots: list[_Slot], waiting: deque[Job], listener: Listener) -> None:
    """Wait a moment, report progress, and give free servers their next job."""
    done, _ = ray.wait([slot.running for slot in slots], num_returns=1, timeout=POLL_SECONDS)
    for slot in list(slots):
        try:
            _report(slot, listener)
            if slot.running not in done:
                continue
            _check_result(slot)
        except Interrupted:
            raise
        except FedsimError:
            listener.failed(slot.job)
            raise
        slot.asked = slot.server.progress.remote()
        _report(slot, listener, GRACE_SECONDS)
        listener.finished(slot.job)
        if waiting:
            slot.start(waiting.popleft(), listener)
        else:
            ray.kill(slot.server)
            slots.remove(slot)


def _report(slot: _Slot, listener: Listener, wait_seconds: float = 0.0) -> None:
    if not ray.wait([slot.asked], timeout=wait_seconds)[0]:
        silent = time.monotonic() - slot.heard
        if silent > slot.deadline:
            raise ResourceError(
                f"the server actor of {slot.job.name} did not answer within {slot.deadline:g} s; "
                "deadlines.start sets the limit"
            )
        if silent > SILENT_SECONDS:
            slot.tell(f"its server actor has been silent for {silent:.0f} s", listener)
        return
    answer, slot.asked = slot.asked, slot.server.progress.remote()
    slot.heard = time.monotonic()
    try:
        found: Progressed = ray.get(answer, timeout=GRACE_SECONDS)
    except RayError:
        return  # its run reports a dead server
    if found.folder == slot.job.simulation.folder:  # else the answer is about an earlier job
        listener.progress(slot.job, found.progress)
        slot.tell(found.waiting, listener)


def _check_result(slot: _Slot) -> None:
    name = slot.job.name
    try:
        ray.get(slot.running, timeout=GRACE_SECONDS)
    except RayTaskError as error:
        if isinstance(error.cause, FedsimError):
            raise error.cause from None
        raise unforeseen(f"the server actor of {name}", error) from None
    except RayError as error:
        raise RunError(f"the server actor of {name} died ({reason(error)})") from None


def _stop(slots: Sequence[_Slot]) -> None:
    """Ask servers to stop and give them time to finish writing."""
    try:
        for slot in slots:
            slot.server.stop.remote()
        running = [slot.running for slot in slots if slot.running is not None]
        ray.wait(running, num_returns=len(running), timeout=GRACE_SECONDS)
    except (RayError, ValueError):
        return


def _await_end(slots: Sequence[_Slot]) -> None:
    """Wait until killed servers can write no more: their folders' locks end with them."""
    deadline = time.monotonic() + GRACE_SECONDS
    while any(is_locked(slot.job.folder.path) for slot in slots) and time.monotonic() < deadline:
        time.sleep(0.05)
