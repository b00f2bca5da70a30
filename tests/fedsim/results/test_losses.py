from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from fedsim.privacy.accountants import make_accountant, privacy_loss
from fedsim.privacy.events import SubsampledGaussian, UnknownEvent
from fedsim.privacy.ledger import Ledger
from fedsim.protocol import Cost, Uncharged
from fedsim.record.entries import ReleaseEntry
from fedsim.results.losses import INFINITE, MOST_ROUNDS, epsilons, loss_columns

EVENT = SubsampledGaussian(0.2, 1.5, 2.0)


def releases(rounds: Sequence[int], cost: Cost = EVENT, ratio: float = 0.5) -> list[ReleaseEntry]:
    return [ReleaseEntry(t=t, cost=cost, experimenter={"signal_to_noise": ratio}) for t in rounds]


def expected(count: int, delta: float) -> float:
    return privacy_loss(Ledger(((EVENT, count),)), delta, make_accountant("pld")).epsilon


def test_a_short_run_has_an_epsilon_after_every_round() -> None:
    columns = loss_columns(range(5), releases([-1, 0, 1, 1, 3]), 1e-3)
    spent = [expected(n, 1e-3) for n in (2, 4, 4, 5, 5)]  # before round 0 counts in round 0
    assert columns["epsilon_pld"] == spent
    assert columns["delta"] == [1e-3] * 5
    ratios = columns["signal_to_noise"]
    assert [math.isnan(r) for r in ratios] == [False, False, True, False, True]


def test_a_long_run_has_an_epsilon_after_some_rounds() -> None:
    rounds = 1000
    columns = loss_columns(range(rounds + 1), releases(range(rounds)), 1e-3)
    known = [t for t in range(rounds + 1) if not math.isnan(columns["epsilon_pld"][t])]
    assert len(known) == MOST_ROUNDS
    assert (known[0], known[-1]) == (0, rounds)
    assert np.ptp(np.diff(known)) <= 1  # equally spaced
    for t in known[:: MOST_ROUNDS - 1]:
        assert columns["epsilon_pld"][t] == expected(min(t + 1, rounds), 1e-3)
    assert not any(map(math.isnan, columns["delta"]))
    assert sum(map(math.isnan, columns["signal_to_noise"])) == 1  # after the last query


def test_no_columns_without_a_charge_or_with_an_unknown_one() -> None:
    assert loss_columns(range(3), releases([0, 1], Uncharged.NOT_PRIVATE), 1e-3) == {}
    assert loss_columns([], [], 1e-3) == {}
    unknown = UnknownEvent("later", None, "{}")
    assert loss_columns(range(3), releases([0]) + releases([1], unknown), 1e-3) == {}


def test_the_report_says_where_its_numbers_come_from() -> None:
    report = epsilons([EVENT] * 3, 1e-3)
    assert report["pld_source"] == "composition"
    assert "infinite" not in report
    assert epsilons([SubsampledGaussian(1, 1, 1)], 1e-3)["pld_source"] == "closed form"


@pytest.mark.parametrize("z", [0.0, 1e-9])
def test_an_infinite_loss_is_said_in_words(z: float) -> None:
    report = epsilons([EVENT, SubsampledGaussian(0.2, z, z)], 1e-3)
    assert report["pld"] == math.inf
    assert report["infinite"] == INFINITE
    assert report["pld_source"] == "no noise"
