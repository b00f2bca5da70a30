import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import fedsim
from fedsim.cli.summary import privacy_sentence
from fedsim.errors import ConfigError
from fedsim.methods.dp_fts_de import DPFTSDE
from fedsim.methods.local_model import LocalModelSettings
from fedsim.methods.messages import FederatedWork, MessageSettings
from fedsim.privacy.accountants import default_delta, privacy_loss
from fedsim.privacy.events import SubsampledGaussian
from fedsim.privacy.ledger import Ledger
from fedsim.privacy.mechanism import SubsampledGaussianMechanism
from fedsim.privacy.renyi import MomentsAccountant
from fedsim.protocol import (
    Aggregator,
    Broadcast,
    Context,
    Fleet,
    Observation,
    Release,
    Request,
    Respondents,
)
from fedsim.record.entries import Entry, ReleaseEntry, observations
from fedsim.record.journal import read_journal
from fedsim.results.analysis import Run
from fedsim.rng import SERVER, Keys
from fedsim.space import Array, Parameter, Space
from fedsim.surrogates.linear import linear_posterior

GRID = Space((Parameter("x", 0.0, 1.0, levels=200),))
SQUARE = Space((Parameter("a", 0.0, 1.0), Parameter("b", 0.0, 1.0)))
SURROGATE = LocalModelSettings(length_scale=0.1, noise_variance=0.01, fit_every=0, mean="zero")
CONFIG: dict[str, Any] = {
    "name": "trial",
    "scenario": {"name": "synthetic", "agents": 8, "grid_size": 100},
    "method": {
        "name": "dp-fts-de",
        "initial_points": 3,
        "own_probability": 0.0,
        "message": {"features": 20, "length_scale": 0.05},
        "surrogate": {"length_scale": 0.05, "fit_every": 0},
    },
    "rounds": 6,
    "backend": "serial",
}


def simulate(folder: Path, **changes: Any) -> Run:
    method = {**CONFIG["method"], **changes.pop("method", {})}
    return fedsim.run({**CONFIG, "method": method, **changes}, out=folder / "run")


def journal(run: Run) -> list[Entry]:
    return list(read_journal(run.runs[0].folder.journal))


def releases(run: Run) -> list[dict[str, Any]]:
    return [entry.to_json() for entry in journal(run) if isinstance(entry, ReleaseEntry)]


def sources(run: Run) -> Mapping[int, set[str]]:
    found: dict[int, set[str]] = {}
    for t, record in observations(journal(run)):
        found.setdefault(t, set()).add(record.source)
    return found


def test_a_run_with_samples_of_fixed_size_says_so(tmp_path: Path) -> None:
    dp = {"sampling": "fixed", "sampling_rate": 0.3}
    run = simulate(tmp_path, method={"dp": dp}, privacy={"budget": 200.0})
    costs = [entry["event"] for entry in releases(run)]
    assert len(costs) == 6
    assert {(cost["kind"], cost["agents"], cost["sample_size"]) for cost in costs} == {
        ("fixed-size-gaussian", 8, 2)
    }
    epsilon = run.summaries()[0]["epsilon"]
    assert (epsilon["neighbouring_relation"], epsilon["sampling"]) == ("replace-one", "fixed-size")
    assert "moments" not in epsilon
    said = privacy_sentence(epsilon)
    assert "neighbours: replace-one of one agent; sampling: fixed-size." in said
    assert "moments" not in said


def test_samples_of_nobody_are_refused_before_a_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^method\.dp\.sampling_rate: expected at least 1/8"):
        simulate(tmp_path, method={"dp": {"sampling": "fixed", "sampling_rate": 0.1}})
    with pytest.raises(ConfigError, match="moments cannot account for 'fixed-size-gaussian'"):
        simulate(
            tmp_path,
            method={"dp": {"sampling": "fixed"}},
            privacy={"budget": 9.0, "accountant": "moments"},
        )


def work(space: Space, subregions: int, kind: Any = "sample") -> FederatedWork:
    settings = MessageSettings(kind=kind, features=30, length_scale=0.1)
    return FederatedWork(Context(space, 10, 5, seed=3), settings, subregions, SURROGATE)


def test_the_servers_maximiser_on_a_grid_is_exact() -> None:
    federated = work(GRID, 3)
    vectors = np.random.default_rng(0).standard_normal((3, 30))
    assert GRID.grid is not None
    phi = federated.features.matrix(GRID.grid)
    region = np.minimum((GRID.grid[:, 0] * 3).astype(int), 2)
    expected = GRID.grid[np.argmax((phi @ vectors.T)[np.arange(200), region])]
    assert np.array_equal(federated.maximiser(vectors, 1), expected)


@pytest.mark.parametrize("space", [GRID, SQUARE])
def test_the_servers_maximiser_is_the_same_for_all_agents_of_a_round(space: Space) -> None:
    method = DPFTSDE(Context(space, 4, 9, 3), own_probability=0.0, surrogate=SURROGATE)
    vectors = np.random.default_rng(1).standard_normal((2, 100))
    message = Broadcast({"vectors": vectors, "round": np.array(7)})
    asked = [(agent, step) for agent in range(4) for step in (1, 3, 7)]  # some missed rounds
    found = [
        method.agent(agent).propose(step, message, Keys(3, agent, step)) for agent, step in asked
    ]
    assert {proposal.source for (proposal,) in found} == {"server"}
    assert len({tuple(proposal.u) for (proposal,) in found}) == 1


def test_the_servers_maximiser_is_no_worse_than_many_points() -> None:
    # Statistical: of 150 draws 2 missed by more than 0.02 of the spread; were the share 4 %, three
    # of 20 would miss it in one of 23 tests, four in one of 137.
    federated = work(SQUARE, 4)
    others = np.random.default_rng(2).random((20_000, 2))

    def value(U: Array) -> Array:
        region = (U[:, 0] >= 0.5) * 2 + (U[:, 1] >= 0.5)
        return np.asarray((federated.features.matrix(U) @ vectors.T)[np.arange(len(U)), region])

    good = 0
    for seed in range(20):
        vectors = np.random.default_rng(seed).standard_normal((4, 30))
        found, many = federated.maximiser(vectors, 1), value(others)
        good += bool(value(found[None])[0] > many.max() - 0.02 * np.ptp(many))
    assert good >= 17


def test_a_samples_norm_is_prior_noise_and_a_means_is_small() -> None:
    generator = np.random.default_rng(5)
    inputs = generator.random((12, 2))
    outputs = 0.5 + 0.1 * generator.standard_normal(12)
    norms = {}
    for kind in ("sample", "mean"):
        settings = MessageSettings(kind, 0.5, 100, length_scale=0.1)
        federated = FederatedWork(Context(SQUARE, 10, 5, 0), settings, 1, SURROGATE)
        features = federated.features.matrix(inputs)
        vector = federated.message(features, outputs, np.random.default_rng(0))
        norms[kind] = np.linalg.norm(vector)
    assert 7 < norms["sample"] < 12  # about sqrt(100)
    assert norms["mean"] < 2


@pytest.mark.parametrize("kind", ["sample", "mean"])
def test_outputs_are_standardised_or_scaled_by_public_constants(kind: Any) -> None:
    # Exact.
    rng = np.random.default_rng(5)
    X, y = rng.random((12, 2)), 50.0 + 7.0 * rng.standard_normal(12)
    for settings, expected in (
        (MessageSettings(kind, None, 30), (y - y.mean()) / y.std()),
        (MessageSettings(kind, None, 30, scale=9.0), (y - y.mean()) / y.std()),
        (MessageSettings(kind, 40.0, 30), y - 40.0),
        (MessageSettings(kind, 40.0, 30, scale=8.0), (y - 40.0) / 8.0),
    ):
        federated = FederatedWork(Context(SQUARE, 10, 5, 0), settings, 1, SURROGATE)
        features = federated.features.matrix(X)
        posterior = linear_posterior(features, expected, settings.noise_variance)
        sample = posterior.sample(np.random.default_rng(0))
        vector = federated.message(features, y, np.random.default_rng(0))
        np.testing.assert_allclose(vector, posterior.mean if kind == "mean" else sample, atol=1e-9)


def test_equal_outputs_say_nothing() -> None:
    federated = work(SQUARE, 1, "mean")
    features = federated.features.matrix(np.random.default_rng(0).random((3, 2)))
    for y in ([0.1] * 3, [1e300] * 3):
        vector = federated.message(features, np.array(y), np.random.default_rng(0))
        np.testing.assert_array_equal(vector, np.zeros(30))


def test_agents_explore_their_own_sub_region_first() -> None:
    method = DPFTSDE(Context(SQUARE, 8, 5, 0), subregions=4, surrogate=SURROGATE)
    boxes = SQUARE.subregions(4)
    for agent in range(8):
        proposals = method.agent(agent).propose(0, None, Keys(0, agent, 0))
        points = np.array([p.u for p in proposals])
        assert boxes[agent % 4].contains(points).all()
    whole = DPFTSDE(
        Context(SQUARE, 8, 5, 0), subregions=4, local_initial_design=False, surrogate=SURROGATE
    )
    points = np.array([p.u for p in whole.agent(0).propose(0, None, Keys(0, 0, 0))])
    assert not boxes[0].contains(points).all()


def test_the_first_query_comes_from_the_server_and_none_without_a_message() -> None:
    method = DPFTSDE(Context(GRID, 4, 5, 0), own_probability="1 - 1/t", surrogate=SURROGATE)
    program = method.agent(0)
    program.observe([Observation(0, 0, np.array([0.25125628140703515]), 1.0, "initial")])
    message = Broadcast({"vectors": np.ones((2, 100)), "round": np.array(1)})
    assert program.propose(1, message, Keys(0, 0, 1))[0].source == "server"
    assert program.propose(1, None, Keys(0, 0, 1))[0].source == "own"


def test_t_queries_cost_t_releases_and_the_last_is_followed_by_none(tmp_path: Path) -> None:
    run = simulate(tmp_path)
    assert [line["t"] for line in releases(run)] == [0, 1, 2, 3, 4, 5]
    assert sources(run) == {0: {"initial"}, **{t: {"server"} for t in range(1, 7)}}
    assert run.summaries()[0]["epsilon"]["releases"] == 6


@pytest.mark.parametrize("last", [0, 2])
def test_after_a_public_last_round_agents_go_on_alone_at_no_cost(tmp_path: Path, last: int) -> None:
    run = simulate(tmp_path, method={"share_until": last})
    assert len(releases(run)) == last
    assert all(sources(run)[t] == {"server" if t <= last else "own"} for t in range(1, 7))


def test_a_budget_refuses_what_would_exceed_it_and_agents_go_on_alone(tmp_path: Path) -> None:
    costs = simulate(tmp_path / "free").rounds["epsilon_pld"].tolist()
    budget = (costs[2] + costs[3]) / 2  # room for the releases 0, 1 and 2
    run = simulate(tmp_path / "bound", privacy={"budget": budget})
    assert ["refused" in line for line in releases(run)] == [False] * 3 + [True] * 3
    assert sources(run)[3] == {"server"}
    assert all(sources(run)[t] == {"own"} for t in (4, 5, 6))
    outcome = run.summaries()[0]
    assert outcome["epsilon"]["pld"] == costs[2] <= budget
    assert outcome["releases_refused"] == 3


def test_the_server_sees_releases_and_nothing_else(tmp_path: Path) -> None:
    run = simulate(tmp_path, transcript=True)
    received = [json.loads(x) for x in run.runs[0].folder.transcript.read_text().splitlines()]
    assert all(set(line) <= {"call", "kind", "t", "release", "replies"} for line in received)
    assert all("replies" not in line for line in received[:-1])
    assert received[-1]["replies"] == []
    assert len(received) == 7
    for line in received[:-1]:
        assert set(line["release"]) == {"vectors"}
        assert np.shape(line["release"]["vectors"]) == (2, 20)


def test_without_privacy_nothing_is_charged(tmp_path: Path) -> None:
    run = simulate(tmp_path, method={"name": "fts-de"})
    assert ["event" in line for line in releases(run)] == [False] * 6
    assert run.summaries()[0]["epsilon"] == {}


def test_planned_costs_are_what_the_run_charges(tmp_path: Path) -> None:
    context = Context(GRID, 8, 6, 0)
    planned = DPFTSDE(context, message=MessageSettings(features=20)).planned_costs()
    charged = [line["event"] for line in releases(simulate(tmp_path))]
    assert [cost.record() for cost in planned] == charged


def test_planned_costs_are_computed_once_for_equal_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A plan of a million rounds is not a million softmaxes."""
    method = DPFTSDE(Context(GRID, 8, 100_000, 0))
    expected = DPFTSDE(Context(GRID, 8, 12, 0)).planned_costs()
    asked: list[int] = []

    def counted(self: SubsampledGaussianMechanism, t: int) -> SubsampledGaussian:
        asked.append(t)
        return cast(SubsampledGaussian, expected[t])

    monkeypatch.setattr(SubsampledGaussianMechanism, "cost", counted)
    planned = method.planned_costs()
    assert planned[:12] == expected
    assert planned[12:] == expected[11:] * (100_000 - 12)
    assert asked == [0, 6, 7, 8, 9]


def test_the_noise_only_control_does_not_depend_on_the_messages(tmp_path: Path) -> None:
    queries = []
    for length_scale in (0.05, 0.04):
        run = simulate(
            tmp_path / str(length_scale),
            method={
                "dp": {"noise_only": True},
                "surrogate": {"length_scale": length_scale, "fit_every": 0},
                "message": {"features": 20, "length_scale": 0.05, "noise_variance": length_scale},
            },
        )
        queries.append([record.u for _, record in observations(journal(run))])
        ratios = [line["experimenter"]["signal_to_noise"] for line in releases(run)]
        assert ratios == [0.0] * 6
    assert queries[0] == queries[1]


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ({"subregions": 0}, "subregions"),
        ({"subregions": 9}, "subregions.*8"),
        ({"share_until": -1}, "share_until"),
        ({"initial_points": 0}, "initial_points"),
        ({"message": {"features": 0}}, "features"),
        ({"message": {"length_scale": float("nan")}}, "length_scale"),
        ({"message": {"center": float("inf")}}, "center"),
        ({"message": {"scale": 0.0}}, "scale"),
        ({"dp": {"sampling_rate": 1.5}}, "sampling_rate"),
        ({"dp": {"noise_multiplier": 0.0}}, "noise_multiplier"),
        ({"dp": {"clipping_norm": -1.0}}, "clipping_norm"),
    ],
)
def test_settings_out_of_range(tmp_path: Path, method: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        simulate(tmp_path, method=method)


class Watched:
    """A fleet that only notes through which aggregator it is asked."""

    via: Aggregator

    def step(self, t: int, message: object, *, then: Request, via: Aggregator) -> Release:
        self.via = via
        return Release(None)


def test_default_settings_are_the_papers() -> None:
    """Its synthetic experiment, of 200 agents and 40 rounds, costs 9.91; S is 11."""
    method, fleet = DPFTSDE(Context(GRID, 200, 40, seed=0)), Watched()
    spent = Ledger.from_events(method.planned_costs())
    loss = privacy_loss(spent, default_delta(200), MomentsAccountant())
    assert round(loss.epsilon, 2) == 9.91
    method.server().round(0, cast(Fleet, fleet))
    noise = fleet.via.aggregate(0, (), cast(Respondents, fleet), Keys(0, SERVER, 0)).payload
    assert noise is not None
    # z max(phi) S / q = 1 * 1/100 * 11 / 0.25; 200 draws: standard error 5 %.
    assert noise["vectors"].shape == (2, 100)
    assert noise["vectors"].std() == pytest.approx(0.44, rel=0.2)
