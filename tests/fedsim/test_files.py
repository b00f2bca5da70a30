"""A fence ends a thread's writes, and no other's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedsim.errors import Interrupted
from fedsim.files import Fence, write_atomically, writing
from fedsim.protocol import Proposal
from fedsim.record.entries import Recorded
from fedsim.record.evaluationlog import EvaluationLog
from fedsim.record.lines import LineWriter
from fedsim.record.runfolder import Checkpoint, RunFolder
from fedsim.workload import Evaluation

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
