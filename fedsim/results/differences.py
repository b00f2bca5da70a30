"""What a comparison of variants has found: as records, in words, and as a data frame."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import pandas as pd

from fedsim.results.digits import significant, with_error
from fedsim.results.metrics import TIMES

LEVEL = 0.05
"""The probability of a false verdict, over all comparisons of a table."""


def with_notes(text: str, notes: Sequence[str]) -> str:
    """Return a text with notes below it, as the command line has them."""
    return "\n".join([text, *(f"note: {note}" for note in notes)])


def notes_html(notes: Sequence[str]) -> str:
    """Return notes for a notebook."""
    return "".join(f"<p>note: {escape(note)}</p>" for note in notes)


@dataclass(frozen=True)
class Difference:
    """How much better one variant is than another.

    Attributes:
        variant: the variant.
        baseline: the variant that it is compared with.
        metric: what is compared, such as ``mean_simple_regret``.
        gain: mean over seeds of the difference; larger is better for ``variant``.
        standard_error: of the gain, over seeds; NaN for one seed.
        p_value: of Student's test, two-sided: paired, or Welch's if not; NaN for one seed.
        p_corrected: the same, corrected for all comparisons of its table; NaN for one seed.
        seeds: the number of pairs; of the variant's seeds, if they are not paired.
        paired: whether the seeds are paired: both have the same scenario.
        comparisons: how many comparisons the correction is for.
    """

    variant: str
    baseline: str
    metric: str
    gain: float
    standard_error: float
    p_value: float
    p_corrected: float
    seeds: int
    paired: bool = True
    comparisons: int = 1

    @property
    def verdict(self) -> str:
        """``beats``, ``does not beat``, or empty if the difference has no error bar."""
        if math.isnan(self.p_corrected):
            return ""
        return "beats" if self.gain > 0 and self.p_corrected < LEVEL else "does not beat"

    def sentence(self) -> str:
        """Return the comparison as a sentence."""
        gain = with_error(self.gain, self.standard_error, "+")
        if not self.verdict:
            return (
                f"{self.variant} against {self.baseline}: {gain}, one seed: no error bar; use "
                "several seeds"
            )
        seeds = f"{self.seeds} {'paired ' if self.paired else ''}seeds"
        p = f"p = {significant(self.p_corrected, 2)}"
        p += f", corrected for {self.comparisons} comparisons" if self.comparisons > 1 else ""
        return f"{self.variant} {self.verdict} {self.baseline}: {gain} ({seeds}, {p})"


@dataclass(frozen=True)
class Row:
    """One variant of a comparison.

    Attributes:
        variant: what it is called.
        metric: what its score is, such as ``mean_simple_regret``.
        direction: ``maximize`` or ``minimize``, of its scenario.
        score: mean over its seeds of the metric's mean over the rounds; NaN without seeds.
        score_error: its standard error over seeds; NaN for one seed.
        seeds: how many seeds have all of the rounds.
        difference: from the baseline; None for the baseline itself.
    """

    variant: str
    metric: str
    direction: str
    score: float
    score_error: float
    seeds: int
    difference: Difference | None


@dataclass(frozen=True, repr=False)
class Comparison:
    """Variants compared with a baseline.

    Attributes:
        baseline: what the others are compared with.
        rounds: the first and last round of the scores' means.
        rows: the variants, in order.
        notes: what a reader must know: unequal rounds, seeds that are not paired or left out.
        unequal: whether some variants have more rounds than others.
    """

    baseline: str
    rounds: tuple[int, int]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    unequal: bool = False

    @property
    def title(self) -> str:
        """What the scores are."""
        if self.rows[0].metric in TIMES:
            return TIMES[self.rows[0].metric]
        metrics = dict.fromkeys(row.metric.replace("_", " ") for row in self.rows)
        which = " (all variants have these)" if self.unequal else ""
        first, last = self.rounds
        when = f"mean of rounds {first} to {last}" if first < last else f"after round {last}"
        return f"{' / '.join(metrics)}, {when}{which}"

    def frame(self) -> pd.DataFrame:
        """Return the rows as a data frame; the baseline's own difference is NaN."""
        return pd.DataFrame(
            {
                "variant": row.variant,
                "seeds": row.seeds,
                row.metric: row.score,
                "standard_error": row.score_error,
                "gain": row.difference.gain if row.difference else math.nan,
                "gain_error": row.difference.standard_error if row.difference else math.nan,
                "p_value": row.difference.p_value if row.difference else math.nan,
                "p_corrected": row.difference.p_corrected if row.difference else math.nan,
                "verdict": row.difference.verdict if row.difference else "",
            }
            for row in self.rows
        )

    def __repr__(self) -> str:
        return with_notes(f"{self.title}\n{self.frame().to_string(index=False)}", self.notes)

    def csv(self) -> str:
        """Return the data frame as CSV."""
        return str(self.frame().to_csv(index=False))

    def _repr_html_(self) -> str:
        table = f"<p>{escape(self.title)}</p>{self.frame().to_html(index=False)}"
        return table + notes_html(self.notes)
