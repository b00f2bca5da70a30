"""Where the seeds of a run are, what they are called, and which of them are missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from fedsim.errors import RunFolderError
from fedsim.files import NOISE_CONTROL, RESTORE, read_yaml, slugify
from fedsim.fingerprints import fingerprint_keys
from fedsim.record.layout import is_marked, is_seed, number_of, seed_folders, subfolders
from fedsim.record.origin import Origin
from fedsim.record.runfolder import RunFolder
from fedsim.usercode.given import how_to_resume


def is_run(folder: Path) -> bool:
    """Return whether a folder is that of a whole run."""
    if (folder / "origin.yaml").exists():
        return True
    # If that is lost, its configuration and its seeds are left.
    return is_marked(folder) and not is_seed(folder) and bool(_seeds_in(folder))


def _seeds_in(folder: Path) -> list[Path]:
    with suppress(RunFolderError):  # it may not be read: it holds no run of this user
        return seed_folders(folder)
    return []


def planned_seeds(folder: Path) -> list[tuple[str, Path]]:
    """Return the variant's label and the folder of every seed that a run's configuration has.

    Args:
        folder: the folder of a run or of one of its variants.

    Returns:
        One for each seed, whether its folder exists or not; none if the configuration is damaged.
    """
    with suppress(RunFolderError):
        return _planned(folder)
    return []


def require_plan(whole: Path) -> None:
    """Check that a run's ``config.yaml`` is its own, and that its variants are in their places.

    Raises:
        RunFolderError: if not.
    """
    _planned(whole)


def lost_plan(folder: Path) -> str | None:
    """Return why it is not known which seeds are missing, as a sentence; None if it is known.

    The run cannot be resumed then.

    Args:
        folder: the folder of a run or of one of its variants.
    """
    whole = _whole(folder)
    if not is_run(whole):
        return None
    try:
        _planned(folder)
    except RunFolderError as error:
        return f"it is not known which seeds the run has: {error}"
    try:
        Origin.read(whole)
    except RunFolderError as error:
        return f"it is not known whether config.yaml is as the run began: {error}"
    return None


def _whole(folder: Path) -> Path:
    return folder if is_run(folder) else folder.absolute().parent


def _planned(folder: Path) -> list[tuple[str, Path]]:
    whole = _whole(folder)
    config = read_yaml(whole / "config.yaml", kept=True)
    try:
        if config.get("variants") or config.get("noise_control"):
            labels = variants_of(whole) or map(str, config["variants"])
            places = [(label, whole / slugify(label)) for label in labels]
        else:
            places = [(str(config["method"]["name"]), whole)]
        seeds = [int(seed) for seed in config["seeds"]]
        origin = _read_origin(whole)
        differences = "" if origin is None else origin.differences(config, seeds)
    except (LookupError, TypeError, ValueError) as error:
        raise RunFolderError(
            f"{whole / 'config.yaml'}: damaged: seeds, method or variants are not what they "
            f"should be ({error!r}); {RESTORE}"
        ) from None
    if origin is not None and differences:
        raise _of_another_run(origin, whole, config, differences)
    _check_places(whole, dict(places))
    if whole != folder:
        name = folder.absolute().name
        places = [
            (label, folder) for label, place in places if place != whole and place.name == name
        ]
    return [(label, place / f"seed-{seed}") for label, place in places for seed in seeds]


def _of_another_run(
    origin: Origin, whole: Path, config: Mapping[str, Any], differences: str
) -> RunFolderError:
    """Return the error for a configuration and an origin that are not of the same run."""
    if _is_anothers(origin, whole):
        return RunFolderError(
            f"{whole / 'origin.yaml'}: not of this run: neither config.yaml nor the seeds beside "
            f"it belong to it; {RESTORE}"
        )
    told = "; ".join(["origin.yaml says so", *_originals(origin, whole, config)])
    return RunFolderError(
        f"{whole / 'config.yaml'}: not the configuration of this run: it {differences} ({told}); "
        f"{RESTORE}"
    )


def _originals(origin: Origin, whole: Path, config: Mapping[str, Any]) -> list[str]:
    """Return what changed numbers of a run's configuration were, as far as a seed's tells."""
    for seed in seed_folders(whole):
        with suppress(RunFolderError):
            own = read_yaml(seed / "config.yaml", kept=True)
            begun_with = fingerprint_keys(own)
            return [
                f"{key} was {own.get(key)}"
                for key in ("rounds", "availability")
                if own.get(key) != config.get(key) and begun_with[key] == origin.keys.get(key)
            ]
    return []


def _check_places(whole: Path, places: Mapping[str, Path]) -> None:
    """Check that no variant's folder has the name of another's, or another's ``variant.txt``."""
    for folder in dict.fromkeys(seed.parent for seed in seed_folders(whole)):
        label = _told_label(folder)
        if own := _own_label(folder, label):
            raise RunFolderError(
                f"{folder / 'variant.txt'}: says {label}, but the folder is that of {own}; remove "
                "variant.txt"
            )
        place = places.get(label, folder)
        if folder.absolute() != place.absolute() and whole != place:
            raise RunFolderError(
                f"{folder}: holds the variant {label} (variant.txt says so), which belongs into "
                f"{place.name}: move it back there, or out of the run folder"
            )


def _own_label(folder: Path, told: str) -> str:
    """Return the label of a variant's folder whose ``variant.txt`` is another's.

    It is the one that the folder is named after, if the run has no variant with the label that is
    told, or that one's settings are not those that the seeds in the folder were begun with.

    Args:
        folder: the folder.
        told: what its ``variant.txt`` says.

    Returns:
        the label; empty if ``variant.txt`` says nothing else, or it is not known what is right.
    """
    name = folder.absolute().name
    if not told or slugify(told) == name:
        return ""
    known = variants_of(_whole(folder))
    own = next((label for label in known if slugify(label) == name), "")
    if not own:
        return ""
    others = {label.strip(): fingerprint for label, fingerprint in known.items()}
    if told not in others:
        return own
    begun = {_begun_with(seed) for seed in seed_folders(folder)} - {None}
    return own if begun == {known[own]} != {others[told]} else ""


def _told_label(folder: Path) -> str:
    """Return what ``variant.txt`` says; the folder of a whole run has none of its own."""
    if is_run(folder):
        return ""
    with suppress(OSError, UnicodeDecodeError):
        return (folder / "variant.txt").read_text("utf-8").strip()
    return ""


def variants_of(whole: Path) -> dict[str, str]:
    """Return the fingerprints of a run's variants by label, in order; none if they are lost."""
    origin = _origin_of(whole)
    return {} if origin is None else dict(origin.variants)


def _origin_of(whole: Path) -> Origin | None:
    origin = _read_origin(whole)
    return None if origin is None or _is_anothers(origin, whole) else origin


def _read_origin(whole: Path) -> Origin | None:
    with suppress(RunFolderError):  # resuming says so
        return Origin.read(whole)
    return None


def _is_anothers(origin: Origin, whole: Path) -> bool:
    """Return whether an origin is another run's: neither the seeds nor the configuration fit."""
    with suppress(RunFolderError, LookupError, TypeError, ValueError):
        seeds = seed_folders(whole)
        if not seeds or any(_is_of(origin, seed) is not False for seed in seeds):
            return False  # mostly the first seed tells, so that no more is read
        config = read_yaml(whole / "config.yaml", kept=True)
        return bool(origin.differences(config, [int(seed) for seed in config["seeds"]]))
    return False


def _is_of(origin: Origin, seed: Path) -> bool | None:
    """Return whether a seed was begun with an origin's run; None if it does not tell."""
    if origin.seeds and number_of(seed) not in origin.seeds:
        return False
    own, known = _begun_with(seed), set(origin.variants.values())
    return None if own is None or "" in known else own in known


def _begun_with(seed: Path) -> str | None:
    """Return the fingerprint of the settings that a seed was begun with; None if it is lost."""
    with suppress(RunFolderError):
        own = RunFolder(seed).manifest().get("settings_fingerprint")
        return own if isinstance(own, str) else None
    return None


def given_to(whole: Path) -> dict[str, str]:
    """Return what a run was given in Python, by name: ``class`` or ``object``; none if lost."""
    origin = _origin_of(whole)
    return {} if origin is None else {name: one["kind"] for name, one in origin.given.items()}


def resuming(whole: Path) -> str:
    """Return what resumes a run, as the subject of a sentence."""
    return how_to_resume(whole, given_to(whole), as_subject=True)


def label_of(folder: Path) -> str:
    """Return the label of a variant, or of a run that has no variants: its method's name.

    Args:
        folder: the folder whose ``seed-*`` folders are its seeds.

    Raises:
        RunFolderError: if it is not known: ``variant.txt`` and what the run knows are both lost.
    """
    marker = folder / "variant.txt"
    if told := _told_label(folder):
        return _own_label(folder, told) or told
    for known in (dict(planned_seeds(folder)), variants_of(folder)):
        if len(known) == 1:
            return next(iter(known))
    if marker.exists() or is_run(folder.absolute().parent):
        raise RunFolderError(
            f"{marker}: missing or damaged: expected the variant's label; {RESTORE}"
        )
    error = RunFolderError(f"{folder}: no configuration says which method it is; {RESTORE}")
    for seed in (one for one in subfolders(folder) if is_seed(one)):
        try:
            return _method_in(seed / "config.yaml")
        except RunFolderError as damage:
            error = damage
    raise error


def _method_in(config: Path) -> str:
    method: Any = read_yaml(config, kept=True).get("method")
    if not isinstance(method, dict) or "name" not in method:
        raise RunFolderError(f"{config}: damaged: method.name is missing; {RESTORE}")
    return str(method["name"])


def in_order(labels: Iterable[str], folder: Path) -> list[str]:
    """Return labels of a run's variants in the order of its configuration.

    A noise-only control follows its variant; labels whose place is not known come first.

    Args:
        labels: the labels.
        folder: the run folder, or a part of it, where no order is known.
    """
    order: Iterable[str] = ()
    if is_run(folder):  # what it was begun with, or if that is lost its configuration
        order = variants_of(folder) or dict(planned_seeds(folder))
    place = {label: number for number, label in enumerate(order)}
    return sorted(
        set(labels), key=lambda label: (place.get(label.removesuffix(NOISE_CONTROL), -1), label)
    )
