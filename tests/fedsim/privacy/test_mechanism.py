from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedsim.errors import ConfigError
from fedsim.privacy.events import FixedSizeGaussian, SubsampledGaussian
from fedsim.privacy.mechanism import (
    SubsampledGaussianMechanism,
    WeightedAverage,
    clip,
    gather,
    joint_multiplier,
    joint_sum,
    row_norms,
)
from fedsim.privacy.weights import WeightSchedule, region_weights
from fedsim.protocol import Aggregator, Release, Replies, Reply, Uncharged
from fedsim.rng import SERVER, Keys, SystemKeys
from fedsim.space import Array

REAL_DATA = WeightSchedule(hold=10, decay=30)
FLEET: Any = None  # the mechanisms do not use it


def mechanism(**changes: Any) -> SubsampledGaussianMechanism:
    values: dict[str, Any] = {
        "agents": 6,
        "features": 5,
        "regions": 2,
        "clipping_norm": 3.0,
        "sampling_rate": 0.5,
        "noise_multiplier": 1.5,
    }
    return SubsampledGaussianMechanism(**(values | changes))


def reply(agent: int, vector: Any) -> Reply:
    return Reply(agent, "ok", {"vector": vector})


def replies(vectors: Array) -> tuple[Reply, ...]:
    return tuple(reply(n, vector) for n, vector in enumerate(vectors))


def vectors_of(release: Release) -> Array:
    assert release.payload is not None
    assert set(release.payload) == {"vectors"}
    return release.payload["vectors"]


def keys(step: int = 0, seed: int = 0) -> Keys:
    return Keys(seed, SERVER, step)


def normal(*shape: int) -> Array:
    return np.random.default_rng(7).standard_normal(shape)


def test_follow_the_protocol() -> None:
    for aggregator in (mechanism(), WeightedAverage(6, 5, 2)):
        assert isinstance(aggregator, Aggregator)
        assert aggregator.state() == {}
        aggregator.restore({})


def test_release_is_the_papers_sum_plus_noise() -> None:
    m, omega, t = mechanism(agents=7), 2 * normal(7, 5), 3
    rng = keys(t)
    sampled = rng("privacy-sampling").random(7) < 0.5
    phi = region_weights(m.weights, t, 7, 2)
    noise = rng("privacy-noise").standard_normal((2, 5))
    expected = np.zeros((2, 5))
    for i in range(2):
        for n in range(7):
            if sampled[n]:
                clipped = omega[n] / max(1.0, np.linalg.norm(omega[n]) / (3 / math.sqrt(2)))
                expected[i] += phi[i, n] / 0.5 * clipped
        expected[i] += noise[i] * 1.5 * phi[i].max() * 3 / 0.5
    assert 0 < sampled.sum() < 7
    actual = vectors_of(m.aggregate(t, replies(omega), FLEET, rng))
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-14)


def test_release_repeats_to_the_bit_and_leaves_its_inputs_alone() -> None:
    omega = 5 * normal(6, 5)
    omega[2, 1] = np.nan
    before = omega.copy()
    omega.setflags(write=False)
    first = mechanism().aggregate(4, replies(omega), FLEET, keys(4))
    second = mechanism().aggregate(4, replies(omega)[::-1], FLEET, keys(4))
    assert np.array_equal(vectors_of(first), vectors_of(second))
    assert np.array_equal(omega, before, equal_nan=True)


def test_coins_are_independent_of_who_answers_and_of_one_another() -> None:
    agents, rounds, q = 20, 300, 0.3
    m = mechanism(
        agents=agents, features=agents, sampling_rate=q, noise_multiplier=1e-9, clipping_norm=2.0
    )
    chosen = np.empty((rounds, agents), dtype=bool)
    for t in range(rounds):
        # Agent n sends the n-th unit vector, so that with next to no noise its coin shows.
        shown = vectors_of(m.aggregate(t, replies(np.eye(agents)), FLEET, keys(t)))
        chosen[t] = shown[0] * q > 0.5 * region_weights(m.weights, t, agents, 2)[0]
        assert np.array_equal(chosen[t], keys(t)("privacy-sampling").random(agents) < q)
    # 6000 coins: standard error 0.006. Sample sizes vary as a binomial's, variance 4.2.
    assert abs(chosen.mean() - q) < 0.025
    assert 3.0 < chosen.sum(axis=1).var() < 5.6


def test_everybody_is_sampled_at_rate_one() -> None:
    m = mechanism(sampling_rate=1, noise_multiplier=1e-12, clipping_norm=100)
    omega = normal(6, 5)
    expected = region_weights(m.weights, 0, 6, 2) @ omega
    actual = vectors_of(m.aggregate(0, replies(omega), FLEET, keys()))
    np.testing.assert_allclose(actual, expected, atol=1e-8)


@pytest.mark.parametrize("t", [0, 39])
def test_empty_sample_releases_noise_of_the_right_scale_in_every_block(t: int) -> None:
    # 29 agents in 4 regions: 8, 7, 7, 7. The rate is so small that nobody is sampled.
    m = mechanism(
        agents=29, regions=4, features=3000, sampling_rate=1e-9, clipping_norm=22.0,
        weights=REAL_DATA,
    )  # fmt: skip
    full = m.aggregate(t, replies(normal(29, 3000)), FLEET, keys(t))
    nobody = m.aggregate(t, (), FLEET, keys(t))
    assert np.array_equal(vectors_of(full), vectors_of(nobody))
    largest = np.array([1 / 8, 1 / 7, 1 / 7, 1 / 7]) if t == 0 else np.full(4, 1 / 29)
    expected = 1.5 * largest * 22 / 1e-9
    np.testing.assert_allclose(m.noise_scale(t), expected, rtol=1e-5)
    # 3000 draws: relative standard error of a standard deviation 0.013, of a mean 0.018.
    np.testing.assert_allclose(vectors_of(nobody).std(axis=1), expected, rtol=0.05)
    assert np.all(np.abs(vectors_of(nobody).mean(axis=1)) < 0.07 * expected)


def test_noise_is_independent_per_coordinate_and_round() -> None:
    m = mechanism(features=1, noise_only=True, weights=WeightSchedule(scheme="uniform"))
    draws = np.stack([vectors_of(m.aggregate(t, (), FLEET, keys(t)))[:, 0] for t in range(2000)])
    scaled = draws / m.noise_scale(0)  # (2000, 2)
    # Standard errors: 0.022 for means and correlations, 0.016 for standard deviations.
    assert np.all(np.abs(scaled.mean(axis=0)) < 0.08)
    assert np.all(np.abs(scaled.std(axis=0) - 1) < 0.06)
    assert abs(np.corrcoef(scaled[:, 0], scaled[:, 1])[0, 1]) < 0.08
    assert abs(np.corrcoef(scaled[1:, 0], scaled[:-1, 0])[0, 1]) < 0.08


def test_noise_only_keeps_noise_and_cost() -> None:
    omega = normal(6, 5)
    real, control = mechanism(), mechanism(noise_only=True)
    a = real.aggregate(2, replies(omega), FLEET, keys(2))
    b = control.aggregate(2, replies(omega), FLEET, keys(2))
    c = control.aggregate(2, (), FLEET, keys(2))
    assert np.array_equal(vectors_of(b), vectors_of(c))
    assert a.cost == b.cost == c.cost
    assert b.experimenter == {"signal_to_noise": 0.0}
    sampled = keys(2)("privacy-sampling").random(6) < 0.5
    signal = joint_sum(region_weights(real.weights, 2, 6, 2), clip(omega, 3 / 2**0.5), sampled, 0.5)
    np.testing.assert_allclose(vectors_of(a) - vectors_of(b), signal, atol=1e-13)


def test_signal_to_noise_is_for_the_experimenter_only() -> None:
    m = mechanism(features=2000, noise_multiplier=0.01)
    loud = m.aggregate(0, replies(normal(6, 2000)), FLEET, keys())
    quiet = m.aggregate(0, (), FLEET, keys())
    assert set(loud.experimenter) == {"signal_to_noise"}
    assert quiet.experimenter == {"signal_to_noise": 0.0}
    assert loud.cost == quiet.cost == m.cost(0)
    noise = vectors_of(quiet)
    ratio = np.linalg.norm(vectors_of(loud) - noise) / np.linalg.norm(noise)
    np.testing.assert_allclose(loud.experimenter["signal_to_noise"], ratio, rtol=0.08)


BAD: Sequence[Any] = [
    np.array([1.0, np.nan, 0, 0, 0]),
    np.array([1.0, np.inf, 0, 0, 0]),
    np.array([1.0, -np.inf, 0, 0, 0]),
    np.full(5, np.nan),
    np.ones(4),
    np.ones((5, 1)),
    np.array(1.0),
    np.ones(5, dtype=complex),
    np.array(["1"] * 5),
    np.array([1.0, None, 0, 0, 0], dtype=object),
    [1.0, 2.0, 3.0, 4.0, 5.0],
    None,
    np.zeros(5),
]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: repr(bad)[:30])
def test_an_unusable_message_is_a_missing_message_to_the_bit(bad: Any) -> None:
    others = [reply(n, vector) for n, vector in enumerate(normal(6, 5)) if n != 3]
    m = mechanism(sampling_rate=1.0)
    absent = m.aggregate(1, (*others, Reply(3, "missing", {})), FLEET, keys(1))
    assert m.aggregate(1, tuple(others), FLEET, keys(1)).cost == absent.cost
    for answer in (reply(3, bad), Reply(3, "ok", {}), Reply(3, "lost_keys", {})):
        release = m.aggregate(1, (*others, answer), FLEET, keys(1))
        assert np.array_equal(vectors_of(release), vectors_of(absent))
        assert release.cost == absent.cost
        assert release.experimenter == absent.experimenter


def test_answers_outside_the_roster_are_ignored() -> None:
    m, omega = mechanism(), replies(normal(6, 5))
    more = (*omega, reply(6, np.ones(5)), reply(-1, np.ones(5)))
    a, b = (m.aggregate(0, answers, FLEET, keys()) for answers in (omega, more))
    assert np.array_equal(vectors_of(a), vectors_of(b))


def test_gather_accepts_real_numbers_of_any_width() -> None:
    for dtype in (np.int8, np.uint32, np.float16, np.float32, np.float64):
        assert np.array_equal(gather((reply(1, np.arange(3, dtype=dtype)),), 2, 3)[1], [0, 1, 2])
    huge = np.array([np.finfo(np.longdouble).max, 0, 0], dtype=np.longdouble)
    if np.isfinite(huge).all():
        assert np.array_equal(clip(gather((reply(0, huge),), 1, 3), 1.0), np.zeros((1, 3)))


finite = st.floats(allow_nan=True, allow_infinity=True)


@given(
    vectors=hnp.arrays(
        np.float64, st.tuples(st.integers(1, 5), st.integers(1, 6)), elements=finite
    ),
    bound=st.floats(1e-300, 1e300),
)
@settings(max_examples=200, deadline=None)
def test_clip_never_exceeds_the_bound(vectors: Array, bound: float) -> None:
    before = vectors.copy()
    clipped = clip(vectors, bound)
    assert np.array_equal(vectors, before, equal_nan=True)
    assert np.isfinite(clipped).all()
    assert np.all(row_norms(clipped) <= bound)
    norms = row_norms(np.nan_to_num(vectors, nan=0, posinf=0, neginf=0))
    for row, kept, norm in zip(vectors, clipped, norms, strict=True):
        if not np.isfinite(row).all():
            assert np.array_equal(kept, np.zeros_like(kept))
        elif norm <= bound:
            assert np.array_equal(kept, row)
        else:
            np.testing.assert_allclose(row_norms(kept[None])[0], bound, rtol=1e-11)


def test_clip_keeps_the_direction_of_huge_and_tiny_vectors() -> None:
    clipped = clip(np.array([[3e300, 4e300], [3e-10, 4e-10], [0.0, 0.0]]), 1e-10)
    np.testing.assert_allclose(clipped, [[6e-11, 8e-11], [6e-11, 8e-11], [0.0, 0.0]], rtol=1e-12)
    assert row_norms(np.array([[3e-200, 4e-200]]))[0] == pytest.approx(5e-200, rel=1e-15)


@given(
    vectors=hnp.arrays(np.float64, (7, 3), elements=st.floats(-1e6, 1e6)),
    dropped=st.integers(0, 6),
    regions=st.integers(1, 5),
    t=st.integers(0, 12),
    rate=st.floats(0.01, 1),
    scheme=st.sampled_from(["softmax", "linear", "quadratic", "uniform"]),
)
@settings(max_examples=100, deadline=None)
def test_dropping_a_message_moves_the_sum_within_the_sensitivity(
    vectors: Array, dropped: int, regions: int, t: int, rate: float, scheme: Any
) -> None:
    norm, z = 2.0, 1.3
    phi = region_weights(WeightSchedule(scheme), t, 7, regions)
    omega = clip(vectors, norm / math.sqrt(regions))
    without = omega.copy()
    without[dropped] = 0
    everybody = np.ones(7, dtype=bool)
    moved = joint_sum(phi, omega, everybody, rate) - joint_sum(phi, without, everybody, rate)
    assert np.linalg.norm(moved) <= phi.max() * norm / rate * (1 + 1e-9)
    # In units of each region's noise it moves by at most 1 over the exact multiplier.
    noise = z * phi.max(axis=1) * norm / rate
    whitened = float(np.linalg.norm(moved / noise[:, None]))
    assert whitened <= (1 + 1e-9) / joint_multiplier(phi, z) <= (1 + 2e-9) / z


def test_exact_multiplier_of_the_reference() -> None:
    m = mechanism(agents=29, regions=4, noise_multiplier=1, weights=REAL_DATA)
    assert m.cost(0).exact_noise_multiplier == pytest.approx(2.0, abs=1e-3)  # P9, a_t = 16
    assert m.cost(39).exact_noise_multiplier == 1.0  # P9, a_t = 1
    for a, expected in ((3.75, 1.998), (1.0, 1.69), (0.0, 1.0)):
        phi = region_weights(WeightSchedule(a=a, adaptive=False), 0, 29, 4)
        assert joint_multiplier(phi, 1.0) == pytest.approx(expected, abs=5e-3)
    two = [region_weights(WeightSchedule(a=a, adaptive=False), 0, 200, 2) for a in (15, 1)]
    assert joint_multiplier(two[0], 1.0) == pytest.approx(math.sqrt(2), abs=1e-3)
    assert joint_multiplier(two[1], 1.0) == pytest.approx(1.327, abs=1e-3)


@pytest.mark.parametrize(
    ("scheme", "a", "expected"),
    [
        # The ratio r of own to other agents: sqrt(P / (1 + (P - 1) / r^2)), if P divides N or not.
        ("linear", 3.0, math.sqrt(2 / (1 + 1 / 9))),
        ("quadratic", 3.0, math.sqrt(2 / (1 + 1 / 81))),
        ("linear", 1.0, 1.0),
        ("linear", None, math.sqrt(2 / (1 + 1e-6))),
        ("quadratic", None, math.sqrt(2 / (1 + 40**-4))),
        ("softmax", 9.0, math.sqrt(2 / (1 + math.exp(-18)))),
    ],
)
@pytest.mark.parametrize("agents", [6, 7])
def test_the_cost_follows_the_weights(
    scheme: Any, a: float | None, expected: float, agents: int
) -> None:
    m = mechanism(agents=agents, weights=WeightSchedule(scheme, a), noise_multiplier=1.0)
    cost = m.cost(0)
    assert cost.noise_multiplier == 1.0
    assert cost.exact_noise_multiplier == math.floor(1e4 * expected) / 1e4
    assert m.cost(20).exact_noise_multiplier == 1.0


@given(phi=hnp.arrays(np.float64, (3, 6), elements=st.floats(1e-6, 1)), z=st.floats(0.01, 50))
@settings(max_examples=100, deadline=None)
def test_exact_multiplier_is_between_z_and_z_root_p(phi: Array, z: float) -> None:
    assert z <= joint_multiplier(phi, z) <= z * math.sqrt(3)


class TestFixedSize:
    def test_every_release_has_exactly_m_agents_all_equally_likely(self) -> None:
        agents, rounds = 10, 2000
        m = mechanism(
            agents=agents, features=agents, sampling_rate=0.39, noise_multiplier=1e-9,
            clipping_norm=2.0, sampling="fixed",
        )  # fmt: skip
        chosen = np.empty((rounds, agents), dtype=bool)
        for t in range(rounds):
            # Agent n sends the n-th unit vector, so that with next to no noise it shows.
            shown = vectors_of(m.aggregate(t, replies(np.eye(agents)), FLEET, keys(t)))
            chosen[t] = shown[0] * 0.3 > 0.5 * region_weights(m.weights, t, agents, 2)[0]
        assert set(chosen.sum(axis=1)) == {3}
        # 2000 draws: standard error 0.0102 of a share of 0.3, and 0.0056 of one of 1/15.
        assert np.all(np.abs(chosen.mean(axis=0) - 0.3) < 0.05)
        together = (chosen.T.astype(float) @ chosen)[np.triu_indices(agents, 1)] / rounds
        assert np.all(np.abs(together - 1 / 15) < 0.03)
        again, first = (m.aggregate(5, replies(np.eye(agents)), FLEET, keys(5)) for _ in range(2))
        assert np.array_equal(vectors_of(again), vectors_of(first))  # keyed by the round

    def test_denominators_are_fixed(self) -> None:
        m = mechanism(sampling="fixed", sampling_rate=0.4, noise_multiplier=1e-12)  # 2 of 6
        everybody = vectors_of(m.aggregate(0, replies(np.ones((6, 5))), FLEET, keys()))
        phi = region_weights(m.weights, 0, 6, 2)
        share = everybody[:, 0] / (3 / math.sqrt(10) / (2 / 6))  # each is clipped to norm 3/sqrt(2)
        pairs = [phi[:, i] + phi[:, j] for i in range(6) for j in range(i)]
        assert min(float(np.abs(share - pair).max()) for pair in pairs) < 1e-9
        np.testing.assert_allclose(m.noise_scale(0), 1e-12 * phi.max(axis=1) * 3 / (2 / 6))

    def test_the_cost_has_the_size(self) -> None:
        m = mechanism(agents=29, regions=4, sampling="fixed", sampling_rate=0.35)
        cost = m.aggregate(0, (), FLEET, keys()).cost
        assert cost == m.cost(0)
        assert isinstance(cost, FixedSizeGaussian)
        assert (cost.agents, cost.sample_size, cost.noise_multiplier) == (29, 10, 1.5)
        assert cost.exact_noise_multiplier == pytest.approx(3.0, abs=1e-3)

    def test_everybody_is_sampled_at_rate_one(self) -> None:
        poisson, fixed = mechanism(sampling_rate=1), mechanism(sampling_rate=1, sampling="fixed")
        a, b = (m.aggregate(3, replies(normal(6, 5)), FLEET, keys(3)) for m in (poisson, fixed))
        assert np.array_equal(vectors_of(a), vectors_of(b))

    def test_a_sample_of_nobody_is_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"^sampling_rate: expected at least 1/6"):
            mechanism(sampling="fixed", sampling_rate=0.16)
        with pytest.raises(ConfigError, match=r"^sampling: expected poisson or fixed"):
            mechanism(sampling="bernoulli")

    @given(
        vectors=hnp.arrays(np.float64, (7, 3), elements=st.floats(-1e6, 1e6)),
        other=hnp.arrays(np.float64, 3, elements=st.floats(-1e6, 1e6)),
        regions=st.integers(1, 5),
        t=st.integers(0, 12),
        scheme=st.sampled_from(["softmax", "linear", "quadratic", "uniform"]),
        agents=st.tuples(st.integers(0, 6), st.integers(0, 6)),
    )
    @settings(max_examples=100, deadline=None)
    def test_a_replacement_moves_the_sum_by_at_most_twice_as_much(
        self,
        vectors: Array,
        other: Array,
        regions: int,
        t: int,
        scheme: Any,
        agents: tuple[int, int],
    ) -> None:
        # Two samples that differ in one agent: its vector is another, or another agent is there.
        norm, z = 2.0, 1.3
        phi = region_weights(WeightSchedule(scheme), t, 7, regions)
        first, second = agents
        changed = vectors.copy()
        changed[second] = other
        one, two = np.zeros(7, dtype=bool), np.zeros(7, dtype=bool)
        one[first], two[second] = True, True
        bound = norm / math.sqrt(regions)
        moved = joint_sum(phi, clip(vectors, bound), one, 0.5)
        moved = moved - joint_sum(phi, clip(changed, bound), two, 0.5)
        noise = z * phi.max(axis=1) * norm / 0.5
        whitened = float(np.linalg.norm(moved / noise[:, None]))
        assert whitened <= (2 + 1e-9) / joint_multiplier(phi, z)


@pytest.mark.parametrize("number", [int, np.float32, np.int64, np.float64])
def test_the_type_of_z_changes_nothing(number: Any) -> None:
    omega = replies(normal(6, 5))
    plain = mechanism(noise_multiplier=2.0).aggregate(0, omega, FLEET, keys())
    other = mechanism(noise_multiplier=number(2)).aggregate(0, omega, FLEET, keys())
    assert np.array_equal(vectors_of(plain), vectors_of(other))
    assert other.cost == plain.cost
    assert isinstance(other.cost, SubsampledGaussian)
    assert all(type(value) is float for value in asdict(other.cost).values())


def test_system_randomness_does_not_repeat() -> None:
    m = mechanism()
    a, b = (vectors_of(m.aggregate(0, (), FLEET, SystemKeys())) for _ in range(2))
    assert not np.array_equal(a, b)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("agents", 0),
        ("features", 0),
        ("regions", 0),
        ("clipping_norm", 0.0),
        ("clipping_norm", math.inf),
        ("sampling_rate", 0.0),
        ("sampling_rate", 1.5),
        ("sampling_rate", math.nan),
        ("noise_multiplier", 0.0),
        ("noise_multiplier", math.nan),
    ],
)
def test_bad_settings_are_named(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"^{name}: expected"):
        mechanism(**{name: value})


def test_average_without_privacy() -> None:
    average: Aggregator = WeightedAverage(6, 5, 2)
    omega = 100 * normal(6, 5)
    release = average.aggregate(0, replies(omega), FLEET, keys())
    assert average.cost(0) is Uncharged.NOT_PRIVATE
    assert release.cost is Uncharged.NOT_PRIVATE
    assert release.experimenter == {}
    expected = region_weights(WeightSchedule(), 0, 6, 2) @ omega
    np.testing.assert_allclose(vectors_of(release), expected, rtol=1e-12)


def test_average_shares_the_weight_of_absent_and_unusable_answers() -> None:
    omega = normal(4, 3)
    average = WeightedAverage(4, 3, 2, WeightSchedule(scheme="uniform"))
    answers = (*replies(omega)[:2], reply(2, np.full(3, np.inf)), Reply(3, "missing", {}))
    release = average.aggregate(0, answers, FLEET, keys())
    np.testing.assert_allclose(vectors_of(release), np.tile(omega[:2].mean(axis=0), (2, 1)))
    # A region all of whose own agents are absent is averaged over the others.
    loyal = WeightedAverage(4, 3, 2, WeightSchedule(a=5000, adaptive=False))
    only = loyal.aggregate(0, (reply(0, omega[0]), reply(2, omega[2])), FLEET, keys())
    np.testing.assert_allclose(vectors_of(only)[1], (omega[0] + omega[2]) / 2)


@pytest.mark.parametrize(
    "answers", [(), (Reply(0, "missing", {}),), (reply(1, np.full(3, np.nan)),)]
)
def test_there_is_no_average_of_nobody(answers: Replies) -> None:
    assert WeightedAverage(4, 3, 2).aggregate(0, answers, FLEET, keys()).payload is None


def test_a_private_release_of_nobody_is_noise_at_the_full_cost() -> None:
    one = mechanism()
    release = one.aggregate(0, (), FLEET, keys())
    noise = keys()("privacy-noise").standard_normal((2, 5)) * one.noise_scale(0)[:, None]
    np.testing.assert_array_equal(vectors_of(release), noise)
    assert release.cost == one.cost(0)
