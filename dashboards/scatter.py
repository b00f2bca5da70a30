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
from fedsim.dashboards.grid import LEGEND_ROWS, panel_grid
from fedsim.dashboards.plots import Picture
from fedsim.dashboards.points import Explored, Optimum, Pair, PointsChart, explored
from fedsim.protocol import AgentId
from fedsim.results.analysis import AnyRun
from fedsim.space import Array, Choice, Parameter, Value

AnyAxis = Parameter | Choice
Colour = str | tuple[float, float, float]

_BEST: dict[str, Any] = {"marker": "o", "s": 70, "facecolors": "none", "edgecolors": "black"}
_OPTIMUM: dict[str, Any] = {"marker": "*", "s": 180, "edgecolors": "black"}


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
        agent: only this agent's points and optimum; None: all agents'.
        seed: the seed; by default each variant's first.
        labels: what the runs are called, one for each.
        per_agent: whether colours tell agents apart, and an optimum that is one agent's has its
            colour; by default they tell rounds.
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
    alike = len({panel.axes for panel in drawn.panels}) == 1
    figure, grid = panel_grid(
        count,
        beside=1.0 if count > 1 else 0.0,
        title=title,
        size=size,
        share_x=alike,
        share_y=alike,
    )
    rounds = Normalize(0, max(1, max(max(panel.rounds) for panel in drawn.panels)))
    for axes, panel in zip(grid, drawn.panels, strict=True):
        _draw_panel(axes, panel, None if per_agent else rounds)
        if not alike:
            axes.set_xlabel(panel.axes[0].name).set_parse_math(False)
            axes.set_ylabel(panel.axes[1].name).set_parse_math(False)
        if count > 1:
            axes.set_title(panel.label, fontsize="medium").set_parse_math(False)
    if alike:
        across, up = drawn.panels[0].axes
        figure.supxlabel(across.name, fontsize="medium").set_parse_math(False)
        figure.supylabel(up.name, fontsize="medium").set_parse_math(False)
    if per_agent:
        _name_agents(figure, drawn)
    else:
        bar = figure.colorbar(ScalarMappable(rounds, "viridis"), ax=grid)
        bar.set_label("round (0 is the initial design)")
        bar.ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    _name_marks(figure, drawn, per_agent=per_agent)
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
    stars = [_star(optimum, per_agent=rounds is None) for optimum in panel.optima]
    _mark(axes, panel, [optimum.point for optimum in panel.optima], **_OPTIMUM, facecolors=stars)
    _mark(axes, panel, [panel.best], **_BEST)
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


def _mark(axes: Axes, panel: Explored, points: Sequence[Pair], **style: Any) -> None:
    x, y = (_places(axis, [p[i] for p in points]) for i, axis in enumerate(panel.axes))
    axes.scatter(x, y, **style, clip_on=False, zorder=3)


def _star(optimum: Optimum, *, per_agent: bool) -> Colour:
    """Return an optimum's colour: its agent's, if agents have colours and it is one agent's."""
    return _colour(optimum.agents[0]) if per_agent and len(optimum.agents) == 1 else "red"


def _places(axis: AnyAxis, values: Sequence[Value]) -> Array:
    """Return where values lie on an axis: options are numbered."""
    if isinstance(axis, Choice):
        texts = [str(option) for option in axis.options]
        return np.array([texts.index(str(value)) for value in values], dtype=float)
    return np.array(values, dtype=float)


def _colour(agent: AgentId) -> Colour:
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


def _name_marks(figure: Figure, drawn: PointsChart, *, per_agent: bool) -> None:
    handles, names = [figure.axes[0].scatter([], [], **_BEST)], ["best point explored"]
    stars = {_star(one, per_agent=per_agent) for panel in drawn.panels for one in panel.optima}
    if stars:
        colour = stars.pop() if len(stars) == 1 else "none"
        handles.append(figure.axes[0].scatter([], [], **_OPTIMUM, facecolors=[colour]))
        names.append("optimum")
    figure.legend(handles, names, loc="outside lower right", ncols=2, frameon=False)
