"""Errors say what to do, and have the right class."""

from __future__ import annotations

import errno
import os
import pickle
from pathlib import Path

import pytest

from fedsim import errors
from fedsim.cli.failures import explain
from fedsim.errors import (
    ConfigError,
    DiskError,
    ResourceError,
    RunFolderError,
    UserCodeError,
    cannot_read,
    cannot_write,
    closest,
    listed,
    nearest,
    of_option,
    of_run,
    of_system,
)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("ConfigError", 2),
        ("MissingDataError", 2),
        ("RunFolderError", 2),
        ("DownloadError", 3),
        ("RunError", 3),
        ("ObjectiveError", 3),
        ("UserCodeError", 3),
        ("DiskError", 3),
        ("LostRecordError", 3),
        ("ResourceError", 4),
        ("Interrupted", 130),
    ],
)
def test_exit_codes(kind: str, code: int) -> None:
    assert getattr(errors, kind)("x").exit_code == code


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bata", "; did you mean 'beta'?"),
        ("BETA", "; did you mean 'beta'?"),
        ("zzz", "; valid names: beta, gamma"),
        ("", "; valid"),
    ],
)
def test_nearest(name: str, said: str) -> None:
    assert nearest(name, ["gamma", "beta"]).startswith(said)


@pytest.mark.parametrize(
    ("name", "valid", "meant"),
    [
        ("raunds", "rounds", "rounds"),
        ("n_rounds", "rounds", "rounds"),
        ("detla", "delta", "delta"),
        ("plx", "pld", "pld"),
        ("eps", "epsilon", "epsilon"),
        ("noise", "noise_variance", "noise_variance"),
        ("agents", "variants", None),
        ("iterations", "deadlines", None),
        ("parameters", "variants", None),
        ("no", "variants", None),
        ("", "rounds", None),
    ],
)
def test_only_a_slip_or_a_start_is_close(name: str, valid: str, meant: str | None) -> None:
    assert closest(name, [valid]) == meant


@pytest.mark.parametrize(
    ("names", "told"),
    [(["a", "b"], "a, b"), (["a=1, b=2", "a=1, b=3"], "'a=1, b=2', 'a=1, b=3'"), ([], "")],
)
def test_names_with_commas_are_told_apart(names: list[str], told: str) -> None:
    assert listed(names) == told
    assert nearest("zzz", names) == (f"; valid names: {told}" if names else "")


def test_an_argument_is_told_as_the_caller_has_it() -> None:
    error = of_option("--data", ConfigError("data_dir: expected a folder: got x"))
    for told in (error, pickle.loads(pickle.dumps(error))):
        assert str(told) == "data_dir: expected a folder: got x"
        assert told.of_command_line == "--data: expected a folder: got x"
    assert ConfigError("rounds: x").of_command_line == "rounds: x"


def test_nearest_of_nothing_says_nothing() -> None:
    assert nearest("x", []) == ""


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


def test_errors_of_a_run_know_its_folder() -> None:
    with pytest.raises(UserCodeError) as caught, of_run(Path("runs/x-1")):
        raise UserCodeError("it failed", "its traceback")
    assert caught.value.folder == Path("runs/x-1")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.folder, copy.summary) == (Path("runs/x-1"), "it failed")
    assert UserCodeError("another").folder is None


LACKING = {
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room",
    errno.EFBIG: "make room",
    errno.EIO: "see to the disk",
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
