"""The run folder: nothing half-written, nothing written twice."""

from __future__ import annotations

import errno
import math
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from fedsim.errors import ResourceError, RunFolderError
from fedsim.files import read_yaml
from fedsim.record.runfolder import (
    Checkpoint,
    RunFolder,
    begin,
    new_run_folder,
    removed_on_error,
)
from fedsim.systemerrors import cannot_read
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
        assert found["outcome"] == {"mean": None, "best": [None, 1.5]}

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
        with pytest.raises(RunFolderError, match=r"^out: a already exists.*fedsim resume a"):
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
        expected = (
            r"x-1/\w+\.yaml: cannot be written: No space left on device; nothing was started: make "
            "room, then run it again$"
        )
        with pytest.raises(ResourceError, match=expected):
            begin(folder, {}, {})
        assert not folder.exists()

    def test_a_file_that_is_elsewhere_is_named_itself(self, tmp_path: Path) -> None:
        (folder := tmp_path / "x-1").mkdir()
        denied = PermissionError(errno.EACCES, "Permission denied")
        expected = "^elsewhere: cannot be read: Permission denied$"
        with pytest.raises(RunFolderError, match=expected), removed_on_error(folder):
            raise cannot_read(Path("elsewhere"), denied) from denied
        assert not folder.exists()
