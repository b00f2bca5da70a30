from pathlib import Path

import matplotlib.image
import numpy as np
import pandas as pd
import pytest

from fedsim.dashboards.plots import _curves, plot_runs
from fedsim.errors import ConfigError, RunFolderError
from fedsim.results.analysis import Run


class FakeRun(Run):
    """A run with given rounds."""

    table: pd.DataFrame

    @property
    def rounds(self) -> pd.DataFrame:
        return self.table


def fake(seeds: int, rounds: int, column: str = "mean_simple_regret", name: str = "a-1") -> Run:
    run = FakeRun(Path(name), ())
    rows = [
        {"variant": variant, "seed": seed, "round": t, column: base + 0.1 * seed - 0.01 * t}
        for variant, base in (("TS", 1.0), ("FTS", 2.0))
        for seed in range(seeds)
        for t in range(rounds)
    ]
    object.__setattr__(run, "table", pd.DataFrame(rows))
    return run


def test_curves_are_means_and_standard_errors_over_seeds() -> None:
    run = fake(seeds=3, rounds=2)
    curves = dict(_curves([(run, run.rounds)], "mean_simple_regret"))
    assert list(curves) == ["TS, 3 seeds", "FTS, 3 seeds"]
    assert curves["FTS, 3 seeds"]["mean"].tolist() == pytest.approx([2.1, 2.09])
    assert curves["FTS, 3 seeds"]["sem"].tolist() == pytest.approx([0.1 / np.sqrt(3)] * 2)


def test_overlaid_runs_are_told_apart() -> None:
    first, second = fake(1, 3, name="a-1"), fake(1, 3, name="a-2")
    labels = [
        label
        for label, _ in _curves([(r, r.rounds) for r in (first, second)], "mean_simple_regret")
    ]
    assert labels == ["TS (a-1)", "FTS (a-1)", "TS (a-2)", "FTS (a-2)"]


@pytest.mark.parametrize(("seeds", "rounds"), [(1, 1), (1, 40), (4, 40), (2, 10_000)])
def test_pictures_are_drawn(tmp_path: Path, seeds: int, rounds: int) -> None:
    path = plot_runs([fake(seeds, rounds)], tmp_path / "out.png")
    pixels = matplotlib.image.imread(path)[..., :3]
    assert pixels.shape[1] == 1050
    colours = np.unique(np.rint(255 * pixels) @ np.array([1, 256, 256**2]))
    assert len(colours) > 20  # lines, bands and text, not an empty frame


@pytest.mark.parametrize(
    ("columns", "drawn", "left_out"),
    [
        (["mean_best_observed"], "best observed value so far", "simple regret"),
        (["mean_simple_regret"], "simple regret", "best observed value so far"),
        (
            ["mean_simple_regret", "mean_best_observed"],
            "best observed value so far",
            "simple regret",
        ),
    ],
)
def test_values_are_drawn_where_there_is_no_regret(
    tmp_path: Path, columns: list[str], drawn: str, left_out: str
) -> None:
    runs = [fake(1, 5, column=column) for column in columns]
    for run in runs:
        if "mean_best_observed" not in run.rounds:
            run.rounds["mean_best_observed"] = 0.5  # every run has one
    picture = plot_runs(runs, tmp_path / "out.svg").read_text()
    assert f"<!-- {drawn}, mean of agents -->" in picture
    assert left_out not in picture


def test_unknown_formats_and_unwritable_places_are_explained(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--out.*supported formats"):
        plot_runs([fake(1, 5)], tmp_path / "out.xyz")
    with pytest.raises(RunFolderError, match="cannot be written"):
        plot_runs([fake(1, 5)], tmp_path / "nowhere" / "out.png")
