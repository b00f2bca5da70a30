"""The run folder: nothing half-written, nothing written twice."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.errors import RunError, RunFolderError
from fedsim.files import (
    load_arrays,
    read_yaml,
    save_arrays,
    slugify,
    write_atomically,
    write_yaml,
)
from fedsim.record.runfolder import Checkpoint, RunFolder, is_locked, locked, new_run_folder
from fedsim.yamltext import parse_yaml


def no_room(*_: Any) -> None:
    raise OSError(28, "No space left on device")


class TestAtomicWrites:
    def test_a_failed_write_keeps_the_old_and_leaves_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write_atomically(tmp_path / "f", b"old")
        monkeypatch.setattr(os, "fsync", no_room)
        with pytest.raises(RunFolderError, match=r"f: cannot be written: No space left"):
            write_atomically(tmp_path / "f", b"new")
        assert (tmp_path / "f").read_bytes() == b"old"
        assert [p.name for p in tmp_path.iterdir()] == ["f"]

    def test_replaces_what_was_there(self, tmp_path: Path) -> None:
        for data in (b"a long text", b"b"):
            write_atomically(tmp_path / "f", data)
        assert (tmp_path / "f").read_bytes() == b"b"

    def test_a_folder_that_is_not_there_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(RunFolderError, match="cannot be written: No such file"):
            write_atomically(tmp_path / "no" / "f", b"")


class TestArrays:
    def test_round_trip(self, tmp_path: Path) -> None:
        arrays = {"a/b": np.arange(6.0).reshape(2, 3), "n": np.array(3), "e": np.empty((0, 2))}
        save_arrays(tmp_path / "f", arrays)
        back = load_arrays(tmp_path / "f")
        assert back.keys() == arrays.keys()
        for name, array in arrays.items():
            np.testing.assert_array_equal(back[name], array)

    def test_objects_are_refused_when_written_not_when_read(self, tmp_path: Path) -> None:
        bad: Any = {"x": {"not": "numbers"}}
        with pytest.raises(RunError, match="x: expected an array of numbers, got <class 'dict'>"):
            save_arrays(tmp_path / "f", bad)

    @pytest.mark.parametrize("data", [b"", b"not a zip file", b"PK\x03\x04" + b"x" * 40])
    def test_a_damaged_file_is_named(self, tmp_path: Path, data: bytes) -> None:
        (tmp_path / "f").write_bytes(data)
        with pytest.raises(RunFolderError, match="f: cannot be read"):
            load_arrays(tmp_path / "f")


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

    @pytest.mark.parametrize(
        ("name", "folder"),
        [
            ("a b/c", "a-b-c"),
            ("../..", "run"),
            ("β=2, z=1", "β=2-z=1"),
            ("", "run"),
            ("x.y", "x.y"),
        ],
    )
    def test_names_are_safe_as_folders(self, name: str, folder: str) -> None:
        assert slugify(name) == folder


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


class TestYaml:
    def test_a_repeated_key_is_an_error(self, tmp_path: Path) -> None:
        (tmp_path / "f").write_text("a: 1\nb: {c: 1, c: 2}\n")
        with pytest.raises(RunFolderError, match=r"the key 'c' appears twice(.|\n)*line 2"):
            read_yaml(tmp_path / "f")

    def test_numbers_are_numbers(self) -> None:
        read = parse_yaml("[1e-3, 1E5, -2e+1, 1.5e-3, 1e, e1, 1-3]")
        assert read == [1e-3, 1e5, -20.0, 1.5e-3, "1e", "e1", "1-3"]

    def test_merge_keys_may_be_overridden(self) -> None:
        assert parse_yaml("a: &x {p: 1, q: 1}\nb: {<<: *x, p: 2}")["b"] == {"p": 2, "q": 1}

    @pytest.mark.parametrize(
        ("data", "match"),
        [(b"a: [", "not valid YAML"), (b"- 1", "expected a mapping"), (b"\xff\xfe\x00", "UTF-8")],
    )
    def test_what_is_no_mapping_is_refused(self, tmp_path: Path, data: bytes, match: str) -> None:
        (tmp_path / "f").write_bytes(data)
        with pytest.raises(RunFolderError, match=match):
            read_yaml(tmp_path / "f")

    def test_what_is_written_is_read(self, tmp_path: Path) -> None:
        value = {"β": "ε", "x": [1, 2.5, None], "y": {"on": True, "1e-3": "1e-3"}}
        write_yaml(tmp_path / "f", value)
        assert read_yaml(tmp_path / "f") == value
