"""``fedsim plot``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fedsim
from fedsim.cli.main import run_command
from tests.util.runs import made_run
from tests.util.small import small


@pytest.fixture
def folders(here: Path) -> list[str]:
    for name in ("a", "b"):
        made_run(here / name, {"TS": lambda seed, t: {"mean_simple_regret": 1.0 - 0.1 * t}})
    return ["a", "b"]


def call(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    capsys.readouterr()
    assert run_command(["plot", *arguments]) == code
    out, err = capsys.readouterr()
    return out, " ".join(err.split())


def test_runs_are_overlaid(folders: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, *folders, "--out", "both.svg")[0] == "both.svg\n"
    picture = Path("both.svg").read_text("utf-8")
    assert "<!-- TS (a), 2 seeds -->" in picture
    assert call(capsys, "a")[0] == "fedsim.png\n"


def test_all_options(folders: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    options = [
        "--metric",
        "simple-regret",
        "--x",
        "evaluations",
        "--log",
        "--title",
        "$5",
        "--size",
        "5x3",
    ]
    labels = ["--label", "old", "--label", "new", "--facet", "scenario.name"]
    call(capsys, *folders, *options, *labels, "-o", "out.svg")
    picture = Path("out.svg").read_text("utf-8")
    for words in ("old, 2 seeds", "evaluations per agent", "$5", "scenario.name = made"):
        assert f"<!-- {words} -->" in picture
    assert 'width="360pt" height="216pt"' in picture


def test_json(folders: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(call(capsys, *folders, "--json")[0])
    assert found["picture"] is None
    assert not Path("fedsim.png").exists()
    (panel,) = found["panels"]
    assert [one["label"] for one in panel["curves"]] == ["TS (a), 2 seeds", "TS (b), 2 seeds"]
    assert panel["curves"][0]["y"] == pytest.approx([1.0, 0.9, 0.8, 0.7, 0.6])
    assert json.loads(call(capsys, "a", "--json", "-o", "x.png")[0])["picture"] == "x.png"
    assert Path("x.png").exists()


def test_what_is_missing_is_told(folders: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    (Path("a/TS/seed-1/manifest.json")).unlink()
    out, err = call(capsys, "a")
    assert out == "fedsim.png\n"
    assert "note: TS, seed 1 is left out: a/TS/seed-1/manifest.json: is missing; `fedsim res" in err
    Path("a/TS/seed-1/journal.jsonl").unlink()
    err = call(capsys, "a")[1]
    assert "note: TS, seed 1 is left out: a/TS/seed-1: nothing is recorded yet" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--out", "x.nope"), "--out"),
        (("--size", "7"), "--size: expected inches from 1 to 100, e.g. 7x4.2, got '7'"),
        (("--size", "0x4"), "--size: expected inches"),
        (("--metric", "nope"), "unknown metric 'nope'"),
        (("--x", "time"), "unknown axis 'time'"),
        (("--facet", "nope"), "no run has the key 'nope'"),
        (("--best-agent",), "no variant has simple_regret"),
    ],
)
def test_mistakes_are_explained(
    folders: list[str],
    arguments: tuple[str, ...],
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert words in call(capsys, "a", *arguments, code=2)[1]


def test_a_panel_for_each_agent(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fedsim.run(small(seeds=[0, 1]), out="r")
    found = json.loads(call(capsys, "r", "--facet", "agent", "--agents", "2, 0", "--json")[0])
    assert [one["title"] for one in found["panels"]] == ["agent 0", "agent 2"]
    assert call(capsys, "r", "--facet", "agent", "-o", "b.svg")[0] == "b.svg\n"
    assert "<!-- agent 1 -->" in Path("b.svg").read_text("utf-8")
    for more, message in (
        (["--agents", "1"], '--agents: expected with facet "agent" only'),
        (["--facet", "agent", "--agents", "1-3"], "--agents: expected agents, e.g. 0,1,5"),
        (["--facet", "agent", "--agents", "3"], "--agents: expected some of 0 to 2, got 3"),
        (["--facet", "agent", "--x", "bytes"], "--x: expected rounds with facet agent"),
        (["--facet", "agent", "--best-agent"], "--best-agent: does not go with facet agent"),
        (["--facet", "agent", "--metric", "regret"], "--metric: expected one of simple_regret"),
        (["--points", "--agents", "1"], "--agents: does not go with --points"),
        (["--tradeoff", "--agents", "1"], "--agents: does not go with --tradeoff"),
    ):
        assert message in call(capsys, "r", *more, code=2)[1]


def test_scores_against_losses(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_run(
        here / "a",
        {"DP": lambda seed, t: {"mean_simple_regret": 0.5, "epsilon_pld": t, "delta": 0.01}},
    )
    out, _ = call(capsys, "a", "--tradeoff", "--rounds", "2-3", "--json")
    assert [one["epsilon"] for one in json.loads(out)["points"]] == [3.0]
    assert call(capsys, "a", "--tradeoff", "-o", "b.svg")[0] == "b.svg\n"
    assert "<!-- DP -->" in Path("b.svg").read_text("utf-8")
    for more, message in (
        (["--rounds", "2"], "--rounds: needs --tradeoff"),
        (["--tradeoff", "--points"], "--points: does not go with --tradeoff"),
        (["--tradeoff", "--x", "epsilon"], "--x: does not go with --tradeoff"),
        (["--tradeoff", "--rounds", "2-9"], "--rounds: expected some of 0 to 4, got 2 to 9"),
        (["--tradeoff", "--agent", "1"], "--agent: needs --points"),
    ):
        assert message in call(capsys, "a", *more, code=2)[1]
