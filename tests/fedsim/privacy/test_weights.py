from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.errors import ConfigError
from fedsim.privacy.weights import WeightSchedule, region_weights


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
    ],
)
def test_bad_settings_are_named(settings_: dict[str, float], name: str) -> None:
    with pytest.raises(ConfigError, match=rf"^method.weights.{name}"):
        WeightSchedule(**settings_)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"^method.weights.scheme"):
        WeightSchedule(scheme="linear")  # type: ignore[arg-type]
