"""Figures with published curves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fedsim.dashboards.curves import chart
from fedsim.dashboards.reproduced import draw_figure, only, with_published
from fedsim.results.figures import Figure
from tests.util.runs import made_run


def flat(seed: int, t: int) -> dict[str, float]:
    return {"mean_best_observed": 0.5, "epsilon_pld": 1.0 * t, "delta": 0.01}


def test_published_curves_follow_ours_as_far_as_we_went(here: Path) -> None:
    drawn = chart(made_run(here / "a", {"TS": flat, "FTS": flat}))
    theirs = {"TS": {0: 0.1, 4: 0.2, 60: 0.3}, "FTS": {60: 0.3}, "other": {0: 1.0}}
    (panel,) = with_published(drawn, theirs).panels
    assert [one.label for one in panel.curves] == ["TS, 2 seeds", "FTS, 2 seeds", "TS, published"]
    assert (panel.curves[2].x, panel.curves[2].y) == ((0.0, 4.0), (0.1, 0.2))
    assert [one.variant for one in only(drawn, ["FTS"]).panels[0].curves] == ["FTS"]


def test_figures_of_all_kinds(here: Path) -> None:
    run = made_run(here / "a", {"TS": flat, "FTS": flat, "DE": flat})
    given: dict[str, Any] = {
        "title": "a",
        "claim": "b",
        "configuration": "x",
        "comparisons": [{"better": "FTS", "worse": "TS"}],
        "published": {"source": "c", "points": {"FTS": {4: 0.75}}},
    }

    def drawn(**plot: Any) -> list[list[float]]:
        figure = Figure.model_validate({**given, "plot": plot})
        picture = draw_figure(figure, run, (4, 4), "a title")
        assert picture.get_suptitle() == "a title"
        lines = picture.axes[0].get_lines()
        return [np.asarray(line.get_ydata(), dtype=float).tolist() for line in lines]

    assert len(drawn()) == 4
    assert len(drawn(compared=True)) == 3
    assert drawn(kind="sweep", x="rounds")[0] == [0.5] * 3
    for kind in ("curves", "tradeoff"):
        assert [0.75] in drawn(kind=kind)
