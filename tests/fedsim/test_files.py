"""Files: what is read is what was meant, what is written is whole, and JSON is JSON."""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.errors import ConfigError, Interrupted, RunError, RunFolderError
from fedsim.files import (
    LONGEST_NAME,
    Fence,
    finite,
    format_json,
    load_arrays,
    read_yaml,
    save_arrays,
    slugify,
    user_path,
    write_atomically,
    write_yaml,
    writing,
)
from fedsim.protocol import Proposal
from fedsim.record.entries import Recorded
from fedsim.record.evaluationlog import EvaluationLog
from fedsim.record.lines import LineWriter
from fedsim.record.runfolder import Checkpoint, RunFolder
from fedsim.workload import Evaluation
from tests.util.strict import strict_json


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


class TestYaml:
    def test_a_repeated_key_is_an_error(self, tmp_path: Path) -> None:
        (tmp_path / "f").write_text("a: 1\nb: {c: 1, c: 2}\n")
        with pytest.raises(RunFolderError, match=r"the key 'c' appears twice(.|\n)*line 2"):
            read_yaml(tmp_path / "f")

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

    @pytest.mark.parametrize(
        ("text", "match"),
        [
            ("rounds: " + "9" * 5000, "a whole number of 5000 digits is too long"),
            ("s: &s {x: *s}", "a value contains itself"),
            ("s: &s [1, {x: [*s]}]", "a value contains itself"),
            ("a: " + "[" * 5000, "nested too deeply"),
        ],
    )
    def test_what_python_cannot_hold_is_refused(
        self, tmp_path: Path, text: str, match: str
    ) -> None:
        (tmp_path / "f").write_text(text, "utf-8")
        with pytest.raises(RunFolderError, match=f"f: not valid YAML: {match}") as caught:
            read_yaml(tmp_path / "f")
        assert len(str(caught.value)) < 400


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inside: st.lists(inside) | st.dictionaries(st.text(), inside) | st.tuples(inside),
    max_leaves=20,
)


class TestJson:
    @given(VALUES)
    def test_it_is_always_valid(self, value: Any) -> None:
        assert strict_json(format_json(value)) == json.loads(json.dumps(finite(value)))

    @pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, np.float64("inf")])
    def test_what_json_lacks_is_null(self, number: float) -> None:
        assert format_json({"a": [number, {"b": (number, 1.5)}]}) == (
            '{"a": [null, {"b": [null, 1.5]}]}'
        )

    def test_finite_numbers_stay_exact(self) -> None:
        assert json.loads(format_json([0.1, 5e-324, 1.7976931348623157e308, 2**70])) == [
            0.1,
            5e-324,
            1.7976931348623157e308,
            2**70,
        ]


class TestNames:
    @pytest.mark.parametrize(
        ("name", "folder"),
        [("a b/c", "a-b-c"), ("../..", "run"), ("±2, z=1", "2-z=1"), ("", "run"), ("x.y", "x.y")],
    )
    def test_names_are_safe_as_folders(self, name: str, folder: str) -> None:
        assert slugify(name) == folder

    def test_long_names_stay_different_and_fit(self) -> None:
        names = ["x" * n for n in (100, 101, 300)] + ["x" * 300 + "y"]
        slugs = [slugify(name) for name in names]
        assert slugs[0] == names[0]
        assert len(set(slugs)) == len(names)
        assert {len(slug) for slug in slugs} == {LONGEST_NAME}
        assert slugs == [slugify(name) for name in names]

    def test_names_of_any_script_stay_different(self) -> None:
        slugs = [slugify(name) for name in ("学习", "联邦", "β=2", "α=2", "=2")]
        assert [slug[:-8] for slug in slugs] == ["run-", "run-", "=2-", "=2-", "=2"[:-8]]
        assert len(set(slugs)) == len(slugs)
        assert all(slug.isascii() for slug in slugs)

    def test_the_home_folder(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", "/home/me")
        assert user_path("~/x") == Path("/home/me/x")
        assert user_path(Path("~")) == Path("/home/me")
        assert user_path("x/~/y") == Path("x/~/y")
        with pytest.raises(ConfigError, match=r"~nobody-has-this-name/x: .*; give the whole path"):
            user_path("~nobody-has-this-name/x")


SECONDS = 60.0


def log(folder: Path) -> EvaluationLog:
    found = EvaluationLog(folder / "evaluations.jsonl", "run")
    found.begin(0)
    return found


def lines(folder: Path) -> LineWriter:
    return LineWriter(folder / "lines.jsonl")


WRITES: list[Callable[[Path], object]] = [
    lambda folder: write_atomically(folder / "file", b"new"),
    lambda folder: RunFolder(folder).save_checkpoint(Checkpoint(1, 1, {})),
    lambda folder: RunFolder(folder).update_manifest(status="done"),
    lines,
    log,
]


class TestFence:
    @pytest.mark.parametrize("write", WRITES)
    def test_nothing_is_written_after_it_is_closed(
        self, tmp_path: Path, write: Callable[[Path], object]
    ) -> None:
        (tmp_path / "state").mkdir()
        (tmp_path / "lines.jsonl").write_bytes(b"whole\ntorn")  # another run writes it now
        (tmp_path / "evaluations.jsonl").write_bytes(b"another's")
        before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
        fence = Fence()
        with fence.around():
            fence.close(SECONDS)
            with pytest.raises(Interrupted, match="nothing more is recorded"):
                write(tmp_path)
        assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before
        write(tmp_path)  # outside the fence

    def test_files_that_were_open_before(self, tmp_path: Path) -> None:
        fence = Fence()
        record = Recorded.made(0, 0, 0, Proposal(np.array([0.5]), "own"), Evaluation(1.0))
        with fence.around():
            writer, kept = lines(tmp_path), log(tmp_path)
            writer.append({"a": 1})
            fence.close(SECONDS)
            with pytest.raises(Interrupted):
                writer.append({"b": 2})
            with pytest.raises(Interrupted):
                kept.add(record)
            writer.close()
            kept.close()
        assert (tmp_path / "lines.jsonl").read_bytes() == b'{"a":1}\n'
        assert (tmp_path / "evaluations.jsonl").read_bytes().count(b"\n") == 1

    def test_it_waits_for_a_write_that_has_begun(self) -> None:
        fence, begun, finish, order = Fence(), threading.Event(), threading.Event(), list[str]()

        def write() -> None:
            with fence.around(), writing():
                begun.set()
                finish.wait(SECONDS)
                order.append("written")

        def close() -> None:
            fence.close(SECONDS)
            order.append("closed")

        threads = [threading.Thread(target=write), threading.Thread(target=close)]
        threads[0].start()
        assert begun.wait(SECONDS)
        threads[1].start()
        finish.set()
        for thread in threads:
            thread.join(SECONDS)
        assert order == ["written", "closed"]

    def test_a_write_that_never_ends_is_not_waited_for(self) -> None:
        fence, begun, finish = Fence(), threading.Event(), threading.Event()

        def write() -> None:
            with fence.write():
                begun.set()
                finish.wait(SECONDS)

        thread = threading.Thread(target=write)
        thread.start()
        assert begun.wait(SECONDS)
        fence.close(0.01)
        finish.set()
        thread.join(SECONDS)
        with pytest.raises(Interrupted), fence.write():
            pass
