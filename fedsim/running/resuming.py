"""What a resume checks and records, beyond what a run does: other settings, and other code."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedsim.config.changes import BUDGET, ON_ERROR, Changes, as_records, changes, require_same_names
from fedsim.config.experiment import Experiment
from fedsim.config.model import Config, parse_config
from fedsim.config.reading import apply_overrides
from fedsim.config.variants import expand_variants
from fedsim.errors import ConfigError, LostRecordError, RunFolderError
from fedsim.files import RESTORE, read_yaml, write_yaml
from fedsim.fingerprints import fingerprint_settings
from fedsim.record.entries import ReleaseEntry, StepEntry
from fedsim.record.journal import read_journal
from fedsim.record.layout import obstacle, seed_folders
from fedsim.record.manifest import now
from fedsim.record.origin import FILE, Origin, keep_code
from fedsim.record.runfolder import RunFolder
from fedsim.results.analysis import load
from fedsim.results.identity import own_configuration
from fedsim.results.places import given_to
from fedsim.results.seeds import SeedRun
from fedsim.running.jobs import Job, seed_configuration
from fedsim.usercode.given import code_of, how_to_resume, is_found_by_name, name_of
from fedsim.usercode.sources import UserCode, texts_in


def experiment_of(
    folder: Path, origin: Origin, overrides: Sequence[str], given: Sequence[object]
) -> tuple[Experiment, Changes]:
    """Return the experiment of a run folder, with its user's code as it is now, and what changes.

    Args:
        folder: the run folder.
        origin: its origin.
        overrides: ``dotted.key=value`` assignments.
        given: classes and objects that the run was given in Python.

    Raises:
        ConfigError: if an override is wrong, or may not change; or if a class or an object that
            the run was given is not given now, or is another one.
    """
    raw = read_yaml(folder / "config.yaml", kept=True)
    if lost := [key for key in ("scenario", "method", "rounds", "seeds") if key not in raw]:
        raise RunFolderError(f"{folder / 'config.yaml'}: damaged: {lost[0]} is missing; {RESTORE}")
    code = _code_of(raw, folder, origin, given)
    before = parse_config(raw, code)
    config = before
    if overrides:
        asked = apply_overrides(raw, overrides)
        require_same_names(raw, asked)
        config = parse_config(asked, code)
    changed = changes(before, config)
    return Experiment(config, expand_variants(config, code), code, origin.data_dir), changed


def _code_of(raw: Any, folder: Path, origin: Origin, given: Sequence[object]) -> UserCode:
    things = {name_of(thing): thing for thing in given}
    for name in things.keys() - set(texts_in(raw)):
        raise ConfigError(
            f"{name}: this run has no such scenario or method; its names are in "
            f"{folder / 'config.yaml'}"
        )
    code = code_of(raw, origin.import_from, things)
    for name, before in origin.given.items():
        now = code.objects.get(name)
        if now is None and not is_found_by_name(name, before["kind"]):
            raise ConfigError(
                f"{folder}: the run was given the {before['kind']} {name} in Python, where it was "
                f"defined: give it again, as scenario= or method= of fedsim.resume({str(folder)!r})"
            )
        if now is not None and before["state"] != now.state:
            raise ConfigError(
                f"{name}: its attributes are not those of the object that the run started with; "
                "give one like it, or start a new run"
            )
    return code


def require_same_run(origin: Origin, fingerprints: Mapping[str, str], folder: Path) -> None:
    """Check that a run's configuration and its seeds' folders are those that it started with.

    Args:
        origin: the run's origin.
        fingerprints: that of every variant's settings, as its configuration has them now.
        folder: the run folder.

    Raises:
        RunFolderError: if not.
    """
    for label, now_has in fingerprints.items():
        if origin.variants.get(label) not in ("", None, now_has):
            raise RunFolderError(
                f"{folder / FILE}: {label} belongs to other settings than config.yaml in the same "
                "folder: the records of two different runs would be mixed; restore config.yaml, "
                "or start a new run"
            )
    if seed_folders(folder):  # else nothing was started
        for one in load(folder).runs:
            one.require_own()


def require_whole(folder: Path) -> None:
    """Check that all seeds of a run that is done have their journals.

    Raises:
        LostRecordError: if not; it says what is lost, and what can be done.
    """
    lost: dict[str, list[SeedRun]] = {}
    for one in load(folder).runs:
        if words := one.lost_journal():
            lost.setdefault(words, []).append(one)
    if not lost:
        return
    seeds = ",".join(map(str, sorted({one.seed for own in lost.values() for one in own})))
    given = given_to(folder)
    config = shlex.quote(str(folder / "config.yaml"))
    again = f"run it again with seeds {seeds}" if given else f"fedsim run {config} --seeds {seeds}"
    told = "; ".join(f"{'; '.join(one.name for one in own)}: {why}" for why, own in lost.items())
    raise LostRecordError(
        f"{folder}: done, but not all of its record is left: {told}. Repair what is "
        f"damaged, then continue with: {how_to_resume(folder, given)}; or start a new run: {again}"
    )


def restore_configuration(folder: RunFolder, variant: Config, seed: int) -> None:
    """Write a seed's configuration again if its folder has lost it."""
    if not folder.path.exists():
        return
    configuration = seed_configuration(variant, seed)
    try:
        own_configuration(folder, fingerprint_settings(configuration))
    except RunFolderError:
        folder.create(configuration)


def require_same_record(changed: Changes, folders: Iterable[RunFolder]) -> None:
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


def require_places(folders: Iterable[RunFolder]) -> None:
    """Check that no file is where the folder of a seed belongs.

    Raises:
        RunFolderError: if one is.
    """
    for one in folders:
        if told := obstacle(one.path):
            raise RunFolderError(f"{told}, then resume the run again")


def note_changes(
    folder: Path, origin: Origin, experiment: Experiment, changed: Changes, jobs: Sequence[Job]
) -> None:
    """Replace the configuration; the manifests keep what it was."""
    config = experiment.config.model_dump(mode="json")
    write_yaml(folder / "config.yaml", config)
    write_yaml(folder / FILE, origin.with_config(config).record())
    for job in jobs:
        if manifest := job.folder.manifest():
            told = [*manifest.get("changes", []), *as_records(changed, now())]
            job.folder.update_manifest(changes=told)
            job.folder.create(job.configuration)


def note_new_code(folder: Path, origin: Origin, experiment: Experiment, jobs: Sequence[Job]) -> str:
    """Record that a resume runs other code than the run so far; return that, or nothing."""
    config = experiment.config.model_dump(mode="json")
    now_from = Origin.of(experiment.code, experiment.data_dir, origin.variants, config)
    changed = origin.changes(now_from)
    if not changed:
        return ""
    kept, told = keep_code(folder, experiment.code), ", ".join(changed)
    text = f"resumed with other code: {told} changed since the run started, or cannot be compared"
    text += f"; {kept.name}/ holds the new code" if kept else ""
    for job in jobs:
        job.folder.path.mkdir(parents=True, exist_ok=True)
        warnings = [*job.folder.manifest().get("warnings", []), text]
        job.folder.update_manifest(warnings=warnings)
    return text
