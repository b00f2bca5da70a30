"""Locks of run folders, also where file systems have none."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

import fedsim
from fedsim.errors import RunFolderError
from fedsim.record.locking import NO_LOCKS, NO_SYNC, is_locked, locked
from fedsim.results.listing import list_runs
from tests.util.small import body, small


def test_a_lock_ends_even_if_something_forked_holds_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, copies = fcntl.flock, list[int]()

    def copying(file: IO[str], kind: int) -> None:
        copies.append(os.dup(file.fileno()))  # as in a forked process
        lock(file, kind)

    monkeypatch.setattr(fcntl, "flock", copying)
    with locked(tmp_path, 0):
        pass
    monkeypatch.undo()
    assert not is_locked(tmp_path)
    for copy in copies:
        os.close(copy)


def test_whether_a_folder_is_locked_is_told_without_writing(tmp_path: Path) -> None:
    assert not is_locked(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with locked(tmp_path, 0):
        assert is_locked(tmp_path)
        assert is_locked(tmp_path)
    assert not is_locked(tmp_path)
    with locked(tmp_path, 0):  # nothing is left held by asking
        pass


class TestLock:
    @pytest.mark.heavy
    def test_another_process_is_kept_out_until_the_end(self, tmp_path: Path) -> None:
        code = (
            "import sys; from pathlib import Path; from fedsim.record.locking import locked\n"
            "with locked(Path(sys.argv[1]), 0): print('held', flush=True); sys.stdin.read()"
        )
        command = [sys.executable, "-c", code, str(tmp_path)]
        with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            with (
                pytest.raises(RunFolderError, match="another process is running this run"),
                locked(tmp_path, 0),
            ):
                pass
            holder.kill()  # without cleaning up: the lock is released all the same
            holder.wait()
            with locked(tmp_path, 5):
                pass

    def test_it_is_free_after_an_error(self, tmp_path: Path) -> None:
        for _ in range(2):
            with pytest.raises(KeyError), locked(tmp_path, 0):
                raise KeyError


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks(
    here: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Lustre mounted without flock, NFS without its lock daemon, some FUSE file systems."""
    expected = fedsim.run(small(), out="ordinary")

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    run = fedsim.run(small(), out="without")
    assert [body(one.folder.journal) for one in run.runs] == [
        body(one.folder.journal) for one in expected.runs
    ]
    (one,) = run.runs
    assert one.folder.manifest()["warnings"] == [NO_LOCKS]
    assert is_locked(one.folder.path) is None
    one.folder.update_manifest(status="running")  # nobody can know better
    assert [run.status for run in list_runs("without")] == ["running"]
    fedsim.resume("without")
    assert one.folder.manifest()["warnings"] == [NO_LOCKS]  # said once


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_fsync(
    here: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """CIFS, vboxsf, some FUSE file systems."""

    def refuse(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    (one,) = fedsim.run(small()).runs
    assert one.status == "done"
    assert one.folder.manifest()["warnings"] == [NO_SYNC]


def test_other_failures_of_locks_are_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr(fcntl, "flock", fail)
    with (
        pytest.raises(RunFolderError, match="cannot be locked: Bad file descriptor"),
        locked(tmp_path, 0),
    ):
        pass
