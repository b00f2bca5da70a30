"""Whether a figure's claims hold in a run of it: paired tests, corrected for their number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fedsim.errors import ConfigError, nearest
from fedsim.results.comparison import compare_variants, corrected
from fedsim.results.differences import LEVEL, Comparison, Difference
from fedsim.results.entrants import Entrant
from fedsim.results.figures import Claimed, Figure
from fedsim.results.metrics import TIMES


@dataclass(frozen=True)
class Judged:
    """A claim about two variants, and what a run says about it.

    Attributes:
        claimed: the claim.
        score: of the variant that is claimed to be better.
        other_score: of the other one.
        difference: between them, corrected for the figure's claims.
    """

    claimed: Claimed
    score: tuple[float, float]
    other_score: tuple[float, float]
    difference: Difference

    @property
    def verdict(self) -> str:
        """``holds``, ``does not hold``, ``not settled``, or ``no difference``, with a reason."""
        one = self.difference
        if math.isnan(one.p_corrected):
            return "one seed: no verdict"
        shown = one.p_corrected < LEVEL
        if self.claimed.alike:
            winner = self.claimed.better if one.gain > 0 else self.claimed.worse
            return f"does not hold: {winner} is better" if shown else "no difference shown"
        if shown:
            return "holds" if one.gain > 0 else "does not hold: the opposite is shown"
        return "not settled" if one.gain > 2.0 * one.standard_error else "does not hold"


def judge(
    figure: Figure, found: Sequence[Entrant]
) -> tuple[list[Judged], tuple[int, int], list[str]]:
    """Return a figure's claims with their verdicts, the rounds of the scores, and notes.

    Args:
        figure: a figure that has comparisons.
        found: the variants of a run of its configuration; it may be shorter than the paper's.

    Raises:
        ConfigError: if a variant of the claims is missing.
    """
    by_label = {one.label: one for one in found}
    rounds = _rounds(figure, min(one.last for one in found))
    pairs = [
        _pair(
            _named(one.better, by_label),
            _named(one.worse, by_label),
            one.metric or figure.metric,
            rounds,
        )
        for one in figure.comparisons
    ]
    differences = corrected([_difference(pair) for pair in pairs])
    judged = [
        Judged(claimed, _score(pair, 1), _score(pair, 0), difference)
        for claimed, pair, difference in zip(figure.comparisons, pairs, differences, strict=True)
    ]
    return judged, rounds, list(dict.fromkeys(note for pair in pairs for note in pair.notes))


def _rounds(figure: Figure, last: int) -> tuple[int, int]:
    """Return the rounds of a figure's scores, as far as a run has them."""
    first, end = figure.rounds or (1, last)
    return min(first, last), min(end, last)


def _named(label: str, found: dict[str, Entrant]) -> Entrant:
    if label not in found:
        raise ConfigError(
            f"--run: the figure compares {label!r}, which the run does not have"
            f"{nearest(label, found)}"
        )
    return found[label]


def _pair(
    better: Entrant, worse: Entrant, metric: str | None, rounds: tuple[int, int]
) -> Comparison:
    asked = None if metric in TIMES else rounds  # times are of whole runs
    return compare_variants([worse, better], (), rounds=asked, baseline=worse.label, metric=metric)


def _difference(pair: Comparison) -> Difference:
    found = pair.rows[1].difference
    assert found is not None  # only the baseline has none
    return found


def _score(pair: Comparison, row: int) -> tuple[float, float]:
    return pair.rows[row].score, pair.rows[row].score_error
