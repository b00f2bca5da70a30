"""Who is better: a method against the baseline on one problem, and methods over all problems.

Wins, ties and losses on single problems are those of uncorrected tests, as in benchmark tables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from fedsim.means import mean
from fedsim.results.differences import LEVEL
from fedsim.results.ranks import SignedRanks, average_ranks, rank_sum, signed_ranks
from fedsim.results.significance import holm
from fedsim.space import Array

Mark = Literal["win", "tie", "loss", ""]


@dataclass(frozen=True)
class Duel:
    """A method against the baseline on one problem.

    Attributes:
        gain: how much better its mean over seeds is: of the pairs, if they are paired.
        p_value: two-sided, of the signed-rank test, or if the seeds are not paired, of Mann and
            Whitney's; NaN for fewer than two seeds.
        p_corrected: the same, corrected for the method's problems.
        rank_biserial: the test's effect size, in [-1, 1]: larger is better for the method.
        paired: whether the seeds are paired: both have the same scenario.
    """

    gain: float
    p_value: float
    p_corrected: float
    rank_biserial: float
    paired: bool

    @property
    def mark(self) -> Mark:
        """``win`` or ``loss`` if ``p_value`` is below 0.05, else ``tie``; empty if it is NaN."""
        if math.isnan(self.p_value):
            return ""
        if self.p_value >= LEVEL:
            return "tie"
        return "win" if self.rank_biserial > 0 else "loss"


@dataclass(frozen=True)
class Overall:
    """A method over all problems.

    Attributes:
        method: the method.
        mean_rank: over problems that all methods have; NaN if there is none.
        test: of the problems' means against the baseline's; None for the baseline.
        p_corrected: the test's p value, corrected for the number of methods.
        wins: on how many problems it beats the baseline; see :class:`Duel`.
        ties: on how many neither is shown to be better.
        losses: on how many the baseline beats it.
    """

    method: str
    mean_rank: float
    test: SignedRanks | None = None
    p_corrected: float = math.nan
    wins: int = 0
    ties: int = 0
    losses: int = 0

    @property
    def verdict(self) -> str:
        """``better``, ``worse`` or ``not shown``; empty if nothing was tested."""
        if self.test is None or math.isnan(self.p_corrected):
            return ""
        if self.p_corrected >= LEVEL:
            return "not shown"
        return "better" if self.test.rank_biserial > 0 else "worse"


def duel(first: pd.Series[float], second: pd.Series[float], *, paired: bool) -> Duel:
    """Compare a method with the baseline on one problem, not yet corrected.

    Args:
        first: the method's values by seed; larger is better.
        second: the baseline's.
        paired: whether seeds stand for the same in both.
    """
    if paired:
        gains = np.asarray((first - second).dropna(), dtype=np.float64)
        test = signed_ranks(gains)
        return Duel(mean(gains), test.p_value, math.nan, test.rank_biserial, paired)
    a, b = (np.asarray(one, dtype=np.float64) for one in (first, second))
    effect, p_value = rank_sum(a, b)
    return Duel(mean(a) - mean(b), p_value, math.nan, effect, paired)


def judged(gains: Array, methods: Sequence[str], baseline: str) -> list[Overall]:
    """Return each method's mean rank, and its test against the baseline over problems.

    Args:
        gains: the scores, larger is better, shape (problems, methods); NaN where there is none.
        methods: the methods' names.
        baseline: one of them.
    """
    ranks = problem_ranks(gains)
    ranked = ranks[~np.isnan(ranks).any(axis=1)]
    base = gains[:, list(methods).index(baseline)]
    with np.errstate(over="ignore", invalid="ignore"):  # infinite scores
        tests = {
            name: signed_ranks(gains[:, i] - base)
            for i, name in enumerate(methods)
            if name != baseline
        }
    corrected = dict(zip(tests, holm([one.p_value for one in tests.values()]), strict=True))
    return [
        Overall(
            name,
            mean(ranked[:, i]) if len(ranked) else math.nan,
            tests.get(name),
            corrected.get(name, math.nan),
        )
        for i, name in enumerate(methods)
    ]


def problem_ranks(gains: Array) -> Array:
    """Return the ranks of each problem's scores; NaN where a score is missing."""
    ranks = np.full(gains.shape, math.nan)
    whole = ~np.isnan(gains).any(axis=1)
    if whole.any():
        ranks[whole] = average_ranks(gains[whole])
    return ranks
