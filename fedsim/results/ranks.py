"""Ranks, and Wilcoxon's tests with their effect sizes.

Sources: F. Wilcoxon, "Individual comparisons by ranking methods" (Biometrics Bulletin 1, 1945);
D. S. Kerby, "The simple difference formula" (Comprehensive Psychology 3, 2014), for the
rank-biserial correlations; FBO-FedGP, Table 5, for the effect size that counts signs only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedsim.space import Array

MOST_EXACT = 50
"""Largest number of differences with an exact p value; that of more is approximate."""


@dataclass(frozen=True)
class SignedRanks:
    """Wilcoxon's signed-rank test of paired differences that are 0 by assumption.

    Attributes:
        better: how many differences are positive.
        equal: how many are 0; these have no rank.
        worse: how many are negative.
        statistic: W, the smaller one of the sums of ranks of positive and negative differences.
        p_value: two-sided; 1 if all are equal, NaN for fewer than two differences.
        rank_biserial: the matched-pairs rank-biserial correlation: the difference of the sums of
            ranks, over their sum. In [-1, 1]; 0 if all are equal, NaN for no difference.
    """

    better: int
    equal: int
    worse: int
    statistic: float
    p_value: float
    rank_biserial: float

    @property
    def paper_effect_size(self) -> float:
        """(n+ - n-) / n, of counts; NaN for no difference.

        FBO-FedGP calls it the rank-biserial correlation, which it is not.
        """
        count = self.better + self.equal + self.worse
        return (self.better - self.worse) / count if count else math.nan


def signed_ranks(gains: Array) -> SignedRanks:
    """Test paired differences.

    Args:
        gains: the differences, shape (n,); positive is better, NaN is left out.
    """
    from scipy import stats  # takes long to import

    known = gains[~np.isnan(gains)]
    ranked = known[known != 0.0]
    counts = int((known > 0).sum()), len(known) - len(ranked), int((known < 0).sum())
    if not len(ranked):
        p_value = 1.0 if len(known) > 1 else math.nan
        return SignedRanks(*counts, 0.0, p_value, 0.0 if len(known) else math.nan)
    ranks = stats.rankdata(np.abs(ranked))
    up, down = float(ranks[ranked > 0].sum()), float(ranks[ranked < 0].sum())
    p_value = math.nan
    if len(known) > 1:
        exact = len(ranked) <= MOST_EXACT
        p_value = _exact_p(ranks, min(up, down)) if exact else float(stats.wilcoxon(ranked).pvalue)
    return SignedRanks(*counts, min(up, down), p_value, (up - down) / (up + down))


def _exact_p(ranks: Array, statistic: float) -> float:
    """Return how likely a sum of ranks as far from the middle is, if all signs are equally likely.

    The same as scipy's where no ranks are equal; with ties, scipy tries all signs of up to 13
    differences, which takes a second, and approximates beyond.
    """
    doubled = np.rint(2.0 * ranks).astype(int)  # ranks of ties are halves
    ways = np.zeros(int(doubled.sum()) + 1)  # of having each sum; below 2**53, thus exact
    ways[0] = 1.0
    for rank in doubled:
        ways[rank:] += ways[:-rank].copy()
    below = float(ways[: round(2.0 * statistic) + 1].sum())
    return min(1.0, 2.0 * below / 2.0 ** len(ranks))


def rank_sum(first: Array, second: Array) -> tuple[float, float]:
    """Return the effect and the two-sided p value of two samples that are not paired.

    The effect is the rank-biserial correlation: how much more often a value of the first sample is
    larger than one of the second than the other way round. The test is Mann and Whitney's. Both are
    NaN if a sample, of shape (n,), has fewer than two values.
    """
    from scipy import stats

    if min(len(first), len(second)) < 2:
        return math.nan, math.nan
    test = stats.mannwhitneyu(first, second)
    p_value = 1.0 if math.isnan(test.pvalue) else float(test.pvalue)  # all values are equal
    return 2.0 * float(test.statistic) / (len(first) * len(second)) - 1.0, p_value


def average_ranks(values: Array) -> Array:
    """Return the ranks of each row's values: 1 is the largest, equal ones share their mean rank.

    Args:
        values: shape (n, m), none of them NaN.
    """
    from scipy import stats

    ranks: Array = stats.rankdata(-values, axis=1)
    return ranks


def fewest_seeds(level: float) -> int:
    """Return how many pairs the signed-rank test needs at least for a p value below a level."""
    return math.floor(1.0 - math.log2(level)) + 1
