"""``fedsim compare``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import fedsim
from fedsim.cli.main import run_command
from fedsim.results.comparison import compare
from tests.util.small import small


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    variants = {"a": {}, "b [b]": {"method": {"initial_points": 5}}, "c": {"rounds": 3}}
    raw = small(variants=variants, seeds=[0, 1, 2])
    return fedsim.run(raw, out=tmp_path_factory.mktemp("compare") / "small-1").folder


@pytest.fixture
def here_too(here: Path, finished: Path) -> Path:
    return Path(shutil.copytree(finished, here / "runs" / "small-1"))


def call(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    capsys.readouterr()
    assert run_command(["compare", "runs/small-1", *arguments]) == code
    out, err = capsys.readouterr()
    return out, " ".join(err.split())


def test_json_is_what_python_gives(here_too: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(call(capsys, "--rounds", "1-2", "--json")[0])
    expected = compare(here_too, rounds=(1, 2))
    assert (found["rounds"], found["baseline"]) == ([1, 2], "a")
    for row, same in zip(found["variants"], expected.rows, strict=True):
        assert (row["variant"], row["metric"], row["score"]) == (
            same.variant,
            same.metric,
            same.score,
        )
        if same.difference is not None:
            assert row["difference"]["p_corrected"] == same.difference.p_corrected
            assert row["difference"]["verdict"] == same.difference.verdict
    assert found["variants"][0]["difference"] is None
    assert found["notes"] == list(expected.notes)


def test_the_table(here_too: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = call(capsys, "--baseline", "b [b]")
    assert "mean simple regret, mean of rounds 1 to 2 (all variants have these)" in out
    text = " ".join(out.split())
    assert "note: only rounds that all variants have are compared; c has 3" in text
    assert "p, corrected" in text or "corrected" in text
    assert out.count("does not beat") + out.count("beats") == 2
    assert out.count("±") == 3 + 2


def test_several_folders(here_too: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fedsim.run(small("ts", seeds=[0, 1, 2]))
    out, _ = call(capsys, "runs/small-2", "--label", "old", "--label", "new", "--json")
    assert [row["variant"] for row in json.loads(out)["variants"]] == [
        "a (old)",
        "b [b] (old)",
        "c (old)",
        "new",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--baseline", "d"), "unknown variant 'd'"),
        (("--rounds", "x"), "expected e.g. 5-20"),
        (("--rounds", "90-99"), "expected some of 0 to 2, the rounds that all variants have"),
        (("--rounds", "2-1"), "expected some of 0 to 2"),
        (("--label", "x", "--label", "y"), "expected one for each of 1 runs, got 2"),
    ],
)
def test_mistakes_are_explained(
    here_too: Path, arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in call(capsys, *arguments, code=2)[1]
