"""Files: configurations, atomic writes, arrays, and names that suit folders."""

from __future__ import annotations

import io
import os
import re
import unicodedata
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from fedsim.errors import ConfigError, RunError, RunFolderError, cannot_write
from fedsim.space import Array
from fedsim.yamltext import format_yaml, parse_yaml

NOISE_CONTROL = " (noise only)"
"""How the label of a variant's noise-only control ends; the folder is named after the label."""

LONGEST_NAME = 200
"""The longest name of a folder, in bytes of UTF-8; disks allow 255, and numbers are appended."""


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a mapping from a file.

    Raises:
        RunFolderError: if the file cannot be read or is not a YAML mapping.
    """
    try:
        found = parse_yaml(path.read_text("utf-8"))
    except OSError as error:
        raise RunFolderError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RunFolderError(f"{path}: not a text file in UTF-8: {error}") from error
    except yaml.YAMLError as error:
        raise RunFolderError(f"{path}: not valid YAML: {error}") from error
    if found is None:
        raise RunFolderError(f"{path}: is empty; `fedsim init NAME` writes one to start from")
    if not isinstance(found, dict):
        raise RunFolderError(f"{path}: expected a mapping of keys, got {type(found).__name__}")
    return found


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file's content so that readers, and a crash, see either the old or the new content.

    Raises:
        RunFolderError: if the file cannot be written; the old content is kept.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise cannot_write(path, error) from error


def write_yaml(path: Path, value: Mapping[str, Any]) -> None:
    """Write a configuration; errors as in :func:`write_atomically`."""
    write_atomically(path, format_yaml(value).encode())


def save_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write named arrays as npz, atomically.

    Raises:
        RunError: if a value is not an array of numbers, which could not be read back.
        RunFolderError: as in :func:`write_atomically`.
    """
    buffer = io.BytesIO()
    plain = {name: np.asarray(array) for name, array in arrays.items()}
    for name, array in plain.items():
        if array.dtype.hasobject:
            raise RunError(f"{name}: expected an array of numbers, got {type(arrays[name])}")
    np.savez(buffer, **plain)  # type: ignore[arg-type]
    write_atomically(path, buffer.getvalue())


def load_arrays(path: Path) -> dict[str, Array]:
    """Read named arrays; never unpickles.

    Raises:
        RunFolderError: if the file is damaged.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise RunFolderError(f"{path}: cannot be read: {error}") from error


def arrays_under(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays whose names start with a prefix; the keys are the rest of their names."""
    return {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}


def current_folder() -> Path:
    """Return the current folder.

    Raises:
        ConfigError: if it no longer exists.
    """
    try:
        return Path.cwd()
    except OSError as error:
        raise ConfigError(
            f"the current folder cannot be found ({error.strerror}); change to one that exists"
        ) from None


def slugify(name: str) -> str:
    """Return a name that is safe for a folder: letters and digits of any script, and ``.=_-``."""
    composed = unicodedata.normalize("NFC", name)  # some disks take both forms for one name
    return re.sub(r"[^\w.=-]+", "-", composed).strip("-.") or "run"
