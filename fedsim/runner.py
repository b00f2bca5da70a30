"""The composition root: from a configuration to a finished run folder.

In ``fedsim``, only :mod:`fedsim.placement` and :mod:`fedsim.execution` import the engine
(``fedsim.actors``), and only for runs on Ray.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsim.config.changes import BUDGET, ON_ERROR, Changes, as_records, changes
from fedsim.config.experiment import Experiment, prepare
from fedsim.config.model import PrivacyConfig, delta_of, parse_config
from fedsim.config.reading import apply_overrides
from fedsim.config.variants import expand_variants
from fedsim.errors import ConfigError, of_run
from fedsim.execution import execute
from fedsim.files import read_yaml, slugify, user_path, write_yaml
from fedsim.jobs import Job, Listener, is_done
from fedsim.placement import place
from fedsim.preflight import Checks
from fedsim.privacy.budget import Budget
from fedsim.record.entries import ReleaseEntry, StepEntry
from fedsim.record.journal import check_journal, read_journal
from fedsim.record.manifest import now
from fedsim.record.origin import Origin, keep_code
from fedsim.record.runfolder import RunFolder, begin, locked, new_run_folder
from fedsim.simulation.loop import Simulation
from fedsim.usercode import UserCode
from fedsim.userimports import imports_kept, refuse_while_importing

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
    refuse_while_importing()
    with imports_kept():
        return _run(config, overrides, data_dir, out, jobs, listener or Listener())


def _run(
    config: str | Path | Mapping[str, Any] | Experiment | None,
    overrides: Sequence[str],
    data_dir: str | Path | None,
    out: str | Path | None,
    jobs: int | str,
    listener: Listener,
) -> Run:
    from fedsim.results.analysis import load

    experiment = config if isinstance(config, Experiment) else prepare(config, overrides, data_dir)
    checks, placement = place(experiment, experiment.jobs, jobs)
    folder = new_run_folder(experiment.config.name, None if out is None else user_path(out))
    code, origin = experiment.code, Origin.of(experiment.code, experiment.data_dir)
    told = {**origin.record(), "variants": list(experiment.variants)}
    begin(folder, experiment.config.model_dump(mode="json"), told, code)
    with of_run(folder), locked(folder, wait_seconds=1.0):
        made = make_jobs(experiment, folder, checks)
        execute(folder, made, placement, experiment.config, checks, listener)
    return load(folder)


def resume(
    folder: str | Path,
    *,
    overrides: Sequence[str] = (),
    jobs: int | str = "auto",
    listener: Listener | None = None,
) -> Run:
    """Resume an unfinished run from its last recorded evaluation.

    Args:
        folder: the run folder.
        overrides: ``dotted.key=value`` assignments to its configuration;
            :mod:`fedsim.config.changes` says which keys may change.
        jobs: as in :func:`run`.
        listener: follows the run.

    Raises:
        RunFolderError: if it is not a run folder.
        ConfigError: if an override is wrong, or may not change.
        FedsimError: as in :func:`run`.
    """
    refuse_while_importing()
    with imports_kept():
        return _resume(user_path(folder), overrides, jobs, listener or Listener())


def _resume(folder: Path, overrides: Sequence[str], jobs: int | str, listener: Listener) -> Run:
    from fedsim.results.analysis import load

    origin = Origin.read(folder)
    experiment, changed = _experiment_of(folder, origin, overrides)
    with of_run(folder), locked(folder, wait_seconds=1.0):
        _require_same_record(changed, (one for _, _, one in _folders(experiment, folder)))
        left = sum(not is_done(one) for _, _, one in _folders(experiment, folder))
        if not left:
            return load(folder)
        checks, placement = place(experiment, left, jobs)
        made = [job for job in make_jobs(experiment, folder, checks) if not is_done(job.folder)]
        for job in made:
            check_journal(job.folder.journal, job.simulation.run)
        _note_new_code(folder, origin, experiment, made)
        if changed:
            _note_changes(folder, experiment, changed, made)
        execute(folder, made, placement, experiment.config, checks, listener)
    return load(folder)


def _experiment_of(
    folder: Path, origin: Origin, overrides: Sequence[str]
) -> tuple[Experiment, Changes]:
    """Return the experiment of a run folder, with its user's code as it is now, and what changes.

    Raises:
        ConfigError: if an override is wrong, or may not change.
    """
    raw = read_yaml(folder / "config.yaml")
    code = UserCode.named_in(raw, origin.import_from)
    before = parse_config(raw, code)
    config = parse_config(apply_overrides(raw, overrides), code) if overrides else before
    changed = changes(before, config)
    return Experiment(config, expand_variants(config, code), code, origin.data_dir), changed


def _require_same_record(changed: Changes, folders: Iterable[RunFolder]) -> None:
    """Check that what is recorded so far would be the same with the new settings.

    Raises:
        ConfigError: if not.
    """
    skipped = changed.get(ON_ERROR, ("",))[0] == "skip"
    if not skipped and BUDGET not in changed:
        return
    for one in folders:
        for entry in read_journal(one.journal) if one.journal.exists() else ():
            if BUDGET in changed and isinstance(entry, ReleaseEntry) and entry.refused:
                key, what = BUDGET, "a release that was refused, which the new budget may allow"
            elif skipped and isinstance(entry, StepEntry) and entry.failed:
                key, what = ON_ERROR, "an evaluation that failed and was skipped"
            else:
                continue
            raise ConfigError(
                f"{key}: cannot change any more: {one.path} has {what}; start a new run"
            )


def _note_changes(
    folder: Path, experiment: Experiment, changed: Changes, jobs: Sequence[Job]
) -> None:
    """Replace the configuration; the manifests keep what it was."""
    write_yaml(folder / "config.yaml", experiment.config.model_dump(mode="json"))
    for job in jobs:
        if manifest := job.folder.manifest():
            told = [*manifest.get("changes", []), *as_records(changed, now())]
            job.folder.update_manifest(changes=told)
            job.folder.create(job.configuration)


def _note_new_code(
    folder: Path, origin: Origin, experiment: Experiment, jobs: Sequence[Job]
) -> None:
    """Record that a resume runs other code than the run so far, if it does."""
    changed = origin.changes(Origin.of(experiment.code, experiment.data_dir))
    if not changed:
        return
    kept = keep_code(folder, experiment.code)
    text = f"resumed with other code: {changed} changed since the run started"
    text += f"; {kept.name}/ holds the new code" if kept else ""
    for job in jobs:
        job.folder.path.mkdir(parents=True, exist_ok=True)
        warnings = [*job.folder.manifest().get("warnings", []), text]
        job.folder.update_manifest(warnings=warnings)


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
