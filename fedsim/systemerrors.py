"""What the operating system refuses or lacks, as errors that say what to do about it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedsim.errors import KEPT, DiskError, ResourceError, RunFolderError

UNREADABLE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors that say nothing about the file that was to be opened."""

_PROCESSES = "close other programs, or raise the limit of processes and threads (ulimit -u)"
_REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "make room"),
    errno.EIO: "check the disk",
    errno.EROFS: "make the disk writable",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "close other programs, which have all of the system's files open",
    errno.ENOMEM: "free memory",
}


def remedy(error: BaseException | None) -> str:
    """Return what to do about what the system lacks; empty if it lacks nothing."""
    if isinstance(error, OSError):
        return _REMEDIES.get(error.errno or 0, "")
    if isinstance(error, MemoryError):
        return _REMEDIES[errno.ENOMEM]
    # Python has no class of its own for it.
    no_thread = type(error) is RuntimeError and str(error) == "can't start new thread"
    return _PROCESSES if no_thread else ""


def lacking(error: BaseException) -> str:
    """Return what the system lacks in words, with the file if it is about one."""
    if isinstance(error, MemoryError):
        return ": ".join(filter(None, ("the memory is full", str(error))))  # numpy says of what
    if not isinstance(error, OSError):
        return "the system starts no more threads"
    return ": ".join(str(part) for part in (error.filename, _why(error)) if part)


def cannot_write(
    path: Path, error: OSError, then: str = "", *, begun: bool = True
) -> RunFolderError | ResourceError:
    """Return the error for a file that cannot be written.

    Args:
        path: the file.
        error: the operating system's error.
        then: what to do once there is room, if it is not to resume a run.
        begun: whether it is a file of a run that has begun.
    """
    what, advice = f"{path}: cannot be written: {_why(error)}", remedy(error)
    if not advice or (not begun and error.errno == errno.EROFS):
        return RunFolderError(what)
    if not begun:
        return _not_started(what, advice)
    return DiskError(what, f"{advice}, then {then}" if then else _kept(advice))


def cannot_read(
    path: Path, error: OSError, advice: str = "", *, begun: bool = True
) -> RunFolderError | ResourceError:
    """Return the error for a file that cannot be read.

    Args:
        path: the file.
        error: the operating system's error.
        advice: what to do about the file; not told if nothing is wrong with it.
        begun: whether it is a file of a run that has begun.
    """
    what = f"{path}: cannot be read: {_why(error)}"
    if error.errno not in UNREADABLE:
        return RunFolderError(what + advice)
    advice = f"{remedy(error)}, then try again"
    return DiskError(what, advice) if begun else ResourceError(f"{what}; {advice}")


def no_process(error: OSError) -> ResourceError:
    """Return the error of a run that has begun, and for which the system starts no process."""
    return ResourceError(f"a process cannot be started: {_why(error)}; {_kept(_PROCESSES)}")


@contextmanager
def of_system(*, begun: bool = True) -> Iterator[None]:
    """Turn what the system lacks into an error of a run.

    Args:
        begun: whether the run has begun.

    Raises:
        DiskError: for an ``OSError`` of that kind, if the run has begun.
        ResourceError: if no thread or process can be started, or memory is full; if the run has
            not begun, also for what is a ``DiskError`` later.
        Exception: others pass through.
    """
    try:
        yield
    except DiskError as error:
        cause = error.__cause__
        if begun or not (advice := remedy(cause)):
            raise
        raise _not_started(error.what, advice) from cause
    except (OSError, RuntimeError, MemoryError) as error:
        if not (advice := remedy(error)):
            raise
        what = lacking(error)
        if not begun:
            raise _not_started(what, advice) from error
        if isinstance(error, OSError):
            raise DiskError(what, _kept(advice)) from error
        raise ResourceError(f"{what}; {_kept(advice)}") from error


def _why(error: OSError) -> str:
    # Libraries' own words may be long, and name the path again.
    return os.strerror(error.errno) if error.errno else str(error.strerror or error)


def _kept(advice: str) -> str:
    return f"{KEPT}: {advice}, then resume the run"


def _not_started(what: str, advice: str) -> ResourceError:
    return ResourceError(f"{what}; nothing was started: {advice}, then run it again")
