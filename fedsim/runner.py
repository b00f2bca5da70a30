"""The composition root: from an experiment to a finished run folder.

In ``fedsim``, only :mod:`fedsim.running.placement` and :mod:`fedsim.running.execution` import the
engine (``fedsim.actors``), and only for runs on Ray.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from fedsim.arguments import Kind, check_arguments
from fedsim.config.experiment import Experiment
from fedsim.config.model import PrivacyConfig, delta_of
from fedsim.errors import of_run
from fedsim.files import slugify, user_path
from fedsim.fingerprints import fingerprint_settings
from fedsim.privacy.budget import Budget
from fedsim.record.journal import check_journal
from fedsim.record.locking import locked
from fedsim.record.origin import Origin
from fedsim.record.runfolder import RunFolder, begin, new_run_folder, removed_on_error
from fedsim.results.places import require_plan
from fedsim.running.execution import execute
from fedsim.running.jobs import Job, Listener, is_done
from fedsim.running.placement import Placement, parse_jobs, place
from fedsim.running.preflight import Checks, check
from fedsim.running.resuming import (
    experiment_of,
    note_changes,
    note_new_code,
    require_places,
    require_same_record,
    require_same_run,
    require_whole,
    restore_configuration,
)
from fedsim.simulation.loop import Simulation
from fedsim.streams import streams_kept
from fedsim.usercode.sources import UserCode

LISTENER = Kind("a fedsim.running.jobs.Listener", lambda value: isinstance(value, Listener))


@streams_kept()
def run(
    experiment: Experiment,
    *,
    out: str | Path | None = None,
    jobs: int | str = "auto",
    listener: Listener | None = None,
) -> Path:
    """Run an experiment and return its run folder.

    Args:
        experiment: what to run.
        out: the run folder, which must not exist; by default ``runs/NAME-NUMBER``.
        jobs: how many seeds and variants run at a time, each in a process of its own; 1: all in
            this process, one after another; ``auto``: one per CPU, where that saves time.
        listener: follows the run.

    Raises:
        FedsimError: for any failure; ``exit_code`` and the message say what failed, ``folder``
            where it is recorded.
    """
    parse_jobs(jobs)
    check_arguments(listener=(listener, LISTENER))
    checks, code = check(experiment), experiment.code
    # Before anything is evaluated: that may take long, or end this process.
    folder = new_run_folder(experiment.config.name, None if out is None else user_path(out))
    config = experiment.config.model_dump(mode="json")
    origin = Origin.of(code, experiment.data_dir, _fingerprints(experiment), config)
    begin(folder, config, origin.record(), code)
    with removed_on_error(folder), locked(folder, wait_seconds=1.0):
        checks, placement = place(experiment, checks, experiment.jobs, jobs, listener)
        _pack(code, placement)
    with of_run(folder), locked(folder, wait_seconds=1.0):
        made = make_jobs(experiment, folder, checks)
        execute(folder, made, placement, experiment.config, checks, listener or Listener())
    return folder


@streams_kept()
def resume(
    folder: str | Path,
    *,
    given: Sequence[object] = (),
    overrides: Sequence[str] = (),
    jobs: int | str = "auto",
    listener: Listener | None = None,
) -> Path:
    """Resume an unfinished run from its last recorded evaluation, and return its folder.

    Args:
        folder: the run folder.
        given: classes and objects that the run was given in Python.
        overrides: ``dotted.key=value`` assignments to its configuration;
            :mod:`fedsim.config.changes` says which keys may change.
        jobs: as in :func:`run`.
        listener: follows the run.

    Raises:
        RunFolderError: if it is not a run folder.
        ConfigError: if an override is wrong, or may not change.
        LostRecordError: if all is done now, but a seed that was done before has lost its journal.
        FedsimError: as in :func:`run`.
    """
    path = user_path(folder)
    check_arguments(listener=(listener, LISTENER))
    origin = Origin.read(path)
    require_plan(path)
    experiment, changed = experiment_of(path, origin, overrides, given)
    with of_run(path), locked(path, wait_seconds=1.0):
        require_same_run(origin, _fingerprints(experiment), path)
        require_places(one for _, _, one in _folders(experiment, path))
        require_same_record(changed, (one for _, _, one in _folders(experiment, path)))
        for label, seed, one in _folders(experiment, path):
            restore_configuration(one, experiment.variants[label], seed)
        left = sum(not is_done(one) for _, _, one in _folders(experiment, path))
        if not left:
            require_whole(path)
            return path
        parse_jobs(jobs)
        checks = check(experiment)
        made = [job for job in make_jobs(experiment, path, checks) if not is_done(job.folder)]
        for job in made:
            check_journal(job.folder.journal, job.simulation.run)
        checks, placement = place(experiment, checks, left, jobs, listener)
        _pack(experiment.code, placement)
        if note := note_new_code(path, origin, experiment, made):
            placement = replace(placement, plan=f"{placement.plan}; {note}")
        if changed:
            note_changes(path, origin, experiment, changed, made)
        execute(path, made, placement, experiment.config, checks, listener or Listener())
        require_whole(path)
    return path


def _pack(code: UserCode, placement: Placement) -> None:
    """Check that what the run was given can be sent to the processes that need it."""
    if placement.backend == "ray" or placement.at_a_time > 1:
        for given in code.objects.values():
            given.pack()


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


def _fingerprints(experiment: Experiment) -> dict[str, str]:
    """Return the fingerprint of every variant's settings."""
    return {
        label: fingerprint_settings(variant.model_dump(mode="json"))
        for label, variant in experiment.variants.items()
    }


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
