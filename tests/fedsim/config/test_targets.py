"""Privacy targets in place of a noise multiplier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim.config import targets
from fedsim.config.experiment import Experiment, prepare
from fedsim.errors import ConfigError, Interrupted
from fedsim.files import read_yaml
from fedsim.privacy.ledger import Bound, Component
from fedsim.privacy.loss_distribution import PldAccountant
from fedsim.record.progress import Progress
from fedsim.results.losses import epsilons
from fedsim.running.jobs import Job, Listener
from tests.util.small import small

DELTA = 1e-3
BOTH = {"epsilon", "delta", "noise_multiplier"}


def federated(dp: Any, **changes: Any) -> dict[str, Any]:
    raw = small("dp-fts-de", **{"privacy": {"delta": DELTA}, **changes})
    raw["method"]["dp"] = dp
    return raw


def dp_of(experiment: Experiment, label: str = "dp-fts-de") -> dict[str, Any]:
    found: dict[str, Any] = experiment.variants[label].method["dp"]
    return found


def spent(noise: float, rounds: int = 2, delta: float = DELTA) -> float:
    from fedsim.privacy.accountants import make_accountant
    from fedsim.privacy.calibration import constant_loss

    return constant_loss(0.25, noise, rounds, delta, make_accountant("pld")).epsilon


def test_the_noise_just_meets_the_target() -> None:
    dp = dp_of(prepare(federated({"epsilon": 0.7})))
    assert (dp["epsilon"], dp["delta"]) == (0.7, DELTA)
    assert spent(dp["noise_multiplier"]) <= 0.7 < spent(dp["noise_multiplier"] * (1 - 1e-5))
    assert len(f"{dp['noise_multiplier']}".replace(".", "").lstrip("0")) <= 6  # short to read
    # Twice the releases need more noise, half of them less.
    more = dp_of(prepare(federated({"epsilon": 0.7}, rounds=4)))["noise_multiplier"]
    less = dp_of(prepare(federated({"epsilon": 0.7}, rounds=1)))["noise_multiplier"]
    assert less < dp["noise_multiplier"] < more


def test_the_noise_of_samples_of_fixed_size() -> None:
    from fedsim.privacy.accountants import make_accountant
    from fedsim.privacy.calibration import constant_loss

    fixed = {"sampling": "fixed", "sampling_rate": 0.4}  # one agent of three
    z = dp_of(prepare(federated({"epsilon": 3.0, **fixed})))["noise_multiplier"]
    loss = [
        constant_loss(1 / 3, z * factor, 2, DELTA, make_accountant("pld"), "fixed", 3).epsilon
        for factor in (1, 1 - 1e-5)
    ]
    assert loss[0] <= 3.0 < loss[1]
    with pytest.raises(ConfigError, match=r"^method\.dp\.sampling_rate: expected at least 1/3"):
        prepare(federated({"epsilon": 3.0, "sampling": "fixed", "sampling_rate": 0.3}))


def test_the_resolved_configuration_has_both_and_is_accepted_again_unchanged() -> None:
    first = prepare(federated({"epsilon": 0.7}))
    assert set(first.config.method["dp"]) >= BOTH
    assert first.config.method["dp"] == dp_of(first)
    again = prepare(first.config.model_dump(mode="json"))
    assert dp_of(again) == dp_of(first)


@pytest.mark.parametrize(
    ("dp", "privacy"),
    [({"epsilon": 2, "delta": 1e-4}, {}), ({"epsilon": 2}, {"delta": 1e-4}),
     ({"epsilon": 2, "delta": 1e-4}, {"delta": 1e-4})],
)  # fmt: skip
def test_delta_stands_in_either_place(dp: Any, privacy: Any) -> None:
    found = prepare(federated(dp, privacy=privacy))
    assert dp_of(found)["delta"] == 1e-4
    assert spent(dp_of(found)["noise_multiplier"], delta=1e-4) == pytest.approx(2, rel=2e-5)
    # What reports epsilon reports it at the target's delta.
    assert found.config.privacy.delta == found.variants["dp-fts-de"].privacy.delta == 1e-4


def test_the_default_delta_depends_on_the_agents() -> None:
    raw = federated({"epsilon": 2.0}, privacy={})
    for agents in (9, 30):
        raw["scenario"]["agents"] = agents
        found = prepare(raw)
        assert dp_of(found)["delta"] == pytest.approx(agents**-1.1, rel=1e-12)
        assert found.config.privacy.delta is None
    raw["scenario"]["agents"] = 1
    raw["method"]["subregions"] = 1
    with pytest.raises(
        ConfigError, match=r"^privacy.delta: the default N\^-1.1 is 1 for one agent"
    ):
        prepare(raw)


def test_the_configured_accountant_and_multiplier_are_used() -> None:
    def noise(**privacy: Any) -> float:
        raw = federated({"epsilon": 2.0}, privacy={"delta": 1e-3, **privacy})
        raw["method"]["subregions"] = 3  # each agent counts most in one of them
        return float(dp_of(prepare(raw))["noise_multiplier"])

    exact, plain, moments = noise(accounting="exact"), noise(), noise(accountant="moments")
    assert exact < plain < moments


def test_variants_have_noise_of_their_own() -> None:
    raw = federated(
        {"epsilon": 2.0},
        variants={
            "as it is": {},
            "longer": {"rounds": 4},
            "stricter": {"method": {"dp": {"epsilon": 1.0}}},
            "delta": {"privacy": {"delta": 1e-4}},
            "given": {"method": {"dp": {"noise_multiplier": 3}}},
            "in the open": {"method": {"name": "fts-de"}},
        },
    )
    found = prepare(raw)
    noise = {label: dp_of(found, label) for label in list(raw["variants"])[:5]}
    multipliers = {label: dp["noise_multiplier"] for label, dp in noise.items()}
    assert multipliers["given"] == 3
    assert noise["given"]["epsilon"] is noise["given"]["delta"] is None
    assert multipliers["as it is"] < min(multipliers[x] for x in ("longer", "stricter", "delta"))
    assert noise["delta"]["delta"] == 1e-4
    assert found.variants["in the open"].method["dp"] is None
    again = prepare(found.config.model_dump(mode="json"))
    assert {label: dp_of(again, label) for label in multipliers} == noise


def test_a_grid_of_targets() -> None:
    found = prepare(federated({}, grid={"method.dp.epsilon": [1, 4], "rounds": [2, 8]}))
    noise = {(v.method["dp"]["epsilon"], v.rounds): v.method["dp"]["noise_multiplier"]
             for v in found.variants.values()}  # fmt: skip
    for (target, rounds), z in noise.items():
        assert target * (1 - 1e-4) < spent(z, rounds) <= target
    assert len(noise) == 4
    again = prepare(found.config.model_dump(mode="json"))
    assert [v.method["dp"] for v in again.variants.values()] == [
        v.method["dp"] for v in found.variants.values()
    ]


def test_a_control_has_its_variants_noise() -> None:
    found = prepare(federated({"epsilon": 2.0}, noise_control=True))
    control = dp_of(found, "dp-fts-de (noise only)")
    assert control == {**dp_of(found), "noise_only": True}


def test_newer_settings_replace_older_ones() -> None:
    base = federated({"noise_multiplier": 1.5})
    dp = dp_of(prepare(base, ["method.dp.epsilon=2"]))
    assert dp["epsilon"] == 2
    assert dp["noise_multiplier"] != 1.5
    resolved = prepare(federated({"epsilon": 2.0})).config.model_dump(mode="json")
    assert (
        dp_of(prepare(resolved, ["method.dp.epsilon=1"]))["noise_multiplier"]
        > (resolved["method"]["dp"]["noise_multiplier"])
    )
    dp = dp_of(prepare(resolved, ["method.dp.noise_multiplier=4"]))
    assert (dp["noise_multiplier"], dp["epsilon"], dp["delta"]) == (4, None, None)
    both = ["method.dp.epsilon=2", "method.dp.noise_multiplier=4"]
    assert dp_of(prepare(base, both))["noise_multiplier"] == 4  # it meets the target
    variant = federated({"epsilon": 2.0}, variants={"a": {}, "b": {}})
    found = prepare(variant, ["variants.b.method.dp.noise_multiplier=3"])
    assert dp_of(found, "b")["epsilon"] is None
    assert dp_of(found, "a")["epsilon"] == 2


@pytest.mark.parametrize(
    ("dp", "changes", "message"),
    [
        ({"epsilon": 0}, {}, r"^method.dp.epsilon: expected a finite number above 0"),
        ({"epsilon": 1, "delta": 1.0}, {}, r"^method.dp.delta: expected"),
        ({"delta": 1e-4}, {}, r"^method.dp.delta: it belongs to method.dp.epsilon"),
        ({"epsilon": 1, "delta": 1e-4}, {"privacy": {"delta": 1e-5}}, "give one of them"),
        ({"epsilon": 1e-9}, {"privacy": {"delta": 1e-12}}, r"^method.dp.epsilon: not reached even"),
        ({"epsilon": 1e13}, {}, r"^method.dp.epsilon: met even"),
        (
            {"epsilon": 0.5, "noise_multiplier": 0.4},
            {},
            r"^method.dp.noise_multiplier: 0.4 costs an epsilon of .*leave it out",
        ),
        (
            {"epsilon": 1},
            {"variants": {"none": {"method": {"share_until": 0}}}},
            r"^variants.none: method.dp.epsilon: this configuration makes no releases",
        ),
    ],
)
def test_what_cannot_be_met_is_refused(dp: Any, changes: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        prepare(federated(dp, **changes))


def test_resolved_noise_is_refused_where_it_is_not_enough() -> None:
    resolved = prepare(federated({"epsilon": 2.0})).config.model_dump(mode="json")
    with pytest.raises(ConfigError, match=r"leave it out \(or null\)"):
        prepare(resolved, ["rounds=30"])
    dp = dp_of(prepare(resolved, ["rounds=30", "method.dp.noise_multiplier=null"]))
    assert spent(dp["noise_multiplier"], 30) <= 2


def test_a_dp_of_another_shape_is_left_alone(user_module: Any) -> None:
    name = user_module(
        """
        from fedsim.methods.random_search import RandomSearch

        class Mine(RandomSearch):
            def __init__(self, context, *, dp: dict = {}) -> None:
                super().__init__(context)
        """
    )
    raw = small()
    raw["method"] = {"name": f"{name}:Mine", "dp": {"epsilon": 3, "noise_multiplier": 1}}
    found = prepare(raw)
    assert found.config.method["dp"] == {"epsilon": 3, "noise_multiplier": 1}


class _Stopping(Listener):
    def progress(self, job: Job, progress: Progress) -> None:
        if progress.round == 1:
            raise Interrupted("enough")


def test_a_resumed_run_keeps_its_noise(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = federated({"epsilon": 2.0}, variants={"a": {}, "b": {"rounds": 3}})
    whole = fedsim.run(raw, jobs=1)
    with pytest.raises(Interrupted):
        fedsim.run(raw, jobs=1, listener=_Stopping())
    kept = read_yaml(Path("runs/small-2/config.yaml"))
    assert all(set(v["method"]["dp"]) >= BOTH for v in kept["variants"].values())

    def refuse(*_: Any) -> None:
        pytest.fail("a resumed run does not calibrate")

    monkeypatch.setattr(targets, "_met", refuse)
    again = fedsim.resume("runs/small-2", jobs=1)
    assert [s["journal_sha256"] for s in again.summaries()] == [
        s["journal_sha256"] for s in whole.summaries()
    ]
    for one in again.runs:
        report = one.summary()["epsilon"]
        assert report["pld"] <= 2.0
        assert report["pld"] == pytest.approx(2.0, rel=1e-4)
        resolved = one.folder.config()["method"]["dp"]
        assert set(resolved) >= BOTH
        assert report["delta"] == resolved["delta"]


def test_the_planned_loss_is_the_target() -> None:
    from fedsim.running.preflight import check

    experiment = prepare(federated({"epsilon": 2.0}))
    (checked,) = check(experiment).values()
    assert epsilons(checked.costs, DELTA)["pld"] == pytest.approx(2.0, rel=1e-4)


@pytest.mark.parametrize("backend", ["serial", "ray"])
@pytest.mark.parametrize(
    ("budget", "warning"),
    [
        (1.5, "; warning: privacy.budget 1.5 is below method.dp.epsilon 2, so it will refuse"),
        (2.0, ""),
        (None, ""),
    ],
)
def test_the_plan_warns_of_a_budget_below_the_target(
    budget: float | None, warning: str, backend: str
) -> None:
    from fedsim.running.placement import place
    from fedsim.running.preflight import check

    raw = {**federated({"epsilon": 2.0}), "backend": backend}
    raw["privacy"] = {**raw.get("privacy", {}), "budget": budget}
    experiment = prepare(raw)
    _, placement = place(experiment, check(experiment), 1)
    assert ("warning" in placement.plan, warning in placement.plan) == (bool(warning), True)


@pytest.mark.parametrize("jump", [1.23451, 0.777771, 3.14151, 20.0001, 2.71821])
def test_noise_that_is_rounded_up_still_meets_the_target(
    monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    class Jumping(PldAccountant):
        """Where a grid becomes coarser, epsilon is a little larger although there is more noise."""

        def bound(self, components: tuple[Component, ...], delta: float) -> Bound:
            z = components[0].noise_multiplier
            return Bound((1 + 2e-5 * (z >= jump)) / z, "composition")

    target = 1 / (jump * (1 - 2e-6))  # met just below the jump, not at it
    monkeypatch.setattr("fedsim.privacy.accountants.make_accountant", lambda name: Jumping())
    noise = dp_of(prepare(federated({"epsilon": target})))["noise_multiplier"]
    found = Jumping().bound((Component(0.25, noise, 2),), DELTA).epsilon
    assert target * (1 - 1e-4) < found <= target
