"""Comparing variants of one run and of several."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import fedsim
from fedsim.errors import ConfigError
from fedsim.results.analysis import Run, load
from fedsim.results.comparison import compare, control_differences, corrected
from fedsim.results.differences import Comparison, Difference
from tests.util.small import small

SEEDS = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of variants with more initial points, fewer rounds and another scenario."""
    variants: dict[str, Any] = {
        "a": {},
        "more [points]": {"method": {"initial_points": 5}},
        "short": {"rounds": 2},
        "wide": {"scenario": {"length_scale": 0.3}},
    }
    raw = small(rounds=6, seeds=list(range(SEEDS)), variants=variants)
    return fedsim.run(raw, out=tmp_path_factory.mktemp("compare") / "small-1").folder


@pytest.fixture
def run(folder: Path) -> Run:
    return load(folder)


def row_of(found: Comparison, variant: str) -> Any:
    (row,) = (row for row in found.rows if row.variant == variant)
    return row


def means(run: Run, variant: str, last: int, column: str = "mean_simple_regret") -> np.ndarray:
    rounds = run.rounds
    own = rounds[(rounds["variant"] == variant) & rounds["round"].between(1, last)]
    return own.groupby("seed")[column].mean().to_numpy(dtype=float)


def test_differences_are_paired_on_seeds_and_common_rounds(run: Run) -> None:
    found = compare(run)
    assert (found.baseline, found.rounds, found.unequal) == ("a", (1, 2), True)
    assert found.title == "mean simple regret, mean of rounds 1 to 2 (all variants have these)"
    assert compare(run, rounds=(2, 2)).title.startswith("mean simple regret, after round 2")
    row = row_of(found, "more [points]")
    gains = means(run, "a", 2) - means(run, "more [points]", 2)  # less regret is better
    one = row.difference
    assert (one.paired, one.seeds, row.seeds) == (True, SEEDS, SEEDS)
    assert row.score == pytest.approx(means(run, "more [points]", 2).mean())
    assert row.score_error == pytest.approx(stats.sem(means(run, "more [points]", 2)))
    assert one.gain == pytest.approx(gains.mean())
    assert one.standard_error == pytest.approx(stats.sem(gains))
    assert one.p_value == pytest.approx(stats.ttest_1samp(gains, 0.0).pvalue)
    assert row_of(found, "a").difference is None


def test_the_same_method_with_fewer_rounds_is_not_better_or_worse(run: Run) -> None:
    one = row_of(compare(run, baseline="short"), "a").difference
    assert (one.gain, one.standard_error, one.p_value, one.verdict) == (0, 0, 1, "does not beat")


def test_other_scenarios_are_not_paired(run: Run) -> None:
    found = compare(run)
    one = row_of(found, "wide").difference
    expected = stats.ttest_ind(means(run, "a", 2), means(run, "wide", 2), equal_var=False)
    assert not one.paired
    assert one.p_value == pytest.approx(expected.pvalue)
    assert any("wide and a have different scenarios: not paired" in note for note in found.notes)
    assert "paired" not in one.sentence()


def test_p_values_are_corrected_for_all_pairs_of_the_table(run: Run) -> None:
    pairs = [row.difference for row in compare(run).rows if row.difference]
    smallest = min(pairs, key=lambda one: one.p_value)
    assert {one.comparisons for one in pairs} == {3}
    assert smallest.p_corrected == pytest.approx(min(1.0, 3 * smallest.p_value))


def test_rounds_that_some_variant_lacks_are_refused(run: Run) -> None:
    assert compare(run, rounds=(0, 1)).rounds == (0, 1)
    assert compare(run, rounds=(2, 6)).rounds == (2, 2)
    with pytest.raises(ConfigError, match="rounds: expected some of 0 to 6, got 2 to 7"):
        compare(run, rounds=(2, 7))
    with pytest.raises(ConfigError, match=r"0 to 2, the rounds that all variants have, got 3 to 6"):
        compare(run, rounds=(3, 6))
    with pytest.raises(ConfigError, match="unknown variant 'b'"):
        compare(run, baseline="b")


def test_several_runs_are_paired_where_scenarios_agree(run: Run, here: Path) -> None:
    other = fedsim.run(small("ts", rounds=4, seeds=[1, 2, 3]))
    found = compare([run, other], labels=["old", "ts"])
    assert [row.variant for row in found.rows][-2:] == ["wide (old)", "ts"]
    one = row_of(found, "ts").difference
    assert (one.paired, one.seeds) == (True, 2)  # seeds 1 and 2
    theirs = means(other, "ts", 2)[:2]
    assert one.gain == pytest.approx((means(run, "a", 2)[1:] - theirs).mean())
    assert row_of(compare([run.folder, str(other.folder)], labels=["old", "ts"]), "ts") == row_of(
        found, "ts"
    )


CLASSES = """
    from fedsim.space import Parameter, Space
    from fedsim.workload import Evaluation

    class Line:
        space, agents = Space((Parameter("x", 0, 1),)), 2

        def __init__(self, direction="maximize", noiseless=False):
            self.direction, self.noiseless = direction, noiseless

        def objective(self, agent):
            def objective(point, rng):
                y = point["x"] + rng.normal()
                return Evaluation(y, point["x"]) if self.noiseless else y
            return objective

        def optimum(self, agent):
            return float(self.direction == "maximize") if self.noiseless else None
"""


def lines(user_module: Callable[[str], str], **variants: Any) -> Run:
    name = {"name": f"{user_module(CLASSES)}:Line"}
    named = {label: {"scenario": changes} for label, changes in variants.items()}
    return fedsim.run(small(rounds=2, seeds=[0, 1], scenario=name, variants=named))


def test_directions_are_never_mixed(here: Path, user_module: Callable[[str], str]) -> None:
    run = lines(user_module, up={}, up2={}, down={"direction": "minimize"})
    found = compare(run)
    assert row_of(found, "down").difference is None
    assert "down is to minimize and up to maximize: not compared" in found.notes
    assert row_of(found, "up2").difference.gain == 0.0
    with pytest.raises(ConfigError, match="down is to minimize and up to maximize"):
        compare(run, baseline="down")


def test_a_pairs_sign_is_its_own(here: Path, user_module: Callable[[str], str]) -> None:
    run = lines(
        user_module,
        up={},
        first={"direction": "minimize"},
        second={"direction": "minimize"},
    )
    for seed in run.runs:
        if seed.variant == "second":  # make it better
            table = seed.rounds
            table["mean_best_observed"] -= 10.0 + seed.seed
            table.to_parquet(seed.folder.path / "rounds.parquet")
            seed.folder.journal.unlink()  # the table would be made again from it
    one = row_of(compare(run, baseline="first"), "second").difference
    assert one.gain == pytest.approx(10.5)


def test_a_pair_is_compared_on_what_both_know(
    here: Path, user_module: Callable[[str], str]
) -> None:
    run = lines(user_module, value={}, regret={"noiseless": True})
    found = compare(run)
    row = row_of(found, "regret")
    assert row.metric == row.difference.metric == "mean_best_observed"
    first, second = (means(run, v, 2, "mean_best_observed") for v in ("value", "regret"))
    assert row.difference.gain == pytest.approx(second.mean() - first.mean())
    assert compare(load(run.folder / "regret")).title.startswith("mean simple regret")


def test_unfinished_seeds_are_left_out_and_named(run: Run, here: Path) -> None:
    shutil.copytree(run.folder, "copy")
    copy = load("copy")
    one = copy.runs[0].folder
    one.update_manifest(status="interrupted")
    lines = one.journal.read_bytes().splitlines(keepends=True)
    one.journal.write_bytes(b"".join(lines[:3]))  # rounds 0 and 1
    found = compare(copy)
    assert found.rounds == (1, 2)
    assert row_of(found, "a").seeds == SEEDS - 1
    assert row_of(found, "short").difference.seeds == SEEDS - 1
    lost = "a, seed 0: interrupted, 1 of 6 rounds: the end of its journal is lost: "
    assert any(note.startswith(lost) for note in found.notes)
    assert "a: seeds without all rounds to 2 are left out: 0" in found.notes
    assert repr(found).splitlines()[-len(found.notes) :] == [f"note: {n}" for n in found.notes]
    assert str(found) == repr(found)
    shown = found._repr_html_()
    assert all(f"<p>note: {escape(note)}</p>" in shown for note in found.notes)


def test_without_a_finished_seed_half_of_them_decide(run: Run, here: Path) -> None:
    shutil.copytree(run.folder / "a", "copy")
    copy = load("copy")
    for one, rounds in zip(copy.runs, (1, 4, 3), strict=True):
        one.folder.update_manifest(status="interrupted")
        lines = one.folder.journal.read_bytes().splitlines(keepends=True)
        one.folder.journal.write_bytes(b"".join(lines[: rounds + 2]))
    assert compare(copy).rounds == (1, 3)


def test_private_variants_are_compared_with_their_noise_only_control(here: Path) -> None:
    variants: dict[str, Any] = {"alone": {"method": {"name": "ts"}}, "a private [one]": {}}
    raw = small("dp-fts-de", variants=variants, noise_control=True, seeds=[0, 1])
    run = fedsim.run(raw)
    (found,) = control_differences(run)
    assert (found.variant, found.baseline) == ("a private [one]", "a private [one] (noise only)")
    assert (found.comparisons, found.seeds, found.paired) == (1, 2, True)
    assert control_differences(load(run.folder / "alone")) == []


def difference(gain: float, error: float, p: float, seeds: int = 9, name: str = "m") -> Difference:
    return Difference(name, "noise", "mean_simple_regret", gain, error, p, p, seeds)


def test_differences_are_put_into_words() -> None:
    assert difference(0.1, 0.04, 0.037).sentence() == (
        "m beats noise: +0.100 ± 0.040 (9 paired seeds, p = 0.037)"
    )
    assert "does not beat" in difference(0.1, 0.06, 0.05).sentence()
    assert "does not beat" in difference(-0.5, 0.01, 1e-9).sentence()
    assert "one seed" in difference(0.1, math.nan, math.nan, 1).sentence()


def test_the_verdict_follows_the_corrected_p_value() -> None:
    alone, other = corrected([difference(0.1, 0.04, 0.03), difference(0.1, 0.05, 0.04, name="n")])
    assert (alone.p_corrected, other.p_corrected) == (0.06, 0.06)
    assert (alone.verdict, difference(0.1, 0.04, 0.03).verdict) == ("does not beat", "beats")
    assert alone.sentence().endswith("(9 paired seeds, p = 0.06, corrected for 2 comparisons)")


def test_as_a_data_frame(run: Run) -> None:
    frame = compare(run).frame()
    assert frame["variant"].tolist() == ["a", "more [points]", "short", "wide"]
    assert frame["verdict"].tolist()[2] == "does not beat"
    assert frame["gain"].isna().tolist() == [True, False, False, False]
    assert "more [points]" in compare(run)._repr_html_()


def test_users_scenarios_are_equal_if_their_code_is(
    here: Path, user_module: Callable[[str], str]
) -> None:
    name = user_module(CLASSES)
    raw = small(rounds=2, seeds=[0, 1], scenario={"name": f"{name}:Line"})
    first, second = fedsim.run(raw), fedsim.run(raw)
    one = row_of(compare([first, second]), "random-search (small-2)").difference
    assert (one.paired, one.gain, one.p_value) == (True, 0.0, 1.0)
    path = here / f"{name}.py"
    path.write_text(path.read_text().replace('y = point["x"]', 'y = 2 * point["x"]'))
    third = fedsim.run(raw)
    assert not row_of(compare([first, third]), "random-search (small-3)").difference.paired
