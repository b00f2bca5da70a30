"""``fedsim best``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fedsim
from fedsim.cli.main import run_command
from fedsim.results.analysis import Run
from tests.util.small import small


@pytest.fixture
def run(here: Path) -> Run:
    return fedsim.run(small(rounds=3, seeds=[0, 1], variants={"a": {}, "[b]": {}}))


def call(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    capsys.readouterr()
    assert run_command(["best", "runs/small-1", *arguments]) == code
    out, err = capsys.readouterr()
    return out, " ".join(err.split())


def test_one_row_for_each_variant_and_seed(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = call(capsys)
    assert out.count("x =") == 2 * 2 + 1  # and the best of all
    best = run.best()
    assert f"best of all: agent {best.agent} of a, seed {best.seed}, observed " in out
    assert "[b]" in out
    assert err == ""


def test_every_agent(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "--agent", "all")[0].count("x =") == 2 * 2 * 3 + 1
    out, _ = call(capsys, "--agent", "2")
    assert "best of all: agent 2 of" in out


def test_json(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(call(capsys, "--json")[0])
    assert found["best"]["observed"] == run.best().observed
    assert found["best"]["point"] == run.best().point
    assert [len(one["agents"]) for one in found["runs"]] == [3] * 4
    assert found["missing"] == []
    (first, *_) = json.loads(call(capsys, "--json", "-i", "1")[0])["runs"]
    assert [one["agent"] for one in first["agents"]] == [1]
    assert first["best"] == first["agents"][0]


def test_what_is_missing_is_told(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.runs[0].folder.update_manifest(status="interrupted", reason="stopped by Ctrl-C")
    _, err = call(capsys)
    assert err == "incomplete: a, seed 0: interrupted, 3 of 3 rounds: stopped by Ctrl-C"


@pytest.mark.parametrize(
    ("agent", "words"),
    [("3", "expected 0 to 2, which have values, got 3"), ("x", "an agent's number or all")],
)
def test_mistakes_are_explained(
    run: Run, agent: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in call(capsys, "--agent", agent, code=2)[1]


def test_other_commands_mention_it(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = small(rounds=1)
    Path("run.yaml").write_text(json.dumps(raw), "utf-8")
    assert run_command(["run", "run.yaml"]) == 0
    assert "fedsim best runs/small-1" in capsys.readouterr().out
    assert run_command(["show", "runs/small-1"]) == 0
    assert "fedsim best runs/small-1" in capsys.readouterr().out
