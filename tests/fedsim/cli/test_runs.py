"""The list of runs."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

import fedsim
from fedsim.cli.main import run_command
from fedsim.cli.runs import age
from tests.util.small import small
from tests.util.strict import strict_json


def test_runs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    variants = {f"long name {i}": {"rounds": i} for i in range(1, 6)}
    fedsim.run(small(seeds=[0, 1]))
    fedsim.run(small(variants=variants))
    capsys.readouterr()
    assert run_command(["runs", "--json"]) == 0
    listed = strict_json(capsys.readouterr().out)
    assert listed["folder"] == "runs"
    found = {one["folder"]: one for one in listed["runs"]}
    assert found.keys() == {"runs/small-1", "runs/small-2"}
    assert found["runs/small-1"]["variants"] == ["random-search"]
    assert (found["runs/small-1"]["jobs"], found["runs/small-1"]["status"]) == (2, "done")
    assert found["runs/small-2"]["variants"] == list(variants)
    assert found["runs/small-2"]["rounds"] == 5
    assert run_command(["runs"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if "small-1" in line]
    (row,) = rows
    assert row[:2] == ["runs/small-1", "done"]
    assert row[-5:] == ["2", "2", "of", "2", "random-search"]


def test_no_runs_yet(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["runs"]) == 0
    assert capsys.readouterr().out == "no runs in runs; `fedsim run` makes one\n"
    assert run_command(["runs", "elsewhere"]) == 2


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "just now"),
        (59, "just now"),
        (60, "1 minute ago"),
        (3_599, "59 minutes ago"),
        (7_200, "2 hours ago"),
        (86_400, "1 day ago"),
        (40 * 86_400, "40 days ago"),
    ],
)
def test_age(seconds: int, words: str) -> None:
    assert age(timedelta(seconds=seconds)) == words
