"""Curves of single agents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import fedsim
from fedsim.dashboards.agents import agents_chart
from fedsim.dashboards.curves import Chart, Curve, chart
from fedsim.errors import ConfigError
from fedsim.results.analysis import Run
from tests.util.runs import made_run
from tests.util.small import small

Evaluated = tuple[int, int, float, float, float]
"""An agent, a round, an observed value, the noiseless one and its regret."""


def observed(
    folder: Path,
    evaluated: Sequence[Evaluated],
    *,
    agents: int = 3,
    direction: str = "maximize",
    seeds: int = 1,
) -> Run:
    """Return a run of one variant, ``a``; the values of each further seed are larger by 1."""
    run = made_run(
        folder,
        {"a": lambda seed, t: {"mean_simple_regret": 0.0}},
        seeds=seeds,
        agents=agents,
        directions={"a": direction},
    )
    names = ("agent", "round", "y", "noiseless", "regret")
    for one in run.runs:
        table = pd.DataFrame(evaluated, columns=names)
        table[["y", "noiseless", "regret"]] += one.seed
        table = table.assign(step=0, index=0, source="own")
        table.to_parquet(one.folder.path / "observations.parquet")
    return run


def curves(found: Chart) -> dict[str, Curve]:
    return {panel.title: panel.curves[0] for panel in found.panels}


# Agent 0 is best at round 0 by what it observed, and at round 2 by the truth; it skips round 3.
OWN: list[Evaluated] = [
    (0, -1, 99.0, 99.0, -90.0),
    (0, 0, 5.0, 1.0, 9.0),
    (1, 0, 1.0, 1.0, 9.0),
    (0, 0, 4.0, 2.0, 8.0),
    (0, 1, 3.0, 0.0, 10.0),
    (0, 2, 4.5, 6.0, 4.0),
    (1, 2, 7.0, 0.0, 10.0),
    (0, 4, 6.0, 5.0, 5.0),
]


@pytest.mark.parametrize(
    ("metric", "first", "second"),
    [
        ("best_observed", [5, 5, 5, 5, 6], [1, 1, 7, 7, 7]),
        ("best_noiseless", [2, 2, 6, 6, 6], [1, 1, 1, 1, 1]),
        ("simple_regret", [8, 8, 4, 4, 4], [9, 9, 9, 9, 9]),
        ("inference-regret", [9, 9, 9, 9, 5], [9, 9, 10, 10, 10]),
    ],
)
def test_each_agent_has_its_own_score(
    here: Path, metric: str, first: list[float], second: list[float]
) -> None:
    found = curves(agents_chart(observed(here / "a", OWN), metric=metric))
    assert list(found) == ["agent 0", "agent 1"]  # agent 2 never took part
    assert list(found["agent 0"].y) == first
    assert list(found["agent 1"].y) == second
    assert found["agent 0"].x == (0.0, 1.0, 2.0, 3.0, 4.0)


def test_smaller_is_better_where_a_scenario_minimises(here: Path) -> None:
    run = observed(here / "a", OWN, direction="minimize")
    assert curves(agents_chart(run, metric="best_observed"))["agent 0"].y == (4, 3, 3, 3, 3)


def test_seeds_are_averaged_and_late_agents_begin_late(here: Path) -> None:
    late: list[Evaluated] = [(0, 2, 1.0, 1.0, 0.5), (1, 0, 1.0, 1.0, 0.5)]
    found = curves(agents_chart(observed(here / "a", late, seeds=3)))
    assert found["agent 0"].x == (2.0, 3.0, 4.0)
    assert found["agent 0"].y == pytest.approx((1.5, 1.5, 1.5))
    assert found["agent 0"].standard_error == pytest.approx((3**-0.5,) * 3)
    assert found["agent 0"].label == "a, 3 seeds"


def test_of_many_agents_the_first_twelve(here: Path) -> None:
    many: list[Evaluated] = [(i, 0, 1.0, 1.0, 0.0) for i in range(14)]
    run = observed(here / "a", many, agents=14)
    found = agents_chart(run)
    assert [one.title for one in found.panels] == [f"agent {i}" for i in range(12)]
    assert found.notes == ("the first 12 of 14 agents; --agents chooses others",)
    asked = agents_chart(run, agents=[13, 1, 13])
    assert [one.title for one in asked.panels] == ["agent 1", "agent 13"]
    assert asked.notes == ()


def test_seeds_without_evaluations_are_left_out(here: Path) -> None:
    run = observed(here / "a", [(0, 0, 1.0, 1.0, 0.5)], seeds=2)
    (run.runs[1].folder.path / "observations.parquet").unlink()
    found = agents_chart(run)
    assert found.panels[0].curves[0].label == "a"
    (note,) = found.notes
    assert note.startswith("a, seed 1 is left out: ")
    (run.runs[0].folder.path / "observations.parquet").unlink()
    with pytest.raises(ConfigError, match=r"no variant has simple_regret .*a, seed 0 is left out"):
        agents_chart(run)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"agents": [3]}, "expected some of 0 to 2, got 3"),
        ({"agents": []}, "expected some of 0 to 2, got none"),
        ({"agents": [2]}, "no variant has simple_regret of agents 2 to draw"),
        ({"metric": "regret"}, "expected one of simple_regret, .* got 'regret'"),
    ],
)
def test_mistakes(here: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        agents_chart(observed(here / "a", OWN), **options)


@pytest.mark.parametrize(
    "metric", ["simple_regret", "inference_regret", "best_observed", "best_noiseless"]
)
def test_their_mean_is_the_mean_of_agents(here: Path, metric: str) -> None:
    run = fedsim.run(small(rounds=3), out=here / "r")
    whole = chart(run, metric=metric).panels[0].curves[0].y
    panels = agents_chart(run, metric=metric).panels
    own = [panel.curves[0].y for panel in panels]
    assert len(own) == 3
    assert [sum(one) / 3 for one in zip(*own, strict=True)] == pytest.approx(whole)


def test_of_methods_with_targets_the_targets(here: Path) -> None:
    changes = {"variants": {"FTS": {}, "two": {"method": {"targets": [1, 2]}}}}
    config = small("fts-target", **changes)
    config["method"]["targets"] = [1]
    found = fedsim.plot(fedsim.run(config, out=here / "r"), facet="agent", out=here / "p.png")
    panels = found.chart.panels
    assert [(one.title, [c.variant for c in one.curves]) for one in panels] == [
        ("agent 1", ["FTS", "two"]),
        ("agent 2", ["two"]),
    ]
    assert (here / "p.png").stat().st_size > 5_000
