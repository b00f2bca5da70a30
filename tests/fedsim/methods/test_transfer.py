"""RGPE and TAF: their messages, their acquisition functions, and whole runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import fedsim
from fedsim.errors import ConfigError, Interrupted
from fedsim.methods.helped_agent import HELPERS_MESSAGE
from fedsim.methods.helpers_first import Messages
from fedsim.methods.local_model import LocalModel, LocalModelSettings
from fedsim.methods.messages import FederatedWork, MessageSettings
from fedsim.methods.rgpe import RGPE, Ensemble
from fedsim.methods.sources import Sources
from fedsim.methods.taf import TAF, Improvements
from fedsim.methods.transfer import Transfer
from fedsim.protocol import Broadcast, Context, Observation, Payload, Proposal
from fedsim.rng import Keys
from fedsim.space import Array, Parameter, Space
from fedsim.testing import check_method
from tests.util.small import body, small
from tests.util.stopping import Stop

SQUARE = Space((Parameter("x", 0.0, 1.0), Parameter("y", -1.0, 1.0)))
GRID = Space((Parameter("x", 0.0, 1.0, levels=50),))
MESSAGE = MessageSettings(features=12, length_scale=0.3)
FAST = LocalModelSettings(fit_every=0, candidates=20)
METHODS: Sequence[Any] = (RGPE, TAF)


def method(kind: Any, space: Space = GRID, agents: int = 4, **changes: Any) -> Any:
    context = Context(space, agents, 20, seed=3)
    given: dict[str, Any] = {"message": MESSAGE, "surrogate": FAST, "initial_points": 3, **changes}
    return kind(context, **given)


def history(space: Space, values: Array | None, count: int, seed: int) -> list[Observation]:
    """Return observations at random points: of the sum of coordinates, or those given."""
    U = space.snap(np.random.default_rng(seed).random((count, space.dimension)))
    y = U.sum(axis=1) if values is None else values
    return [
        Observation(0, i, u, float(v), "own") for i, (u, v) in enumerate(zip(U, y, strict=True))
    ]


def rising(count: int, of: int) -> list[Observation]:
    """Return observations of f(x) = x at the lowest ``count`` of points all over the grid."""
    U = GRID.snap(np.linspace(0, 1, of)[:count, None])
    return [Observation(0, i, u, float(u[0]), "own") for i, u in enumerate(U)]


def message_of(one: Any, agent: int, seen: list[Observation]) -> Payload:
    program = one.agent(agent)
    program.observe(seen)
    answer: Payload = program.reply(HELPERS_MESSAGE, Keys(0, agent, 0))
    return answer


def joined(senders: Sequence[int], payloads: Sequence[Payload]) -> Broadcast:
    content = {name: np.stack([p[name] for p in payloads]) for name in payloads[0]}
    numbers = np.ones(len(senders), dtype=int)
    return Broadcast(Messages(np.array(senders), numbers, content).payload())


def query(one: Any, agent: int, seen: list[Observation], message: Broadcast | None) -> Proposal:
    program = one.agent(agent)
    program.observe(seen)
    (found,) = program.propose(1, message, Keys(0, agent, 1))
    assert isinstance(found, Proposal)
    return found


class TestMessages:
    @pytest.mark.parametrize("count", [0, 1, 5, 30])  # fewer than features, and more
    @pytest.mark.parametrize("kind", METHODS)
    def test_they_are_the_posterior(self, kind: Any, count: int) -> None:
        y = np.random.default_rng(1).standard_normal(count)
        found = message_of(method(kind), 1, history(GRID, y, count, 2))
        work = FederatedWork(Context(GRID, 4, 20, seed=3), MESSAGE, 1, FAST)
        phi = work.features_of(np.array([o.u for o in history(GRID, y, count, 2)]).reshape(-1, 1))
        outputs = (y - y.mean()) / y.std() if count > 1 else np.zeros(count)
        sigma = phi.T @ phi + MESSAGE.noise_variance * np.eye(12)  # Eq. (3)
        assert found["covariance"] == pytest.approx(np.linalg.inv(sigma), rel=1e-8, abs=1e-9)
        assert np.array_equal(found["covariance"], found["covariance"].T)
        assert found["mean"] == pytest.approx(np.linalg.solve(sigma, phi.T @ outputs), abs=1e-9)
        if kind is TAF:
            assert found["incumbent"] == pytest.approx(outputs.max(initial=-9) if count else 0.0)

    @pytest.mark.parametrize(("kind", "size"), [(RGPE, 12 + 144), (TAF, 12 + 144 + 1)])
    def test_they_have_the_papers_sizes(self, kind: Any, size: int) -> None:
        found = message_of(method(kind), 1, history(GRID, None, 5, 0))
        assert sum(array.nbytes for array in found.values()) == 8 * size

    def test_incumbents_belong_to_their_senders(self) -> None:
        public = MessageSettings(features=12, length_scale=0.3, center=0.0)
        one = method(TAF, message=public)
        payloads = [
            message_of(one, a, history(GRID, np.full(4, float(a)), 4, a)) for a in (0, 1, 2, 3)
        ]
        assert [float(p["incumbent"]) for p in payloads] == [0.0, 1.0, 2.0, 3.0]
        transfer = Transfer(Context(GRID, 4, 20, seed=3), public, FAST)
        messages = Messages.of(joined([0, 1, 2, 3], payloads).payload)
        sources, others = transfer.sources(1, messages)
        assert others.tolist() == [0, 2, 3]
        assert messages.content["incumbent"][others].tolist() == [0.0, 2.0, 3.0]
        assert np.array_equal(sources.means, np.stack([payloads[a]["mean"] for a in (0, 2, 3)]))


def laws(space: Space = SQUARE) -> tuple[Sources, LocalModel, FederatedWork]:
    work = FederatedWork(Context(space, 4, 20, seed=3), MESSAGE, 1, FAST)
    generator = np.random.default_rng(0)
    means = generator.standard_normal((3, 12))
    roots = 0.3 * generator.standard_normal((3, 12, 12))
    covariances = roots @ roots.transpose(0, 2, 1) + np.eye(12)
    model = LocalModel(LocalModelSettings(warp="own", trend="smooth"), work.shared)
    model.observe(history(space, None, 12, 5))
    return Sources(work.features, 0.2, means, covariances), model, work


def differences(function: Any, Z: Array, step: float = 1e-6) -> Array:
    columns = [
        (function(Z + step * e) - function(Z - step * e)) / (2 * step) for e in np.eye(Z.shape[1])
    ]
    return np.stack(columns, axis=1)


POINTS = np.random.default_rng(7).random((5, 2))


class TestSources:
    def test_moments_are_those_of_the_weights(self) -> None:
        sources, _, _ = laws()
        phi = sources.features.matrix(POINTS)
        joint_means, joint = sources.values(POINTS)
        means, variances = sources.moments(POINTS)
        for i in range(3):
            law = 0.2 * phi @ sources.covariances[i] @ phi.T
            assert joint[i] == pytest.approx(law)
            assert variances[i] == pytest.approx(law.diagonal())
            assert means[i] == pytest.approx(phi @ sources.means[i])
        assert np.array_equal(means, joint_means)

    def test_a_sum_is_that_of_independent_functions(self) -> None:
        sources, _, _ = laws()
        weights = np.array([0.5, 0.0, 0.3])
        means, variances = sources.moments(POINTS)
        one = sources.summed(weights).moments(POINTS)
        assert one[0][0] == pytest.approx(weights @ means)
        assert one[1][0] == pytest.approx(weights**2 @ variances)


class TestAcquisition:
    @pytest.mark.parametrize("weights", [[0.2, 0.3, 0.0, 0.5], [0.5, 0.5, 0, 0], [0, 0, 0, 1.0]])
    def test_the_ensembles_moments_and_gradients(self, weights: list[float]) -> None:
        sources, model, _ = laws()
        own, w = model.law(), np.array(weights)
        ensemble = Ensemble.of(sources, own, w)
        mean, variance, slopes, variance_slopes = ensemble.moments_and_gradients(POINTS)
        means, variances = sources.moments(POINTS)
        own_mean, own_variance = own.moments(POINTS)
        assert mean == pytest.approx(w[:3] @ means + w[3] * own_mean)
        assert variance == pytest.approx(w[:3] ** 2 @ variances + w[3] ** 2 * own_variance)
        assert ensemble.moments(POINTS)[0] == pytest.approx(mean)
        assert ensemble.moments(POINTS)[1] == pytest.approx(variance)
        by_hand = differences(lambda Z: ensemble.moments(Z)[0], POINTS)
        assert slopes == pytest.approx(by_hand, rel=1e-4, abs=1e-6)
        by_hand = differences(lambda Z: ensemble.moments(Z)[1], POINTS)
        assert variance_slopes == pytest.approx(by_hand, rel=1e-4, abs=1e-6)

    @pytest.mark.parametrize("used", [[], [1], [0, 1, 2]])
    def test_taf_is_the_weighted_sum_of_improvements(self, used: list[int]) -> None:
        sources, model, _ = laws()
        own, incumbents = model.law(), np.array([0.5, -0.2, 1.0])
        weights = np.array([0.3, 0.1, 0.2])[used]
        function = Improvements(
            sources.of(np.array(used, dtype=int)),
            incumbents[used],
            own,
            0.4,
            np.append(weights, 0.6),
        )

        def improvement(mean: Array, variance: Array, best: float) -> Array:
            sd = np.sqrt(variance)
            z = (mean - best) / sd
            return np.asarray((mean - best) * norm.cdf(z) + sd * norm.pdf(z))

        means, variances = sources.moments(POINTS)
        expected = 0.6 * improvement(*own.moments(POINTS), 0.4)
        for weight, i in zip(weights, used, strict=True):
            expected = expected + weight * improvement(means[i], variances[i], incumbents[i])
        assert np.exp(function.values(POINTS)) == pytest.approx(expected)
        values, gradients = function.values_and_gradients(POINTS)
        assert values == pytest.approx(function.values(POINTS))
        by_hand = differences(function.values, POINTS)
        assert gradients == pytest.approx(by_hand, rel=1e-4, abs=1e-6)

    def test_the_own_law_is_in_the_messages_units(self) -> None:
        _, model, _ = laws()
        own = model.law()
        Z, y = model.inputs, model.outputs
        shifted = own.in_units(3.0 + 10.0 * y)
        plain = own.in_units(y)
        mean, variance = plain.moments(Z)
        assert mean == pytest.approx(y, abs=0.05)  # a smooth function, seen without noise
        assert shifted.moments(Z)[0] == pytest.approx(3.0 + 10.0 * mean)
        assert shifted.moments(Z)[1] == pytest.approx(100.0 * variance)
        empty = LocalModel(FAST, FederatedWork(Context(GRID, 1, 1, 0), MESSAGE, 1, FAST).shared)
        assert empty.law().in_units(np.empty(0)).moments(np.array([[0.5]]))[0].tolist() == [0.0]


class TestQueries:
    def test_an_ensembles_query_is_where_alike_helpers_know_it_is_best(self) -> None:
        # Helpers know the function, which rises, at 30 points; the target at three low ones.
        one = method(RGPE, message=MessageSettings(features=60, length_scale=0.3))
        seen = rising(30, 30)
        message = joined([1, 2], [message_of(one, a, seen) for a in (1, 2)])
        assert query(one, 0, rising(3, 30), message).u[0] > 0.7

    def test_taf_goes_where_helpers_expect_to_improve(self) -> None:
        # The target knows that its function is flat; the helper saw its own rise up to the middle.
        one = method(TAF, bandwidth=1.0, message=MessageSettings(features=60, length_scale=0.3))
        flat = [Observation(0, o.index, o.u, 1.0, "own") for o in rising(30, 30)]
        message = joined([1], [message_of(one, 1, rising(15, 30))])
        assert query(one, 0, flat, message).u[0] > 0.5

    @pytest.mark.parametrize("kind", METHODS)
    def test_without_helpers_it_is_thompson_sampling(self, kind: Any) -> None:
        one, seen = method(kind), history(GRID, None, 4, 1)
        own = message_of(one, 1, seen)
        alone, only_own = query(one, 1, seen, None), query(one, 1, seen, joined([1], [own]))
        assert alone.source == only_own.source == "own"
        assert np.array_equal(alone.u, only_own.u)

    @pytest.mark.parametrize("kind", METHODS)
    @pytest.mark.parametrize("space", [SQUARE, GRID])
    @pytest.mark.parametrize("count", [1, 2, 3, 8])
    def test_choices_are_in_the_space(self, kind: Any, space: Space, count: int) -> None:
        one = method(kind, space)
        payloads = [message_of(one, a, history(space, None, 3 * a, a)) for a in (1, 2, 3)]
        found = query(one, 0, history(space, None, count, 9), joined([1, 2, 3], payloads))
        assert found.source == ("ensemble" if kind is RGPE else "transfer")
        assert space.snap(found.u[None])[0] == pytest.approx(found.u, abs=1e-12)

    @pytest.mark.parametrize("kind", METHODS)
    def test_units_do_not_matter(self, kind: Any) -> None:
        found = []
        for factor in (1.0, 2.0**20):
            one = method(kind, surrogate=LocalModelSettings(candidates=20))
            seen = [history(GRID, factor * np.arange(5.0), 5, a) for a in range(4)]
            message = joined([1, 2], [message_of(one, a, seen[a]) for a in (1, 2)])
            found.append(query(one, 0, seen[0], message).u)
        assert np.array_equal(found[0], found[1])

    @pytest.mark.parametrize("kind", METHODS)
    def test_equal_outputs_are_no_obstacle(self, kind: Any) -> None:
        one, equal = method(kind), history(GRID, np.full(4, 7.0), 4, 1)
        message = joined([1], [message_of(one, 1, equal)])
        assert 0.0 <= query(one, 0, equal, message).u[0] <= 1.0


@pytest.mark.parametrize("kind", METHODS)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"targets": "all", "helper_queries": 4},
        {"targets": [2, 0], "helper_design": "random", "renew": 1},
        {"renew": 2, "helpers_continue": False},
    ],
)
def test_programs_are_functions_of_history_and_messages(
    kind: Any, settings: dict[str, Any]
) -> None:
    given = {"helper_queries": 3, "initial_points": 2, **settings}
    check_method(lambda context: kind(context, message=MESSAGE, surrogate=FAST, **given), rounds=5)


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (RGPE, {"samples": 0}, "method.samples: expected 1 to 100,000, got 0"),
        (TAF, {"bandwidth": 0.0}, "method.bandwidth: expected a number above 0, got 0"),
        (RGPE, {"message": MessageSettings(kind="mean")}, "method.message.kind: expected no value"),
        (TAF, {"targets": [7]}, "method.targets: expected all, or different agents of 0 to 3"),
    ],
)
def test_refusals(kind: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        method(kind, **changes)


def config(name: str, **settings: Any) -> dict[str, Any]:
    raw = small(name, rounds=4, availability=0.7)
    raw["scenario"] |= {"agents": 4}
    raw["method"] |= {"targets": [1], "helper_queries": 4, **settings}
    return raw


@pytest.mark.parametrize("name", ["rgpe", "taf"])
@pytest.mark.parametrize("settings", [{"renew": 2}, {"targets": "all", "helper_queries": 3}])
def test_resumed_runs_have_the_same_journal(
    here: Path, name: str, settings: dict[str, Any]
) -> None:
    raw = config(name, **settings)
    whole = body(fedsim.run(raw, out="whole").runs[0].folder.journal)
    with pytest.raises(Interrupted):
        fedsim.run(raw, out="stopped", listener=Stop(2))
    assert body(fedsim.resume("stopped").runs[0].folder.journal) == whole
