"""What a comparison over problems has found: as records, and as data frames."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

import pandas as pd

from fedsim.results.differences import notes_html, with_notes
from fedsim.results.judging import Duel, Overall
from fedsim.results.metrics import TIMES, Metric, sign_of
from fedsim.results.published import Beside

Place = tuple[str, str]
"""A problem and a method."""


@dataclass(frozen=True)
class Cell:
    """A method on a problem.

    Attributes:
        problem: the problem.
        method: the method.
        direction: ``maximize`` or ``minimize``, of the problem's scenario.
        rounds: the first and last round of the mean.
        seeds: how many seeds have all of the rounds.
        score: mean over seeds.
        score_error: its standard error over seeds; NaN for one seed.
        rank: among all methods, 1 is the best, equal ones share their mean rank; NaN if some
            method has no score.
        duel: against the baseline; None for the baseline, and without a score of both.
    """

    problem: str
    method: str
    direction: str
    rounds: tuple[int, int]
    seeds: int
    score: float
    score_error: float
    rank: float
    duel: Duel | None


@dataclass(frozen=True, repr=False)
class ProblemComparison:
    """Methods compared with a baseline over problems.

    Attributes:
        baseline: the method that the others are compared with.
        metric: what is compared.
        rounds: the rounds that were asked for, or None for each problem's last.
        keys: the configuration keys that tell problems apart.
        problems: the problems, in order.
        methods: the methods, in order.
        cells: by problem and method.
        overall: one for each method, in order.
        notes: what a reader must know.
        beside: a published table beside this one, or None.
    """

    baseline: str
    metric: Metric
    rounds: tuple[int, int] | None
    keys: tuple[str, ...]
    problems: tuple[str, ...]
    methods: tuple[str, ...]
    cells: Mapping[Place, Cell]
    overall: tuple[Overall, ...]
    notes: tuple[str, ...]
    beside: Beside | None = None

    @property
    def title(self) -> str:
        """What the scores are."""
        if self.metric.name in TIMES:
            return self.metric.words
        if self.rounds is None:
            return f"{self.metric.words}, after the last round"
        first, last = self.rounds
        return f"{self.metric.words}, " + (
            f"mean of rounds {first} to {last}" if first < last else f"after round {last}"
        )

    def frame(self) -> pd.DataFrame:
        """Return one row for each problem and method; with ``published`` beside a table.

        Methods that are only published have rows, too.
        """
        found = pd.DataFrame([self._row(place) for place in self._places()])
        return found if self.beside else found.drop(columns="published")

    def overall_frame(self) -> pd.DataFrame:
        """Return one row for each method; what is not known is NaN."""
        return pd.DataFrame([_overall_row(one) for one in self.overall])

    def csv(self) -> str:
        """Return both frames as one CSV table: rows without a problem are over all of them."""
        whole = self.overall_frame().rename(columns={"mean_rank": "rank"})
        return str(
            pd.concat([self.frame().convert_dtypes(), whole.convert_dtypes()]).to_csv(index=False)
        )

    def better_than_published(self, method: str) -> tuple[int, int]:
        """Return on how many problems a method is better than published, and of how many."""
        published = self.beside.values if self.beside else {}
        pairs = [
            (one.score - published[place], one.direction)
            for place, one in self.cells.items()
            if place[1] == method and place in published
        ]
        column = self.metric.column
        return sum(sign_of(column, way) * gain > 0 for gain, way in pairs), len(pairs)

    def _places(self) -> list[Place]:
        published = self.beside.values if self.beside else {}
        methods = dict.fromkeys((*self.methods, *(self.beside.methods if self.beside else ())))
        places = [(problem, method) for problem in self.problems for method in methods]
        return [place for place in places if place in self.cells or place in published]

    def _row(self, place: Place) -> dict[str, object]:
        one = self.cells.get(place)
        duel = one.duel if one else None
        return {
            "problem": place[0],
            "method": place[1],
            "direction": one.direction if one else "",
            "first_round": one.rounds[0] if one else math.nan,
            "last_round": one.rounds[1] if one else math.nan,
            "seeds": one.seeds if one else 0,
            self.metric.column: one.score if one else math.nan,
            "standard_error": one.score_error if one else math.nan,
            "published": self.beside.values.get(place, math.nan) if self.beside else math.nan,
            "rank": one.rank if one else math.nan,
            "gain": duel.gain if duel else math.nan,
            "p_value": duel.p_value if duel else math.nan,
            "p_corrected": duel.p_corrected if duel else math.nan,
            "rank_biserial": duel.rank_biserial if duel else math.nan,
            "mark": duel.mark if duel else "",
        }

    def __repr__(self) -> str:
        text = f"{self.title}\n{self.overall_frame().to_string(index=False)}"
        return with_notes(text, self.notes)

    def _repr_html_(self) -> str:
        tables = self.frame().to_html(index=False) + self.overall_frame().to_html(index=False)
        return f"<p>{escape(self.title)}</p>{tables}{notes_html(self.notes)}"


def _overall_row(one: Overall) -> dict[str, object]:
    """Return a method's row of a table; NaN and empty for the baseline."""
    test = one.test
    counts = (test.better, test.equal, test.worse) if test else (math.nan,) * 3
    marks = (one.wins, one.ties, one.losses) if test else (math.nan,) * 3
    return {
        "method": one.method,
        "mean_rank": one.mean_rank,
        **dict(zip(("wins", "ties", "losses"), marks, strict=True)),
        **dict(zip(("better", "equal", "worse"), counts, strict=True)),
        "statistic": test.statistic if test else math.nan,
        "p_value": test.p_value if test else math.nan,
        "p_corrected": one.p_corrected,
        "paper_effect_size": test.paper_effect_size if test else math.nan,
        "rank_biserial": test.rank_biserial if test else math.nan,
        "verdict": one.verdict,
    }
