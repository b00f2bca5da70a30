"""A paper's figure, drawn from a run of it, with published values beside ours."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import matplotlib.figure

from fedsim.dashboards.curves import Chart, Curve, Panel, chart
from fedsim.dashboards.plots import draw
from fedsim.dashboards.sweep import draw_sweep, sweep
from fedsim.dashboards.tradeoff import draw_tradeoff, tradeoff
from fedsim.results.analysis import Run
from fedsim.results.figures import Figure


def draw_figure(
    figure: Figure, run: Run, rounds: tuple[int, int], title: str
) -> matplotlib.figure.Figure:
    """Return a picture of a figure in the paper's form.

    Args:
        figure: the figure.
        run: a run of its configuration.
        rounds: the first and last round of the scores, for a trade-off or a sweep.
        title: above it.
    """
    theirs = {} if figure.published is None else figure.published.points
    if figure.plot.kind == "tradeoff":
        found = tradeoff(run, metric=figure.metric, rounds=rounds)
        at_end = {name: own[rounds[1]] for name, own in theirs.items() if rounds[1] in own}
        return draw_tradeoff(found, published=at_end, title=title)
    if figure.plot.x is not None:
        swept = sweep(
            run,
            figure.plot.x,
            series=figure.plot.series,
            metric=figure.metric,
            rounds=rounds,
        )
        return draw_sweep(swept, title=title)
    drawn = chart(run, metric=figure.metric, facet=figure.plot.facet)
    if figure.plot.compared:
        names = {name for one in figure.comparisons for name in (one.better, one.worse)}
        drawn = only(drawn, names)
    return draw(with_published(drawn, theirs), title=title)


def only(drawn: Chart, variants: Collection[str]) -> Chart:
    """Return a chart with the curves of some variants."""
    panels = (
        replace(panel, curves=tuple(one for one in panel.curves if one.variant in variants))
        for panel in drawn.panels
    )
    return replace(drawn, panels=tuple(panel for panel in panels if panel.curves))


def with_published(drawn: Chart, theirs: Mapping[str, Mapping[int, float]]) -> Chart:
    """Return a chart with published curves behind those of the same variants.

    Args:
        drawn: the chart, over rounds.
        theirs: values by variant and round.
    """
    panels = []
    for panel in drawn.panels:
        last = max(max(curve.x) for curve in panel.curves)
        beside = (
            _published(curve.variant, theirs[curve.variant], last)
            for curve in panel.curves
            if curve.variant in theirs
        )
        curves = (*panel.curves, *(one for one in beside if one.x))
        panels.append(Panel(panel.title, panel.direction, curves))
    return replace(drawn, panels=tuple(panels))


def _published(variant: str, values: Mapping[int, float], last: float) -> Curve:
    shown = {t: y for t, y in sorted(values.items()) if t <= last}
    x, y = tuple(float(t) for t in shown), tuple(shown.values())
    return Curve(f"{variant}, published", variant, "", 0, x, y, None)
