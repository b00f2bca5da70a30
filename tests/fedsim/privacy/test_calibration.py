from __future__ import annotations

import math
from typing import Any

import pytest

from fedsim.errors import ConfigError
from fedsim.privacy.accountants import Accountant, default_delta, privacy_loss
from fedsim.privacy.calibration import (
    calibrate,
    constant_loss,
    noise_for,
    scaled,
)
from fedsim.privacy.events import FixedSizeGaussian, SubsampledGaussian, UnknownEvent
from fedsim.privacy.ledger import Ledger
from fedsim.privacy.loss_distribution import PldAccountant
from fedsim.privacy.renyi import MomentsAccountant, RdpAccountant
from fedsim.privacy.searching import largest_rate, largest_sample, smallest_multiplier

DELTA = default_delta(200)
PLD, MOMENTS = PldAccountant(), MomentsAccountant()


def test_noise_of_the_reference() -> None:
    found = calibrate(4, DELTA, PLD, sampling_rate=0.25, rounds=40)
    assert found.found == "noise_multiplier"
    assert found.noise_multiplier == pytest.approx(1.40197, abs=2e-5)
    assert 4 * (1 - 1e-5) < found.loss.epsilon <= 4
    assert (found.loss.delta, found.loss.accountant) == (DELTA, "pld")


def test_noise_of_the_reference_with_rdp() -> None:
    # Few orders, for speed: the best one is among them.
    accountant = RdpAccountant((2.5, 2.6, 2.7, 2.8, 2.9, 3.0, 3.1, 3.2, 3.5, 4.0, 5.0))
    found = calibrate(4, DELTA, accountant, sampling_rate=0.25, rounds=40)
    assert found.noise_multiplier == pytest.approx(1.56461, abs=2e-5)


def test_rounds_of_the_reference() -> None:
    found = calibrate(4, DELTA, PLD, sampling_rate=0.25, noise_multiplier=1)
    assert (found.found, found.rounds) == ("rounds", 14)
    assert found.loss.epsilon <= 4 < constant_loss(0.25, 1, 15, DELTA, PLD).epsilon


@pytest.mark.parametrize("accountant", [MOMENTS, PLD], ids=["moments", "pld"])
def test_rate_is_the_largest_that_meets_the_target(accountant: Accountant) -> None:
    found = calibrate(4, DELTA, accountant, noise_multiplier=1, rounds=8)
    assert found.found == "sampling_rate"
    more = constant_loss(found.sampling_rate * (1 + 1e-4), 1, 8, DELTA, accountant)
    assert found.loss.epsilon <= 4 < more.epsilon
    assert calibrate(4, DELTA, accountant, noise_multiplier=50, rounds=4).sampling_rate == 1.0


@pytest.mark.parametrize(
    ("alpha", "beta", "sigma"),
    [(1, 0.1, 1.0858778), (0.5, 0.01, 3.1469131), (10, 0.1, 0.2818121), (1, 1e-5, 3.7306316)],
)
def test_noise_of_one_gaussian(alpha: float, beta: float, sigma: float) -> None:
    found = calibrate(alpha, beta, PLD, sampling_rate=1, rounds=1)
    assert found.noise_multiplier == pytest.approx(sigma, abs=1e-6)  # P4


def test_results_are_monotone_and_within_their_targets() -> None:
    targets = (0.5, 1.0, 2.0, 5.0, 20.0)  # above what the moments' orders can show at least
    runs = [
        (
            calibrate(e, DELTA, MOMENTS, sampling_rate=0.2, rounds=30),
            calibrate(e, DELTA, MOMENTS, noise_multiplier=1.0, rounds=30),
            calibrate(e + 3, DELTA, MOMENTS, sampling_rate=0.2, noise_multiplier=1.0),
        )
        for e in targets
    ]
    for target, (noise, rate, rounds) in zip(targets, runs, strict=True):
        assert max(noise.loss.epsilon, rate.loss.epsilon, rounds.loss.epsilon - 3) <= target
    noises, ratios, counts = zip(*runs, strict=True)
    assert [c.noise_multiplier for c in noises] == sorted(
        (c.noise_multiplier for c in noises), reverse=True
    )
    assert [c.sampling_rate for c in ratios] == sorted(c.sampling_rate for c in ratios)
    assert [c.rounds for c in counts] == sorted(c.rounds for c in counts)


@pytest.mark.parametrize(
    ("accountant", "epsilon", "given"),
    [
        (PLD, 0.1, {"noise_multiplier": 1.0, "rounds": 40}),
        (PLD, 1e-4, {"noise_multiplier": 1.0, "rounds": 40}),
        (MOMENTS, 1.0, {"noise_multiplier": 1.0, "rounds": 10**6}),
        (MOMENTS, 4.0, {"sampling_rate": 1e-3, "noise_multiplier": 1.0}),
        (MOMENTS, 0.5, {"sampling_rate": 0.01, "rounds": 10**5}),
        pytest.param(
            *(PLD, 1.0, {"noise_multiplier": 1.0, "rounds": 10**6}), marks=pytest.mark.slow
        ),
    ],
)
def test_few_trials_find_extreme_settings(
    accountant: Accountant, epsilon: float, given: dict[str, Any]
) -> None:
    trials: list[tuple[str, float, float]] = []

    def heard(found: str, value: float, spent: float) -> None:
        trials.append((found, value, spent))

    found = calibrate(epsilon, 1e-5, accountant, **given, on_trial=heard)
    assert 0 < len(trials) <= 40
    assert {name for name, _, _ in trials} == {found.found}
    value = getattr(found, found.found)
    assert (found.found, value, found.loss.epsilon) in trials
    met = [v for _, v, spent in trials if spent <= epsilon]
    assert value == (min(met) if found.found == "noise_multiplier" else max(met))


@pytest.mark.parametrize("accounting", ["paper", "exact"])
def test_noise_for_a_whole_run(accounting: Any) -> None:
    plan = [SubsampledGaussian(0.2, 1.0, 1.6)] * 5 + [SubsampledGaussian(0.2, 1.0, 1.0)] * 9
    factor = noise_for(plan, 2.0, 1e-4, PLD, accounting)
    for change, meets in ((1.0, True), (1 - 1e-5, False)):
        scaled = [
            SubsampledGaussian(0.2, change * factor, change * factor * e.exact_noise_multiplier)
            for e in plan
        ]
        loss = privacy_loss(Ledger.from_events(scaled), 1e-4, PLD, accounting)
        assert (loss.epsilon <= 2.0) is meets


def test_noise_for_what_has_none() -> None:
    with pytest.raises(ConfigError, match="asks for no privacy"):
        noise_for([], 2.0, 1e-4, PLD)
    with pytest.raises(ConfigError, match=r"^epsilon: expected events of a subsampled Gaussian"):
        noise_for([UnknownEvent("other", None, "{}")], 2.0, 1e-4, PLD)


@pytest.mark.parametrize("threshold", [0.002, 0.7, 1.0, 1.3, 900.0])
def test_search_for_a_multiplier(threshold: float) -> None:
    found = smallest_multiplier(lambda z: threshold / z, 1.0)
    assert threshold <= found <= threshold * (1 + 1e-6)


@pytest.mark.parametrize("threshold", [1e-6, 0.3, 1.0])
def test_search_for_a_rate(threshold: float) -> None:
    found = largest_rate(lambda q: q / threshold, 1.0)
    assert threshold * (1 - 1e-6) <= found <= threshold


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sampling_rate": 1.0, "noise_multiplier": 0.1}, "exceeded by a single round"),
        ({"sampling_rate": 1e-6, "noise_multiplier": 100.0}, "not even used up by"),
    ],
)
def test_targets_out_of_reach(given: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^epsilon: {message}"):
        calibrate(2, DELTA, MOMENTS, **given)  # type: ignore[arg-type]


def test_targets_that_no_noise_reaches() -> None:
    # Orders up to 64 cannot show less than ln(1/delta)/63.
    with pytest.raises(ConfigError, match=r"^epsilon: not reached even with a noise multiplier"):
        calibrate(0.01, DELTA, MOMENTS, sampling_rate=0.5, rounds=3)
    with pytest.raises(ConfigError, match=r"^epsilon: not reached even with a sampling rate"):
        calibrate(0.01, DELTA, MOMENTS, noise_multiplier=1.0, rounds=3)
    with pytest.raises(ConfigError, match="asks for no privacy"):
        calibrate(1e12, DELTA, MOMENTS, sampling_rate=0.5, rounds=3)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"rounds": 3},
        {"sampling_rate": 0.1, "noise_multiplier": 1.0, "rounds": 3},
    ],
)
def test_exactly_one_unknown(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="exactly one"):
        calibrate(2, DELTA, PLD, **given)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon", 0.0),
        ("epsilon", math.nan),
        ("sampling_rate", 0.0),
        ("sampling_rate", 1.01),
        ("noise_multiplier", 0.0),
        ("noise_multiplier", math.inf),
        ("rounds", 0),
    ],
)
def test_bad_values_are_named(name: str, value: float) -> None:
    given: dict[str, Any] = {"epsilon": 2.0, "sampling_rate": 0.1, "rounds": 3}
    if name == "noise_multiplier":
        del given["rounds"]
    given[name] = value
    with pytest.raises(ConfigError, match=f"^{name}: expected"):
        calibrate(given.pop("epsilon"), DELTA, PLD, **given)


class TestFixedSize:
    def test_the_noise_just_meets_the_target(self) -> None:
        def loss(z: float) -> float:
            return constant_loss(0.35, z, 60, 29**-1.1, PldAccountant(), "fixed", 29).epsilon

        found = calibrate(
            11.73,
            29**-1.1,
            PldAccountant(),
            sampling_rate=0.35,
            rounds=60,
            sampling="fixed",
            agents=29,
        )
        assert found.noise_multiplier == pytest.approx(2.0, abs=1e-3)  # the reference's table
        assert loss(found.noise_multiplier) <= 11.73 < loss(found.noise_multiplier * (1 - 1e-5))
        assert (found.loss.neighbouring_relation, found.loss.sampling) == (
            "replace-one",
            "fixed-size",
        )

    def test_the_rate_found_is_a_whole_number_of_agents(self) -> None:
        found = calibrate(
            3.0,
            29**-1.1,
            RdpAccountant(),
            noise_multiplier=8,
            rounds=60,
            sampling="fixed",
            agents=29,
        )
        size = round(found.sampling_rate * 29)
        assert found.sampling_rate == size / 29
        one_more = constant_loss(
            (size + 1) / 29, 8, 60, 29**-1.1, RdpAccountant(), "fixed", 29
        ).epsilon
        assert found.loss.epsilon <= 3 < one_more

    @pytest.mark.parametrize("most", [1, 2, 9, 10])
    def test_the_largest_sample(self, most: int) -> None:
        assert largest_sample(lambda size: size <= most, 10) == most
        with pytest.raises(ConfigError, match="exceeded even by samples of one agent"):
            largest_sample(lambda size: False, 10)

    def test_events_keep_their_sample(self) -> None:
        event = FixedSizeGaussian(29, 10, 1.0, 2.0)
        assert scaled([event], 3.0).counts == ((FixedSizeGaussian(29, 10, 3.0, 6.0), 1),)

    def test_samples_of_nobody_are_refused(self) -> None:
        with pytest.raises(ConfigError, match="sampling_rate: expected at least 1/29"):
            constant_loss(0.03, 1.0, 1, 0.1, RdpAccountant(), "fixed", 29)
