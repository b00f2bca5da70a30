"""Counts and scores of a run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.record.entries import AskEntry, Failed, Recorded, ReleaseEntry, StepEntry
from fedsim.record.tally import Scores, Tally


def record(agent: int, y: float, noiseless: float | None = None) -> Recorded:
    return Recorded(agent, 0, 0, (0.5,), y, noiseless, "own")


def test_nothing_is_known_at_first() -> None:
    tally = Tally(3, maximize=True)
    assert tally.scores() == Scores()
    assert (tally.round, tally.evaluations, tally.failed, tally.present) == (-1, 0, 0, set())


@pytest.mark.parametrize(("maximize", "sign"), [(True, 1.0), (False, -1.0)])
def test_scores_by_hand(maximize: bool, sign: float) -> None:
    tally = Tally(3, maximize, optima=[sign * 5.0] * 3)
    tally.add(StepEntry(-1, (record(0, sign * 4.9, sign * 4.9),)))  # before round 0
    tally.add(StepEntry(0, (record(0, sign * 1.0, sign * 2.0), record(1, sign * 3.0, sign * 1.0))))
    assert tally.scores() == Scores(
        mean_best_observed=sign * 2.0,
        best_observed=sign * 3.0,
        mean_best_noiseless=sign * 1.5,
        best_noiseless=sign * 2.0,
        mean_simple_regret=3.5,
        simple_regret=3.0,
        mean_inference_regret=3.5,
        inference_regret=3.0,
        agents=2,
    )
    tally.add(StepEntry(1, (record(0, sign * 0.5, sign * 4.0),), absent=(1, 2)))
    # Agent 0 would still choose its first point, whose observation is better.
    assert tally.scores() == Scores(
        mean_best_observed=sign * 2.0,
        best_observed=sign * 3.0,
        mean_best_noiseless=sign * 2.5,
        best_noiseless=sign * 4.0,
        mean_simple_regret=2.5,
        simple_regret=1.0,
        mean_inference_regret=3.5,
        inference_regret=3.0,
        agents=2,
    )
    assert (tally.round, tally.evaluations, tally.absences, tally.present) == (1, 4, 2, {0})


def test_only_targets_count() -> None:
    tally = Tally(3, maximize=True, optima=[5.0] * 3, targets=(1,))
    tally.add(StepEntry(-1, (record(0, 9.0, 9.0), record(1, 9.0, 9.0))))
    assert tally.counted == 0
    tally.add(StepEntry(0, (record(0, 4.0, 4.0), record(1, 3.0, 2.0)), absent=(2,)))
    assert tally.scores() == Scores(3.0, 3.0, 2.0, 2.0, 3.0, 3.0, 3.0, 3.0, agents=1)
    assert (tally.evaluations, tally.counted, tally.present) == (4, 1, {1})
    tally.add(StepEntry(1, (record(0, 4.5, 4.5),)))
    assert (tally.counted, tally.present, tally.round) == (1, set(), 1)


def test_regret_needs_every_noiseless_value() -> None:
    tally = Tally(2, maximize=True, optima=[1.0, 1.0])
    tally.add(StepEntry(0, (record(0, 0.5, 0.4),)))
    assert tally.scores().mean_simple_regret == pytest.approx(0.6)
    tally.add(StepEntry(1, (record(1, 0.5),)))
    assert not tally.knows_regret
    assert (tally.knows_noiseless, tally.metric) == (False, "best_observed")
    assert tally.scores() == Scores(0.5, 0.5, agents=2)


def test_noiseless_values_are_told_without_optima() -> None:
    tally = Tally(1, maximize=False)
    tally.add(StepEntry(0, (record(0, 0.5, 0.7), record(0, 0.6, 0.4))))
    assert tally.scores() == Scores(0.5, 0.5, 0.4, 0.4, agents=1)
    assert tally.metric == "best_observed"


def test_the_first_of_equal_observations_is_chosen() -> None:
    tally = Tally(1, maximize=True, optima=[1.0])
    tally.add(StepEntry(0, (record(0, 0.5, 0.2), record(0, 0.5, 0.9))))
    assert tally.scores().inference_regret == 0.8
    assert tally.scores().simple_regret == pytest.approx(0.1)
    assert tally.metric == "simple_regret"


@pytest.mark.parametrize("value", [1.7e308, -1.7e308])
def test_the_mean_of_the_largest_numbers_is_a_number(value: float) -> None:
    tally = Tally(3, maximize=True)
    tally.add(StepEntry(0, tuple(record(agent, value) for agent in range(3))))
    assert tally.scores().mean_best_observed == pytest.approx(value, rel=1e-15)


def test_what_comes_before_round_0_is_no_round() -> None:
    tally = Tally(2, maximize=True)
    failed = Failed(1, 0, 0, (0.5,), "own", "raised ValueError")
    tally.add(StepEntry(-2, (record(0, 1.0),), (failed,)))
    assert (tally.round, tally.present, tally.scores()) == (-1, set(), Scores())
    assert (tally.evaluations, tally.failed) == (1, 1)


def test_failures_make_their_agent_present() -> None:
    tally = Tally(2, maximize=True)
    failed = Failed(1, 0, 0, (0.5,), "own", "raised ValueError")
    tally.add(StepEntry(0, (record(0, 1.0),), (failed,)))
    tally.add(StepEntry(0, (record(1, 2.0),)))  # a second step of the round
    assert (tally.failed, tally.present, tally.evaluations) == (1, {0, 1}, 2)


def test_other_entries_count_for_nothing() -> None:
    tally = Tally(1, maximize=True)
    tally.add(AskEntry(0, "share", (0,)))
    tally.add(ReleaseEntry(0))
    assert tally == Tally(1, maximize=True)


values = st.floats(-1e6, 1e6)


@given(st.lists(st.tuples(st.integers(0, 3), values, values), min_size=1, max_size=20))
def test_it_is_what_numpy_says(rows: list[tuple[int, float, float]]) -> None:
    tally = Tally(4, maximize=True, optima=[0.0] * 4)
    for t, (agent, y, noiseless) in enumerate(rows):
        tally.add(StepEntry(t, (record(agent, y, noiseless),)))
    agents = {agent for agent, _, _ in rows}
    best = [max(y for a, y, _ in rows if a == agent) for agent in agents]
    regret = [-max(noiseless for a, _, noiseless in rows if a == agent) for agent in agents]
    scores = tally.scores()
    assert (scores.best_observed, scores.simple_regret) == (max(best), min(regret))
    assert scores.mean_best_observed == pytest.approx(np.mean(best), rel=1e-12, abs=1e-9)
    assert scores.mean_simple_regret == pytest.approx(np.mean(regret), rel=1e-12, abs=1e-9)
    chosen = [-max(own, key=lambda pair: pair[0])[1] for own in by_agent(rows)]
    assert scores.inference_regret == min(chosen)
    assert scores.mean_inference_regret == pytest.approx(np.mean(chosen), rel=1e-12, abs=1e-9)
    assert np.mean(regret) <= np.mean(chosen) + 1e-9
    assert scores.agents == len(agents)


def by_agent(rows: list[tuple[int, float, float]]) -> list[list[tuple[float, float]]]:
    return [[(y, v) for a, y, v in rows if a == agent] for agent in {a for a, _, _ in rows}]
