"""Pictures of runs."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest

from fedsim.dashboards.curves import Chart, Curve, Panel
from fedsim.dashboards.plots import Picture, draw, plot
from fedsim.errors import ConfigError, RunFolderError
from tests.util.runs import made_run


def made(
    labels: Sequence[str], panels: int = 1, points: int = 5, unit: float = 1.0, seeds: int = 2
) -> Chart:
    """Return a chart with the same curves in every panel, but with other labels."""

    def curve(label: str, number: int) -> Curve:
        y = tuple(unit * (1 + number + t / points) for t in range(points))
        error = tuple(0.1 * unit for _ in y) if seeds > 1 else None
        return Curve(label, label, "runs/a-1", seeds, tuple(range(points)), y, error)

    found = [
        Panel(
            f"$z$ = {k}" if panels > 1 else "",
            "maximize",
            tuple(curve(f"{label}{k or ''}", i) for i, label in enumerate(labels)),
        )
        for k in range(panels)
    ]
    return Chart("mean_simple_regret", "simple regret, mean of agents", "round", tuple(found), ())


@pytest.mark.parametrize(("seeds", "points"), [(1, 1), (1, 40), (4, 40), (2, 10_000)])
def test_pictures_are_drawn(tmp_path: Path, seeds: int, points: int) -> None:
    drawn = made(["TS", "FTS"], points=points, seeds=seeds)
    path = Picture(drawn, draw(drawn)).save(tmp_path / "out.png")
    pixels = matplotlib.image.imread(path)[..., :3]
    assert pixels.shape[:2] == (630, 1050)
    colours = np.unique(np.rint(255 * pixels) @ np.array([1, 256, 256**2]))
    assert len(colours) > 20  # lines, bands and text, not an empty frame


def legend_of(figure: Any) -> list[str]:
    legends = figure.legends or [axes.get_legend() for axes in figure.axes if axes.get_legend()]
    (legend,) = legends
    return [text.get_text() for text in legend.get_texts()]


LABELS = ["_base", "cost $5 and $6", "$\\foo$", "<b>", "a" * 100]


def test_labels_are_shown_as_they_are_written(tmp_path: Path) -> None:
    """matplotlib would hide the first, and read the second and the third as mathematics."""
    drawn = made(LABELS)
    figure = draw(drawn, title="$\\foo$ _title")
    assert legend_of(figure) == [*LABELS[:4], "a" * 21 + "…" + "a" * 42]
    picture = Picture(drawn, figure).save(tmp_path / "out.svg").read_text("utf-8")
    for label in ("_base", "cost $5 and $6", "$\\foo$ _title"):
        assert f"<!-- {label} -->" in picture


def test_titles_of_panels_are_shown_as_they_are_written(tmp_path: Path) -> None:
    drawn = made(["a"], panels=2)
    assert "<!-- $z$ = 1 -->" in Picture(drawn, draw(drawn)).save(tmp_path / "o.svg").read_text()


def test_letters_that_the_font_lacks_do_not_warn(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    drawn = made(["联邦 🙂"])
    Picture(drawn, draw(drawn)).save(tmp_path / "out.png")
    assert len(recwarn) == 0


def test_many_curves_are_told_apart_and_named_beside_the_axes() -> None:
    drawn = made([f"v{i}" for i in range(60)])
    figure = draw(drawn)
    lines = figure.axes[0].get_lines()
    styles = {(str(x.get_color()), x.get_linestyle(), str(x.get_marker())) for x in lines}
    assert len(styles) == 60
    assert len({x.get_linestyle() for x in lines[:40]}) == 4
    assert len(legend_of(figure)) == 60
    figure.savefig(io.BytesIO(), dpi=figure.dpi)  # lays it out
    (legend,) = figure.legends
    assert legend.get_window_extent().x0 >= figure.axes[0].get_window_extent().x1


def test_few_curves_are_named_inside() -> None:
    assert draw(made(["a", "b"])).legends == []


def test_panels_share_their_scale_and_legend() -> None:
    figure = draw(made(["a", "b"], panels=5))
    assert sum(axes.get_visible() for axes in figure.axes) == 5
    assert len({axes.get_ylim() for axes in figure.axes}) == 1
    assert len(legend_of(figure)) == 10
    assert figure.get_supylabel().startswith("simple regret")


def test_options_of_the_picture(tmp_path: Path) -> None:
    figure = draw(made(["a"]), log=True, size=(3.0, 2.0), title="My title")
    assert figure.axes[0].get_yscale() == "log"
    assert tuple(figure.get_size_inches()) == (3.0, 2.0)
    assert figure.get_suptitle() == "My title"
    with pytest.raises(ConfigError, match=r"^log: expected some positive values"):
        draw(made(["a"], unit=-1.0), log=True)


@pytest.mark.parametrize("unit", [1e-300, 1e-150, 1e150, 5e307])
@pytest.mark.parametrize("log", [False, True])
def test_the_largest_and_smallest_numbers_are_drawn(
    tmp_path: Path, unit: float, log: bool, recwarn: pytest.WarningsRecorder
) -> None:
    drawn = made(["a"], unit=unit)
    figure = draw(drawn, log=log)
    Picture(drawn, figure).save(tmp_path / "out.png")
    assert len(recwarn) == 0
    (line,) = figure.axes[0].get_lines()
    y = np.asarray(line.get_ydata(), dtype=float)
    low, high = figure.axes[0].get_ylim()
    assert (low < y).all() and (y < high).all()  # noqa: PT018
    assert y.max() - y.min() > 0.1 * (high - low) or log


def test_unknown_formats_and_unwritable_places_are_explained(tmp_path: Path) -> None:
    drawn = made(["a"])
    picture = Picture(drawn, draw(drawn))
    with pytest.raises(ConfigError, match=r"^path: .*supported formats"):
        picture.save(tmp_path / "out.xyz")
    with pytest.raises(RunFolderError, match="cannot be written"):
        picture.save(tmp_path / "nowhere" / "out.png")
    with pytest.raises(ConfigError, match=r"expected a file, but .* is a folder; .*fedsim\.png"):
        picture.save(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert not tmp_path.with_suffix(".png").exists()
    with pytest.raises(ConfigError, match="give the whole path"):
        picture.save("~nobody-of-this-name/out.png")


def test_a_name_without_an_extension_gets_one(tmp_path: Path) -> None:
    drawn = made(["a"])
    saved = Picture(drawn, draw(drawn)).save(tmp_path / "out")
    assert saved == tmp_path / "out.png"
    assert saved.read_bytes().startswith(b"\x89PNG")


def test_from_runs_to_a_picture(tmp_path: Path) -> None:
    run = made_run(tmp_path / "a-1", {"TS": lambda seed, t: {"mean_simple_regret": 1.0 / (1 + t)}})
    shown = plot(run)
    assert shown.path is None
    assert repr(shown) == "Picture(path=None)"
    assert (
        plot(run, str(run.folder), labels=["a", "b"])
        .chart.panels[0]
        .curves[1]
        .label.startswith("b,")
    )
    assert shown._repr_png_().startswith(b"\x89PNG")
    saved = plot([str(run.folder)], out=tmp_path / "out.pdf", labels=["mine"], title="t")
    assert saved.path == tmp_path / "out.pdf"
    assert (tmp_path / "out.pdf").read_bytes().startswith(b"%PDF")
    assert saved.chart.panels[0].curves[0].label == "mine, 2 seeds"
