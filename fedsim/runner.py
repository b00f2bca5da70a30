"""The composition root: from a configuration to a finished run folder.

This module and the command line are the only ones in ``fedsim`` that know the engine
(``fedsim.actors``), which they import only when a run is to use Ray.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

from fedsim.analysis import Run, finish, load
from fedsim.build import build_scenario
from fedsim.config import (
    Config,
    apply_overrides,
    delta_of,
    expand_variants,
    parse_config,
    read_config,
    run_spec,
)
from fedsim.errors import FedsimError, Interrupted, RunFolderError
from fedsim.privacy.accountants import make_accountant
from fedsim.privacy.budget import Budget
from fedsim.protocol import Scenario
from fedsim.runfolder import RunFolder, new_run_folder, read_yaml, slugify, write_yaml
from fedsim.serial import run_serial
from fedsim.simulation import Progress, Simulation

WORTH_RAY = 20_000
"""``backend: auto`` uses Ray from this many agent-rounds (all seeds together): below it,
starting Ray takes longer than it saves."""


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


@dataclass(frozen=True)
class Prepared:
    """A checked configuration, ready to run.

    Attributes:
        config: the whole configuration, every default filled in.
        curves: one configuration per variant.
        import_from: the folder that ``module:Class`` names are imported from.
        data_dir: where data sets lie, or None.
    """

    config: Config
    curves: Mapping[str, Config]
    import_from: str
    data_dir: str | None

    def scenario(self) -> Scenario:
        """Build the first variant's scenario, for the first seed."""
        first = next(iter(self.curves.values()))
        return build_scenario(run_spec(first, first.seeds[0], self.data_dir, self.import_from))


def prepare(
    source: str | Path | Mapping[str, Any] | None,
    overrides: Sequence[str] = (),
    data_dir: str | Path | None = None,
) -> Prepared:
    """Read and check a configuration.

    Args:
        source: a file, the name of a ready configuration, a mapping, or None for the default.
        overrides: ``dotted.key=value`` assignments.
        data_dir: where data sets lie; the environment's ``FEDSIM_DATA`` if left out.

    Raises:
        ConfigError: for the first thing that is wrong.
    """
    import_from = str(Path.cwd())
    raw = apply_overrides(read_config(source), overrides)
    config = parse_config(raw, import_from)
    found = data_dir or os.environ.get("FEDSIM_DATA") or None
    data = None if found is None else str(Path(found).absolute())
    return Prepared(config, expand_variants(config, import_from), import_from, data)


def run(
    config: str | Path | Mapping[str, Any] | Prepared | None = None,
    *,
    overrides: Sequence[str] = (),
    data_dir: str | Path | None = None,
    out: str | Path | None = None,
    listener: Listener | None = None,
) -> Run:
    """Run a simulation and return it, finished.

    Args:
        config: a file, the name of a ready configuration, a mapping, or None for the default.
        overrides: ``dotted.key=value`` assignments.
        data_dir: where data sets lie; the environment's ``FEDSIM_DATA`` if left out.
        out: the run folder, which must not exist; ``runs/NAME-NUMBER`` if left out.
        listener: is told how it goes.

    Raises:
        FedsimError: whatever goes wrong; ``exit_code`` and the message say what.
    """
    prepared = config if isinstance(config, Prepared) else prepare(config, overrides, data_dir)
    backend, plan = choose_backend(prepared)
    folder = new_run_folder(prepared.config.name, None if out is None else Path(out))
    write_yaml(folder / "config.yaml", prepared.config.model_dump(mode="json"))
    origin = {"import_from": prepared.import_from, "data_dir": prepared.data_dir}
    write_yaml(folder / "origin.yaml", origin)
    jobs = make_jobs(prepared, folder)
    for job in jobs:
        if prepared.config.variants or prepared.config.noise_control:
            job.simulation.folder.parent.mkdir(exist_ok=True)
            (job.simulation.folder.parent / "variant.txt").write_text(job.label + "\n")
        job.folder.create(job.config.model_dump(mode="json", exclude={"variants"}))
    _execute(folder, jobs, backend, plan, prepared.config, listener or Quiet())
    return load(folder)


def resume(folder: str | Path, *, listener: Listener | None = None) -> Run:
    """Go on with an unfinished run, from its last recorded evaluation.

    Args:
        folder: the run folder.
        listener: is told how it goes.

    Raises:
        RunFolderError: if it is not a run folder.
        FedsimError: as in :func:`run`.
    """
    path = Path(folder)
    if not (path / "origin.yaml").exists():
        raise RunFolderError(f"{path}: not a run folder (no origin.yaml); name the folder itself")
    origin = read_yaml(path / "origin.yaml")
    raw = read_yaml(path / "config.yaml")
    config = parse_config(raw, origin["import_from"])
    prepared = Prepared(
        config,
        expand_variants(config, origin["import_from"]),
        origin["import_from"],
        origin["data_dir"],
    )
    jobs = [
        job for job in make_jobs(prepared, path) if job.folder.manifest().get("status") != "done"
    ]
    if jobs:
        backend, plan = choose_backend(prepared)
        _execute(path, jobs, backend, plan, config, listener or Quiet())
    return load(path)


def make_jobs(prepared: Prepared, folder: Path) -> list[Job]:
    """Return one job per variant and seed, with the folder that each is kept in."""
    jobs = []
    several = bool(prepared.config.variants) or prepared.config.noise_control
    for label, curve in prepared.curves.items():
        base = folder / slugify(label) if several else folder
        for seed in curve.seeds:
            spec = run_spec(curve, seed, prepared.data_dir, prepared.import_from)
            simulation = Simulation(
                spec,
                base / f"seed-{seed}",
                curve.privacy.noise_source == "system",
                _budget(curve, prepared.import_from, prepared.data_dir),
                curve.transcript,
            )
            jobs.append(Job(label, curve, simulation))
    return jobs


def _budget(curve: Config, import_from: str, data_dir: str | None) -> Budget | None:
    privacy = curve.privacy
    if privacy.budget is None:
        return None
    agents = build_scenario(run_spec(curve, curve.seeds[0], data_dir, import_from)).agents
    return Budget(
        privacy.budget,
        delta_of(curve, agents),
        make_accountant(privacy.accountant),
        privacy.accounting,
    )


def choose_backend(prepared: Prepared) -> tuple[str, str]:
    """Return the backend to use and the plan in words.

    Raises:
        ResourceError: if the plan cannot fit.
    """
    config = prepared.config
    scenario = prepared.scenario()
    work = scenario.agents * sum(c.rounds * len(c.seeds) for c in prepared.curves.values())
    wants_ray = config.address is not None or config.agents_per_actor != "auto"
    backend = config.backend
    if backend == "auto":
        backend = "ray" if wants_ray or work >= WORTH_RAY else "serial"
    if backend == "serial":
        return backend, f"{scenario.agents} agents in this process, one after another"
    from fedsim.actors.launch import plan_for

    jobs = sum(len(curve.seeds) for curve in prepared.curves.values())
    return backend, plan_for(scenario.agents, jobs, config).describe()


def _execute(
    folder: Path,
    jobs: Sequence[Job],
    backend: str,
    plan: str,
    config: Config,
    listener: Listener,
) -> None:
    listener.planned(folder, jobs, plan)
    keeper = _Keeper(listener, backend)
    try:
        if backend == "serial":
            for job in jobs:
                keeper.started(job)
                run_serial(job.simulation, config.deadlines.evaluation, _reporter(listener, job))
                keeper.finished(job)
        else:
            from fedsim.actors.launch import run_on_ray

            agents = max(build_scenario(job.simulation.spec).agents for job in jobs)
            run_on_ray(jobs, config, agents, keeper.started, listener.progress, keeper.finished)
    except KeyboardInterrupt:
        keeper.stopped("interrupted", "stopped by Ctrl-C")
        raise Interrupted(f"stopped by Ctrl-C; go on with: fedsim resume {folder}") from None
    except Interrupted as error:
        keeper.stopped("interrupted", str(error))
        raise Interrupted(f"{error}; go on with: fedsim resume {folder}") from None
    except FedsimError as error:
        keeper.stopped("failed", str(error))
        raise


def _reporter(listener: Listener, job: Job) -> Callable[[Progress], None]:
    return lambda progress: listener.progress(job, progress)


class _Keeper:
    """Keeps the manifests: which jobs run, how they ended."""

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
        )
        self._running.append(job)

    def finished(self, job: Job) -> None:
        """Write a job's tables and note that it is done."""
        scenario = build_scenario(job.simulation.spec)
        outcome = finish(job.folder, scenario, job.config.privacy.delta)
        job.folder.update_manifest(status="done", ended=now(), outcome=outcome)
        self._running.remove(job)
        self._listener.finished(job)

    def stopped(self, status: str, reason: str) -> None:
        """Note why the jobs that were running stopped."""
        for job in self._running:
            job.folder.update_manifest(status=status, ended=now(), reason=reason)


def now() -> str:
    """Return the time, UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def environment() -> dict[str, str]:
    """Return what the last digits of results may depend on."""
    packages = ("fedsim", "numpy", "scipy", "scikit-learn", "ray")
    found = {"python": platform.python_version(), "system": sys.platform, "processor": _processor()}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
