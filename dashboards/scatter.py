"""Pictures of the points that runs have explored, as in FBO-FedGP, Fig. 8."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedsim.arguments import INCHES, TEXT, check_arguments
from fedsim.dashboards.plots import COLUMNS, FACET, LEGEND_ROWS, SINGLE, Picture
from fedsim.dashboards.points import Explored, Pair, PointsChart, explored
from fedsim.protocol import AgentId
from fedsim.results.analysis import AnyRun
from fedsim.space import Array, Choice, Parameter, Value

AnyAxis = Parameter | Choice


def plot_points(
    *runs: AnyRun | Sequence[AnyRun],
    out: str | Path | None = None,
    parameters: Sequence[str] = (),
    agent: AgentId | None = None,
    seed: int | None = None,
    labels: Sequence[str] | None = None,
    per_agent: bool = False,
    title: str | None = None,
    size: tuple[float, float] | None = None,
) -> Picture[PointsChart]:
    """Draw the points that runs have explored, with the best of them and the optimum, if known.

    Args:
        runs: runs, their folders, or lists of them; they may be unfinished.
        out: where to save it; its extension sets the format. None: nowhere.
        parameters: the two parameters; by default the first two.
        agent: only this agent's points; None: all agents'.
        seed: the seed; by default each variant's first.
        labels: what the runs are called, one for each.
        per_agent: whether colours tell agents apart; by default they tell rounds.
        title: above the picture.
        size: width and height in inches.

    Raises:
        ConfigError: if an argument is wrong, or there is no point.
        RunFolderError: if a run has nothing to show, or the picture cannot be written.
    """
    drawn = explored(*runs, parameters=parameters, agent=agent, seed=seed, labels=labels)
    picture = Picture(drawn, draw_points(drawn, per_agent=per_agent, title=title, size=size))
    return picture if out is None else Picture(drawn, picture.figure, picture.save(out))


def draw_points(
    drawn: PointsChart,
    *,
    per_agent: bool = False,
    title: str | None = None,
    size: tuple[float, float] | None = None,
) -> Figure:
    """Return the figure of a chart; arguments as in :func:`plot_points`."""
    check_arguments(title=(title, TEXT), size=(size, INCHES))
    count = len(drawn.panels)
    columns = min(count, COLUMNS)
    rows = math.ceil(count / columns)
    default = (FACET[0] * columns + 1.0, FACET[1] * rows) if count > 1 else SINGLE
    figure = Figure(figsize=size or default, layout="constrained")
    alike = len({panel.axes for panel in drawn.panels}) == 1
    grid = figure.subplots(rows, columns, squeeze=False, sharex=alike, sharey=alike).ravel()
    rounds = Normalize(0, max(1, max(max(panel.rounds) for panel in drawn.panels)))
    for axes, panel in zip(grid, drawn.panels, strict=False):
        _draw_panel(axes, panel, None if per_agent else rounds)
        if not alike:
            axes.set_xlabel(panel.axes[0].name).set_parse_math(False)
            axes.set_ylabel(panel.axes[1].name).set_parse_math(False)
        if count > 1:
            axes.set_title(panel.label, fontsize="medium").set_parse_math(False)
    for axes in grid[count:]:
        axes.set_visible(False)
    if alike:
        across, up = drawn.panels[0].axes
        figure.supxlabel(across.name, fontsize="medium").set_parse_math(False)
        figure.supylabel(up.name, fontsize="medium").set_parse_math(False)
    if per_agent:
        _name_agents(figure, drawn)
    else:
        bar = figure.colorbar(ScalarMappable(rounds, "viridis"), ax=list(grid[:count]))
        bar.set_label("round (0 is the initial design)")
        bar.ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    _name_marks(figure, drawn)
    if title:
        figure.suptitle(title).set_parse_math(False)
    return figure


def _draw_panel(axes: Axes, panel: Explored, rounds: Normalize | None) -> None:
    """Draw a panel's points, coloured by round, or by agent if there is no scale of rounds."""
    x, y = (_places(axis, own) for axis, own in zip(panel.axes, (panel.x, panel.y), strict=True))
    style: dict[str, Any] = {"s": 14, "alpha": 0.8, "linewidths": 0}
    if rounds is None:
        colours = [_colour(agent) for agent in panel.agents]
        axes.scatter(x, y, c=colours, **style)
    else:
        axes.scatter(x, y, c=panel.rounds, cmap="viridis", norm=rounds, **style)
    _mark(axes, panel, panel.optima, "*")
    _mark(axes, panel, [panel.best], "o")
    for axis, limits, ticks, scale in (
        (panel.axes[0], axes.set_xlim, axes.set_xticks, axes.set_xscale),
        (panel.axes[1], axes.set_ylim, axes.set_yticks, axes.set_yscale),
    ):
        if isinstance(axis, Choice):
            ticks(range(len(axis.options)), [str(option) for option in axis.options])
            limits(-0.5, len(axis.options) - 0.5)
            continue
        scale(axis.scale)
        limits(axis.lower, axis.upper)


def _mark(axes: Axes, panel: Explored, points: Sequence[Pair], marker: str) -> None:
    x, y = (_places(axis, [p[i] for p in points]) for i, axis in enumerate(panel.axes))
    size = 180 if marker == "*" else 70
    colour = "red" if marker == "*" else "none"
    axes.scatter(x, y, marker=marker, s=size, c=colour, edgecolors="black", clip_on=False, zorder=3)


def _places(axis: AnyAxis, values: Sequence[Value]) -> Array:
    """Return where values lie on an axis: options are numbered."""
    if isinstance(axis, Choice):
        texts = [str(option) for option in axis.options]
        return np.array([texts.index(str(value)) for value in values], dtype=float)
    return np.array(values, dtype=float)


def _colour(agent: AgentId) -> tuple[float, float, float]:
    colours = matplotlib.colormaps["tab20"].colors  # type: ignore[attr-defined]
    red, green, blue = colours[agent % len(colours)]
    return red, green, blue


def _name_agents(figure: Figure, drawn: PointsChart) -> None:
    agents = sorted({agent for panel in drawn.panels for agent in panel.agents})
    shown = agents[: 2 * LEGEND_ROWS]
    handles = [
        figure.axes[0].scatter([], [], color=_colour(agent), s=14, label=f"agent {agent}")
        for agent in shown
    ]
    more = f"and {len(agents) - len(shown)} more agents" if len(agents) > len(shown) else None
    figure.legend(
        handles=handles,
        loc="outside right upper",
        ncols=math.ceil(len(shown) / LEGEND_ROWS),
        title=more,
        frameon=False,
        fontsize="small",
    )


def _name_marks(figure: Figure, drawn: PointsChart) -> None:
    best = figure.axes[0].scatter([], [], marker="o", s=70, c="none", edgecolors="black")
    handles, names = [best], ["best point explored"]
    if any(panel.optima for panel in drawn.panels):
        star = figure.axes[0].scatter([], [], marker="*", s=180, c="red", edgecolors="black")
        handles, names = [*handles, star], [*names, "optimum"]
    figure.legend(handles, names, loc="outside lower right", ncols=2, frameon=False)
