"""Whether a seed's folder holds the seed that its place says, and its configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from fedsim.errors import RunFolderError
from fedsim.files import RESTORE, read_yaml
from fedsim.fingerprints import fingerprint_settings
from fedsim.record.journal import journal_run
from fedsim.record.layout import is_seed, number_of, run_folder_of, subfolders
from fedsim.record.remedies import REMAKE, RESTART
from fedsim.record.runfolder import RunFolder
from fedsim.results.places import resuming

ELSEWHERE = "it was copied or moved here and does not count; move it out of the run folder"


def require_own(seed: Path, manifest: Mapping[str, Any], settings_fingerprint: str) -> None:
    """Check that a folder holds the seed, the variant and the run that its place says.

    Args:
        seed: the seed's folder.
        manifest: its manifest; what earlier versions of fedsim did not record is not checked.
        settings_fingerprint: the fingerprint of its variant's settings; empty if it is not known.

    Raises:
        RunFolderError: if not.
    """
    words, folder = _elsewhere(seed, manifest, settings_fingerprint), RunFolder(seed)
    done = manifest.get("status") == "done"
    if done and not words and "run" in manifest and "outcome" not in manifest:
        raise RunFolderError(
            f"{seed / 'manifest.json'}: damaged: it says that the seed is done, but not how it "
            f"ended; {REMAKE}"
        )
    if done and not words:  # whoever reads its journal knows it by its hash
        return
    run, begun = manifest.get("run"), journal_run(folder.journal)
    apart = bool(begun) and isinstance(run, str) and begun != run
    if words and apart:
        raise RunFolderError(
            f"{seed / 'manifest.json'}: {words}, and the journal beside it does not belong to it; "
            f"{REMAKE}"
        )
    if words:
        raise RunFolderError(f"{seed}: {words}: {ELSEWHERE}")
    if apart:
        raise RunFolderError(
            f"{folder.journal}: belongs to another seed, or to other settings, than manifest.json "
            f"beside it; {RESTART}"
        )


def _elsewhere(seed: Path, manifest: Mapping[str, Any], settings_fingerprint: str) -> str:
    """Return in which way a manifest is not of the seed that its place says; empty if it is."""
    number, found, own = number_of(seed), manifest.get("seed"), manifest.get("settings_fingerprint")
    if isinstance(found, int) and found != number:
        return f"holds seed {found}, not {number}"
    if settings_fingerprint and isinstance(own, str) and own != settings_fingerprint:
        return "was run with other settings than its place says"
    return ""


def found_configuration(folder: RunFolder, settings_fingerprint: str) -> dict[str, Any]:
    """Return a seed's configuration; if its file is lost, what the run holds of it elsewhere.

    That is in the folders of the same variant's other seeds, and of a run that has no variants
    also in its own.

    Args:
        folder: the seed's folder.
        settings_fingerprint: the fingerprint of its variant's settings; empty if it is not known.

    Raises:
        RunFolderError: if it is lost.
    """
    try:
        return own_configuration(folder, settings_fingerprint)
    except RunFolderError as error:
        for other in _others(folder.path):
            with suppress(RunFolderError):
                return {**_read(other, settings_fingerprint), "seeds": [number_of(folder.path)]}
        again = resuming(run_folder_of(folder.path))
        raise RunFolderError(
            f"{error}; if config.yaml of the run is whole, {again} writes it anew"
        ) from None


def own_configuration(folder: RunFolder, settings_fingerprint: str) -> dict[str, Any]:
    """Return what a seed's own file holds; see :func:`found_configuration`."""
    return _read(folder.path / "config.yaml", settings_fingerprint)


def _others(seed: Path) -> Iterator[Path]:
    for other in subfolders(seed.parent):
        if is_seed(other) and other != seed:
            yield other / "config.yaml"
    if not (seed.parent / "variant.txt").exists():
        yield seed.parent / "config.yaml"


def _read(path: Path, settings_fingerprint: str) -> dict[str, Any]:
    config = read_yaml(path, kept=True)
    try:
        names = (config["scenario"]["name"], config["method"]["name"])
        damaged = not all(isinstance(name, str) for name in names) or config.get("variants")
        int(config["rounds"])
        known = bool(settings_fingerprint)
        other = known and fingerprint_settings(config) != settings_fingerprint
    except (LookupError, TypeError, ValueError):
        damaged, other = True, False
    if damaged:
        raise RunFolderError(f"{path}: damaged: not a seed's configuration; {RESTORE}")
    if other:
        raise RunFolderError(f"{path}: has other settings than the run began with; {RESTORE}")
    return config
