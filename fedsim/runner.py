"""The composition root: from a configuration to a finished run folder.

In ``fedsim``, only :mod:`fedsim.placement` and :mod:`fedsim.execution` import the engine
(``fedsim.actors``), and only for runs on Ray.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsim.config.experiment import Experiment, prepare
from fedsim.config.model import PrivacyConfig, delta_of, parse_config
from fedsim.config.variants import expand_variants
from fedsim.errors import RunFolderError
from fedsim.execution import execute
from fedsim.files import read_yaml, slugify
from fedsim.jobs import Job, Listener, is_done
from fedsim.placement import place
from fedsim.preflight import Checks
from fedsim.privacy.budget import Budget
from fedsim.record.journal import check_journal
from fedsim.record.runfolder import RunFolder, begin, locked, new_run_folder
from fedsim.simulation.loop import Simulation

if TYPE_CHECKING:  # pandas takes long to import, and is not needed before a run's end
    from fedsim.results.analysis import Run


def run(
    config: str | Path | Mapping[str, Any] | Experiment | None = None,
    *,
    overrides: Sequence[str] = (),
    data_dir: str | Path | None = None,
    out: str | Path | None = None,
    jobs: int | str = "auto",
    listener: Listener | None = None,
) -> Run:
    """Run a simulation and return the finished run.

    Args:
        config: a file, the name of a ready configuration, a mapping, or None for the default.
        overrides: ``dotted.key=value`` assignments.
        data_dir: the folder of the data sets; by default the environment's ``FEDSIM_DATA``.
        out: the run folder, which must not exist; by default ``runs/NAME-NUMBER``.
        jobs: how many seeds and variants run at a time, each in a process of its own; 1: all in
            this process, one after another; ``auto``: one per CPU, where that saves time.
        listener: follows the run.

    Raises:
        FedsimError: for any failure; ``exit_code`` and the message say what failed.
    """
    from fedsim.results.analysis import load

    experiment = config if isinstance(config, Experiment) else prepare(config, overrides, data_dir)
    checks, placement = place(experiment, experiment.jobs, jobs)
    folder = new_run_folder(experiment.config.name, None if out is None else Path(out))
    origin = {"import_from": experiment.import_from, "data_dir": experiment.data_dir}
    begin(folder, experiment.config.model_dump(mode="json"), origin)
    with locked(folder, wait_seconds=1.0):
        made = make_jobs(experiment, folder, checks)
        execute(folder, made, placement, experiment.config, checks, listener or Listener())
    return load(folder)


def resume(
    folder: str | Path, *, jobs: int | str = "auto", listener: Listener | None = None
) -> Run:
    """Resume an unfinished run from its last recorded evaluation.

    Args:
        folder: the run folder.
        jobs: as in :func:`run`.
        listener: follows the run.

    Raises:
        RunFolderError: if it is not a run folder.
        FedsimError: as in :func:`run`.
    """
    from fedsim.results.analysis import load

    path = Path(folder)
    if not (path / "config.yaml").exists() or not (path / "origin.yaml").exists():
        raise RunFolderError(
            f"{path}: not a run folder (no origin.yaml); give the run folder itself"
        )
    origin = read_yaml(path / "origin.yaml")
    config = parse_config(read_yaml(path / "config.yaml"), origin["import_from"])
    variants = expand_variants(config, origin["import_from"])
    experiment = Experiment(config, variants, origin["import_from"], origin["data_dir"])
    with locked(path, wait_seconds=1.0):
        left = sum(not is_done(one) for _, _, one in _folders(experiment, path))
        if not left:
            return load(path)
        checks, placement = place(experiment, left, jobs)
        made = [job for job in make_jobs(experiment, path, checks) if not is_done(job.folder)]
        for job in made:
            check_journal(job.folder.journal, job.simulation.run)
        execute(path, made, placement, experiment.config, checks, listener or Listener())
    return load(path)


def make_jobs(experiment: Experiment, folder: Path, checks: Checks) -> list[Job]:
    """Return one job per variant and seed, each with its folder."""
    budgets = {
        label: _budget(variant.privacy, delta_of(variant, checks[label].agents))
        for label, variant in experiment.variants.items()
    }
    return [
        Job(
            label,
            experiment.variants[label],
            Simulation(
                experiment.spec(experiment.variants[label], seed),
                kept.path,
                system_noise=experiment.variants[label].privacy.noise_source == "system",
                budget=budgets[label],
                transcript=experiment.variants[label].transcript,
                evaluation=checks[label].evaluation,
            ),
        )
        for label, seed, kept in _folders(experiment, folder)
    ]


def _folders(experiment: Experiment, folder: Path) -> Iterator[tuple[str, int, RunFolder]]:
    """Yield every variant's label, seed and folder."""
    several = bool(experiment.config.variants) or experiment.config.noise_control
    for label, variant in experiment.variants.items():
        base = folder / slugify(label) if several else folder
        for seed in variant.seeds:
            yield label, seed, RunFolder((base / f"seed-{seed}").absolute())


def _budget(privacy: PrivacyConfig, delta: float) -> Budget | None:
    if privacy.budget is None:
        return None
    from fedsim.privacy.accountants import make_accountant

    accountant = make_accountant(privacy.accountant)
    return Budget(privacy.budget, delta, accountant, privacy.accounting)
