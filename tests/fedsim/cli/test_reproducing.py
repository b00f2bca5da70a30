"""``fedsim reproduce``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fedsim.cli.main import run_command


def call(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    capsys.readouterr()
    assert run_command(["reproduce", *arguments]) == code
    out, err = capsys.readouterr()
    return " ".join(out.split()), " ".join(err.split())


TINY = ["--jobs", "1", "--set", "backend=serial", "--set", "rounds=2", "--set", "scenario.agents=4"]


@pytest.mark.heavy
def test_a_figure_is_run_drawn_and_judged(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = call(capsys, "dp-fts-de", "2b", *TINY, "--out", "made", "--quiet")
    assert out.startswith("claim: S that is too small or too large hurts")
    assert "clipping_norm=11.0" in out
    assert "note: a quick run, smaller than the paper's" in out
    assert Path("made/dp-fts-de-2b.png").stat().st_size > 10_000

    again = json.loads(call(capsys, "dp-fts-de", "2b", "--run", "made", "--json")[0])
    assert again["rounds"] == [2, 2]
    assert [one["better"] for one in again["claims"]] == ["clipping_norm=11.0"] * 2
    assert {one["difference"]["seeds"] for one in again["claims"]} == {2}
    assert again["notes"] == []
    assert len(list(Path("made").glob("clipping_norm*/seed-*"))) == 6


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    found: dict[str, Any] = json.loads(call(capsys, "--json")[0])
    assert found["dp-fts-de"]["2b"]["state"] == "runs dp-fts-de-figure-2b"
    assert found["dp-fts-de"]["3c"]["state"] == "waits for convolutional networks on EMNIST"
    out, _ = call(capsys, "fts")
    assert "fts-synthetic" in out
    assert "dp-fts-de" not in out


def test_what_would_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = json.loads(call(capsys, "dp-fts-de", "2b", "--full", "--dry-run", "--json")[0])
    assert plan["config"]["seeds"] == [*range(10)]
    plan = json.loads(call(capsys, "dp-fts-de", "2b", "--seeds", "3", "--dry-run", "--json")[0])
    assert plan["config"]["seeds"] == [3]
    assert plan["config"]["rounds"] == 20
    assert not list(here.iterdir())


def test_privacy_losses_need_no_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = call(capsys, "dp-fts-de", "11")
    assert "15.17" in out
    assert "160.6" in out
    assert out.endswith("does not hold: smaller in 0 of 4 settings")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dp-fts", "2b"], "PAPER: expected dp-fts-de, fbo-fedgp, fts, got 'dp-fts'"),
        (["dp-fts"], "PAPER: unknown paper 'dp-fts'; did you mean 'dp-fts-de'?"),
        (["dp-fts-de", "2e"], "dp-fts-de has no figure '2e'"),
        (["dp-fts-de", "8"], "waits for a workload on activity recognition"),
        (["fbo-fedgp", "7"], "by hand: fedsim run tabular-mixing"),
        (["dp-fts-de", "2b", "--run", "x", "--seeds", "1"], "--seeds: nothing is run"),
        (["dp-fts-de", "2b", "--run", "x"], "x: not a run folder"),
    ],
)
def test_mistakes(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    _, err = call(capsys, *arguments, code=2)
    assert message in err
