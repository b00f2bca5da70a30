"""Timings of an unfinished seed that are cut, missing, or another seed's."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import fedsim
from fedsim.cli.main import run_command
from fedsim.record.timings import timings_of
from fedsim.results.analysis import load
from fedsim.results.status import StatusReader
from tests.fedsim.results.conftest import UNFINISHED
from tests.util.readers import told


def cut(timings: Path) -> None:
    lines = timings.read_bytes().splitlines(keepends=True)
    timings.write_bytes(b"".join(lines[: len(lines) // 2]))


def of_another_seed(timings: Path) -> None:
    shutil.copy(timings.parents[1] / "seed-0/timings.jsonl", timings)


def of_another_variant(timings: Path) -> None:
    shutil.copy(timings.parents[2] / "a/seed-1/timings.jsonl", timings)


LACKS = "timings.jsonl lacks the times of some rounds"
ANOTHERS = "timings.jsonl belongs to another seed, or to another run"
DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "cut": (cut, LACKS),
    "missing": (Path.unlink, LACKS),
    "another seed's": (of_another_seed, ANOTHERS),
    "another variant's": (of_another_variant, ANOTHERS),
}


def records(run: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    capsys.readouterr()
    run_command(["show", "--json", str(run)])
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)["runs"]
    return found


@pytest.mark.parametrize(("damage", "words"), DAMAGES.values(), ids=DAMAGES)
def test_times_are_unknown_and_that_is_said(
    run: Path, damage: Callable[[Path], None], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert " eval/s, " in told("show", run, capsys)
    damage(run / UNFINISHED / "timings.jsonl")
    text = told("show", run, capsys)
    assert f"speed unknown ({words})" in text
    assert " eval/s, " not in text
    last = records(run, capsys)[-1]
    assert (last["evaluations_per_second"], last["lost_times"]) == (None, words)
    assert {one.state for one in fedsim.resume(run).runs} == {"done"}
    assert f"b, seed 1: its times are unknown: {words}" in told("show", run, capsys)
    first, *_, last = records(run, capsys)
    times = ("evaluations_per_second", "objective_seconds", "other_seconds")
    assert [last[name] for name in times] == [None] * 3
    assert "lost_times" not in first
    assert None not in [first[name] for name in times]
    for metric in ("seconds", "cpu_seconds"):
        (note,) = fedsim.compare(run, metric=metric).notes
        assert note.startswith("b, seed 1 is left out: ")
        assert note.endswith(words)


def test_the_speed_is_of_the_rounds_that_were_timed(run: Path) -> None:
    """The last line is lost, as while a round is under way, or the journal is cut."""
    seed = run / UNFINISHED

    def speed() -> float:
        status = StatusReader(load(seed).runs[0]).read()
        assert status.lost_times is None
        return status.progress.evaluations_per_second

    times = dict(timings_of(load(seed).runs[0].folder).round_seconds)
    agents, initial = 3, 2
    assert speed() == pytest.approx(agents * (initial + 2) / sum(times.values()))
    whole = [(seed / name).read_bytes() for name in ("timings.jsonl", "journal.jsonl")]
    expected = pytest.approx(agents * (initial + 1) / (sum(times.values()) - times[2]))
    for name, content in zip(("timings.jsonl", "journal.jsonl"), whole, strict=True):
        (seed / name).write_bytes(b"".join(content.splitlines(keepends=True)[:-1]))
        assert speed() == expected
        (seed / name).write_bytes(content)
