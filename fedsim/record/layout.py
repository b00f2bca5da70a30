"""Which folders are those of seeds and of runs, and where a run's seeds are."""

from __future__ import annotations

import os
import re
from pathlib import Path

from fedsim.systemerrors import cannot_read

_SEED = re.compile(r"seed-\d{1,18}")
_FILES = ("config.yaml", "manifest.json", "journal.jsonl")
"""One of them is enough to know a seed's folder."""


def is_seed(folder: Path) -> bool:
    """Return whether a folder is that of a seed; copies such as ``seed-0.bak`` are not."""
    named = _SEED.fullmatch(folder.name) is not None and not (folder / "origin.yaml").exists()
    return named and any((folder / name).exists() for name in _FILES)


def obstacle(seed: Path) -> str:
    """Return what is in the place of a seed's folder, or its variant's, and what to do about it.

    Empty if they are folders, or missing.
    """
    for place in (seed.parent, seed):
        if os.path.lexists(place) and not place.is_dir():
            return f"{place} is a file, not a folder: remove it first"
    return ""


def number_of(seed: Path) -> int:
    """Return the number of the seed that a folder's name says."""
    return int(seed.name.removeprefix("seed-"))


def is_marked(folder: Path) -> bool:
    """Return whether a folder is a run's or a seed's, as far as its files tell; not a variant's."""
    return any((folder / name).exists() for name in ("origin.yaml", "config.yaml"))


def seed_folders(folder: Path) -> list[Path]:
    """Return the folders of the seeds of a run or a variant, by their paths.

    Raises:
        RunFolderError: if the folder cannot be read.
    """
    inside = subfolders(folder)
    own = [one for one in inside if is_seed(one)]
    return own or [
        seed for one in inside if not is_marked(one) for seed in subfolders(one) if is_seed(seed)
    ]


def subfolders(folder: Path) -> list[Path]:
    """Return the folders directly in a folder, by name; none if it does not exist.

    Raises:
        RunFolderError: if the folder cannot be read.
    """
    try:
        return sorted(one for one in folder.iterdir() if one.is_dir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise cannot_read(folder, error) from error


def run_folder_of(seed: Path) -> Path:
    """Return the run folder that contains a seed's folder."""
    parent = seed.absolute().parent
    return parent if is_marked(parent) else parent.parent
