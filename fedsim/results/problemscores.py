"""The scores of methods on problems, and how they compare with a baseline's.

On one problem, a method and the baseline are compared over seeds, paired where both have the same
scenario. Over problems, their means over seeds are compared: N problems are N pairs. Both by
Wilcoxon's signed-rank test, with Holm's correction for the number of comparisons: with the baseline
over problems, and of each method with the baseline on its problems.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from fedsim.errors import ConfigError, nearest, of_option
from fedsim.means import mean, standard_error
from fedsim.results.design import Design
from fedsim.results.differences import LEVEL
from fedsim.results.entrants import Entrant
from fedsim.results.judging import Duel, Overall, duel, judged, problem_ranks
from fedsim.results.metrics import Metric, seed_scores, sign_of
from fedsim.results.problemtable import Cell, Place, ProblemComparison
from fedsim.results.ranks import fewest_seeds
from fedsim.results.significance import holm
from fedsim.space import Array


def compared(
    design: Design,
    metric: Metric,
    rounds: tuple[int, int] | None,
    baseline: str | None,
    missing: Sequence[str],
) -> ProblemComparison:
    """Compare the methods of a table.

    Args:
        design: the table.
        metric: what is compared.
        rounds: the first and last round to average over; None: on each problem the last round that
            all of its methods have.
        baseline: the method to compare with; None: the first.
        missing: notes on seeds that are incomplete.

    Raises:
        ConfigError: if the baseline is unknown, some method does not have the rounds, or none has
            the metric.
    """
    against = design.methods[0] if baseline is None else baseline
    if against not in design.methods:
        raise of_option(
            "--baseline",
            ConfigError(f"baseline: unknown method {against!r}{nearest(against, design.methods)}"),
        )
    metric.check_rounds(rounds)
    spans = {problem: _span(design, problem, rounds) for problem in design.problems}
    values = {
        place: _values(own, metric.column, spans[place[0]]) for place, own in design.cells.items()
    }
    values = {place: own for place, own in values.items() if len(own)}
    if not values:
        raise of_option("--metric", ConfigError(f"metric: no variant has {metric.column}"))
    directions = {problem: _direction(design, problem) for problem in design.problems}
    signs = {problem: sign_of(metric.column, one) for problem, one in directions.items()}
    duels = _duels(design, values, signs, against)
    gains = np.array(
        [
            [
                signs[p] * mean(_array(values[p, m])) if (p, m) in values else math.nan
                for m in design.methods
            ]
            for p in design.problems
        ]
    )
    ranks = problem_ranks(gains)
    cells = {
        (p, m): Cell(
            problem=p,
            method=m,
            direction=directions[p],
            rounds=spans[p],
            seeds=len(values[p, m]),
            score=mean(_array(values[p, m])),
            score_error=standard_error(_array(values[p, m])),
            rank=float(ranks[i, j]),
            duel=duels.get((p, m)),
        )
        for i, p in enumerate(design.problems)
        for j, m in enumerate(design.methods)
        if (p, m) in values
    }
    overall = [_marked(one, duels) for one in judged(gains, design.methods, against)]
    notes = [*missing, *design.notes, *_notes(design, metric, spans, values, duels, rounds)]
    return ProblemComparison(
        against,
        metric,
        rounds,
        design.keys,
        design.problems,
        design.methods,
        cells,
        tuple(overall),
        tuple(notes),
    )


def _marked(one: Overall, duels: Mapping[Place, Duel]) -> Overall:
    """Return a method's judgement with its counts of wins, ties and losses."""
    marks = Counter(found.mark for (_, method), found in duels.items() if method == one.method)
    return replace(one, wins=marks["win"], ties=marks["tie"], losses=marks["loss"])


def _span(design: Design, problem: str, rounds: tuple[int, int] | None) -> tuple[int, int]:
    """Return the first and last round to average over on a problem."""
    last = min(one.last for one in _on(design, problem))
    if rounds is None:
        return last, last
    if not 0 <= rounds[0] <= min(rounds[1], last):
        raise of_option(
            "--rounds",
            ConfigError(
                f"rounds: expected some of 0 to {last}, the rounds that all methods have on "
                f"{problem}, got {rounds[0]} to {rounds[1]}"
            ),
        )
    return rounds[0], min(rounds[1], last)


def _on(design: Design, problem: str) -> list[Entrant]:
    return [one for (p, _), own in design.cells.items() if p == problem for one in own]


def _direction(design: Design, problem: str) -> str:
    found = {one.direction: one.label for one in _on(design, problem)}
    if len(found) > 1:
        labels = " and ".join(found.values())
        raise ConfigError(
            f"compare: {labels} are one problem, but one is to maximize, one to minimize"
        )
    return next(iter(found))


def _values(own: Sequence[Entrant], column: str, span: tuple[int, int]) -> pd.Series[float]:
    """Return a method's known values on a problem, by seed."""
    parts = [seed_scores(one, [column], *span)[column].dropna() for one in own]
    whole: pd.Series[float] = pd.concat(parts).sort_index()  # sums are the same in any order
    return whole


def _array(values: pd.Series[float]) -> Array:
    return np.asarray(values, dtype=np.float64)


def _duels(
    design: Design,
    values: Mapping[Place, pd.Series[float]],
    signs: Mapping[str, float],
    baseline: str,
) -> dict[Place, Duel]:
    found: dict[Place, Duel] = {}
    for method in design.methods:
        own = {
            (p, method): duel(
                signs[p] * values[p, method],
                signs[p] * values[p, baseline],
                paired=_paired(design, p, method, baseline),
            )
            for p in design.problems
            if method != baseline and {(p, method), (p, baseline)} <= values.keys()
        }
        corrected = holm([one.p_value for one in own.values()])
        for (place, one), p_value in zip(own.items(), corrected, strict=True):
            found[place] = replace(one, p_corrected=p_value)
    return found


def _paired(design: Design, problem: str, method: str, baseline: str) -> bool:
    both = [one for name in (method, baseline) for one in design.cells[problem, name]]
    scenarios = {one.scenario for one in both}
    return len(scenarios) == 1 and None not in scenarios


def _notes(
    design: Design,
    metric: Metric,
    spans: Mapping[str, tuple[int, int]],
    values: Mapping[Place, pd.Series[float]],
    duels: Mapping[Place, Duel],
    rounds: tuple[int, int] | None,
) -> list[str]:
    notes: list[str] = []
    for (problem, method), own in design.cells.items():
        last = spans[problem][1]
        notes += filter(None, (one.left_out(last) for one in own))
        if (problem, method) not in values:
            notes.append(f"{method} has no {metric.column} on {problem}")
        longest = max(one.last for one in own)
        if rounds is None and longest > last:
            notes.append(
                f"{problem}: compared at round {last}, which all methods have; {method} has "
                f"{longest}"
            )
    for problem in design.problems:
        lacking = [m for m in design.methods if (problem, m) not in values]
        if lacking:
            notes.append(f"{problem} is not ranked: no score of {', '.join(lacking)}")
    unpaired = sorted({p for (p, _), duel in duels.items() if not duel.paired})
    if unpaired:
        notes.append(
            f"not paired on seeds (other scenarios; Mann and Whitney's test): {', '.join(unpaired)}"
        )
    most, needed = max(len(own) for own in values.values()), fewest_seeds(LEVEL)
    if most < needed and any(duel.paired for duel in duels.values()):
        notes.append(
            f"every problem is a tie: with {most} seeds no difference can have p < {LEVEL}; it "
            f"takes {needed} seeds"
        )
    return notes
