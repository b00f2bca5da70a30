"""Pictures of runs: regret or best values against rounds, evaluations or ε."""

from __future__ import annotations

import io
import itertools
import math
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from fedsim.arguments import INCHES, TEXT, check_arguments
from fedsim.dashboards.agents import facet_chart
from fedsim.dashboards.curves import Axis, Chart, Panel
from fedsim.dashboards.grid import LEGEND_ROWS, panel_grid
from fedsim.dashboards.points import PointsChart
from fedsim.errors import ConfigError, of_option
from fedsim.files import user_path
from fedsim.protocol import AgentId
from fedsim.results.analysis import AnyRun
from fedsim.results.naming import shortened
from fedsim.space import Array
from fedsim.systemerrors import cannot_write

INSIDE = 6
"""Up to so many curves have their legend inside the axes."""

LINES = ("-", "--", "-.", ":")
MARKERS = ("", "o", "s", "^", "x")
LONGEST = 64
"""Characters of a label in a legend."""


Drawn = TypeVar("Drawn", Chart, PointsChart)


@dataclass(frozen=True)
class Picture(Generic[Drawn]):
    """A picture, which notebooks show.

    Attributes:
        chart: what is drawn, as data.
        figure: the matplotlib figure.
        path: where it was saved, or None.
    """

    chart: Drawn = field(repr=False)
    figure: Figure = field(repr=False)
    path: Path | None = None

    def save(self, path: str | Path) -> Path:
        """Save the picture and return its path; a name without an extension gets ``.png``.

        Raises:
            ConfigError: if matplotlib does not know the format.
            RunFolderError: if it cannot be written.
        """
        return save(self.figure, path)

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        with _quiet():
            self.figure.savefig(buffer, format="png", dpi=100)
        return buffer.getvalue()


def save(figure: Figure, path: str | Path) -> Path:
    """Save a figure and return its path; errors as in :meth:`Picture.save`."""
    target = user_path(path)
    if target.is_dir():
        words = f"path: expected a file, but {target} is a folder; give e.g. "
        raise of_option("--out", ConfigError(f"{words}{target / 'fedsim.png'}"))
    if not target.suffix:
        target = target.with_name(f"{target.name}.png")
    try:
        with _quiet():
            figure.savefig(target, dpi=150)
    except ValueError as error:
        raise of_option("--out", ConfigError(f"path: {error}")) from None
    except OSError as error:
        if target.is_file():  # what is left of it is no picture
            with suppress(OSError):
                target.unlink()
        raise cannot_write(target, error, "draw it with `fedsim plot`") from error
    return target


def plot(
    *runs: AnyRun | Sequence[AnyRun],
    out: str | Path | None = None,
    metric: str | None = None,
    x: Axis = "rounds",
    best_agent: bool = False,
    facet: str | None = None,
    agents: Sequence[AgentId] | None = None,
    labels: Sequence[str] | None = None,
    log: bool = False,
    title: str | None = None,
    size: tuple[float, float] | None = None,
) -> Picture[Chart]:
    """Draw one curve per variant: the mean over seeds, with a band of one standard error.

    Args:
        runs: runs, their folders, or lists of them; they may be unfinished.
        out: where to save it; its extension sets the format. None: nowhere.
        metric: ``simple_regret``, ``inference_regret``, ``best_observed``, ``best_noiseless``,
            ``regret`` or ``cumulative_regret``; by default the simple regret if all know it, else
            the best observed value.
        x: ``rounds``, ``evaluations`` per agent, ``epsilon``, the privacy loss so far, or
            ``bytes``, what an agent sent and received so far.
        best_agent: the best agent's value instead of the mean over agents.
        facet: a configuration key, such as ``scenario.agents``: one panel for each of its values;
            or ``agent``: one panel for each agent, with its own score.
        agents: with ``facet="agent"``, whose panels; by default the first 12.
        labels: what the runs are called, one for each.
        log: whether values are on a logarithmic scale.
        title: above the picture.
        size: width and height in inches.

    Raises:
        ConfigError: if an argument is wrong, or no variant has what is asked for.
        RunFolderError: if a run has nothing to show, or the picture cannot be written.
    """
    asked: dict[str, Any] = {"metric": metric, "x": x, "best_agent": best_agent}
    drawn = facet_chart(*runs, **asked, facet=facet, agents=agents, labels=labels)
    picture = Picture(drawn, draw(drawn, log=log, title=title, size=size))
    return picture if out is None else Picture(drawn, picture.figure, picture.save(out))


def draw(
    drawn: Chart,
    *,
    log: bool = False,
    title: str | None = None,
    size: tuple[float, float] | None = None,
) -> Figure:
    """Return the figure of a chart; arguments and errors as in :func:`plot`."""
    check_arguments(title=(title, TEXT), size=(size, INCHES))
    count = len(drawn.panels)
    labels = list(dict.fromkeys(c.label for panel in drawn.panels for c in panel.curves))
    outside = count > 1 or len(labels) > INSIDE
    legend_columns = math.ceil(len(labels) / LEGEND_ROWS)
    figure, grid = panel_grid(
        count,
        beside=2.4 * legend_columns if outside else 0.0,
        title=title,
        size=size,
        share_y=len({panel.direction for panel in drawn.panels}) == 1,
    )
    styles = dict(zip(labels, _styles(len(labels)), strict=True))
    lines: dict[str, Line2D] = {}
    power = _power(drawn)
    for axes, panel in zip(grid, drawn.panels, strict=True):
        lines |= _draw_panel(axes, panel, styles, power, bold=len(labels) <= INSIDE)
        _finish_axes(axes, panel, drawn, log=log)
    words = f"{drawn.y_label}, in 1e{power}" if power else drawn.y_label
    if count == 1:
        grid[0].set_xlabel(drawn.x_label)
        grid[0].set_ylabel(words)
    else:
        figure.supxlabel(drawn.x_label, fontsize="medium")
        figure.supylabel(words.replace(", ", ",\n"), fontsize="medium")
    _legend(figure, grid[0], lines, legend_columns if outside else 0)
    return figure


def _styles(count: int) -> list[Mapping[str, Any]]:
    """Return ``count`` styles: first the colours differ, then the lines, then the markers."""
    colours = matplotlib.colormaps["tab10"].colors  # type: ignore[attr-defined]
    styles = [
        {"color": colour, "linestyle": line, "marker": marker}
        for marker, line, colour in itertools.product(MARKERS, LINES, colours)
    ]
    return [styles[i % len(styles)] for i in range(count)]


def _draw_panel(
    axes: Axes,
    panel: Panel,
    styles: Mapping[str, Mapping[str, Any]],
    power: int,
    *,
    bold: bool,
) -> dict[str, Line2D]:
    """Draw a panel's curves in units of ``10**power`` and return their lines by label."""
    lines = {}
    for curve in panel.curves:
        every = max(1, len(curve.x) // 10)
        y = _scaled(curve.y, power)
        (line,) = axes.plot(curve.x, y, markevery=every, markersize=4, **styles[curve.label])
        lines[curve.label] = line
        if curve.standard_error is not None:
            error = _scaled(curve.standard_error, power)
            alpha, colour = 0.25 if bold else 0.1, line.get_color()
            axes.fill_between(curve.x, y - error, y + error, alpha=alpha, color=colour, lw=0)
    return lines


def _power(drawn: Chart) -> int:
    """Return the power of ten to draw values in: 0, unless matplotlib's own sums would overflow."""
    values = [abs(y) for panel in drawn.panels for curve in panel.curves for y in curve.y]
    largest = max(values)
    return 0 if largest == 0.0 or 1e-250 < largest < 1e250 else math.floor(math.log10(largest))


def _scaled(values: Sequence[float], power: int) -> Array:
    """Return values in units of ``10**power``, which itself may not be a number."""
    half = power // 2
    return np.array(values) / 10.0**half / 10.0 ** (power - half)


def _finish_axes(axes: Axes, panel: Panel, drawn: Chart, *, log: bool) -> None:
    if log:
        if not any(y > 0 for curve in panel.curves for y in curve.y):
            raise of_option(
                "--log",
                ConfigError(f"log: expected some positive values of {drawn.metric}, got none"),
            )
        axes.set_yscale("log", nonpositive="mask")
    axes.xaxis.set_major_locator(MaxNLocator(integer=drawn.x_label.startswith("round")))
    axes.set_title(panel.title, fontsize="medium").set_parse_math(False)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _legend(figure: Figure, axes: Axes, lines: Mapping[str, Line2D], columns: int) -> None:
    """Add a legend: beside the axes if ``columns`` is positive, else inside."""
    handles, names = list(lines.values()), [str(i) for i in range(len(lines))]
    legend: Legend = (
        figure.legend(handles, names, loc="outside right upper", ncols=columns, frameon=False)
        if columns
        else axes.legend(handles, names, frameon=False)
    )
    # Set afterwards: matplotlib hides labels that begin with _, and reads $ as mathematics.
    short = shortened(list(lines), LONGEST)
    for text, label in zip(legend.get_texts(), lines, strict=True):
        text.set_parse_math(False)
        text.set_text(short[label])
        text.set_fontsize("small" if columns else "medium")


def _quiet() -> warnings.catch_warnings[None]:
    """Return a context without warnings about letters that the font lacks."""
    return warnings.catch_warnings(action="ignore", category=UserWarning)
