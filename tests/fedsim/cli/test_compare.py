"""``fedsim compare``."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

import fedsim
from fedsim.cli.main import run_command
from fedsim.results.comparison import compare
from fedsim.results.digits import with_error
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
    for metric, better in (("simple_regret", "smaller"), ("best_observed", "larger")):
        rows = json.loads(call(capsys, "--metric", metric, "--json")[0])["variants"]
        told = {(row["direction"], row["better"]) for row in rows}
        assert told == {("maximize", better)}
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
        (("--rounds", "3-3"), "expected some of 0 to 2, the rounds that all variants have"),
        (("--rounds", "2-99"), "expected some of 0 to 3, got 2 to 99"),
        (("--rounds", "2-1"), "expected some of 0 to 2"),
        (("--label", "x", "--label", "y"), "expected one for each of 1 runs, got 2"),
        (("--metric", "nope"), "unknown metric 'nope'"),
        (("--metric", "regret", "--best-agent"), "as a mean of agents only"),
        (("--csv", "--latex"), "expected at most one of them"),
        (("--problem", "none", "--method", "method.name"), "expected neither --method nor"),
        (("--problem", "scenario.name"), "expected two methods with two problems in common"),
        (("--published", "fbo-fedgp-table-9"), "did you mean 'fbo-fedgp-table-"),
    ],
)
def test_mistakes_are_explained(
    here_too: Path, arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in call(capsys, *arguments, code=2)[1]


def test_other_metrics(here_too: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(call(capsys, "--metric", "best-noiseless", "--best-agent", "--json")[0])
    assert {row["metric"] for row in found["variants"]} == {"best_noiseless"}
    expected = compare(here_too, metric="best_noiseless", best_agent=True)
    assert [row["score"] for row in found["variants"]] == [row.score for row in expected.rows]
    assert "wall seconds of the whole run" in call(capsys, "--metric", "seconds")[0]


def test_csv_and_latex(here_too: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = call(capsys, "--csv")
    rows = list(csv.DictReader(out.splitlines()))
    assert [row["variant"] for row in rows] == ["a", "b [b]", "c"]
    assert float(rows[1]["gain"]) == compare(here_too).rows[1].difference.gain  # type: ignore[union-attr]
    assert "note: only rounds that all variants have" in err
    out, _ = call(capsys, "--latex")
    assert out.count(r"\\") == 4
    assert "note" not in out


SCALES = [0.1, 0.2, 0.3]


@pytest.fixture(scope="module")
def problems(tmp_path_factory: pytest.TempPathFactory) -> Path:
    variants = {"a_long_name_of_a_method": {}, "[b]": {"method": {"initial_points": 4}}}
    grid = {"scenario.length_scale": SCALES}
    raw = small(variants=variants, grid=grid, seeds=[0, 1])
    return fedsim.run(raw, out=tmp_path_factory.mktemp("problems") / "small-1").folder


@pytest.fixture
def problems_here(here: Path, problems: Path) -> Path:
    return Path(shutil.copytree(problems, here / "runs" / "small-1"))


def test_over_problems(
    problems_here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out, _ = call(capsys)
    lines = out.splitlines()
    assert max(map(len, (line for line in lines if not line.startswith("note")))) <= 80
    assert lines[0] == "simple regret (best point evaluated), mean of agents, after the last round"
    found = fedsim.compare_problems(problems_here)
    for scale in SCALES:
        (row,) = (line for line in lines if line.startswith(f"{scale} "))
        for method in found.methods:
            cell = found.cells[str(scale), method]
            assert with_error(cell.score, cell.score_error).replace("± ", "±") in row
    (counts,) = (line for line in lines if line.startswith("+/≈/−"))
    assert counts.split() == ["+/≈/−", "0/3/0"]
    assert "note: every problem is a tie: with 2 seeds no difference can have p < 0.05" in out
    assert "[b]" in out


def test_over_problems_as_json_csv_and_latex(
    problems_here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = json.loads(call(capsys, "--json", "--best-agent")[0])
    found = fedsim.compare_problems(problems_here, best_agent=True)
    assert (told["metric"], told["baseline"]) == ("simple_regret", found.methods[0])
    assert told["problem_keys"] == ["scenario.length_scale"]
    scores = {(c["problem"], c["method"]): c["score"] for c in told["cells"]}
    assert scores == {place: cell.score for place, cell in found.cells.items()}
    assert told["cells"][1]["duel"]["mark"] == "tie"
    assert told["methods"][1]["test"]["rank_biserial"] == found.overall[1].test.rank_biserial  # type: ignore[union-attr]
    rows = list(csv.DictReader(call(capsys, "--csv")[0].splitlines()))
    assert [row["problem"] for row in rows] == ["0.1", "0.1", "0.2", "0.2", "0.3", "0.3", "", ""]
    latex, _ = call(capsys, "--latex")
    assert r"problem & a\_long\_name\_of\_a\_method & [b] \\" in latex
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 2


def test_variants_may_be_compared_one_by_one(
    problems_here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = json.loads(call(capsys, "--problem", "none", "--json")[0])
    assert len(plain["variants"]) == 6
    one = "[b], length_scale=0.2"
    assert json.loads(call(capsys, "--baseline", one, "--json")[0])["baseline"] == one
    over = json.loads(call(capsys, "--baseline", "[b]", "--json")[0])
    assert (over["baseline"], len(over["problems"])) == ("[b]", 3)


def test_published_numbers_stand_beside_ours(
    problems_here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = "source: A paper\nvalues: {0.1: {'[B]': 1e9, Theirs: 7.25}}\n"
    Path("paper.yaml").write_text(table)
    out, _ = call(capsys, "--published", "paper.yaml")
    assert out.startswith("simple regret (best point evaluated), mean of agents")
    assert "1e9" in out
    assert "7.25" in out
    assert "published: A paper." in out
    assert "[b]: better than published on 1 of 1 problems." in out
    told = json.loads(call(capsys, "--published", "paper.yaml", "--json")[0])
    assert {"problem": "0.1", "method": "Theirs", "value": 7.25} in told["published"]["values"]
    assert told["methods"][1]["better_than_published"] == 1
    out, _ = call(capsys, "--published", "paper.yaml", "--latex")
    assert "[b], published & Theirs, published" in out


def test_published_times_are_not_beaten(
    problems_here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("paper.yaml").write_text("source: A paper\nmetric: seconds\nvalues: {0.1: {'[B]': 1e9}}\n")
    out, _ = call(capsys, "--published", "paper.yaml")
    assert out.startswith("wall seconds of the whole run")
    assert "published times are another machine's" in out
    assert "better than published" not in out
    told = json.loads(call(capsys, "--published", "paper.yaml", "--json")[0])
    assert told["published"]["values"][0]["value"] == 1e9
    assert not any("better_than_published" in one for one in told["methods"])
