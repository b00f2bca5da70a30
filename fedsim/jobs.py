"""The jobs of a run, their listeners, and their manifests."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from fedsim.config.construct import build_scenario
from fedsim.config.model import Config, delta_of
from fedsim.errors import RunError, RunFolderError, cannot_write
from fedsim.imports import offers, user_code
from fedsim.protocol import AgentId
from fedsim.record.manifest import Facts, described, environment, now
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
    """

    def __init__(self, listener: Listener, backend: str) -> None:
        self._listener = listener
        self._backend = backend
        self._running: list[Job] = []
        self._scenarios: dict[Path, Scenario] = {}

    def scenario(self, job: Job) -> Scenario:
        """Return a job's scenario: built once, and kept until the job is done."""
        key = job.simulation.folder
        if key not in self._scenarios:
            self._scenarios[key] = build_scenario(job.simulation.spec)
        return self._scenarios[key]

    def planned(self, folder: Path, jobs: Sequence[Job], plan: str) -> None:
        """Forward the event."""
        self._listener.planned(folder, jobs, plan)

    def started(self, job: Job) -> None:
        """Record that a job starts or resumes."""
        self._running.append(job)
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
        scenario = self.scenario(job)
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
        self._listener.started(job)

    def progress(self, job: Job, progress: Progress) -> None:
        """Forward the event."""
        self._listener.progress(job, progress)

    def finished(self, job: Job) -> None:
        """Write a job's tables and record that it is done."""
        from fedsim.results.tables import finish

        try:
            outcome = finish(job.folder, self.scenario(job).space)
        except OSError as error:
            raise cannot_write(job.folder.path, error) from error
        job.folder.update_manifest(status="done", ended=now(), outcome=outcome)
        self._running.remove(job)
        del self._scenarios[job.simulation.folder]
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
        parameters=described(scenario.space),
    )


def _optima(scenario: Scenario) -> list[float] | None:
    """Return each agent's optimum, or None if the scenario does not know them all.

    Raises:
        UserCodeError: if the scenario raises.
        RunError: if an optimum is neither None nor a finite number.
    """
    agents = range(scenario.agents)
    if not offers(scenario, KnowsOptimum):
        return None
    optima: list[object] = []
    with user_code("the scenario failed to return its optima"):
        optima += [scenario.optimum(agent) for agent in agents]
    if None in optima:
        return None
    return [_finite(optimum, agent) for agent, optimum in zip(agents, optima, strict=True)]


def _finite(optimum: object, agent: AgentId) -> float:
    real = isinstance(optimum, numbers.Real) and not isinstance(optimum, bool)
    if not real or not math.isfinite(optimum):  # type: ignore[arg-type]
        raise RunError(f"the optimum of agent {agent}: expected a finite number, got {optimum!r}")
    return float(optimum)  # type: ignore[arg-type]
