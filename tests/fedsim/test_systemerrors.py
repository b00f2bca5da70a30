"""What the system lacks is told with what to do about it, before and during a run."""

from __future__ import annotations

import errno
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from fedsim.cli.failures import explain
from fedsim.errors import DiskError, ResourceError, RunFolderError
from fedsim.systemerrors import cannot_read, cannot_write, no_process, of_system


def test_what_cannot_be_written_names_the_file_and_the_reason() -> None:
    path = Path("a/b")
    denied = cannot_write(path, PermissionError(errno.EACCES, "Permission denied"))
    assert (str(denied), denied.exit_code) == ("a/b: cannot be written: Permission denied", 2)
    full = cannot_write(path, OSError(errno.ENOSPC, "No space left on device"))
    assert full.exit_code == 3
    assert str(full).endswith("; what was recorded is kept: make room, then resume the run")
    wordy = OSError(errno.ENOSPC, f"Failed to open local file '{path}'. Detail: [errno 28]")
    assert str(cannot_write(path, wordy)) == str(full)
    other = cannot_write(path, OSError(errno.ENOSPC, "No space left on device"), "draw it")
    assert str(other) == "a/b: cannot be written: No space left on device; make room, then draw it"
    assert str(cannot_write(path, OSError("odd"))) == "a/b: cannot be written: odd"


LACKING = {
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room",
    errno.EFBIG: "make room",
    errno.EIO: "check the disk",
    errno.EROFS: "make the disk writable",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "close other programs, which have all of the system's files open",
    errno.ENOMEM: "free memory",
}


@pytest.mark.parametrize("number", LACKING)
def test_what_the_system_lacks_fails_a_run_that_has_begun(number: int) -> None:
    error, why = OSError(number, "x", "a/c"), os.strerror(number)
    kept = f"what was recorded is kept: {LACKING[number]}, then resume the run"
    begun = cannot_write(Path("a/b"), error)
    assert (type(begun), str(begun)) == (DiskError, f"a/b: cannot be written: {why}; {kept}")
    with pytest.raises(DiskError) as caught, of_system():
        raise error
    assert (str(caught.value), caught.value.exit_code) == (f"a/c: {why}; {kept}", 3)
    with pytest.raises(DiskError, match=rf"^{why}; what was"), of_system():
        raise OSError(number, "x")


@pytest.mark.parametrize("number", LACKING)
def test_before_a_run_has_begun_resources_are_missing(number: int) -> None:
    found = cannot_write(Path("a/b"), OSError(number, "x"), begun=False)
    if number == errno.EROFS:  # the wrong place was chosen
        assert (type(found), found.exit_code) == (RunFolderError, 2)
        return
    words = f"nothing was started: {LACKING[number]}, then run it again"
    assert (type(found), found.exit_code) == (ResourceError, 4)
    assert str(found) == f"a/b: cannot be written: {os.strerror(number)}; {words}"


def test_other_errors_of_the_system_are_not_its_lack() -> None:
    with pytest.raises(PermissionError), of_system():
        raise PermissionError(errno.EACCES, "Permission denied", "a/c")


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_file_that_the_system_does_not_open_is_not_damaged(number: int) -> None:
    error, words = OSError(number, "x"), f"{LACKING[number]}, then try again"
    for begun, kind in ((True, DiskError), (False, ResourceError)):
        found = cannot_read(Path("a/b"), error, "; restore it", begun=begun)
        told = f"a/b: cannot be read: {os.strerror(number)}; {words}"
        assert (type(found), str(found)) == (kind, told)
    other = cannot_read(Path("a/b"), OSError(errno.EIO, "x"), "; restore it")
    assert type(other) is RunFolderError
    assert str(other) == f"a/b: cannot be read: {os.strerror(errno.EIO)}; restore it"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            RuntimeError("can't start new thread"),
            "the system starts no more threads; what was recorded is kept: close other programs, "
            "or raise the limit of processes and threads (ulimit -u), then resume the run",
        ),
        (
            MemoryError(),
            "the memory is full; what was recorded is kept: free memory, then resume the run",
        ),
        (
            MemoryError("1 TiB"),
            "the memory is full: 1 TiB; what was recorded is kept: free memory, "
            "then resume the run",
        ),
    ],
)
def test_threads_and_memory_are_resources(error: Exception, words: str) -> None:
    with pytest.raises(ResourceError) as caught, of_system():
        raise error
    assert (str(caught.value), caught.value.exit_code) == (words, 4)
    failure = explain(error)
    assert (failure.kind, failure.exit_code) == ("ResourceError", 4)


def test_other_errors_are_not_a_lack_of_threads() -> None:
    with pytest.raises(RuntimeError, match=r"^mine$"), of_system():
        raise RuntimeError("mine")


def test_an_error_of_the_disk_is_pickled() -> None:
    error = cannot_write(Path("a"), OSError(errno.ENOSPC, "x"))
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy)) == (DiskError, str(error))


@pytest.mark.parametrize(
    ("error", "told", "kind"),
    [
        (OSError(errno.ENOSPC, "x", "a/c"), f"a/c: {os.strerror(errno.ENOSPC)}", errno.ENOSPC),
        (MemoryError(), "the memory is full", errno.ENOMEM),
    ],
)
def test_before_a_run_has_begun_nothing_was_started(error: Exception, told: str, kind: int) -> None:
    with pytest.raises(ResourceError) as caught, of_system(begun=False):
        raise error
    words = f"{told}; nothing was started: {LACKING[kind]}, then run it again"
    assert (str(caught.value), caught.value.__cause__) == (words, error)


@pytest.mark.parametrize("make", [cannot_write, cannot_read])
def test_a_known_file_is_told_before_a_run_has_begun(make: Callable[..., Exception]) -> None:
    cause = OSError(errno.EMFILE, "x")
    known = make(Path("a/b"), cause)
    assert isinstance(known, DiskError)
    with pytest.raises(ResourceError) as caught, of_system(begun=False):
        raise known from cause
    words = f"nothing was started: {LACKING[errno.EMFILE]}, then run it again"
    assert (str(caught.value), caught.value.__cause__) == (f"{known.what}; {words}", cause)
    with pytest.raises(DiskError) as begun, of_system():
        raise known from cause
    assert begun.value is known


@pytest.mark.parametrize("begun", [True, False])
def test_an_error_of_another_file_keeps_its_words(begun: bool) -> None:
    denied = cannot_read(Path("a/b"), PermissionError(errno.EACCES, "x"), "; restore it")
    with pytest.raises(RunFolderError) as caught, of_system(begun=begun):
        raise denied
    assert caught.value is denied


def test_a_process_that_cannot_be_started() -> None:
    found = no_process(BlockingIOError(errno.EAGAIN, "x"))
    assert str(found) == (
        f"a process cannot be started: {os.strerror(errno.EAGAIN)}; what was recorded is kept: "
        "close other programs, or raise the limit of processes and threads (ulimit -u), then "
        "resume the run"
    )
