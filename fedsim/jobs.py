"""The jobs of a run, who is told of them, and their manifests."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fedsim.config.construct import build_scenario
from fedsim.config.model import Config, delta_of
from fedsim.errors import RunFolderError, cannot_write
from fedsim.record.manifest import environment, now
from fedsim.record.progress import Progress
from fedsim.record.runfolder import RunFolder
from fedsim.simulation.loop import Simulation


@dataclass(frozen=True)
class Job:
    """One seed of one variant.

    Attributes:
        label: what people call it.
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


class Listener(Protocol):
    """Is told how a run goes; methods may be called from other threads."""

    def planned(self, folder: Path, jobs: Sequence[Job], plan: str) -> None:
        """Everything is checked; the jobs start now."""

    def progress(self, job: Job, progress: Progress) -> None:
        """A job finished a round."""

    def finished(self, job: Job) -> None:
        """A job is done and its tables are written."""


class Quiet:
    """A listener that says nothing."""

    def planned(self, folder: Path, jobs: Sequence[Job], plan: str) -> None:
        """Say nothing."""

    def progress(self, job: Job, progress: Progress) -> None:
        """Say nothing."""

    def finished(self, job: Job) -> None:
        """Say nothing."""


class Keeper:
    """Keeps the manifests: which jobs run, how they ended.

    Args:
        listener: told of finished jobs.
        backend: ``serial`` or ``ray``.
    """

    def __init__(self, listener: Listener, backend: str) -> None:
        self._listener = listener
        self._backend = backend
        self._running: list[Job] = []

    def started(self, job: Job) -> None:
        """Note that a job starts (or goes on)."""
        manifest = job.folder.manifest()
        here = environment()
        before = manifest.get("environment")
        warnings = list(manifest.get("warnings", []))
        if before is not None and before != here:
            changed = sorted(k for k in here if before.get(k) != here[k])
            warnings.append(
                f"resumed in another environment ({', '.join(changed)} differ): results may "
                "differ in their last digits from an uninterrupted run's"
            )
        scenario = build_scenario(job.simulation.spec)
        job.folder.update_manifest(
            status="running",
            backend=self._backend,
            agents=scenario.agents,
            direction=scenario.direction,
            started=manifest.get("started", now()),
            environment=here,
            warnings=warnings,
            privacy_noise=(
                "operating system"
                if job.simulation.system_noise
                else "seed: simulation, not private"
            ),
        )
        self._running.append(job)

    def finished(self, job: Job) -> None:
        """Write a job's tables and note that it is done."""
        from fedsim.results.tables import finish

        scenario = build_scenario(job.simulation.spec)
        try:
            outcome = finish(job.folder, scenario, delta_of(job.config, scenario.agents))
        except OSError as error:
            raise cannot_write(job.folder.path, error) from error
        job.folder.update_manifest(status="done", ended=now(), outcome=outcome)
        self._running.remove(job)
        self._listener.finished(job)

    def stopped(self, status: str, reason: str, traceback: str = "") -> None:
        """Note why the jobs that were running stopped, if the disk still takes it."""
        for job in self._running:
            with suppress(RunFolderError):
                job.folder.update_manifest(
                    status=status, ended=now(), reason=reason, traceback=traceback
                )
