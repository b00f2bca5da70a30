"""A figure's panels: how many in a row, and how large."""

from __future__ import annotations

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure

SINGLE = (7.0, 4.2)
"""Inches of a picture with one panel."""

FACET = (4.2, 3.4)
"""Inches of each of several panels."""

COLUMNS = 3
"""The most panels in a row."""

LEGEND_ROWS = 24
"""The most rows of a legend beside the panels."""


def panel_grid(
    count: int,
    *,
    beside: float,
    title: str | None,
    size: tuple[float, float] | None,
    share_x: bool = False,
    share_y: bool = False,
) -> tuple[Figure, list[Axes]]:
    """Return a figure and the axes of its panels, row by row.

    Args:
        count: how many panels, at least 1.
        beside: inches for what stands beside them.
        title: above them.
        size: width and height in inches; None: as it takes.
        share_x: whether all have the same x axis.
        share_y: whether all have the same y axis.
    """
    columns = min(count, COLUMNS)
    rows = math.ceil(count / columns)
    width, height = (FACET[0] * columns, FACET[1] * rows) if count > 1 else SINGLE
    figure = Figure(figsize=size or (width + beside, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharex=share_x, sharey=share_y).ravel()
    for unused in axes[count:]:
        unused.set_visible(False)
    if title:
        figure.suptitle(title).set_parse_math(False)
    return figure, list(axes[:count])
