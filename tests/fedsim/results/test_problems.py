"""Comparing methods over problems, with runs made by hand."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from scipy import stats

from fedsim.errors import ConfigError
from fedsim.results.analysis import Run, load
from fedsim.results.entrants import entrants
from fedsim.results.problems import compare_problems, over_problems
from tests.util.runs import Scores, made_run

SEEDS = 6
PROBLEMS = {"F1": "minimize", "F2": "maximize", "F3": "minimize"}
METHODS = ("base", "good", "mixed")


def value(problem: str, method: str, seed: int, t: int) -> float:
    """Return a score: ``good`` is better everywhere by 1 to 2, ``mixed`` on F1, worse on F3."""
    sign = 1.0 if PROBLEMS[problem] == "maximize" else -1.0
    lead = {"base": 0.0, "good": 1.0 + seed / SEEDS, "mixed": 0.0}[method]
    if method == "mixed" and problem != "F2":
        lead = (1.0 if problem == "F1" else -1.0) * (0.1 + 0.01 * seed)
    return 100.0 * seed + 10.0 * t + sign * lead


def scores(problem: str, method: str) -> Scores:
    def row(seed: int, t: int) -> dict[str, float]:
        mean = value(problem, method, seed, t)
        return {"mean_best_observed": mean, "best_noiseless": mean - 1.0}

    return row


def made(folder: Path, methods: tuple[str, ...] = METHODS, **changes: Any) -> Run:
    places = {f"{m} on {p}": (p, m) for p in PROBLEMS for m in methods}
    configs = {
        label: {
            "scenario": {"name": "made", "function": p},
            "method": {"name": m},
            "rounds": 4,
        }
        for label, (p, m) in places.items()
    }
    return made_run(
        folder,
        {label: scores(*place) for label, place in places.items()},
        seeds=SEEDS,
        directions={label: PROBLEMS[p] for label, (p, _) in places.items()},
        configs=configs,
        **changes,
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return made(tmp_path_factory.mktemp("problems") / "made-1")


def test_scores_are_of_the_last_round(run: Run) -> None:
    found = compare_problems(run)
    assert (found.problems, found.methods, found.baseline) == (tuple(PROBLEMS), METHODS, "base")
    assert found.title == "best observed value so far, mean of agents, after the last round"
    cell = found.cells["F2", "good"]
    values = [value("F2", "good", seed, 4) for seed in range(SEEDS)]
    assert (cell.direction, cell.rounds, cell.seeds) == ("maximize", (4, 4), SEEDS)
    assert cell.score == pytest.approx(sum(values) / SEEDS)
    assert cell.score_error == pytest.approx(stats.sem(values))


def test_directions_are_each_problems_own(run: Run) -> None:
    found = compare_problems(run)
    for problem in PROBLEMS:
        duel = found.cells[problem, "good"].duel
        assert duel is not None
        leads = [1.0 + seed / SEEDS for seed in range(SEEDS)]
        assert duel.gain == pytest.approx(sum(leads) / SEEDS)
        assert (duel.mark, duel.paired, duel.rank_biserial) == ("win", True, 1.0)
        assert duel.p_value == 2 / 2**SEEDS
        assert duel.p_corrected == 3 * duel.p_value  # of three problems
        assert found.cells[problem, "good"].rank == 1.0


def test_a_fault_of_ours_is_not_taken_for_runs_without_problems(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, _ = entrants([run], None)
    assert over_problems(found, named=False) is not None

    def broken(*args: Any, **settings: Any) -> None:
        raise AttributeError("a fault")

    monkeypatch.setattr("fedsim.results.problems.arranged", broken)
    with pytest.raises(AttributeError, match="a fault"):
        over_problems(found, named=False)


def test_ranks_wins_and_tests_over_problems(run: Run) -> None:
    """mixed wins on F1, is equal on F2 and loses on F3."""
    base, good, mixed = compare_problems(run).overall
    assert (good.wins, good.ties, good.losses) == (3, 0, 0)
    assert (mixed.wins, mixed.ties, mixed.losses) == (1, 1, 1)
    assert good.mean_rank == 1.0
    assert base.mean_rank == pytest.approx((3 + 2.5 + 2) / 3)
    assert mixed.mean_rank == pytest.approx((2 + 2.5 + 3) / 3)
    assert base.test is None
    assert good.test is not None
    assert mixed.test is not None
    assert (good.test.better, good.test.worse, good.test.paper_effect_size) == (3, 0, 1.0)
    assert good.test.p_value == 2 / 2**3
    assert good.p_corrected == 2 * good.test.p_value  # of two methods
    assert (good.verdict, mixed.verdict) == ("not shown", "not shown")
    assert (mixed.test.equal, mixed.test.paper_effect_size) == (1, 0.0)


def test_the_baseline_may_be_any_method(run: Run) -> None:
    found = compare_problems(run, baseline="good")
    assert [one.losses for one in found.overall] == [3, 0, 3]
    with pytest.raises(ConfigError, match="unknown method 'god'; did you mean 'good'"):
        compare_problems(run, baseline="god")


def test_metrics_and_rounds(run: Run) -> None:
    found = compare_problems(run, metric="best_noiseless", best_agent=True, rounds=(1, 3))
    assert found.title == "best noiseless value so far, best agent, mean of rounds 1 to 3"
    expected = sum(value("F1", "base", s, t) - 1 for s in range(SEEDS) for t in (1, 2, 3))
    assert found.cells["F1", "base"].score == pytest.approx(expected / SEEDS / 3)
    with pytest.raises(ConfigError, match="no variant has mean_simple_regret"):
        compare_problems(run, metric="simple_regret")
    with pytest.raises(ConfigError, match=r"0 to 4, the rounds that all methods have on F1"):
        compare_problems(run, rounds=(5, 6))
    with pytest.raises(ConfigError, match="seconds is of whole runs; leave rounds out"):
        compare_problems(run, metric="seconds", rounds=(1, 2))
    with pytest.raises(ConfigError, match="seconds is known of a whole run only"):
        compare_problems(run, metric="seconds", best_agent=True)


def test_seconds_are_those_of_the_rounds(tmp_path: Path) -> None:
    run = made(tmp_path / "made-1", ("base", "good"))
    for one in run.runs:
        slow = 2.0 if one.variant.startswith("base") else 1.0
        rounds = one.facts().rounds + 1
        lines = [f'{{"kind":"round","t":{t},"seconds":{slow + one.seed}}}\n' for t in range(rounds)]
        one.folder.timings.write_text("".join(lines))
    found = compare_problems(load(run.folder), metric="seconds")
    assert found.cells["F2", "base"].score == pytest.approx(rounds * (2.0 + (SEEDS - 1) / 2))
    duel = found.cells["F2", "good"].duel
    assert duel is not None
    # Less time is better, also where the scenario maximises.
    assert duel.gain == pytest.approx(rounds)


def test_cpu_seconds_with_and_without_evaluations(tmp_path: Path) -> None:
    run = made(tmp_path / "made-1", ("base", "good"))
    for one in run.runs:
        lines = [
            f'{{"kind":"round","t":{t},"seconds":9,"server_cpu_seconds":0.5}}\n'
            '{"kind":"call","agent_cpu_seconds":2.0,"objective_cpu_seconds":1.25}\n'
            for t in range(one.facts().rounds + 1)
        ]
        one.folder.timings.write_text("".join(lines))
    for metric, each in {"cpu_seconds": 2.5, "method_cpu_seconds": 1.25}.items():
        found = compare_problems(load(run.folder), metric=metric)
        assert found.cells["F2", "base"].score == each * len(lines)
        assert found.title.startswith("CPU seconds of the whole run")


def test_the_order_of_runs_does_not_matter(tmp_path: Path) -> None:
    runs = [made(tmp_path / m, (m,)) for m in METHODS]
    one = compare_problems(*runs, baseline="base")
    other = compare_problems(runs[2], runs[1], runs[0], baseline="base")
    assert other.methods == METHODS[::-1]
    assert {x.method: x for x in one.overall if x.test} == {
        x.method: x for x in other.overall if x.test
    }
    assert dict(one.cells) == dict(other.cells)


def test_seeds_of_several_runs_are_put_together(run: Run, tmp_path: Path) -> None:
    parts = [made(tmp_path / name) for name in ("low", "high")]
    for part, keep in zip(parts, (range(2), range(2, SEEDS)), strict=True):
        for one in part.runs:
            if one.seed not in keep:
                one.folder.path.rename(one.folder.path.with_name(f"seed-{one.seed}.bak"))
    found = compare_problems([load(part.folder) for part in parts])
    together, whole = found.frame(), compare_problems(run).frame()
    assert together["seeds"].tolist() == [SEEDS] * 9
    pd.testing.assert_frame_equal(together, whole, rtol=1e-12)


def test_what_is_missing_is_told_and_not_ranked(tmp_path: Path) -> None:
    run = made(tmp_path / "made-1")
    for one in run.runs:
        if one.variant == "mixed on F3":
            one.folder.path.rename(one.folder.path.with_name(f"old-{one.seed}"))
    found = compare_problems(load(run.folder))
    assert ("F3", "mixed") not in found.cells
    assert "F3 is not ranked: no score of mixed" in found.notes
    assert "\nnote: F3 is not ranked: no score of mixed" in repr(found)
    assert "<p>note: F3 is not ranked: no score of mixed</p>" in found._repr_html_()
    assert math.isnan(found.cells["F3", "good"].rank)
    good, mixed = found.overall[1:]
    assert (good.wins, mixed.wins, mixed.losses) == (3, 1, 0)
    assert mixed.mean_rank == pytest.approx((2 + 2.5) / 2)


def test_few_seeds_are_told(tmp_path: Path) -> None:
    run = made(tmp_path / "made-1")
    for one in run.runs:
        if one.seed > 4:
            one.folder.path.rename(one.folder.path.with_name(f"old-{one.seed}"))
    found = compare_problems(load(run.folder))
    assert any("every problem is a tie: with 5 seeds" in note for note in found.notes)
    assert found.overall[1].ties == 3


def test_one_method_or_one_problem_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected two methods with two problems in common"):
        compare_problems(made(tmp_path / "made-1", ("base",)))


def test_other_scenarios_are_not_paired(tmp_path: Path) -> None:
    """Explicit problems may have scenarios that differ: here, each method has its own agents."""
    configs: dict[str, dict[str, Any]] = {
        f"{p} {n}": {
            "scenario": {"name": "made", "function": p, "agents": n},
            "method": {"name": "ts"},
            "rounds": 4,
        }
        for p in ("F1", "F2")
        for n in (10, 20)
    }

    def rows_of(agents: int) -> Scores:
        return lambda seed, t: {"mean_best_observed": float(seed + agents)}

    rows = {label: rows_of(config["scenario"]["agents"]) for label, config in configs.items()}
    run = made_run(tmp_path / "made-1", rows, seeds=SEEDS, configs=configs)
    found = compare_problems(run, problem="scenario.function")
    assert found.methods == ("agents=10", "agents=20")
    duel = found.cells["F1", "agents=20"].duel
    assert duel is not None
    expected = stats.mannwhitneyu([s + 20 for s in range(SEEDS)], [s + 10 for s in range(SEEDS)])
    assert (duel.paired, duel.p_value, duel.rank_biserial) == (False, expected.pvalue, 1.0)
    assert any("not paired on seeds" in note for note in found.notes)


PUBLISHED = """
source: A paper, Table 1
metric: best_noiseless
best_agent: true
values:
  f1: {GOOD: 1000, Other: 3.5}
  F2: {GOOD: 1000}
"""


def test_published_numbers_are_put_beside(run: Run, tmp_path: Path) -> None:
    table = tmp_path / "paper.yaml"
    table.write_text(PUBLISHED)
    found = compare_problems(run, published=table)
    assert found.metric.column == "best_noiseless"
    assert found.beside is not None
    assert found.beside.methods == ("good", "Other")
    assert found.beside.values == {
        ("F1", "good"): 1000.0,
        ("F2", "good"): 1000.0,
        ("F1", "Other"): 3.5,
    }
    assert found.better_than_published("good") == (1, 2)  # F1 is to minimize, F2 to maximize
    assert found.better_than_published("base") == (0, 0)
    frame = found.frame()
    assert set(frame["method"]) == {*METHODS, "Other"}
    assert frame.loc[frame["method"] == "Other", "published"].tolist() == [3.5]
    one = compare_problems(made(tmp_path / "alone", ("good",)), published=table)
    assert one.better_than_published("good") == (1, 2)  # one method will do


def test_it_is_shown_in_short(run: Run) -> None:
    title, head, *rows = repr(compare_problems(run)).splitlines()
    assert title == "best observed value so far, mean of agents, after the last round"
    assert head.split()[:3] == ["method", "mean_rank", "wins"]
    assert [row.split()[0] for row in rows] == list(METHODS)


def test_csv_holds_both_tables(run: Run) -> None:
    found = compare_problems(run)
    table = pd.read_csv(io.StringIO(found.csv()))
    problems, overall = table[table["problem"].notna()], table[table["problem"].isna()]
    assert len(problems) == 9
    assert problems["mean_best_observed"].tolist() == found.frame()["mean_best_observed"].tolist()
    assert overall["method"].tolist() == list(METHODS)
    assert overall["wins"].tolist()[1:] == [3.0, 1.0]
    assert overall["rank"].tolist() == [one.mean_rank for one in found.overall]
