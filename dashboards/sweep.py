"""Scores against a value that variants differ in: a setting, or what they sent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedsim.arguments import INCHES, ROUNDS, TEXT, check_arguments
from fedsim.dashboards.grid import panel_grid
from fedsim.errors import ConfigError, nearest
from fedsim.keys import by_key
from fedsim.means import mean, standard_error
from fedsim.results.analysis import Run
from fedsim.results.entrants import Entrant, entrants
from fedsim.results.metrics import METRICS, TIMES, Metric, chosen_metric, seed_scores


@dataclass(frozen=True)
class SweepPoint:
    """One variant.

    Attributes:
        label: what it is called.
        series: the line that it is on; empty if there is only one.
        x: the swept value.
        score: mean over seeds.
        standard_error: of the score; NaN for one seed.
    """

    label: str
    series: str
    x: float
    score: float
    standard_error: float


@dataclass(frozen=True)
class Sweep:
    """All that is drawn.

    Attributes:
        metric: the column of the scores, or a time.
        y_label: the same in words.
        x_label: what the swept value is.
        points: the variants, by series in order, then by the swept value.
        notes: what a reader must know.
    """

    metric: str
    y_label: str
    x_label: str
    points: tuple[SweepPoint, ...]
    notes: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """Return it as a JSON record."""
        return asdict(self)


def sweep(
    run: Run,
    x: str,
    *,
    series: str | None = None,
    metric: str | None = None,
    rounds: tuple[int, int] | None = None,
) -> Sweep:
    """Return each variant's score at its swept value.

    Args:
        run: the run; it may be unfinished.
        x: a configuration key with numbers, or a metric of the scores' last round, such as
            ``uploaded_bytes``.
        series: a configuration key, such as ``method.name``: a line for each of its values.
        metric: as for curves, or a time.
        rounds: the first and last round that scores are means over; by default the last. Times are
            of whole runs.

    Raises:
        ConfigError: if an argument is wrong, or no variant has a score and a value.
        RunFolderError: if the run has nothing to show.
    """
    check_arguments(
        x=(x, TEXT), series=(series, TEXT), metric=(metric, TEXT), rounds=(rounds, ROUNDS)
    )
    found, missing = entrants([run], None)
    measured = chosen_metric(metric, found, best_agent=False, times=True)
    last = min(one.last for one in found)
    first, end = rounds or (last, last)
    if not 0 <= first <= end <= last:
        raise ConfigError(f"rounds: expected some of 0 to {last}, got {first} to {end}")
    groups = dict.fromkeys((one.label for one in found), "")
    if series is not None:
        groups = {name: str(value) for name, value in _settings(found, series).items()}
    places = _places(found, x, end)
    points, left_out = [], []
    for one in found:
        scores = seed_scores(one, [measured.column], first, end)[measured.column].dropna()
        at, values = places[one.label], scores.to_numpy(dtype=float)
        if math.isfinite(at) and len(values):
            error = standard_error(values)
            points.append(SweepPoint(one.label, groups[one.label], at, mean(values), error))
        else:
            left_out.append(f"{one.label} is left out: no score, or no number as {x}")
    if not points:
        raise ConfigError(f"sweep: no variant has a score and a number as {x}")
    order = list(dict.fromkeys(one.series for one in points))
    points.sort(key=lambda one: (order.index(one.series), one.x))
    when = f", rounds {first} to {end}" if first < end else f", after round {end}"
    when = "" if measured.name in TIMES else when
    told = Metric(x).words if x in METRICS else x
    return Sweep(measured.column, measured.words + when, told, tuple(points), (*missing, *left_out))


def _places(found: Sequence[Entrant], x: str, last: int) -> dict[str, float]:
    """Return each variant's swept value; NaN where it is no number."""
    if x in METRICS:
        column = Metric(x).column
        return {
            one.label: mean(seed_scores(one, [column], last, last)[column].dropna().to_numpy(float))
            for one in found
        }
    return {label: _number(value) for label, value in _settings(found, x).items()}


def _number(value: Any) -> float:
    known = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if known else math.nan


def _settings(found: Sequence[Entrant], key: str) -> dict[str, Any]:
    """Return the value of a configuration key of every variant; None where it is not set."""
    configs = {one.label: by_key(one.seeds[0].configuration()) for one in found}
    known = {name for config in configs.values() for name in config}
    if key not in known:
        raise ConfigError(f"sweep: no run has the key {key!r}{nearest(key, known)}")
    return {label: config.get(key) for label, config in configs.items()}


def draw_sweep(
    drawn: Sweep, *, title: str | None = None, size: tuple[float, float] | None = None
) -> Figure:
    """Return the figure: a line with error bars for each series.

    The swept values are on a logarithmic scale if they are positive and span a factor over 20.

    Args:
        drawn: what is drawn.
        title: above the picture.
        size: width and height in inches.
    """
    check_arguments(title=(title, TEXT), size=(size, INCHES))
    names = list(dict.fromkeys(one.series for one in drawn.points))
    figure, (axes,) = panel_grid(1, beside=0.0, title=title, size=size)
    for name in names:
        own = [one for one in drawn.points if one.series == name]
        x, y, bars = np.array([(one.x, one.score, one.standard_error) for one in own]).T
        axes.errorbar(x, y, yerr=np.nan_to_num(bars), fmt="o-", capsize=3)
    places = [one.x for one in drawn.points]
    if min(places) > 0 and max(places) > 20 * min(places):
        axes.set_xscale("log")
    if len(names) > 1:
        legend = axes.legend([str(i) for i in range(len(names))], frameon=False)
        for text, name in zip(legend.get_texts(), names, strict=True):
            text.set_parse_math(False)  # a $ is no mathematics
            text.set_text(name)
    axes.set_xlabel(drawn.x_label).set_parse_math(False)
    axes.set_ylabel(drawn.y_label.replace(", ", ",\n", 1))
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
