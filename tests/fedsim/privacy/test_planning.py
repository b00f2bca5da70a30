"""Plans that meet a privacy target, and the signal to noise that they expect."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from fedsim.errors import ConfigError
from fedsim.methods.releases import release_rounds
from fedsim.privacy.accountants import make_accountant
from fedsim.privacy.calibration import constant_loss
from fedsim.privacy.mechanism import SubsampledGaussianMechanism
from fedsim.privacy.planning import (
    FEW_RELEASES,
    SAMPLING_RATES,
    Kind,
    Plan,
    Vectors,
    expected_ratios,
    few_releases,
    plans,
)
from fedsim.privacy.weights import WeightSchedule
from fedsim.protocol import Reply
from fedsim.rng import SERVER, Keys
from fedsim.space import Array

PLD = make_accountant("pld")
DELTA = 1e-5


@pytest.fixture(scope="module")
def found() -> list[Plan]:
    return plans(200, 40, 3.0, DELTA, PLD)


def test_the_proposals(found: list[Plan]) -> None:
    every = {(p.method, p.kind, p.releases, p.regions) for p in found}
    assert every == {
        *(("dp-prior", "mean", releases, 1) for releases in (1, 3, 5)),
        *(("dp-fts-de", kind, 40, P) for kind in ("mean", "sample") for P in (1, 2)),
    }
    ratios = [plan.shared_to_noise for plan in found]
    assert ratios == sorted(ratios, reverse=True)


def test_they_meet_the_target_with_little_more_noise_than_that_takes(found: list[Plan]) -> None:
    for plan in found:
        q, z, T = plan.sampling_rate, plan.noise_multiplier, plan.releases
        assert plan.loss == constant_loss(q, z, T, DELTA, PLD)
        assert plan.loss.epsilon <= 3.0
        assert constant_loss(q, z * (1 - 1e-4), T, DELTA, PLD).epsilon > 3.0
        assert f"{z}" == f"{z:.5g}"


def test_few_releases_of_all_agents_have_the_noise_of_the_closed_form(found: list[Plan]) -> None:
    import dp_accounting

    z = dp_accounting.get_sigma_gaussian(3.0, DELTA)
    for plan in found:
        if plan.method == "dp-prior":
            assert plan.sampling_rate == 1.0
            expected = z * math.sqrt(plan.releases)
            assert expected <= plan.noise_multiplier * (1 + 1e-9)
            assert plan.noise_multiplier == pytest.approx(expected, rel=1e-4)


def test_no_sampling_rate_leaves_more_signal(found: list[Plan]) -> None:
    from fedsim.privacy.calibration import calibrate

    for plan in found:
        if plan.method == "dp-fts-de":
            agreement = Vectors().of(plan.kind)[1]
            for q in SAMPLING_RATES:
                z = calibrate(3.0, DELTA, PLD, sampling_rate=q, rounds=40).noise_multiplier
                ratios = expected_ratios(200, 100, plan.regions, q, z, agreement)
                assert ratios[1] <= plan.shared_to_noise * (1 + 1e-4)


def test_the_numbers_of_one_release(found: list[Plan]) -> None:
    (plan,) = (p for p in found if p.releases == 1)
    z = plan.noise_multiplier
    # N / (z sqrt(M)) times the root of c, and of 1/N + (1 - 1/N) c.
    assert plan.shared_to_noise == pytest.approx(200 * math.sqrt(0.5) / (10 * z), rel=1e-12)
    whole = 1 / 200 + (1 - 1 / 200) * 0.5
    assert plan.signal_to_noise == pytest.approx(200 * math.sqrt(whole) / (10 * z), rel=1e-12)
    assert plan.clipping_norm == 2.0


def test_clipping_norms_clip_nothing(found: list[Plan]) -> None:
    for plan in found:
        norm = {"mean": 2.0, "sample": math.sqrt(104)}[plan.kind]
        assert 0 <= plan.clipping_norm / math.sqrt(plan.regions) - norm < 0.01 * norm


def vectors_of(agents: int, features: int, norm: float, agreement: float, seed: int) -> Array:
    """Return vectors of equal norms that agree by a mean cosine: a common part, and own ones."""
    rng = np.random.default_rng(seed)
    own = np.linalg.qr(rng.standard_normal((features, agents + 1)))[0].T
    found: Array = norm * (math.sqrt(agreement) * own[0] + math.sqrt(1.0 - agreement) * own[1:])
    return found


@pytest.mark.parametrize(
    ("q", "regions", "agreement"), [(1.0, 1, 0.5), (0.3, 1, 0.2), (0.5, 2, 0.0), (0.25, 3, 1.0)]
)
def test_runs_record_the_expected_ratio(q: float, regions: int, agreement: float) -> None:
    # Statistical where q < 1: the mean of 400 squared ratios, each of which varies by up to about
    # itself, is within a quarter (5 standard errors) of the expected one.
    N, M, z, norm = 24, 30, 2.0, 1.5
    S = norm * math.sqrt(regions)
    uniform = WeightSchedule("uniform")
    mechanism = SubsampledGaussianMechanism(N, M, regions, S, q, z, uniform)
    vectors = vectors_of(N, M, norm, agreement, 0)
    replies = tuple(Reply(n, "ok", {"vector": v}) for n, v in enumerate(vectors))
    fleet: Any = None
    squares = []
    for t in range(1 if q == 1.0 else 400):
        release = mechanism.aggregate(0, replies, fleet, Keys(0, SERVER, t))
        squares.append(release.experimenter["signal_to_noise"] ** 2)
    expected, shared = expected_ratios(N, M, regions, q, z, agreement)
    tolerance = 1e-9 if q == 1.0 else 0.25
    assert np.mean(squares) == pytest.approx(expected**2, rel=tolerance)
    assert (shared > 0.0) == (agreement > 0.0)


@pytest.mark.parametrize("kind", ["mean", "sample"])
def test_a_sample_agrees_less_than_a_mean(kind: Kind) -> None:
    # Statistical: samples are means plus standard normal weights; of 300, within 4 standard errors.
    given = Vectors(features=301, norm=4.0, agreement=0.5)
    vectors = vectors_of(300, 301, 4.0, 0.5, 1)
    if kind == "sample":
        vectors = vectors + np.random.default_rng(2).standard_normal(vectors.shape)
    norm, agreement = given.of(kind)
    squared = np.square(vectors).sum(axis=1)
    assert np.mean(squared) == pytest.approx(norm**2, rel=0.02)
    products = vectors @ vectors.T
    mean = (products.sum() - squared.sum()) / (300 * 299)
    assert mean / norm**2 == pytest.approx(agreement, rel=0.05)


def test_releases_are_before_the_last_query() -> None:
    for rounds, expected in ((1, [1]), (2, [1]), (3, [1, 3]), (8, [1, 3]), (9, [1, 3, 5])):
        assert [*few_releases(rounds)] == expected
        assert [len(release_rounds(count, rounds)) for count in expected] == expected
        more = [count for count in FEW_RELEASES if count not in expected]
        assert all(len(release_rounds(count, rounds)) < count for count in more)


def test_more_agents_and_fewer_features_leave_more_signal() -> None:
    def best(agents: int, features: int) -> float:
        moments = make_accountant("moments")  # the quickest
        return plans(agents, 5, 1.0, DELTA, moments, Vectors(features))[0].shared_to_noise

    assert best(40, 100) == pytest.approx(2 * best(20, 100))
    assert best(20, 25) == pytest.approx(2 * best(20, 100))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"agents": 1}, "agents: expected at least 2"),
        ({"rounds": 0}, "rounds: expected at least 1"),
        ({"epsilon": 0.0}, "epsilon: expected a finite number above 0"),
        ({"delta": 1.0}, "delta: expected a number above 0 and below 1"),
    ],
)
def test_bad_targets_are_refused(changes: dict[str, Any], message: str) -> None:
    given = {"agents": 20, "rounds": 5, "epsilon": 1.0, "delta": DELTA, **changes}
    with pytest.raises(ConfigError, match=message):
        plans(**given, accountant=PLD)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": 0}, "features: expected at least 1"),
        ({"norm": 0.0}, "norm: expected a finite number above 0"),
        ({"norm": math.inf}, "norm"),
        ({"agreement": 1.1}, "agreement: expected 0 to 1"),
        ({"agreement": math.nan}, "agreement"),
    ],
)
def test_bad_assumptions_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Vectors(**changes)
