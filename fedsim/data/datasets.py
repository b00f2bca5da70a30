"""Finds the data sets of the catalogue among the user's files.

A set is read from the folder named by ``--data`` or ``FEDSIM_DATA``, else from the user's cache. A
file is used only if its checksum matches the catalogue's.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fedsim.data.catalogue import DATA_SETS, DataFile, DataSet
from fedsim.errors import ConfigError, MissingDataError, nearest, of_option
from fedsim.files import user_path


@dataclass(frozen=True)
class FileStatus:
    """Whether a file exists and is intact.

    Attributes:
        file: the file.
        path: its path, whether it exists or not.
        state: ``damaged`` if it exists but its size or checksum is wrong.
        problem: what is wrong with a damaged file, and what to do; else empty.
    """

    file: DataFile
    path: Path
    state: Literal["present", "damaged", "absent"]
    problem: str = ""


def named_folder(given: str | Path | None) -> Path | None:
    """Return the folder named by the user: ``given``, else ``FEDSIM_DATA``, else None.

    Raises:
        ConfigError: if it starts with ``~`` and there is no such home folder.
    """
    found = given or os.environ.get("FEDSIM_DATA")
    return user_path(found).absolute() if found else None


def existing_folder(given: str | Path | None) -> Path | None:
    """Return :func:`named_folder`, which must exist.

    Raises:
        ConfigError: if it is not a folder.
    """
    folder = named_folder(given)
    if folder is not None and not folder.is_dir():
        setting = "data_dir" if given else "the variable FEDSIM_DATA"
        error = ConfigError(
            f"{setting}: expected the folder of the data sets, got {folder}, which is no folder; "
            "choose another, or create it with `fedsim data fetch`"
        )
        raise of_option("--data", error) if given else error
    return folder


def data_folder(data_dir: Path | None) -> Path:
    """Return the folder of the data sets: the given one, else the user's cache."""
    if data_dir is not None:
        return data_dir
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "fedsim" / "data"


def find_data_set(name: str) -> DataSet:
    """Return a set by its name; raises ConfigError if the name is unknown."""
    if name not in DATA_SETS:
        raise ConfigError(f"unknown data set {name!r}{nearest(name, DATA_SETS)}")
    return DATA_SETS[name]


def locate(name: str, data_dir: Path | None) -> Path:
    """Return the first file of a set that exists; its checksum is verified.

    Args:
        name: the set's name.
        data_dir: the folder with one folder per data set; None: the user's cache.

    Raises:
        MissingDataError: if none of its files exists; the message says how to get one.
        ConfigError: if a file's checksum is wrong.
    """
    data_set, folder = find_data_set(name), data_folder(data_dir) / name
    for file in data_set.files:
        path = folder / file.name
        if verify(path, file):
            return path
    expected = " or ".join(file.name for file in data_set.files)
    option = "" if data_dir is None else f" --data {shlex.quote(str(data_dir))}"
    command = f"`fedsim data fetch {name}{option}`"
    fetchable = any(file.url for file in data_set.files)
    get_it = f"download it with {command}" if fetchable else f"{command} shows where to get it"
    raise MissingDataError(
        f"the data set {name} is not in {folder} (expected {expected}); {get_it}, or, if you have "
        "it, set data_dir (--data DIR) or the variable FEDSIM_DATA to the folder that contains "
        f"{name}/{data_set.files[0].name}"
    )


def verify(path: Path, file: DataFile) -> bool:
    """Return whether a file exists; its size and checksum are verified.

    Raises:
        ConfigError: if it exists, but its size or checksum is wrong or it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
            size = stream.tell()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    if (size, found) != (file.size, file.sha256):
        raise ConfigError(
            f"{path}: expected {file.size:,} bytes with SHA-256 {file.sha256}, got {size:,} bytes "
            f"with {found}: it is damaged or another version; remove it and get it again"
        )
    return True


def inspect(path: Path, file: DataFile) -> FileStatus:
    """Return whether a file exists and is intact; reads all of it."""
    try:
        return FileStatus(file, path, "present" if verify(path, file) else "absent")
    except ConfigError as error:
        return FileStatus(file, path, "damaged", str(error))
