"""The jobs of a run, their listeners, and their manifests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from fedsim.config.model import Config, delta_of
from fedsim.config.spec import RunSpec
from fedsim.errors import RunFolderError, cannot_write
from fedsim.imports import user_code
from fedsim.record.manifest import Facts, environment, now
from fedsim.record.progress import Progress
from fedsim.record.runfolder import RunFolder
from fedsim.simulation.loop import Simulation
from fedsim.workload import KnowsOptimum, Scenario


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


class Listener:
    """Follows a run; does nothing unless its methods are overridden.

    They may be called from other threads.
    """

    def planned(self, folder: Path, jobs: Sequence[Job], plan: str) -> None:
        """Everything is checked; the jobs start now."""

    def started(self, job: Job) -> None:
        """A job starts or resumes."""

    def progress(self, job: Job, progress: Progress) -> None:
        """A job finished a round."""

    def finished(self, job: Job) -> None:
        """A job is done."""


class Keeper(Listener):
    """A listener that writes the manifests (what runs and how it ended) and the tables.

    Args:
        listener: called after the keeper.
        backend: ``serial`` or ``ray``.
        scenario: returns a run's scenario.
    """

    def __init__(
        self, listener: Listener, backend: str, scenario: Callable[[RunSpec], Scenario]
    ) -> None:
        self._listener = listener
        self._backend = backend
        self._scenario = scenario
        self._running: list[Job] = []

    def planned(self, folder: Path, jobs: Sequence[Job], plan: str) -> None:
        """Forward the event."""
        self._listener.planned(folder, jobs, plan)

    def started(self, job: Job) -> None:
        """Record that a job starts or resumes."""
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
        scenario = self._scenario(job.simulation.spec)
        optima = manifest["optima"] if "optima" in manifest else _optima(scenario)
        job.folder.update_manifest(
            status="running",
            backend=self._backend,
            started=manifest.get("started", now()),
            environment=here,
            warnings=warnings,
            privacy_noise=(
                "operating system"
                if job.simulation.system_noise
                else "seed: simulation, not private"
            ),
            **asdict(_facts(job, scenario, optima)),
        )
        self._running.append(job)
        self._listener.started(job)

    def progress(self, job: Job, progress: Progress) -> None:
        """Forward the event."""
        self._listener.progress(job, progress)

    def finished(self, job: Job) -> None:
        """Write a job's tables and record that it is done."""
        from fedsim.results.tables import finish

        try:
            outcome = finish(job.folder, self._scenario(job.simulation.spec).space)
        except OSError as error:
            raise cannot_write(job.folder.path, error) from error
        job.folder.update_manifest(status="done", ended=now(), outcome=outcome)
        self._running.remove(job)
        self._listener.finished(job)

    def stopped(self, status: str, reason: str, traceback: str = "") -> None:
        """Record why the running jobs stopped, if the disk is writable."""
        for job in self._running:
            with suppress(RunFolderError):
                job.folder.update_manifest(
                    status=status, ended=now(), reason=reason, traceback=traceback
                )


def _facts(job: Job, scenario: Scenario, optima: Sequence[float] | None) -> Facts:
    privacy, spec = job.config.privacy, job.simulation.spec
    return Facts(
        seed=spec.seed,
        rounds=spec.rounds,
        agents=scenario.agents,
        direction=scenario.direction,
        optima=None if optima is None else tuple(optima),
        delta=delta_of(job.config, scenario.agents),
        accountant=privacy.accountant,
        accounting=privacy.accounting,
    )


def _optima(scenario: Scenario) -> list[float] | None:
    """Return each agent's optimum, or None if the scenario does not know them all."""
    if not isinstance(scenario, KnowsOptimum):
        return None
    with user_code("the scenario failed to return its optima"):
        optima = [scenario.optimum(agent) for agent in range(scenario.agents)]
        known = [float(optimum) for optimum in optima if optimum is not None]
    return known if len(known) == len(optima) else None
