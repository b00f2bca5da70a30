"""The jobs of a run, what follows them, and what each leaves: a manifest and tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedsim.config.construct import build_method, build_scenario, targets_of
from fedsim.config.model import Config, delta_of
from fedsim.errors import RunFolderError
from fedsim.fingerprints import fingerprint_settings
from fedsim.record.manifest import Facts, described, environment, now
from fedsim.record.progress import Progress
from fedsim.record.runfolder import RunFolder
from fedsim.running.known import baseline_of, optima_of, optimal_points_of
from fedsim.simulation.loop import Simulation
from fedsim.systemerrors import cannot_write, of_system
from fedsim.workload import Scenario

SILENT_SECONDS = 10.0
"""How long what runs a job may be silent before listeners are told that the job waits for it."""


@dataclass(frozen=True)
class Job:
    """One seed of one variant.

    Attributes:
        label: its name in output and tables.
        config: its configuration, without variants.
        simulation: what to run.
    """

    label: str
    config: Config
    simulation: Simulation

    @property
    def folder(self) -> RunFolder:
        """Its folder."""
        return RunFolder(self.simulation.folder)

    @property
    def configuration(self) -> dict[str, Any]:
        """What its folder's ``config.yaml`` holds."""
        return seed_configuration(self.config, self.simulation.spec.seed)

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"{self.label}, seed {self.simulation.spec.seed}"


def seed_configuration(variant: Config, seed: int) -> dict[str, Any]:
    """Return a variant's configuration with one of its seeds only."""
    return {**variant.model_dump(mode="json", exclude={"variants"}), "seeds": [seed]}


class Listener:
    """Follows a run; does nothing unless its methods are overridden.

    They may be called from other threads.
    """

    def measuring(self) -> None:
        """To plan the run, one evaluation is measured, and that takes long."""

    def planned(self, folder: Path, jobs: Sequence[Job], plan: str) -> None:
        """Everything is checked; the jobs start now."""

    def started(self, job: Job) -> None:
        """A job starts or resumes."""

    def progress(self, job: Job, progress: Progress) -> None:
        """A job finished a round, or a step before round 0: its round is then -1."""

    def waiting(self, job: Job, why: str) -> None:
        """A job waits for something that is not its work; an empty text: no longer."""

    def finished(self, job: Job) -> None:
        """A job is done."""

    def failed(self, job: Job) -> None:
        """A job failed; the others are stopped."""


class Keeper(Listener):
    """A listener that knows which jobs are running, and records why they stopped.

    Args:
        listener: called after the keeper.
    """

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._running: list[Job] = []
        self._failed: Job | None = None

    def planned(self, folder: Path, jobs: Sequence[Job], plan: str) -> None:
        """Forward the event."""
        self._listener.planned(folder, jobs, plan)

    def started(self, job: Job) -> None:
        """Note that a job is running."""
        self._running.append(job)
        self._listener.started(job)

    def progress(self, job: Job, progress: Progress) -> None:
        """Forward the event."""
        self._listener.progress(job, progress)

    def waiting(self, job: Job, why: str) -> None:
        """Forward the event."""
        self._listener.waiting(job, why)

    def finished(self, job: Job) -> None:
        """Note that a job is no longer running."""
        self._running.remove(job)
        self._listener.finished(job)

    def failed(self, job: Job) -> None:
        """Note whose failure ends the run."""
        self._failed = job
        self._listener.failed(job)

    def stopped(
        self, status: str, reason: str, traceback: str = "", *, resumable: bool = True
    ) -> None:
        """Record why the running jobs stopped, if the disk is writable.

        What runs them must have ended.
        """
        for job in self._running:
            told: dict[str, Any] = {"status": status, "reason": reason, "traceback": traceback}
            told["resumable"] = resumable
            if self._failed not in (None, job):
                why = f"stopped because {self._failed.name} failed"
                told = {"status": "interrupted", "reason": why, "traceback": "", "resumable": True}
            with suppress(RunFolderError):
                if not is_done(job.folder):  # it may have finished since it was last heard of
                    job.folder.update_manifest(**told, ended=now())


def is_done(folder: RunFolder) -> bool:
    """Return whether a job is done, tables and all."""
    return folder.manifest().get("status") == "done"


def run_job(job: Job, backend: str, simulate: Callable[[Scenario], None]) -> None:
    """Run a job in this process, from its manifest to its tables.

    Args:
        job: what to run.
        backend: ``serial`` or ``ray``.
        simulate: simulates it, given its scenario.

    Raises:
        FedsimError: for any failure; the manifest then still says that it is running.
    """
    with of_system():
        scenario = build_scenario(job.simulation.spec)
        _note_start(job, scenario, backend)
        simulate(scenario)
        _finish(job, scenario)


def _note_start(job: Job, scenario: Scenario, backend: str) -> None:
    manifest, here = job.folder.manifest(), environment()
    before = manifest.get("environment")
    warnings = list(manifest.get("warnings", []))
    if before is not None and before != here:
        changed = sorted(k for k in here if before.get(k) != here[k])
        warnings.append(
            f"resumed in another environment ({', '.join(changed)} differ): results may "
            "differ in their last digits from an uninterrupted run's"
        )
    optima = manifest["optima"] if "optima" in manifest else optima_of(scenario)
    baseline = manifest["baseline"] if "baseline" in manifest else baseline_of(scenario)
    points = manifest.get("optimal_points") or optimal_points_of(scenario)
    job.folder.update_manifest(
        status="running",
        backend=backend,
        run=job.simulation.run,
        settings_fingerprint=fingerprint_settings(job.configuration),
        started=manifest.get("started", now()),
        environment=here,
        warnings=warnings,
        baseline=baseline,
        privacy_noise=(
            "operating system" if job.simulation.system_noise else "seed: simulation, not private"
        ),
        **asdict(_facts(job, scenario, optima, points)),
    )


def _finish(job: Job, scenario: Scenario) -> None:
    """Write a job's tables and record that it is done."""
    # Imported here: pandas takes long to import, and a process that starts jobs does not need it.
    from fedsim.results.tables import finish

    try:
        outcome = finish(job.folder, scenario.space)
    except OSError as error:
        raise cannot_write(job.folder.path, error) from error
    known = job.folder.manifest().get("warnings", [])
    warnings = [*known, *(doubt for doubt in outcome.get("doubts", ()) if doubt not in known)]
    job.folder.update_manifest(status="done", ended=now(), outcome=outcome, warnings=warnings)


def _facts(
    job: Job,
    scenario: Scenario,
    optima: Sequence[float] | None,
    points: Sequence[Mapping[str, Any]] | None,
) -> Facts:
    privacy, spec = job.config.privacy, job.simulation.spec
    return Facts(
        seed=spec.seed,
        rounds=spec.rounds,
        agents=int(scenario.agents),
        direction=scenario.direction,
        optima=None if optima is None else tuple(optima),
        delta=delta_of(job.config, scenario.agents),
        accountant=privacy.accountant,
        accounting=privacy.accounting,
        parameters=described(scenario.space),
        optimal_points=None if points is None else tuple(points),
        targets=targets_of(build_method(spec, scenario), scenario.agents),
    )
