"""Student's and Welch's test, and Holm's correction."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedsim.means import standard_error
from fedsim.results.significance import holm, student_p, welch

samples = st.lists(st.integers(-1000, 1000).map(float), min_size=2, max_size=9, unique=True).map(
    np.array
)


@given(samples)
def test_paired_p_values_are_students(gains: np.ndarray) -> None:
    error = standard_error(gains)
    if error > 1e-6:
        p = student_p(float(np.mean(gains)), error, len(gains) - 1)
        assert p == pytest.approx(stats.ttest_1samp(gains, 0.0).pvalue, rel=1e-9)


@given(samples, samples)
def test_unpaired_p_values_are_welchs(first: np.ndarray, second: np.ndarray) -> None:
    error, freedom = welch(first, second)
    if error > 1e-6:
        p = student_p(float(np.mean(first) - np.mean(second)), error, freedom)
        expected = stats.ttest_ind(first, second, equal_var=False)
        assert p == pytest.approx(expected.pvalue, rel=1e-9)
        assert freedom == pytest.approx(expected.df, rel=1e-9)


def test_without_an_error_bar_there_is_no_p_value() -> None:
    assert math.isnan(standard_error(np.array([1.0])))
    assert math.isnan(student_p(1.0, math.nan, 0.0))
    assert math.isnan(welch(np.array([1.0]), np.array([1.0, 2.0]))[0])


def test_equal_values() -> None:
    assert student_p(0.0, 0.0, 3) == 1.0
    assert student_p(-0.5, 0.0, 3) == 0.0
    error, freedom = welch(np.ones(3), np.ones(2))
    assert error == 0.0
    assert student_p(0.0, error, freedom) == 1.0


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.02]) == pytest.approx([0.9, 0.04])
    assert holm([0.6, 0.6]) == [1.0, 1.0]
    assert holm([]) == []
    first, nothing, second = holm([0.03, math.nan, 0.01])
    assert (first, second) == pytest.approx((0.03, 0.02))
    assert math.isnan(nothing)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_corrects_upwards_and_keeps_the_order(p_values: list[float]) -> None:
    found = holm(p_values)
    assert all(p <= corrected <= 1.0 for p, corrected in zip(p_values, found, strict=True))
    assert min(found) == min(1.0, len(p_values) * min(p_values))
    order = np.argsort(p_values, kind="stable")
    assert (np.diff(np.array(found)[order]) >= 0).all()


@pytest.mark.parametrize("pairs", [1, 4])
@pytest.mark.parametrize("seeds", [2, 5])
def test_false_verdicts_are_as_rare_as_promised(pairs: int, seeds: int) -> None:
    """No difference at all: at least one "beats" in 2.5 % of tables, whatever the seeds.

    The other half of the 5 % are losses. Tolerance: four standard errors of the simulation.
    """
    generator, tables = np.random.default_rng(1), 4000
    gains = generator.normal(size=(tables, pairs, seeds))
    means = gains.mean(axis=2)
    errors = gains.std(axis=2, ddof=1) / math.sqrt(seeds)
    wrong = 0
    for mean, error in zip(means, errors, strict=True):
        p = holm([student_p(m, e, seeds - 1) for m, e in zip(mean, error, strict=True)])
        wrong += any(q < 0.05 and m > 0 for q, m in zip(p, mean, strict=True))
    assert wrong / tables <= 0.025 + 4 * math.sqrt(0.025 / tables)
    assert (means > 2 * errors).any(axis=1).mean() > (0.1 if seeds == 2 else 0.04)  # the old rule
