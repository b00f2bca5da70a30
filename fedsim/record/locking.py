"""Locks of run folders, and what their file systems cannot do."""

from __future__ import annotations

import errno
import fcntl
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from fedsim.errors import RunFolderError
from fedsim.files import sync
from fedsim.systemerrors import cannot_write

NO_LOCKS = (
    "the run folder's file system has no file locks: do not run or resume this run twice at the "
    "same time, nothing would stop that"
)
NO_SYNC = (
    "the run folder's file system cannot force what is written onto the disk: if the machine "
    "crashes, the last records may be lost"
)

# Lustre mounted without flock, NFS without its lock daemon, some FUSE file systems.
_HAS_NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP}


@contextmanager
def locked(folder: Path, wait_seconds: float) -> Iterator[Sequence[str]]:
    """Lock a folder, so that two processes never write to it; released when the process ends.

    Args:
        folder: a run's folder, or that of one seed.
        wait_seconds: how long to wait while another process holds the lock.

    Yields:
        What the folder's file system cannot do, in words; nothing on an ordinary one.

    Raises:
        RunFolderError: if it is still locked then, or cannot be written.
    """
    deadline = time.monotonic() + wait_seconds
    try:
        file = (folder / ".lock").open("w")
    except OSError as error:
        raise cannot_write(folder, error) from error
    with file:
        while (held := _lock(file, fcntl.LOCK_EX)) is False:
            if time.monotonic() > deadline:
                raise RunFolderError(
                    f"{folder}: another process is running this run; stop it first"
                )
            time.sleep(0.1)
        can = {NO_LOCKS: held is not None, NO_SYNC: sync(file.fileno())}
        try:
            yield [warning for warning, possible in can.items() if not possible]
        finally:
            if held:  # closing is not enough: what a user's code has forked holds the file, too
                fcntl.flock(file, fcntl.LOCK_UN)


def is_locked(folder: Path) -> bool | None:
    """Return whether a process has locked a folder with :func:`locked`; writes nothing.

    None means that nobody can know: the file system has no locks.
    """
    try:
        file = (folder / ".lock").open("rb")
    except OSError:
        return False
    with file:
        held = _lock(file, fcntl.LOCK_SH)  # released when the file closes
    return None if held is None else not held


def _lock(file: IO[Any], kind: int) -> bool | None:
    """Lock an open file unless another process has; None if the file system has no locks."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _HAS_NO_LOCKS:
            raise RunFolderError(f"{file.name}: cannot be locked: {error.strerror}") from error
        return None
    return True
