"""Privacy against utility."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from fedsim.dashboards.tradeoff import draw_tradeoff, tradeoff
from fedsim.errors import ConfigError
from tests.util.runs import Scores, made_run


def private(epsilon: float, value: float) -> Scores:
    return lambda seed, t: {
        "mean_best_observed": value + 0.01 * seed + 0.1 * (t == 2),
        "epsilon_pld": epsilon * t / 4,
        "delta": 0.003,
    }


def alone(seed: int, t: int) -> dict[str, float]:
    return {"mean_best_observed": 0.2}


VARIANTS = {
    "TS": alone,
    "small": private(1.0, 0.3),
    "dominated": private(2.0, 0.25),
    "large": private(4.0, 0.5),
}


def test_scores_losses_and_the_front(here: Path) -> None:
    found = tradeoff(made_run(here / "a", VARIANTS))
    assert [(one.label, one.epsilon, one.best) for one in found.points] == [
        ("TS", None, False),
        ("small", 1.0, True),
        ("dominated", 2.0, False),
        ("large", 4.0, True),
    ]
    assert [one.score for one in found.points] == pytest.approx([0.2, 0.305, 0.255, 0.505])
    assert found.points[1].standard_error == pytest.approx(0.005)
    assert found.x_label == "privacy loss ε at δ = 0.003 (accountant pld)"
    assert found.y_label.endswith("after round 4")


def test_rounds_are_averaged_and_the_loss_is_that_of_the_last(here: Path) -> None:
    found = tradeoff(made_run(here / "a", VARIANTS), rounds=(1, 2))
    assert found.points[1].epsilon == 0.5
    assert found.points[1].score == pytest.approx(0.355)


def test_smaller_is_better_where_scores_are_regrets(here: Path) -> None:
    def regret(epsilon: float, value: float) -> Scores:
        return lambda seed, t: {**private(epsilon, 0.5)(seed, t), "mean_simple_regret": value}

    found = tradeoff(made_run(here / "a", {"a": regret(1.0, 0.2), "b": regret(2.0, 0.3)}))
    assert [one.best for one in found.points] == [True, False]


def test_what_cannot_be_drawn(here: Path) -> None:
    run = made_run(here / "a", {**VARIANTS, "infinite": private(math.inf, 0.5)})
    assert tradeoff(run).notes == ("infinite is left out: no score, or no finite ε",)
    with pytest.raises(ConfigError, match="no variant has a finite ε"):
        tradeoff(made_run(here / "b", {"TS": alone}))
    with pytest.raises(ConfigError, match="rounds: expected some of 0 to 4, got 2 to 9"):
        tradeoff(run, rounds=(2, 9))
    with pytest.raises(ConfigError, match="one direction"):
        tradeoff(made_run(here / "c", VARIANTS, directions={"TS": "minimize"}))


def test_the_picture_names_all_variants_and_has_published_scores(here: Path) -> None:
    found = tradeoff(made_run(here / "a", VARIANTS))
    figure = draw_tradeoff(found, published={"TS": 0.21, "large": 0.6}, title="$5")
    (legend,) = figure.legends
    assert {one.get_text() for one in legend.get_texts()} == set(VARIANTS)
    lines = [
        (np.asarray(one.get_xdata()).tolist(), np.asarray(one.get_ydata()).tolist())
        for one in figure.axes[0].get_lines()
    ]
    assert [0.21, 0.21] in [y for _, y in lines]
    assert ([4.0], [0.6]) in lines
    assert [1.0, 4.0] in [x for x, _ in lines]
