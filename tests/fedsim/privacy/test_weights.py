from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.errors import ConfigError
from fedsim.privacy.weights import Scheme, WeightSchedule, region_weights


def test_synthetic_schedule() -> None:
    emphasis = [WeightSchedule().emphasis(t) for t in range(12)]
    assert emphasis == [16, 16, 16, 16, 16, 16, 12.25, 8.5, 4.75, 1, 1, 1]


@pytest.mark.parametrize("a", [15.0, 0.0, 3.7, 1e-3, 123.456, 1e300])
def test_the_emphasis_falls_like_a_line_of_numpy_to_the_last_bit(a: float) -> None:
    for decay in (1, 2, 3, 30, 49, 1000):
        schedule = WeightSchedule(a=a, hold=2, decay=decay)
        found = [schedule.emphasis(2 + t) for t in range(decay)]
        assert found == np.linspace(a + 1.0, 1.0, decay).tolist()


def test_the_emphasis_of_a_long_decay_needs_no_line() -> None:
    assert WeightSchedule(a=1.0, hold=0, decay=10**12 + 1).emphasis(5 * 10**11) == 1.5


def test_real_data_schedule() -> None:
    emphasis = [WeightSchedule(hold=10, decay=30).emphasis(t) for t in range(60)]
    assert emphasis[:11] == [16.0] * 11
    np.testing.assert_allclose(np.diff(emphasis[10:40]), -15 / 29, rtol=1e-12)
    assert emphasis[38] > 1
    assert emphasis[39:] == [1.0] * 21


def test_other_schedules() -> None:
    assert WeightSchedule(adaptive=False).emphasis(10_000) == 16
    assert WeightSchedule(scheme="uniform").emphasis(0) == 1
    assert WeightSchedule(a=9, hold=1, decay=0).emphasis(0) == 10
    assert WeightSchedule(a=9, hold=1, decay=0).emphasis(1) == 1


def test_weights_are_the_softmax_of_the_paper() -> None:
    agents, regions, a = 7, 3, 2.5
    schedule = WeightSchedule(a=a, adaptive=False)  # temperature 1
    expected = np.empty((regions, agents))
    for i in range(regions):
        for n in range(agents):
            expected[i, n] = np.exp(a * (n % regions == i) + 1)
        expected[i] /= expected[i].sum()
    np.testing.assert_allclose(region_weights(schedule, 3, agents, regions), expected, rtol=1e-14)


def test_fading_weights_have_the_ratio_exp_of_emphasis_minus_one() -> None:
    phi = region_weights(WeightSchedule(), 8, 6, 2)  # a_t = 4.75
    np.testing.assert_allclose(phi[0, 0] / phi[0, 1], np.exp(3.75), rtol=1e-12)
    np.testing.assert_allclose(phi[1, 1] / phi[1, 0], np.exp(3.75), rtol=1e-12)


def test_linear_and_quadratic_emphasis_fall_linearly_from_the_papers_values() -> None:
    linear, quadratic = WeightSchedule(scheme="linear"), WeightSchedule(scheme="quadratic")
    expected = [1000.0] * 6 + [750.25, 500.5, 250.75, 1.0, 1.0]
    assert [linear.emphasis(t) for t in range(11)] == expected
    expected = [40.0] * 6 + [30.25, 20.5, 10.75, 1.0, 1.0]
    assert [quadratic.emphasis(t) for t in range(11)] == expected


@pytest.mark.parametrize(("scheme", "ratio"), [("linear", 3.0), ("quadratic", 9.0)])
def test_own_agents_count_a_or_a_squared_times_as_much(scheme: Any, ratio: float) -> None:
    # 3 agents, 2 regions: agents 0 and 2 belong to the first, agent 1 to the second.
    schedule = WeightSchedule(scheme=scheme, a=3, adaptive=False)
    first, second = 2 * ratio + 1, ratio + 2
    expected = [[ratio / first, 1 / first, ratio / first], [1 / second, ratio / second, 1 / second]]
    np.testing.assert_allclose(region_weights(schedule, 50, 3, 2), expected, rtol=1e-14)


@pytest.mark.parametrize("scheme", ["softmax", "linear", "quadratic"])
def test_all_schemes_end_with_equal_weights(scheme: Any) -> None:
    schedule = WeightSchedule(scheme=scheme)
    assert np.array_equal(region_weights(schedule, 9, 8, 4), np.full((4, 8), 0.125))
    assert region_weights(schedule, 8, 8, 4)[0, 0] > 0.25


@pytest.mark.parametrize("scheme", ["softmax", "linear", "quadratic"])
def test_the_largest_emphasis_leaves_others_nothing(scheme: Any) -> None:
    phi = region_weights(WeightSchedule(scheme=scheme, a=1e308), 0, 4, 2)
    np.testing.assert_allclose(phi, [[0.5, 0, 0.5, 0], [0, 0.5, 0, 0.5]], atol=1e-300)


def test_without_a_number_the_emphasis_is_the_papers() -> None:
    # It stays None, so that a variant of a resolved configuration with another scheme has its own.
    found = {s: WeightSchedule(s).emphasis(0) for s in get_args(Scheme)}
    assert found == {"softmax": 16, "linear": 1000, "quadratic": 40, "uniform": 1}
    assert WeightSchedule("linear").a is None


def test_uniform_weights_are_equal() -> None:
    phi = region_weights(WeightSchedule(scheme="uniform"), 0, 8, 4)
    assert np.array_equal(phi, np.full((4, 8), 0.125))
    assert np.array_equal(region_weights(WeightSchedule(), 9, 8, 4), phi)


def test_absent_agents_get_nothing_and_the_rest_share_their_weight() -> None:
    present = np.array([True, False, True, True])
    phi = region_weights(WeightSchedule(scheme="uniform"), 0, 4, 2, present)
    np.testing.assert_allclose(phi, np.tile([1 / 3, 0, 1 / 3, 1 / 3], (2, 1)), rtol=1e-15)


@given(
    agents=st.integers(1, 40),
    regions=st.integers(1, 6),
    t=st.integers(0, 30),
    a=st.floats(0, 5000),
)
@settings(max_examples=60, deadline=None)
def test_rows_sum_to_one_whatever_the_emphasis(agents: int, regions: int, t: int, a: float) -> None:
    phi = region_weights(WeightSchedule(a=a), t, agents, regions)
    assert phi.shape == (regions, agents)
    assert np.all(phi >= 0)
    np.testing.assert_allclose(phi.sum(axis=1), 1, rtol=1e-12)


@pytest.mark.parametrize(
    ("settings_", "name"),
    [
        ({"a": -1.0}, "a"),
        ({"a": float("nan")}, "a"),
        ({"hold": -1}, "hold"),
        ({"decay": -2}, "dec"),
        ({"scheme": "linear", "a": 0.5}, "a: expected a finite number of at least 1"),
        ({"scheme": "quadratic", "a": math.inf}, "a: expected a finite number of at least 1"),
    ],
)
def test_bad_settings_are_named(settings_: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigError, match=rf"^method.weights.{name}"):
        WeightSchedule(**settings_)
    with pytest.raises(ConfigError, match=r"^method.weights.scheme"):
        WeightSchedule(scheme="cubic")  # type: ignore[arg-type]
