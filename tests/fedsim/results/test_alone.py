"""What sharing bought over going alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim.cli.main import run_command
from fedsim.results.alone import MOST_SENTENCES, gains_over_alone
from fedsim.results.analysis import Run
from fedsim.results.digits import significant
from tests.util.small import small

TS: dict[str, Any] = {"method": {"name": "ts"}}
Variants = dict[str, dict[str, Any]]


def run_of(variants: Variants, seeds: list[int], **more: Any) -> Run:
    return fedsim.run(small("dp-fts-de", variants=variants, seeds=seeds, **more))


def score(run: Run, variant: str) -> str:
    rounds = run.rounds
    own = rounds[(rounds["variant"] == variant) & (rounds["round"] >= 1)]
    return significant(own.groupby("seed")["mean_simple_regret"].mean().mean(), 3)


def test_what_sharing_bought(here: Path) -> None:
    others: Variants = {
        "random": {"method": {"name": "random-search"}},
        "wide": {"scenario": {"agents": 4}},
    }
    run = run_of({"lone [TS]": TS, "shared": {}, **others}, [0, 1], noise_control=True, rounds=2)
    (sentence,) = [one for one in gains_over_alone(run) if not one.startswith("wide")]
    own, alone = score(run, "shared"), score(run, "lone [TS]")
    last = run.rounds["round"].max()
    assert sentence.startswith(
        f"shared: mean simple regret {own}, mean of rounds 1 to {last}; lone [TS], which shares "
        f"nothing: {alone}; {'better' if float(own) < float(alone) else 'worse'} by "
    )
    assert ", p = " in sentence
    assert gains_over_alone(run) == [sentence]  # "wide" has other agents


def test_one_seed_has_no_error_bar(here: Path) -> None:
    (sentence,) = gains_over_alone(run_of({"TS": TS, "shared": {}}, [0], rounds=2))
    assert sentence.endswith("(one seed: no error bar)")


@pytest.mark.parametrize(
    "variants",
    [
        {"a": {}, "b": {"method": {"initial_points": 3}}},
        {"a": {}, "TS": TS, "another": {"method": {"name": "ts", "initial_points": 3}}},
        {"TS": TS, "random": {"method": {"name": "random-search"}}},
        {"TS": TS, "elsewhere": {"scenario": {"length_scale": 0.3}}},
        {"TS": TS, **{f"{n}": {} for n in range(MOST_SENTENCES + 1)}},
    ],
    ids=["no one alone", "two alone", "no one shares", "other functions", "too many"],
)
def test_nothing_is_said_where_nothing_can_be(variants: Variants, here: Path) -> None:
    assert gains_over_alone(run_of(variants, [0], rounds=1)) == []


def test_without_variants_nothing_is_said(here: Path) -> None:
    assert gains_over_alone(fedsim.run(small("ts", rounds=1))) == []


def test_the_closing_says_it(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = small("dp-fts-de", variants={"TS": TS, "shared": {}}, rounds=1)
    Path("small.yaml").write_text(json.dumps(raw))
    assert run_command(["run", "small.yaml", "--backend", "serial"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    (sentence,) = gains_over_alone(fedsim.load("runs/small-1"))
    assert sentence in told
