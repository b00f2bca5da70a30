"""Who is better, on one problem and over all."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.results.judging import Duel, duel, judged
from fedsim.results.published import read_published

TABLE_5 = {  # W, p, corrected p, effect size, as FBO-FedGP prints them
    "EPPBO": (9.0, 6.294e-5, 1.259e-4, -0.9),
    "FMTBO": (0.0, 1.907e-6, 9.537e-6, -1.0),
    "FTS": (0.0, 1.907e-6, 9.537e-6, -1.0),
    "FEPPBO": (0.0, 1.907e-6, 9.537e-6, -1.0),
    "FCSBO": (18.0, 4.826e-4, 4.826e-4, -0.8),
}


def test_the_papers_table_5_follows_from_its_table_1() -> None:
    table = read_published("fbo-fedgp-table-1").values
    methods = list(table["F1"])
    smaller_is_better = -np.array([[row[name] for name in methods] for row in table.values()])
    found = {one.method: one for one in judged(smaller_is_better, methods, "FBO-FedGP")}
    for name, (statistic, p_value, corrected, effect) in TABLE_5.items():
        test = found[name].test
        assert test is not None
        assert test.statistic == statistic
        assert test.p_value == pytest.approx(p_value, rel=5e-4)
        assert found[name].p_corrected == pytest.approx(corrected, rel=5e-4)
        assert test.paper_effect_size == effect
        assert found[name].verdict == "worse"
    # The rank-biserial correlation is another number: of ranks, whose sum is 210.
    first, last = found["EPPBO"].test, found["FCSBO"].test
    assert first is not None
    assert last is not None
    assert first.rank_biserial == (9 - 201) / 210
    assert last.rank_biserial == (18 - 192) / 210
    assert found["FBO-FedGP"].mean_rank == pytest.approx(1.15)
    assert found["FBO-FedGP"].test is None


def series(*values: float) -> pd.Series[float]:
    return pd.Series(dict(enumerate(values)), dtype=float)


def test_a_duel_over_seeds() -> None:
    base = series(*[0.0] * 6)
    won, lost = (duel(series(*[s * k for k in range(1, 7)]), base, paired=True) for s in (1, -1))
    assert (won.p_value, won.gain, won.rank_biserial, won.mark) == (2 / 64, 3.5, 1.0, "win")
    assert (lost.p_value, lost.gain, lost.rank_biserial, lost.mark) == (2 / 64, -3.5, -1.0, "loss")
    five = duel(series(1, 2, 3, 4, 5), base, paired=True)
    assert (five.p_value, five.mark) == (2 / 32, "tie")
    assert duel(series(1), base, paired=True).mark == ""


def test_pairs_are_of_one_seed() -> None:
    first, second = pd.Series({1: 5.0, 2: 6.0}), pd.Series({2: 1.0, 1: 2.0, 3: 99.0})
    assert duel(first, second, paired=True).gain == (3 + 5) / 2
    assert duel(first, second, paired=False).gain == 5.5 - 34.0


def test_the_tests_direction_decides_not_the_mean() -> None:
    """Nine small gains and one large loss: the mean is negative, most ranks are positive."""
    found = duel(series(*range(1, 10), -1000), series(*[0.0] * 10), paired=True)
    assert found.gain < 0 < found.rank_biserial
    assert Duel(found.gain, 0.01, 0.01, found.rank_biserial, True).mark == "win"


scores = st.integers(2, 5).flatmap(
    lambda m: st.lists(
        st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0, math.nan]), min_size=m, max_size=m),
        min_size=1,
        max_size=7,
    )
)


@given(scores, st.randoms())
def test_neither_order_of_problems_nor_of_methods_matters(
    rows: list[list[float]], random: object
) -> None:
    gains = np.array(rows)
    names = [f"m{i}" for i in range(gains.shape[1])]
    places, order = list(range(len(gains))), list(range(len(names)))
    random.shuffle(places)  # type: ignore[attr-defined]
    random.shuffle(order)  # type: ignore[attr-defined]
    one = {x.method: x for x in judged(gains, names, "m0")}
    shuffled = judged(gains[places][:, order], [names[i] for i in order], "m0")
    other = {x.method: x for x in shuffled}
    for name in names:
        assert other[name].mean_rank == pytest.approx(one[name].mean_rank, nan_ok=True)
        assert repr(other[name].test) == repr(one[name].test)  # NaN equals NaN
        assert other[name].p_corrected == pytest.approx(one[name].p_corrected, nan_ok=True)


def test_what_is_missing_is_not_ranked() -> None:
    gains = np.array([[1.0, 2.0], [3.0, math.nan], [5.0, 4.0]])
    first, second = judged(gains, ["a", "b"], "a")
    assert (first.mean_rank, second.mean_rank) == (1.5, 1.5)
    assert second.test is not None
    assert (second.test.better, second.test.worse) == (1, 1)
