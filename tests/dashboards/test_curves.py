"""What is drawn, as data."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.dashboards.curves import Chart, Curve, chart
from fedsim.errors import ConfigError
from fedsim.results.analysis import Run
from tests.util.runs import made_run


def regret(base: float) -> Any:
    return lambda seed, t: {
        "mean_simple_regret": base + 0.1 * seed - 0.01 * t,
        "simple_regret": 0.5 * base,
        "mean_inference_regret": 2 * base,
        "mean_cumulative_regret": base * t,
    }


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return made_run(tmp_path / "a-1", {"TS": regret(1.0), "FTS": regret(2.0)}, seeds=3)


def curves(found: Chart) -> dict[str, Curve]:
    return {curve.label: curve for panel in found.panels for curve in panel.curves}


def test_curves_are_means_and_standard_errors_over_seeds(run: Run) -> None:
    found = chart(run)
    assert (found.metric, found.notes) == ("mean_simple_regret", ())
    assert list(curves(found)) == ["TS, 3 seeds", "FTS, 3 seeds"]
    fts = curves(found)["FTS, 3 seeds"]
    assert fts.y == pytest.approx([2.1, 2.09, 2.08, 2.07, 2.06])
    assert np.array(fts.standard_error) == pytest.approx(np.full(5, 0.1 / math.sqrt(3)))
    assert list(fts.x) == [0, 1, 2, 3, 4]
    assert (fts.variant, fts.seeds, fts.folder) == ("FTS", 3, str(run.folder))


def test_one_seed_has_no_error(tmp_path: Path) -> None:
    (curve,) = curves(chart(made_run(tmp_path / "r", {"TS": regret(1.0)}, seeds=1))).values()
    assert (curve.label, curve.standard_error) == ("TS", None)


@pytest.mark.parametrize(
    ("options", "column", "first", "last"),
    [
        ({"metric": "inference-regret"}, "mean_inference_regret", 2.0, 2.0),
        ({"metric": "inference_regret"}, "mean_inference_regret", 2.0, 2.0),
        ({"metric": "cumulative_regret"}, "mean_cumulative_regret", 0.0, 4.0),
        ({"best_agent": True}, "simple_regret", 0.5, 0.5),
        ({"metric": "best_observed"}, "mean_best_observed", 0.5, 0.5),
    ],
)
def test_other_metrics(
    run: Run, options: dict[str, Any], column: str, first: float, last: float
) -> None:
    found = chart(run, **options)
    assert found.metric == column
    ts = curves(found)["TS, 3 seeds"]
    assert (ts.y[0], ts.y[-1]) == pytest.approx((first, last))


def test_the_axis_says_which_regret_it_is(run: Run) -> None:
    assert chart(run).y_label == "simple regret (best point evaluated), mean of agents"
    assert chart(run, metric="inference_regret", best_agent=False).y_label == (
        "inference regret (point an agent would choose), mean of agents"
    )
    assert chart(run, best_agent=True).y_label.endswith("best agent")


def test_evaluations_are_per_agent(run: Run) -> None:
    assert curves(chart(run, x="evaluations"))["TS, 3 seeds"].x == (2, 3, 4, 5, 6)


def test_epsilon_where_it_is_known(tmp_path: Path) -> None:
    def private(seed: int, t: int) -> dict[str, float]:
        # In long runs ε is known after some rounds only.
        return {"epsilon_pld": t / 2 if t != 1 else math.nan, "mean_best_observed": 0.1 * t}

    variants: dict[str, Any] = {
        "private": private,
        "alone": lambda seed, t: {},
        "no noise": lambda seed, t: {"epsilon_pld": math.inf},
    }
    found = chart(made_run(tmp_path / "r", variants, seeds=1), x="epsilon")
    (curve,) = curves(found).values()
    assert curve.x == (0.0, 1.0, 1.5, 2.0)
    assert curve.y == pytest.approx((0.0, 0.2, 0.3, 0.4))
    assert [note.partition(" is left out")[0] for note in found.notes] == ["alone", "no noise"]
    with pytest.raises(ConfigError, match="no variant has ε"):
        chart(made_run(tmp_path / "s", {"alone": lambda seed, t: {}}), x="epsilon")


def test_directions_have_panels_of_their_own(tmp_path: Path) -> None:
    variants: dict[str, Any] = {label: (lambda seed, t: {}) for label in ("up", "down", "up too")}
    run = made_run(tmp_path / "r", variants, directions={"down": "minimize"})
    found = chart(run)
    assert [(panel.title, panel.direction) for panel in found.panels] == [
        ("to maximize", "maximize"),
        ("to minimize", "minimize"),
    ]
    assert [[c.variant for c in panel.curves] for panel in found.panels] == [
        ["up", "up too"],
        ["down"],
    ]


def test_one_direction_needs_no_title(run: Run) -> None:
    (panel,) = chart(run).panels
    assert panel.title == ""


def test_facets_by_a_key(tmp_path: Path) -> None:
    labels = ("c", "a", "b", "none")
    variants: dict[str, Any] = dict.fromkeys(labels, lambda seed, t: {})
    values: list[dict[str, Any]] = [{"z": 10}, {"z": 2}, {"z": 10}, {}]
    configs = {
        label: {"method": {"name": "made", "dp": value}}
        for label, value in zip(labels, values, strict=True)
    }
    run = made_run(tmp_path / "r", variants, configs=configs, directions={"b": "minimize"}, seeds=1)
    found = chart(run, facet="method.dp.z")
    assert [(p.title, [c.label for c in p.curves]) for p in found.panels] == [
        ("method.dp.z = 2, to maximize", ["a"]),
        ("method.dp.z = 10, to maximize", ["c"]),
        ("method.dp.z = 10, to minimize", ["b"]),
        ("method.dp.z = not set, to maximize", ["none"]),
    ]
    with pytest.raises(ConfigError, match=r"no run has the key 'method.dp.zz'; did you mean"):
        chart(run, facet="method.dp.zz")


def test_regret_is_drawn_if_all_know_it(tmp_path: Path, run: Run) -> None:
    other = made_run(tmp_path / "b-1", {"TS": lambda seed, t: {}})
    found = chart([run, other])
    assert found.metric == "mean_best_observed"
    assert list(curves(found)) == ["TS (a-1), 3 seeds", "FTS (a-1), 3 seeds", "TS (b-1), 2 seeds"]
    asked = chart([run, other.folder], metric="simple_regret", labels=["old", "new"])
    assert list(curves(asked)) == ["TS (old), 3 seeds", "FTS (old), 3 seeds"]
    assert asked.notes == ("new is left out: it has no simple_regret",)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"metric": "regrett"}, "unknown metric 'regrett'; did you mean 'regret'"),
        ({"metric": "best_noiseless"}, "no variant has best_noiseless"),
        ({"metric": "regret", "best_agent": True}, "known as a mean of agents only"),
        ({"x": "round"}, "unknown axis 'round'; did you mean 'rounds'"),
        ({"labels": ["a", "b"]}, "one for each of 1 runs, got 2"),
    ],
)
def test_mistakes_are_explained(run: Run, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        chart(run, **options)


def test_unfinished_seeds_end_before_the_others(run: Run) -> None:
    """A mean over fewer seeds would jump where one ends."""
    one = run.runs[0].folder
    one.update_manifest(status="interrupted", reason="why")
    (one.path / "rounds.parquet").unlink()
    one.journal.write_text(
        '{"kind":"fedsim-journal","format":2,"run":"x"}\n'
        '{"kind":"step","t":0,"observations":[[0,0,0,[],1.5,null,"own"]]}\n'
    )
    found = chart(run, metric="simple_regret")
    assert curves(found)["TS, 2 seeds"].y == pytest.approx(np.array([1.15, 1.14, 1.13, 1.12, 1.11]))
    assert found.notes == (
        "TS, seed 0: interrupted, 0 of 4 rounds: why",
        "TS: seeds without all rounds to 4 are left out: 0",
    )


@pytest.mark.parametrize("unit", [1e-150, 1.0, 1e150, 8e307])
def test_units_do_not_matter(tmp_path: Path, unit: float) -> None:
    scores: Any = lambda seed, t: {"mean_best_observed": unit * (1 + seed + t / 8)}  # noqa: E731
    (curve,) = curves(chart(made_run(tmp_path / "r", {"a": scores}, rounds=1))).values()
    assert np.array(curve.y) / unit == pytest.approx([1.5, 1.625])
    assert curve.standard_error is not None
    assert np.array(curve.standard_error) / unit == pytest.approx([0.5, 0.5])


def test_a_record_is_json(run: Run) -> None:
    record = json.loads(json.dumps(chart(run).record(), allow_nan=False))
    assert record["metric"] == "mean_simple_regret"
    assert record["panels"][0]["curves"][0]["y"][0] == pytest.approx(1.1)
