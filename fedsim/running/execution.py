"""Executes a run's jobs: here, in other processes or on Ray; records how each of them ended."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import chdir
from functools import partial
from pathlib import Path

from fedsim.config.model import Config
from fedsim.errors import FedsimError, Interrupted, UserCodeError
from fedsim.files import write_atomically
from fedsim.running.jobs import Job, Keeper, Listener, run_job
from fedsim.running.measuring import keep
from fedsim.running.placement import Placement
from fedsim.running.preflight import Checks, most_agents
from fedsim.running.processes import run_in_processes
from fedsim.signals import stops_deferred, why_stopped
from fedsim.simulation.serial import run_serial
from fedsim.systemerrors import of_system
from fedsim.usercode.calling import words_of
from fedsim.usercode.given import how_to_resume


def execute(
    folder: Path,
    jobs: Sequence[Job],
    placement: Placement,
    config: Config,
    checks: Checks,
    listener: Listener,
) -> None:
    """Execute jobs, and record how each of them ended.

    Args:
        folder: the run folder.
        jobs: the jobs that are not done.
        placement: where they run.
        config: the whole configuration.
        checks: the result of :func:`fedsim.running.preflight.check`.
        listener: follows the run.

    Raises:
        Interrupted: if the run was stopped from outside.
        FedsimError: for the first failure.
    """
    _make_folders(folder, jobs)
    for found in checks.values():
        if found.first is not None:
            keep(found.first, jobs[0])
    keeper = Keeper(listener)
    try:
        keeper.planned(folder, jobs, placement.plan)
        with of_system():
            _run_all(jobs, placement, config, checks, keeper)
    except (KeyboardInterrupt, Interrupted) as error:
        why = why_stopped(error)
        keeper.stopped("interrupted", why)
        given = jobs[0].simulation.spec.code.objects
        again = how_to_resume(folder, {name: one.kind for name, one in given.items()})
        raise Interrupted(f"{why}; continue with: {again}") from None
    except BaseException as error:
        traceback = error.user_traceback if isinstance(error, UserCodeError) else ""
        resumable = not isinstance(error, FedsimError) or error.resumable
        keeper.stopped("failed", _reason(error), traceback, resumable=resumable)
        raise


def _run_all(
    jobs: Sequence[Job], placement: Placement, config: Config, checks: Checks, listener: Listener
) -> None:
    if placement.backend == "ray":
        with stops_deferred():  # a Ray that is imported in part fails when the process ends
            from fedsim.actors.launch import run_on_ray

        run_on_ray(jobs, placement.at_a_time, config, most_agents(checks), listener)
    elif placement.at_a_time > 1:
        run_in_processes(jobs, placement.at_a_time, config.deadlines, listener)
    else:
        for job in jobs:
            _run_here(job, config.deadlines.evaluation, listener)


def _run_here(job: Job, deadline: float, listener: Listener) -> None:
    listener.started(job)
    notify = partial(listener.progress, job)
    with chdir(Path.cwd()):  # an objective may change it
        run_job(
            job, "serial", lambda scenario: run_serial(job.simulation, scenario, deadline, notify)
        )
    listener.finished(job)


def _reason(error: BaseException) -> str:
    """Return an error in words; one that is not fedsim's own needs its type to be understood."""
    return (isinstance(error, FedsimError) and str(error)) or words_of(error)


def _make_folders(folder: Path, jobs: Sequence[Job]) -> None:
    """Create every job's folder, unless it already exists."""
    for job in jobs:
        if not (job.folder.path / "config.yaml").exists():
            job.folder.create(job.configuration)
        if job.folder.path.parent != folder.absolute():
            write_atomically(job.folder.path.parent / "variant.txt", f"{job.label}\n".encode())
