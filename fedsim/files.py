"""Files: configurations, JSON without NaN, writes, arrays, paths, and names of folders."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import math
import os
import re
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from fedsim.errors import ConfigError, Interrupted, RunError, RunFolderError
from fedsim.space import Array
from fedsim.systemerrors import cannot_read, cannot_write
from fedsim.yamltext import format_yaml, parse_yaml

NOISE_CONTROL = " (noise only)"
"""How the label of a variant's noise-only control ends; the folder is named after the label."""

RESTORE = "restore it from a copy of the run folder, or run it again in a new one"
"""What to do about a file of a run folder that is damaged."""

LONGEST_NAME = 100
"""Characters of a folder's name; file systems allow 255 bytes, some 143."""

# What fsync says on file systems that cannot do it: some network file systems and FUSE.
_CANNOT_SYNC = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}


class Fence:
    """Ends a thread's writes to files: a thread itself cannot be ended.

    A thread that runs in :meth:`around` writes through this module, and through
    :mod:`fedsim.record.lines`, only until the fence is closed; then a write raises ``Interrupted``.
    """

    def __init__(self) -> None:
        self._writing = threading.Lock()
        self._closed = False

    @contextmanager
    def around(self) -> Iterator[None]:
        """Put this thread's writes of the block behind the fence."""
        token = _FENCE.set(self)
        try:
            yield
        finally:
            _FENCE.reset(token)

    @contextmanager
    def write(self) -> Iterator[None]:
        """Let one write through.

        Raises:
            Interrupted: if the fence is closed.
        """
        with self._writing:
            if self._closed:
                raise Interrupted("the run has ended: nothing more is recorded")
            yield

    def close(self, seconds: float) -> None:
        """Close the fence; wait for a write that has begun, but not longer than ``seconds``."""
        held = self._writing.acquire(timeout=seconds)
        self._closed = True
        if held:
            self._writing.release()


_FENCE: ContextVar[Fence] = ContextVar("fence")


@contextmanager
def writing() -> Iterator[None]:
    """Everything that writes to a run folder does so in this context: see :class:`Fence`.

    Raises:
        Interrupted: if this thread may write no more.
    """
    fence = _FENCE.get(None)
    if fence is None:
        yield
    else:
        with fence.write():
            yield


def read_yaml(path: Path, *, kept: bool = False) -> dict[str, Any]:
    """Read a mapping from a file.

    Args:
        path: the file.
        kept: whether it is part of a run folder, which a user does not write.

    Raises:
        RunFolderError: if the file cannot be read or is not a YAML mapping.
    """
    advice = f"; {RESTORE}" if kept else ""
    try:
        found = parse_yaml(path.read_text("utf-8"))
    except OSError as error:
        raise cannot_read(path, error, advice, begun=kept) from error
    except UnicodeDecodeError as error:
        raise RunFolderError(f"{path}: not a text file in UTF-8: {error}{advice}") from error
    except yaml.YAMLError as error:
        raise RunFolderError(f"{path}: not valid YAML{advice}: {error}") from error
    if found is None:
        advice = advice or "; `fedsim init NAME` writes one to start from"
        raise RunFolderError(f"{path}: is empty{advice}")
    if not isinstance(found, dict):
        got = type(found).__name__
        raise RunFolderError(f"{path}: expected a mapping of keys, got {got}{advice}")
    return found


def format_json(value: Any, **layout: Any) -> str:
    """Return valid JSON; NaN and infinity, which JSON lacks, become null.

    Args:
        value: mappings, lists, tuples, texts, numbers and None.
        layout: options of ``json.dumps``, such as ``indent``.
    """
    try:
        return json.dumps(value, allow_nan=False, **layout)
    except ValueError:
        return json.dumps(finite(value), allow_nan=False, **layout)


def finite(value: Any) -> Any:
    """Return a JSON value with None for every NaN and infinity."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(one) for one in value]
    return value


def sync(descriptor: int) -> bool:
    """Force an open file's content onto the disk; return whether its file system can do that.

    Raises:
        OSError: if it can, but fails.
    """
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise
        return False
    return True


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file's content so that readers, and a crash, see either the old or the new content.

    Raises:
        RunFolderError: if the file cannot be written; the old content is kept.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    with writing():
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                sync(file.fileno())
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
    except OSError as error:
        raise cannot_read(path, error) from error
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
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
    except OSError:
        raise ConfigError("the current folder was removed; change to another") from None


def user_path(given: str | Path) -> Path:
    """Return a path that a user gave; ``~`` is the home folder, as in a shell.

    Raises:
        ConfigError: if it is no path, or there is no such home folder.
    """
    if not isinstance(given, (str, os.PathLike)):
        raise ConfigError(f"path: expected text or a Path, got {given!r}")
    try:
        return Path(given).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"{given}: {error}; give the whole path") from None


def slugify(name: str) -> str:
    """Return a name that is safe for a folder: letters, digits and ``.=_-``, at most 100.

    Of a longer name, the end is replaced by a hash, and so are letters that are not ASCII, which
    not every system can write: different names stay different.
    """
    safe = re.sub(r"[^A-Za-z0-9.=_-]+", "-", name).strip("-.") or "run"
    plain = all(character.isascii() or not character.isalnum() for character in name)
    if plain and len(safe) <= LONGEST_NAME:
        return safe
    return f"{safe[: LONGEST_NAME - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
