"""The run folder: nothing half-written, nothing written twice."""

from __future__ import annotations

import errno
import fcntl
import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import numpy as np
import pytest

import fedsim
from fedsim.errors import DiskError, RunFolderError
from fedsim.files import read_yaml
from fedsim.record.runfolder import (
    NO_LOCKS,
    NO_SYNC,
    Checkpoint,
    RunFolder,
    begin,
    is_locked,
    locked,
    new_run_folder,
)
from fedsim.results.listing import list_runs
from tests.util.small import body, small
from tests.util.strict import strict_json


class TestRunFolder:
    def test_a_checkpoint_comes_back(self, tmp_path: Path) -> None:
        folder = RunFolder(tmp_path / "seed-0")
        folder.create({"rounds": 1})
        assert folder.load_checkpoint() is None
        aggregators = {"sum": {"counts": np.arange(2)}, "empty": {}, "sum_2": {"x": np.array(1.5)}}
        folder.save_checkpoint(Checkpoint(2, 5, {"counts": np.arange(3.0)}, aggregators))
        found = folder.load_checkpoint()
        assert found is not None
        assert (found.rounds, found.entries) == (2, 5)
        np.testing.assert_array_equal(found.state["counts"], [0, 1, 2])
        assert found.aggregators.keys() == aggregators.keys()
        assert found.aggregators["sum"]["counts"].tolist() == [0, 1]
        assert found.aggregators["empty"] == {}
        assert found.aggregators["sum_2"]["x"] == 1.5
        assert read_yaml(folder.path / "config.yaml") == {"rounds": 1}

    def test_the_manifest_keeps_what_is_not_changed(self, tmp_path: Path) -> None:
        folder = RunFolder(tmp_path)
        assert folder.manifest() == {}
        folder.update_manifest(status="running", started="now")
        folder.update_manifest(status="done")
        assert folder.manifest() == {"status": "done", "started": "now"}

    def test_what_is_not_finite_is_null_in_the_manifest(self, tmp_path: Path) -> None:
        folder = RunFolder(tmp_path)
        folder.update_manifest(outcome={"mean": math.inf, "best": [math.nan, 1.5]})
        found = strict_json((tmp_path / "manifest.json").read_text("utf-8"))
        assert found == {"outcome": {"mean": None, "best": [None, 1.5]}}

    def test_a_damaged_manifest_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "manifest.json").write_text("{")
        with pytest.raises(RunFolderError, match=r"manifest.json: cannot be read"):
            RunFolder(tmp_path).manifest()
        (tmp_path / "manifest.json").write_text("[]")
        with pytest.raises(
            RunFolderError, match=r"manifest.json: expected a JSON object, got list"
        ):
            RunFolder(tmp_path).manifest()

    def test_creating_it_again_keeps_what_is_there(self, tmp_path: Path) -> None:
        folder = RunFolder(tmp_path / "seed-0")
        folder.create({})
        folder.journal.write_text("kept")
        folder.create({})
        assert folder.journal.read_text() == "kept"


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


class TestNewRunFolder:
    def test_numbers_go_on_from_the_largest(self, here: Path) -> None:
        for taken in ("x-1", "x-10", "x-y-12", "y-30"):
            (here / "runs" / taken).mkdir(parents=True)
        assert new_run_folder("x", None) == Path("runs/x-11")

    def test_no_number_is_given_twice(self, here: Path) -> None:
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _: new_run_folder("x", None), range(40)))
        assert sorted(int(p.name[2:]) for p in found) == list(range(1, 41))

    def test_a_chosen_folder_is_made_with_its_parents(self, here: Path) -> None:
        assert new_run_folder("x", Path("a/b")) == Path("a/b")
        assert Path("a/b").is_dir()

    def test_a_chosen_folder_that_exists_is_refused(self, here: Path) -> None:
        (here / "a").mkdir()
        with pytest.raises(RunFolderError, match=r"--out: a already exists.*fedsim resume a"):
            new_run_folder("x", Path("a"))

    def test_where_nothing_can_be_written_it_says_so(self, here: Path) -> None:
        (here / "runs").write_text("a file")
        with pytest.raises(RunFolderError, match="runs: cannot be written: File exists"):
            new_run_folder("x", None)


class TestBegin:
    def test_what_makes_a_run_folder(self, tmp_path: Path) -> None:
        begin(tmp_path, {"rounds": 1}, {"data_dir": None})
        assert read_yaml(tmp_path / "config.yaml") == {"rounds": 1}
        assert read_yaml(tmp_path / "origin.yaml") == {"data_dir": None}

    def test_a_full_disk_leaves_nothing_to_resume(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (folder := tmp_path / "x-1").mkdir()

        def no_room(descriptor: int) -> None:
            if (folder / "origin.yaml").exists():
                raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", no_room)
        expected = "x-1: cannot be written: No space left on device; nothing was started: make room"
        with pytest.raises(DiskError, match=expected):
            begin(folder, {}, {})
        assert not folder.exists()


class TestLock:
    @pytest.mark.heavy
    def test_another_process_is_kept_out_until_the_end(self, tmp_path: Path) -> None:
        code = (
            "import sys; from pathlib import Path; from fedsim.record.runfolder import locked\n"
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
