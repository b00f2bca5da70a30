"""Privacy against utility: each variant's score at its privacy loss, as in DP-FTS-DE, Fig. 3."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from fedsim.arguments import INCHES, ROUNDS, TEXT, TEXTS, check_arguments
from fedsim.dashboards.grid import panel_grid
from fedsim.errors import ConfigError, of_option
from fedsim.means import mean, standard_error
from fedsim.results.analysis import AnyRun, opened
from fedsim.results.digits import significant
from fedsim.results.entrants import Entrant, entrants
from fedsim.results.metrics import chosen_metric, seed_scores, sign_of


@dataclass(frozen=True)
class Point:
    """One variant.

    Attributes:
        label: what it is called.
        epsilon: its privacy loss, mean over seeds; None if nothing private was released.
        score: mean over seeds.
        standard_error: of the score; NaN for one seed.
        best: whether no other private variant has both a smaller loss and a better score.
    """

    label: str
    epsilon: float | None
    score: float
    standard_error: float
    best: bool


@dataclass(frozen=True)
class Tradeoff:
    """All that is drawn.

    Attributes:
        metric: the column of the scores.
        y_label: the same in words.
        x_label: what the loss is.
        points: the variants, in order.
        notes: what a reader must know.
    """

    metric: str
    y_label: str
    x_label: str
    points: tuple[Point, ...]
    notes: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """Return it as a JSON record."""
        return asdict(self)


def tradeoff(
    *runs: AnyRun | Sequence[AnyRun],
    metric: str | None = None,
    rounds: tuple[int, int] | None = None,
    best_agent: bool = False,
    labels: Sequence[str] | None = None,
) -> Tradeoff:
    """Return each variant's score and privacy loss.

    Args:
        runs: runs, their folders, or lists of them.
        metric: as for curves.
        rounds: the first and last round that scores are means over; by default the last. The
            loss is that of all rounds up to the last of these.
        best_agent: the best agent's value instead of the mean over agents.
        labels: what the runs are called, one for each.

    Raises:
        ConfigError: if an argument is wrong, no variant has a finite loss, or directions differ.
        RunFolderError: if a run has nothing to show.
    """
    check_arguments(metric=(metric, TEXT), rounds=(rounds, ROUNDS), labels=(labels, TEXTS))
    found, missing = entrants(opened(*runs), labels)
    if len({one.direction for one in found}) > 1:
        raise ConfigError("tradeoff: expected scenarios of one direction; draw them one by one")
    measured = chosen_metric(metric, found, best_agent=best_agent)
    last = min(one.last for one in found)
    first, end = rounds or (last, last)
    if not 0 <= first <= end <= last:
        raise of_option(
            "--rounds", ConfigError(f"rounds: expected some of 0 to {last}, got {first} to {end}")
        )
    points, deltas = [], set()
    for one in found:
        scores = seed_scores(one, [measured.column], first, end)[measured.column].dropna()
        epsilon = _loss(one, end)
        if epsilon is not None:
            deltas |= set(one.wide("delta", end, end).to_numpy().ravel().tolist())
        values = scores.to_numpy(dtype=float)
        if len(values) and (epsilon is None or math.isfinite(epsilon)):
            points.append(Point(one.label, epsilon, mean(values), standard_error(values), False))
    if not any(one.epsilon is not None for one in points):
        raise ConfigError("tradeoff: no variant has a finite ε to draw")
    sign = sign_of(measured.column, found[0].direction)
    when = f"rounds {first} to {end}" if first < end else f"after round {end}"
    told = ", ".join(significant(one, 2) for one in sorted(deltas))
    drawn = {one.label for one in points}
    left_out = [one.label for one in found if one.label not in drawn]
    return Tradeoff(
        measured.column,
        f"{measured.words}, {when}",
        f"privacy loss ε at δ = {told} (accountant pld)",
        _marked(points, sign),
        (*missing, *(f"{one} is left out: no score, or no finite ε" for one in left_out)),
    )


def _loss(one: Entrant, last: int) -> float | None:
    """Return a variant's loss up to a round; None if it released nothing private."""
    table = one.wide("epsilon_pld", 0, last)
    if table.empty or table.isna().all(axis=None):  # a column that others of its run have
        return None
    return mean(table.ffill().iloc[-1].to_numpy(dtype=float))


def _marked(points: Sequence[Point], sign: float) -> tuple[Point, ...]:
    """Return points with those marked that no other one dominates."""

    def beaten(one: Point) -> bool:
        return any(
            other.epsilon is not None
            and one.epsilon is not None
            and (other.epsilon, -sign * other.score) != (one.epsilon, -sign * one.score)
            and other.epsilon <= one.epsilon
            and sign * other.score >= sign * one.score
            for other in points
        )

    return tuple(
        Point(
            p.label, p.epsilon, p.score, p.standard_error, p.epsilon is not None and not beaten(p)
        )
        for p in points
    )


def draw_tradeoff(
    drawn: Tradeoff,
    *,
    published: Mapping[str, float] | None = None,
    title: str | None = None,
    size: tuple[float, float] | None = None,
) -> Figure:
    """Return the figure: points with error bars, and a line through those that are not dominated.

    Variants without a loss are horizontal lines.

    Args:
        drawn: what is drawn.
        published: published scores by variant, drawn at our losses.
        title: above the picture.
        size: width and height in inches.
    """
    check_arguments(title=(title, TEXT), size=(size, INCHES))
    figure, (axes,) = panel_grid(1, beside=2.4, title=title, size=size)
    colours = matplotlib.colormaps["tab20"].colors  # type: ignore[attr-defined]
    names = []
    for i, one in enumerate(drawn.points):
        colour, theirs = colours[i % len(colours)], (published or {}).get(one.label)
        names.append(one.label)
        if one.epsilon is None:
            axes.axhline(one.score, color=colour, linestyle="--", label=str(i))
            if theirs is not None:
                axes.axhline(theirs, color=colour, linestyle=":", alpha=0.6)
            continue
        bar = None if math.isnan(one.standard_error) else one.standard_error
        axes.errorbar(
            one.epsilon, one.score, yerr=bar, fmt="o", color=colour, capsize=2, label=str(i)
        )
        if theirs is not None:
            axes.plot(one.epsilon, theirs, "x", color=colour)
    front = sorted((p.epsilon, p.score) for p in drawn.points if p.best and p.epsilon is not None)
    axes.plot(*np.array(front).T, color="grey", lw=1, zorder=0)
    axes.set_xlabel(drawn.x_label)
    axes.set_ylabel(drawn.y_label.replace(", ", ",\n", 1))
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    legend = figure.legend(loc="outside right upper", frameon=False, fontsize="small")
    # Texts by their numbers, since bars and lines are not in order; $ is no mathematics.
    for text in legend.get_texts():
        name = names[int(text.get_text())]
        text.set_parse_math(False)
        text.set_text(name)
    return figure
