"""The broadcast as prior mean: releases and their cost, what agents do with it, what it brings."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.config.experiment import prepare
from fedsim.errors import ConfigError, Interrupted, RunError
from fedsim.methods.averaging import FewReleasesSettings
from fedsim.methods.dp_prior import DPPrior
from fedsim.methods.local_model import LocalModelSettings
from fedsim.methods.messages import MeanMessageSettings
from fedsim.methods.releases import ReleaseSum
from fedsim.privacy.accountants import make_accountant, privacy_loss
from fedsim.privacy.events import SubsampledGaussian
from fedsim.privacy.ledger import Ledger
from fedsim.protocol import Broadcast, Context, Observation, Release, Request
from fedsim.record.entries import ReleaseEntry, StepEntry, observations
from fedsim.record.journal import read_journal
from fedsim.record.progress import Progress
from fedsim.results.analysis import Run
from fedsim.rng import Keys
from fedsim.space import Array, Choice, Parameter, Space
from fedsim.surrogates.rff import FeatureFunction
from fedsim.testing import check_method
from tests.util.small import make, run, small

GRID = Space((Parameter("x", 0.0, 1.0, levels=200),))
SQUARE = Space((Parameter("a", 0.0, 1.0), Parameter("b", 0.0, 1.0)))
MIXED = Space((Choice("k", ["a", "b"]), Parameter("x", 0, 1), Parameter("n", 1, 5, integer=True)))
MESSAGE = MeanMessageSettings(center=0.5, features=20)
CONFIG: dict[str, Any] = {
    "name": "trial",
    "scenario": {"name": "synthetic", "agents": 40, "grid_size": 200, "length_scale": 0.05},
    "method": {
        "name": "dp-prior",
        "initial_points": 3,
        "message": {"center": 0.5, "features": 30, "length_scale": 0.05},
        "dp": {"noise_multiplier": 0.5},
        "surrogate": {
            "length_scale": 0.05,
            "variance": 0.06,
            "noise_variance": 0.01,
            "fit_every": 0,
            "mean": "zero",
        },
    },
    "rounds": 6,
    "backend": "serial",
}


def simulate(folder: Path, **changes: Any) -> Run:
    method = {**CONFIG["method"], **changes.pop("method", {})}
    return fedsim.run({**CONFIG, "method": method, **changes}, out=folder / "run")


def releases(run: Run) -> list[dict[str, Any]]:
    entries = read_journal(run.runs[0].folder.journal)
    return [entry.to_json() for entry in entries if isinstance(entry, ReleaseEntry)]


def queries(run: Run) -> list[list[float]]:
    entries = read_journal(run.runs[0].folder.journal)
    return [np.asarray(record.u).tolist() for _, record in observations(entries)]


def method(space: Space = GRID, **settings: Any) -> DPPrior:
    return DPPrior(Context(space, 4, 9, 3), **{"message": MESSAGE, **settings})


def broadcast(vector: Array) -> Broadcast:
    return Broadcast({"vector": vector})


def observed(space: Space, count: int) -> tuple[Array, Array, list[Observation]]:
    """Return inputs, outputs, and both as observations."""
    generator = np.random.default_rng(0)
    X, y = space.snap(generator.random((count, space.dimension))), generator.random(count)
    return X, y, [Observation(0, i, X[i], float(y[i]), "") for i in range(count)]


class TestReleases:
    @pytest.mark.parametrize(("given", "expected"), [(5, [0, 1, 2, 4]), (1, [0]), ([1, 3], [1, 3])])
    def test_only_the_schedules_rounds_ask_and_are_charged(
        self, tmp_path: Path, given: Any, expected: list[int]
    ) -> None:
        run = simulate(tmp_path, method={"releases": given}, transcript=True)
        made = releases(run)
        assert [line["t"] for line in made] == expected
        dp, context = FewReleasesSettings(noise_multiplier=0.5), Context(GRID, 40, 6, 0)
        planned = DPPrior(context, releases=given, dp=dp, message=MESSAGE).planned_costs()
        assert [cost.record() for cost in planned] == [line["event"] for line in made]
        lines = [json.loads(x) for x in run.runs[0].folder.transcript.read_text().splitlines()]
        assert [line["t"] for line in lines if "release" in line] == expected

    def test_the_loss_is_that_of_so_many_releases(self, tmp_path: Path) -> None:
        run = simulate(tmp_path, method={"releases": 3, "dp": {"noise_multiplier": 2.0}})
        ledger = Ledger(((SubsampledGaussian(1.0, 2.0, 2.0), 3),))
        pld = make_accountant("pld")
        found = run.summaries()[0]["epsilon"]
        assert found["releases"] == 3
        assert found["pld"] == pytest.approx(privacy_loss(ledger, found["delta"], pld).epsilon)

    def test_a_target_is_calibrated_over_the_releases_that_happen(self) -> None:
        def noise(**changes: Any) -> float:
            settings = {**CONFIG["method"], "dp": {"epsilon": 2.0, "delta": 1e-5}, **changes}
            (variant,) = prepare({**CONFIG, "method": settings}).variants.values()
            found: float = variant.method["dp"]["noise_multiplier"]
            return found

        one = noise(releases=1)
        # Gaussian releases without sampling compose as one of less noise.
        assert noise(releases=4) == pytest.approx(2.0 * one, rel=1e-3)
        assert noise(releases=[0, 5, 99]) == pytest.approx(np.sqrt(2.0) * one, rel=1e-3)

    def test_a_budget_refuses_later_ones_and_agents_keep_what_they_have(
        self, tmp_path: Path
    ) -> None:
        spent = simulate(tmp_path / "free").rounds["epsilon_pld"].tolist()
        run = simulate(tmp_path / "bound", privacy={"budget": (spent[0] + spent[1]) / 2})
        assert ["refused" in line for line in releases(run)] == [False, True, True, True]
        kept = simulate(tmp_path / "one", method={"releases": 1})
        assert queries(run) == queries(kept)

    def test_the_server_sees_releases_and_nothing_else(self, tmp_path: Path) -> None:
        run = simulate(tmp_path, transcript=True, method={"releases": [0, 2]})
        received = [json.loads(x) for x in run.runs[0].folder.transcript.read_text().splitlines()]
        assert len(received) == 7
        for line in received:
            if line["t"] in (0, 2):
                assert "replies" not in line
                assert set(line["release"]) == {"vectors"}
                assert np.shape(line["release"]["vectors"]) == (1, 30)
            else:
                assert line["replies"] == []

    def test_without_privacy_nothing_is_charged(self, tmp_path: Path) -> None:
        settings = {name: value for name, value in CONFIG["method"].items() if name != "dp"}
        config = {**CONFIG, "method": {**settings, "name": "prior-mean"}}
        run = fedsim.run(config, out=tmp_path / "run")
        assert ["event" in line for line in releases(run)] == [False] * 4
        assert run.summaries()[0]["epsilon"] == {}

    def test_without_releases_it_is_thompson_sampling(self, tmp_path: Path) -> None:
        alone = {**CONFIG["method"]["surrogate"], "fit_every": 3, "mean": "observed"}
        none = simulate(tmp_path / "none", method={"releases": 0, "surrogate": alone})
        ts = {"name": "ts", "initial_points": 3, "surrogate": alone}
        other = fedsim.run({**CONFIG, "method": ts}, out=tmp_path / "ts")
        assert queries(none) == queries(other)


class TestAgents:
    @pytest.mark.parametrize("center", [None, 0.5])
    @pytest.mark.parametrize("count", [6, 30])  # fewer, and more, than the features
    def test_the_message_is_the_posterior_mean_of_what_the_broadcast_leaves(
        self, center: float | None, count: int
    ) -> None:
        message = MeanMessageSettings(center=center, scale=2.0, features=20)
        built = method(SQUARE, message=message)
        agent = built.agent(0)
        X, y, seen = observed(SQUARE, count)
        agent.observe(seen)
        phi = built._work.federated.features_of(X)
        w = np.random.default_rng(1).standard_normal(20)
        outputs = (y - y.mean()) / y.std() if center is None else (y - 0.5) / 2.0
        offset = (phi @ w).mean() if center is None else 0.0
        for payload, left in [
            ({}, outputs),
            ({"vector": np.zeros(20)}, outputs),
            ({"vector": w}, outputs - (phi @ w - offset)),
        ]:
            found = agent.reply(Request("posterior-message", payload), Keys(3, 0, 0))["vector"]
            expected = np.linalg.solve(phi.T @ phi + 0.01 * np.eye(20), phi.T @ left)
            np.testing.assert_allclose(found, expected, atol=1e-8)

    def test_an_agent_that_knows_nothing_or_agrees_corrects_nothing(self) -> None:
        built = method(SQUARE)
        w = np.random.default_rng(1).standard_normal(20)
        request = Request("posterior-message", {"vector": w})
        found = built.agent(0).reply(request, Keys(3, 0, 0))["vector"]
        np.testing.assert_array_equal(found, np.zeros(20))
        agent, (X, _, _) = built.agent(1), observed(SQUARE, 8)
        y = 0.5 + built._work.federated.features_of(X) @ w
        agent.observe([Observation(0, i, X[i], float(y[i]), "") for i in range(8)])
        found = agent.reply(request, Keys(3, 0, 0))["vector"]
        np.testing.assert_allclose(found, np.zeros(20), atol=1e-9)

    def test_other_requests_are_refused(self) -> None:
        with pytest.raises(RunError, match="dp-prior: agents do not know the request 'other'"):
            method().agent(0).reply(Request("other"), Keys(3, 0, 0))

    @pytest.mark.parametrize("space", [GRID, SQUARE, MIXED])
    @pytest.mark.parametrize(
        "surrogate",
        [
            LocalModelSettings(fit_every=0),
            LocalModelSettings(fit_every=4, warp="own", trend="smooth", ard=True),
        ],
    )
    def test_an_agent_follows_a_clear_broadcast_without_observations(
        self, space: Space, surrogate: LocalModelSettings
    ) -> None:
        # Exact: with no spread, a sample without observations is the mean.
        built = method(space, surrogate=LocalModelSettings(beta=0.0, candidates=2000))
        vector = 100.0 * np.random.default_rng(2).standard_normal(20)
        (proposal,) = built.agent(0).propose(1, broadcast(vector), Keys(3, 0, 1))
        points = np.random.default_rng(3).random((3000, space.dimension))
        points = space.snap(points) if space.grid is None else space.grid
        values = built._work.federated.features_of(points) @ vector
        best = built._work.federated.features_of(proposal.u[None]) @ vector
        assert proposal.source == "prior"
        assert best[0] > values.max() - 0.02 * np.ptp(values)
        # And any settings make a query of the space, with a few observations, too.
        agent = method(space, surrogate=surrogate).agent(0)
        U = space.snap(np.random.default_rng(4).random((12, space.dimension)))
        agent.observe([Observation(0, i, u, float(u.sum()), "") for i, u in enumerate(U)])
        (proposal,) = agent.propose(1, broadcast(vector), Keys(3, 0, 1))
        np.testing.assert_array_equal(space.snap(proposal.u), proposal.u)

    @pytest.mark.parametrize("center", [None, 0.5])
    def test_it_conforms(self, center: float | None) -> None:
        message = MeanMessageSettings(center=center, features=8)
        for releases in (2, [1, 3]):
            check_method(
                lambda context, releases=releases: DPPrior(  # type: ignore[misc]
                    context, initial_points=3, releases=releases, message=message
                ),
                rounds=5,
            )


@pytest.mark.parametrize("name", ["prior-mean", "dp-prior"])
@pytest.mark.parametrize("availability", [1.0, 0.5])
def test_every_release_corrects_the_ones_before(
    tmp_path: Path, name: str, availability: float
) -> None:
    """A run's releases, against those that follow from its observations and definitions.

    With privacy, the noise of a release has a standard deviation of 2.5e-5, and the tolerance is
    over ten of these. Without, it is exact.
    """
    given = {**CONFIG["method"], "name": name, "releases": 3}
    given["dp"] = {"noise_multiplier": 1e-4, "clipping_norm": 10.0}
    if name == "prior-mean":
        del given["dp"]
    config = {**CONFIG, "rounds": 3, "method": given, "seeds": "4", "availability": availability}
    config["transcript"] = True
    run = fedsim.run(config, out=tmp_path / "run")
    folder = run.runs[0].folder
    lines = [json.loads(line) for line in folder.transcript.read_text().splitlines()]
    released = {x["t"]: np.array(x["release"]["vectors"])[0] for x in lines if "release" in x}
    assert sorted(released) == [0, 1, 2]
    message = MeanMessageSettings(center=0.5, features=30, length_scale=0.05)
    federated = DPPrior(Context(GRID, 40, 3, 4), message=message)._work.federated
    history: dict[int, list[tuple[float, float]]] = {n: [] for n in range(40)}
    w, missed = np.zeros(30), 0
    for step in (x for x in read_journal(folder.journal) if isinstance(x, StepEntry)):
        for seen in step.observations:
            history[seen.agent].append((seen.u[0], seen.y))
        if step.t not in released:
            continue
        messages = []
        for n in sorted({seen.agent for seen in step.observations}):
            u, y = np.array(history[n]).T
            phi = federated.features_of(u[:, None])
            inverse = np.linalg.inv(phi.T @ phi + 0.01 * np.eye(30))
            messages.append(inverse @ phi.T @ (y - 0.5 - phi @ w))
        missed += 40 - len(messages)
        expected = np.sum(messages, axis=0) / (40 if name == "dp-prior" else len(messages))
        np.testing.assert_allclose(
            released[step.t], expected, atol=3e-4 if name == "dp-prior" else 1e-9
        )
        w = w + released[step.t]  # which next to no noise does not shrink
    assert (missed > 0) == (availability < 1)


def test_with_the_same_observations_later_releases_know_more() -> None:
    """An average of posterior means would stay as it is: the errors' ratio would be 1.

    Statistical: over 200 functions, the ratio's mean is 0.08, and its largest value 0.46.
    """
    built = method(message=MeanMessageSettings(center=0.0, features=20), dp=None)
    features, generator = built._work.federated.features, np.random.default_rng(5)
    truth = FeatureFunction(features, generator.standard_normal(20))
    agents = [built.agent(n) for n in range(60)]
    for agent in agents:
        points = generator.random((3, 1))
        y = truth.values(points) + 0.1 * generator.standard_normal(3)
        agent.observe([Observation(0, i, points[i], float(y[i]), "") for i in range(3)])
    known, errors = ReleaseSum(np.zeros(20), 0.0), []
    for _ in range(5):
        request = Request("posterior-message", {"vector": known.vector})
        replies = [agent.reply(request, Keys(3, 0, 0))["vector"] for agent in agents]
        known = known.with_release(np.mean(replies, axis=0), 0.0)
        left = FeatureFunction(features, known.vector - truth.weights)
        assert GRID.grid is not None
        errors.append(float(np.square(left.values(GRID.grid)).mean()))
    assert errors[-1] < 0.6 * errors[0]


def test_a_server_goes_on_from_its_state() -> None:
    """Shrunk by the noise that is known, and what it has restored is what it had."""
    context = Context(GRID, 4, 9, 3)
    dp = FewReleasesSettings(noise_multiplier=2.0, clipping_norm=1.0)
    built = DPPrior(context, message=MESSAGE, dp=dp, releases=[0, 1, 2])
    server, rng = built.server(), np.random.default_rng(0)
    given = [rng.standard_normal(20) for _ in range(3)]
    fleet: Any = _Fleet(given)
    server.round(0, fleet)
    server.round(1, fleet)
    one = ReleaseSum(np.zeros(20), 0.0).with_release(given[0], 0.25)  # (z S / N)^2
    other = built.server()
    other.restore(server.state())
    for each in (server, other):
        each.round(2, fleet)
        fleet.given = [given[2]]
    two = one.with_release(given[1], 0.25)
    assert fleet.told[0] is None
    np.testing.assert_allclose(fleet.told[1], one.vector)
    np.testing.assert_allclose(fleet.told[2], two.vector)
    np.testing.assert_array_equal(fleet.told[3], fleet.told[2])
    for name, value in server.state().items():
        np.testing.assert_array_equal(value, other.state()[name])
    fresh = built.server()
    other.restore(fresh.state())
    assert other.state() == {}


class _Fleet:
    """Gives releases, and checks that a request carries what the same round's queries follow."""

    def __init__(self, given: list[Array]) -> None:
        self.given = list(given)
        self.told: list[Any] = []

    def step(self, t: int, message: Broadcast | None, **asked: Any) -> Release:
        told = None if message is None else message.payload["vector"]
        assert asked["then"].payload.get("vector") is told
        self.told.append(told)
        return Release({"vectors": self.given.pop(0)[None]})


@pytest.fixture(scope="module")
def regrets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Array]:
    """Simple regret by seed, its mean over agents and rounds 1 to 6."""
    found = {}
    for label, changes in {
        "alone": {"releases": 0},
        "useful": {"dp": {"noise_multiplier": 0.2, "clipping_norm": 2.0}},
        "noise": {"dp": {"noise_multiplier": 0.2, "clipping_norm": 2.0, "noise_only": True}},
    }.items():
        run = simulate(tmp_path_factory.mktemp(label), method=changes, seeds="0-5")
        kept = run.rounds[run.rounds["round"] > 0]
        found[label] = kept.groupby("seed")["mean_simple_regret"].mean().to_numpy()
    return found


def test_a_good_broadcast_helps(regrets: dict[str, Array]) -> None:
    # Statistical: over 30 seeds the ratio is 0.57 on average, with a standard deviation of 0.25; of
    # six, 0.1. Their limit is 2.8 of these above.
    assert regrets["useful"].mean() < 0.85 * regrets["alone"].mean()


def test_noise_does_little_harm(regrets: dict[str, Array]) -> None:
    # Statistical: over 30 seeds the ratio is 1.03, with a standard deviation of 0.04.
    assert regrets["noise"].mean() < 1.15 * regrets["alone"].mean()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"releases": [2, 1]}, r"method\.releases"),
        ({"surrogate": {"mean": "zero"}, "message": {}}, "expected 'observed' without .*center"),
        ({"message": {"kind": "sample"}}, r"method\.message\.kind"),
        ({"message": {"length_scale": -1.0}}, r"method\.message\.length_scale"),
        ({"dp": {"sampling_rate": 1.5}}, r"method\.dp\.sampling_rate"),
        ({"dp": {"epsilon": -1.0}}, r"method\.dp\.epsilon"),
        ({"dp": None}, r"method\.dp: dp-prior needs it"),
        ({"releases": 0, "dp": {"epsilon": 1.0}}, "makes no releases"),
    ],
)
def test_settings_out_of_range(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        simulate(tmp_path, method=settings)


def test_default_settings_cost_little(tmp_path: Path) -> None:
    """A group of settings that is given in part keeps this method's own defaults."""
    run = simulate(tmp_path, method={"dp": {"noise_only": False}})
    assert [line["event"] for line in releases(run)] == 4 * [
        SubsampledGaussian(1.0, 3.0, 3.0).record()
    ]


def test_the_noise_only_control_does_not_depend_on_the_messages(tmp_path: Path) -> None:
    found = []
    for noise_variance in (0.01, 0.1):
        message = {**CONFIG["method"]["message"], "noise_variance": noise_variance}
        changes = {"message": message, "dp": {"noise_multiplier": 0.5, "noise_only": True}}
        run = simulate(tmp_path / str(noise_variance), method=changes)
        assert [line["experimenter"]["signal_to_noise"] for line in releases(run)] == [0.0] * 4
        found.append(queries(run))
    assert found[0] == found[1]


def stop(progress: Progress) -> None:
    raise Interrupted("enough")


def test_journals_do_not_depend_on_where_it_was_interrupted(tmp_path: Path) -> None:
    raw = small("dp-prior", rounds=4, availability=0.7)
    journal = run(make(tmp_path / "whole", raw))
    parts = make(tmp_path / "parts", raw)
    for _ in range(5):
        with pytest.raises(Interrupted):
            run(parts, stop)
    assert run(parts) == journal


def test_noise_of_the_operating_system_is_drawn_once_per_release(tmp_path: Path) -> None:
    raw = small("dp-prior", rounds=4, availability=0.7)
    parts = replace(make(tmp_path / "parts", raw), system_noise=True)
    drawn = dict[Path, bytes]()
    for _ in range(5):
        with pytest.raises(Interrupted):
            run(parts, stop)
        found = {path: path.read_bytes() for path in parts.folder.rglob("releases/*.npz")}
        assert {path: found[path] for path in drawn} == drawn
        drawn = found
    run(parts)
    entries = read_journal(parts.folder / "journal.jsonl")
    assert [one.t for one in entries if isinstance(one, ReleaseEntry)] == [0, 1, 2]
    assert len(drawn) == 3
