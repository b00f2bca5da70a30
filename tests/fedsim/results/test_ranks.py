"""Ranks, Wilcoxon's tests and their effect sizes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedsim.results.ranks import average_ranks, fewest_seeds, rank_sum, signed_ranks

gains = st.lists(st.integers(-9, 9).map(float), min_size=2, max_size=12).map(np.array)


def test_signed_ranks_by_hand() -> None:
    """Ranks of 3, -1, 2, 5, -4 are 3, 1, 2, 5, 4: 10 up and 5 down."""
    found = signed_ranks(np.array([3.0, -1.0, 2.0, 0.0, math.nan, 5.0, -4.0]))
    assert (found.better, found.equal, found.worse) == (3, 1, 2)
    assert found.statistic == 5.0
    assert found.rank_biserial == (10 - 5) / 15
    assert found.paper_effect_size == (3 - 2) / 6
    assert found.p_value == 20 / 32  # 10 of 32 signs have a sum of at most 5


def test_equal_differences_share_their_rank() -> None:
    """Ranks of 1, 1, -1, 2 are 2, 2, 2, 4."""
    assert signed_ranks(np.array([1.0, 1.0, -1.0, 2.0])).rank_biserial == (8 - 2) / 10


@given(st.lists(st.integers(-99, 99).map(float), min_size=2, max_size=30, unique_by=abs))
def test_without_ties_p_values_are_scipys(values: list[float]) -> None:
    known = np.array([value for value in values if value])
    if len(known) > 1:
        found, expected = signed_ranks(known), stats.wilcoxon(known)
        assert found.statistic == expected.statistic
        assert found.p_value == pytest.approx(float(expected.pvalue), rel=1e-12)


@given(st.lists(st.sampled_from([-2.0, -1.0, 0.0, 1.0, 2.0]), min_size=2, max_size=6))
def test_with_ties_p_values_are_those_of_all_signs(values: list[float]) -> None:
    gains = np.array(values)
    ranked = np.abs(gains[gains != 0])
    ranks, middle = stats.rankdata(ranked), len(ranked) * (len(ranked) + 1) / 4
    sums = [
        sum(rank for rank, up in zip(ranks, signs, strict=True) if up)
        for signs in itertools.product((False, True), repeat=len(ranked))
    ]
    found = signed_ranks(gains)
    away = middle - found.statistic
    assert found.p_value == sum(abs(one - middle) >= away for one in sums) / len(sums)


def test_many_differences_are_approximated() -> None:
    values = np.arange(1.0, 62.0) * np.where(np.arange(61) % 3, 1, -1)
    assert signed_ranks(values).p_value == stats.wilcoxon(values).pvalue


def test_equal_differences_are_no_difference() -> None:
    found = signed_ranks(np.zeros(3))
    assert (found.p_value, found.rank_biserial, found.paper_effect_size) == (1.0, 0.0, 0.0)


@given(gains)
def test_the_other_way_round_all_signs_change(values: np.ndarray) -> None:
    one, other = signed_ranks(values), signed_ranks(-values)
    assert (one.better, one.worse) == (other.worse, other.better)
    assert (one.statistic, one.p_value) == (other.statistic, other.p_value)
    assert one.rank_biserial == -other.rank_biserial
    assert one.paper_effect_size == -other.paper_effect_size


def test_what_cannot_be_tested() -> None:
    none, one = signed_ranks(np.array([math.nan])), signed_ranks(np.array([2.0]))
    assert math.isnan(none.p_value)
    assert math.isnan(none.rank_biserial)
    assert math.isnan(none.paper_effect_size)
    assert math.isnan(one.p_value)
    assert one.rank_biserial == 1.0


def test_infinite_differences_have_the_highest_ranks() -> None:
    assert signed_ranks(np.array([math.inf, -1.0, -2.0])).rank_biserial == 0.0


@given(gains, gains)
def test_samples_that_are_not_paired(first: np.ndarray, second: np.ndarray) -> None:
    effect, p_value = rank_sum(first, second)
    above = np.sign(first[:, None] - second[None, :]).mean()
    assert effect == pytest.approx(above)
    if len({*first, *second}) > 1:
        assert p_value == stats.mannwhitneyu(first, second).pvalue
    else:
        assert p_value == 1.0


def test_one_value_is_no_sample() -> None:
    assert all(map(math.isnan, rank_sum(np.array([1.0]), np.array([1.0, 2.0]))))


def test_ranks_of_rows() -> None:
    assert average_ranks(np.array([[1.0, 3.0, 2.0], [5.0, 5.0, 9.0]])).tolist() == [
        [3.0, 1.0, 2.0],
        [2.5, 2.5, 1.0],
    ]


def test_how_many_seeds_it_takes() -> None:
    count = fewest_seeds(0.05)
    assert count == 6
    for n in (count - 1, count):
        p_value = signed_ranks(np.arange(1.0, n + 1)).p_value
        assert (p_value < 0.05) == (n == count)
