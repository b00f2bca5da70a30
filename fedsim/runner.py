"""The composition root: from a configuration to a finished run folder.

This module and the command line are the only ones in ``fedsim`` that know the engine
(``fedsim.actors``), which they import only when a run is to use Ray.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsim.agents import AgentGroup
from fedsim.build import RunSpec, build_method, build_scenario
from fedsim.config import (
    Config,
    apply_overrides,
    delta_of,
    expand_variants,
    parse_config,
    read_config,
)
from fedsim.errors import ConfigError, Interrupted, RunFolderError
from fedsim.imports import user_code
from fedsim.jobs import Job, Keeper, Listener, Quiet
from fedsim.privacy.budget import Budget
from fedsim.privacy.events import SubsampledGaussian
from fedsim.protocol import Method, Scenario
from fedsim.runfolder import (
    locked,
    new_run_folder,
    slugify,
    write_atomically,
    write_yaml,
)
from fedsim.serial import run_serial
from fedsim.simulation import Simulation
from fedsim.yamlfile import read_yaml

if TYPE_CHECKING:  # pandas takes long to import, and is not needed before a run's end
    from fedsim.analysis import Run

WORTH_RAY = 20_000
"""``backend: auto`` uses Ray from this many agent-rounds (all seeds together): below it,
starting Ray takes longer than it saves."""


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

    def spec(self, curve: Config, seed: int) -> RunSpec:
        """Return what a process needs to build one seed of a curve."""
        return RunSpec(
            curve.scenario, curve.method, curve.rounds, seed, self.data_dir, self.import_from
        )

    def scenario(self) -> Scenario:
        """Build the first variant's scenario, for the first seed."""
        first = next(iter(self.curves.values()))
        return build_scenario(self.spec(first, first.seeds[0]))


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
    if data is not None and not Path(data).is_dir():
        raise ConfigError(f"--data: expected the folder where data sets lie, got {found}")
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
    from fedsim.analysis import load

    prepared = config if isinstance(config, Prepared) else prepare(config, overrides, data_dir)
    check(prepared)
    backend, plan = choose_backend(prepared)
    folder = new_run_folder(prepared.config.name, None if out is None else Path(out))
    origin = {"import_from": prepared.import_from, "data_dir": prepared.data_dir}
    write_yaml(folder / "origin.yaml", origin)
    write_yaml(folder / "config.yaml", prepared.config.model_dump(mode="json"))
    with locked(folder, wait_seconds=0):
        jobs = make_jobs(prepared, folder)
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
    from fedsim.analysis import load

    path = Path(folder)
    if not (path / "config.yaml").exists() or not (path / "origin.yaml").exists():
        raise RunFolderError(f"{path}: not a run folder (no origin.yaml); name the folder itself")
    origin = read_yaml(path / "origin.yaml")
    config = parse_config(read_yaml(path / "config.yaml"), origin["import_from"])
    curves = expand_variants(config, origin["import_from"])
    prepared = Prepared(config, curves, origin["import_from"], origin["data_dir"])
    with locked(path, wait_seconds=0):
        jobs = [
            job
            for job in make_jobs(prepared, path)
            if job.folder.manifest().get("status") != "done"
        ]
        if jobs:
            check(prepared)
            backend, plan = choose_backend(prepared)
            _execute(path, jobs, backend, plan, config, listener or Quiet())
    return load(path)


def check(prepared: Prepared) -> None:
    """Build every variant's scenario, method and first agent once, and forget them.

    So a mistake shows its message, or its own traceback, before anything is written or started.

    Raises:
        ConfigError: if a setting is out of range.
        UserCodeError: if a user's code raises.
    """
    for curve in prepared.curves.values():
        spec = prepared.spec(curve, curve.seeds[0])
        scenario = build_scenario(spec)
        method = build_method(spec, scenario)
        AgentGroup(spec, built=(scenario, method)).prepare(0)
        if planned_costs(method) and not delta_of(curve, scenario.agents) < 1:
            raise ConfigError(
                "privacy.delta: N^-1.1 is 1 for one agent; give a number below 1 to report ε at"
            )


def planned_costs(method: Method) -> Sequence[SubsampledGaussian]:
    """Return what a whole run's releases will cost, as far as the method tells."""
    if not hasattr(method, "planned_costs"):
        return ()
    with user_code("the method failed to tell its planned costs"):
        costs: Sequence[SubsampledGaussian] = method.planned_costs()
    return costs


def make_jobs(prepared: Prepared, folder: Path) -> list[Job]:
    """Return one job per variant and seed, with the folder that each is kept in."""
    jobs = []
    several = bool(prepared.config.variants) or prepared.config.noise_control
    for label, curve in prepared.curves.items():
        base = folder / slugify(label) if several else folder
        budget = _budget(prepared, curve)
        for seed in curve.seeds:
            simulation = Simulation(
                prepared.spec(curve, seed),
                (base / f"seed-{seed}").absolute(),
                system_noise=curve.privacy.noise_source == "system",
                budget=budget,
                transcript=curve.transcript,
            )
            jobs.append(Job(label, curve, simulation))
    return jobs


def _budget(prepared: Prepared, curve: Config) -> Budget | None:
    privacy = curve.privacy
    if privacy.budget is None:
        return None
    from fedsim.privacy.accountants import make_accountant

    agents = build_scenario(prepared.spec(curve, curve.seeds[0])).agents
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
    _make_folders(folder, jobs)
    keeper = Keeper(listener, backend)
    try:
        listener.planned(folder, jobs, plan)
        if backend == "serial":
            for job in jobs:
                keeper.started(job)
                notify = partial(listener.progress, job)
                with chdir(Path.cwd()):  # an objective may go elsewhere
                    run_serial(job.simulation, config.deadlines.evaluation, notify)
                keeper.finished(job)
        else:
            from fedsim.actors.launch import Watch, run_on_ray

            one_per_curve = {job.label: job.simulation.spec for job in jobs}.values()
            agents = max(build_scenario(spec).agents for spec in one_per_curve)
            watch = Watch(keeper.started, listener.progress, keeper.finished)
            run_on_ray(jobs, config, agents, watch)
    except (KeyboardInterrupt, Interrupted) as error:
        why = str(error) or "stopped by Ctrl-C"
        keeper.stopped("interrupted", why)
        again = f"go on with: fedsim resume {shlex.quote(str(folder))}"
        raise Interrupted(f"{why}; {again}") from None
    except BaseException as error:
        keeper.stopped("failed", str(error) or type(error).__name__)
        raise


def _make_folders(folder: Path, jobs: Sequence[Job]) -> None:
    """Make every job's folder, unless it is there already."""
    for job in jobs:
        if not (job.folder.path / "config.yaml").exists():
            job.folder.create(job.config.model_dump(mode="json", exclude={"variants"}))
        if job.folder.path.parent != folder:
            write_atomically(job.folder.path.parent / "variant.txt", f"{job.label}\n".encode())
