"""The driver's side: connect, start servers, watch them, clean up."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from fedsim.actors.plan import Plan, available_megabytes, make_plan
from fedsim.actors.server import ServerActor
from fedsim.agents import AgentGroup
from fedsim.config import Config
from fedsim.errors import FedsimError, ResourceError, RunError
from fedsim.runner import Job
from fedsim.simulation import Progress

POLL_SECONDS = 0.1


@dataclass
class _Slot:
    """A server actor and the job that it runs."""

    server: Any
    job: Job
    running: Any
    asked: Any = None


def plan_for(agents: int, jobs: int, config: Config) -> Plan:
    """Return the checked plan of a run, before Ray is started.

    Raises:
        ResourceError: if it cannot fit on this machine (an existing cluster is checked later).
    """
    plan = make_plan(agents, config.agents_per_actor, jobs, os.cpu_count() or 1, config.address)
    if config.address is None:
        plan.check_memory(available_megabytes())
    return plan


def run_on_ray(
    jobs: Sequence[Job],
    config: Config,
    agents: int,
    started: Callable[[Job], None],
    progress: Callable[[Job, Progress], None],
    finished: Callable[[Job], None],
) -> None:
    """Run jobs on Ray, several at a time.

    Args:
        jobs: what to run.
        config: the whole configuration.
        agents: the number of agents of the largest run.
        started: told when a job starts.
        progress: told how far a job is.
        finished: told when a job is done.

    Raises:
        FedsimError: the first thing that goes wrong; the other jobs are stopped.
    """
    for job in {job.label: job for job in jobs}.values():
        AgentGroup(job.simulation.spec).prepare(0)  # a user's mistake shows before Ray starts
    with cluster(config.address, config.deadlines.start):
        cpus = ray.cluster_resources().get("CPU", 1.0)
        plan = make_plan(agents, config.agents_per_actor, len(jobs), cpus, config.address)
        if config.address is not None:
            plan.check_memory(ray.cluster_resources().get("memory", float("inf")) / 1e6)
        waiting, slots = deque(jobs), []
        try:
            for _ in range(min(plan.parallel, len(jobs))):
                job = waiting.popleft()
                server = _server(plan, config)
                started(job)
                slots.append(_Slot(server, job, server.run.remote(job.simulation)))
            while slots:
                _advance(slots, waiting, started, progress, finished)
        except BaseException:
            _stop(slots)
            raise
        finally:
            for slot in slots:
                ray.kill(slot.server)


def _server(plan: Plan, config: Config) -> Any:
    # On the driver's node: the run folder is here.
    node = ray.get_runtime_context().get_node_id()
    return ServerActor.options(
        scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)
    ).remote(plan.hosts, plan.cpus_per_host, config.deadlines)


def _advance(
    slots: list[_Slot],
    waiting: deque[Job],
    started: Callable[[Job], None],
    progress: Callable[[Job, Progress], None],
    finished: Callable[[Job], None],
) -> None:
    """Wait a moment; report progress; hand the next job to a server that is free."""
    done, _ = ray.wait([slot.running for slot in slots], num_returns=1, timeout=POLL_SECONDS)
    for slot in list(slots):
        _report(slot, progress)
        if slot.running not in done:
            continue
        _result(slot)
        finished(slot.job)
        if waiting:
            slot.job = waiting.popleft()
            started(slot.job)
            slot.running, slot.asked = slot.server.run.remote(slot.job.simulation), None
        else:
            ray.kill(slot.server)
            slots.remove(slot)


def _report(slot: _Slot, progress: Callable[[Job, Progress], None]) -> None:
    if slot.asked is None:
        slot.asked = slot.server.progress.remote()
    if ray.wait([slot.asked], timeout=0)[0]:
        answer, slot.asked = slot.asked, None
        try:
            progress(slot.job, ray.get(answer, timeout=POLL_SECONDS))
        except (RayActorError, GetTimeoutError):
            return  # a dead server shows in its run


def _result(slot: _Slot) -> None:
    try:
        ray.get(slot.running, timeout=POLL_SECONDS + 10)
    except RayTaskError as error:
        if isinstance(error.cause, FedsimError):
            raise error.cause from None
        raise RunError(f"the server of {slot.job.label} failed: {error}") from None
    except RayActorError as error:
        raise RunError(
            f"the server actor of {slot.job.label} (seed {slot.job.simulation.spec.seed}) died: "
            f"{str(error).splitlines()[0]}; go on with: fedsim resume "
            f"{_run_folder(slot.job)}"
        ) from None


def _run_folder(job: Job) -> Path:
    folder = job.simulation.folder.parent
    return folder if (folder / "origin.yaml").exists() else folder.parent


def _stop(slots: Sequence[_Slot]) -> None:
    """Ask servers to end and give them a moment: what they are writing is then whole."""
    try:
        for slot in slots:
            slot.server.stop.remote()
        ray.wait([s.running for s in slots], num_returns=len(slots), timeout=2.0)
    except RayError:
        return


@contextmanager
def cluster(address: str | None, deadline: float) -> Iterator[None]:
    """Connect to a cluster, or start a private one; leave it as it was found.

    Args:
        address: of an existing cluster, or None.
        deadline: seconds to wait for it.

    Raises:
        ResourceError: if it cannot be reached or started, or its nodes lack this fedsim.
    """
    if ray.is_initialized():  # the caller's own connection: use it, leave it
        yield
        return
    try:
        ray.init(
            address=address or "local",
            include_dashboard=None if address else False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            configure_logging=True,
        )
    except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
        what = f"the Ray cluster at {address} cannot be reached" if address else "Ray cannot start"
        raise ResourceError(f"{what}: {error}") from error
    try:
        if address is not None:
            _check_nodes(deadline)
        yield
    finally:
        ray.shutdown()


def _check_nodes(deadline: float) -> None:
    """Check that every node has this version of fedsim."""
    from importlib.metadata import version

    @ray.remote(num_cpus=0)
    def installed() -> str:
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("fedsim")
        except PackageNotFoundError:
            return "not installed"

    here, start = version("fedsim"), time.monotonic()
    nodes = [n for n in ray.nodes() if n["Alive"]]
    asked = {
        n["NodeManagerHostname"]: installed.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(n["NodeID"], soft=False)
        ).remote()
        for n in nodes
    }
    for name, ref in asked.items():
        try:
            there = ray.get(ref, timeout=max(1.0, deadline - (time.monotonic() - start)))
        except GetTimeoutError:
            raise ResourceError(f"node {name} did not answer within {deadline:g} s") from None
        if there != here:
            raise ResourceError(
                f"node {name}: fedsim {there}, here {here}; install the same version everywhere"
            )
