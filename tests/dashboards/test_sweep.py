"""Scores against a value that variants differ in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.dashboards.sweep import draw_sweep, sweep
from fedsim.errors import ConfigError
from fedsim.results.analysis import Run
from tests.util.runs import Scores, made_run


def scored(value: float, sent: float) -> Scores:
    return lambda seed, t: {
        "mean_best_observed": value + 0.02 * seed + 0.1 * (t == 2),
        "mean_uploaded_bytes": sent * t,
    }


@pytest.fixture
def run(here: Path) -> Run:
    """Two methods at two or three sizes, the larger one first."""
    places = {"a 8": ("a", 8), "a 4": ("a", 4), "b 4": ("$b$", 4), "b 8": ("$b$", 8)}
    configs: dict[str, dict[str, Any]] = {
        label: {"method": {"name": name, "size": size, "kind": "x"}}
        for label, (name, size) in places.items()
    }
    configs["c"] = {"method": {"name": "c", "kind": "x"}}
    values = {"a 8": 0.3, "a 4": 0.2, "b 4": 0.4, "b 8": 0.1, "c": 0.5}
    sent = {"a 8": 8.0, "a 4": 4.0, "b 4": 16.0, "b 8": 640.0, "c": 1.0}
    variants = {label: scored(value, sent[label]) for label, value in values.items()}
    return made_run(here / "a", variants, configs=configs)


def test_scores_by_a_setting_with_a_line_for_each_method(run: Run) -> None:
    found = sweep(run, "method.size", series="method.name")
    assert [(one.label, one.series, one.x) for one in found.points] == [
        ("a 4", "a", 4.0),
        ("a 8", "a", 8.0),
        ("b 4", "$b$", 4.0),
        ("b 8", "$b$", 8.0),
    ]
    assert [one.score for one in found.points] == pytest.approx([0.21, 0.31, 0.41, 0.11])
    assert [one.standard_error for one in found.points] == pytest.approx([0.01] * 4)
    assert found.x_label == "method.size"
    assert found.y_label == "best observed value so far, mean of agents, after round 4"
    assert found.notes == ("c is left out: no score, or no number as method.size",)
    assert json.loads(json.dumps(found.record(), allow_nan=False))["points"][0]["x"] == 4.0


def test_rounds_are_averaged_and_one_line_needs_no_series(run: Run) -> None:
    found = sweep(run, "method.size", rounds=(1, 2))
    assert [one.label for one in found.points] == ["a 4", "b 4", "a 8", "b 8"]
    assert found.points[0].score == pytest.approx(0.26)
    assert found.y_label.endswith("rounds 1 to 2")
    assert draw_sweep(found).axes[0].get_legend() is None


def test_a_metric_as_the_axis_is_that_of_the_last_round_of_the_scores(run: Run) -> None:
    found = sweep(run, "uploaded_bytes", series="method.name", rounds=(1, 2))
    assert {one.label: one.x for one in found.points} == {
        "a 4": 8.0,
        "a 8": 16.0,
        "b 4": 32.0,
        "b 8": 1280.0,
        "c": 2.0,
    }
    assert found.x_label == "bytes that an agent sent so far, mean of agents"
    assert draw_sweep(found).axes[0].get_xscale() == "log"


def test_the_picture(run: Run) -> None:
    figure = draw_sweep(sweep(run, "method.size", series="method.name"), title="a $ title")
    (axes,) = figure.axes
    assert figure.get_suptitle() == "a $ title"
    assert (axes.get_xlabel(), axes.get_xscale()) == ("method.size", "linear")
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["a", "$b$"]
    drawn = [np.asarray(one.lines[0].get_xydata()).tolist() for one in axes.containers]  # type: ignore[attr-defined]
    assert drawn[0] == [[4.0, pytest.approx(0.21)], [8.0, pytest.approx(0.31)]]
    figure.draw_without_rendering()


def test_one_seed_has_no_bars_but_is_drawn(here: Path) -> None:
    configs = {"a": {"method": {"name": "x", "size": 1}}}
    found = sweep(made_run(here / "r", {"a": scored(1.0, 1.0)}, seeds=1, configs=configs), "rounds")
    assert np.isnan(found.points[0].standard_error)
    draw_sweep(found).draw_without_rendering()


@pytest.mark.parametrize(
    ("x", "options", "words"),
    [
        ("method.sise", {}, "no run has the key 'method.sise'; did you mean 'method.size'"),
        ("method.size", {"series": "method.nam"}, "no run has the key 'method.nam'"),
        ("method.kind", {}, "no variant has a score and a number as method.kind"),
        ("method.size", {"metric": "best_noiseless"}, "no variant has a score"),
        ("method.size", {"rounds": (2, 9)}, "expected some of 0 to 4, got 2 to 9"),
    ],
)
def test_mistakes(run: Run, x: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        sweep(run, x, **options)
