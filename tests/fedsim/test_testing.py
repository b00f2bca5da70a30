"""The conformance suite accepts correct classes and reports what is wrong with others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
import pytest

from fedsim.methods.common import SilentServer
from fedsim.methods.dp_fts_de import DPFTSDE
from fedsim.methods.random_search import RandomSearch
from fedsim.methods.thompson import ThompsonSampling
from fedsim.privacy.events import SubsampledGaussian
from fedsim.privacy.mechanism import SubsampledGaussianMechanism, WeightedAverage
from fedsim.protocol import Broadcast, Cost, Proposal, Release, Reply, Request, Uncharged
from fedsim.scenarios.synthetic import Synthetic
from fedsim.simulation.in_memory import Bowl
from fedsim.space import Choice, Parameter, Space
from fedsim.testing import ConformanceError, check_aggregator, check_method, check_scenario
from fedsim.workload import Evaluation

COST = SubsampledGaussian(0.5, 1.0, 1.0)
REPLIES = tuple(Reply(agent, "ok", {"vector": np.full(4, float(agent))}) for agent in range(3))


class TestScenarios:
    @pytest.mark.parametrize(
        "scenario",
        [
            Bowl(),
            Synthetic(agents=3),
            Synthetic(agents=2, dimension=2, grid_size=6, length_scale=0.3),
            Synthetic(agents=1, perturbation=None, mixture=0.5),
        ],
    )
    def test_ours_conform(self, scenario: Any) -> None:
        check_scenario(scenario)

    @pytest.mark.parametrize(
        ("objective", "message"),
        [
            (lambda point, rng: float("nan"), "expected a finite number"),
            (lambda point, rng: np.random.default_rng().normal(), "equal values for equal random"),
            (lambda point, rng: point.update(a=0) or 1.0, "leave its point alone"),
            (lambda point, rng: Evaluation(0.0, 5.0), "no value better than the optimum 1.0"),
            (lambda point, rng: 1 / 0, "ZeroDivisionError"),
        ],
    )
    def test_broken_objectives(self, objective: Any, message: str) -> None:
        class Broken(Bowl):
            def objective(self, agent: int) -> Any:
                return objective

            def optimum(self, agent: int) -> float:
                return 1.0

        with pytest.raises(ConformanceError, match=message):
            check_scenario(Broken())

    @pytest.mark.parametrize(
        ("point", "message"),
        [
            ({"x": 0.25}, "the optimum 1.0, got 0.75 .*optimal point"),
            ({"y": 0.5}, "unknown parameter 'y'"),
        ],
    )
    def test_optimal_points(self, point: Any, message: str) -> None:
        given: Any = {"x": 0.5}

        class Peak(Bowl):
            space: Any = Space((Parameter("x", 0, 1),))

            def objective(self, agent: int) -> Any:
                return lambda point, rng: Evaluation(0.0, 1.0 - abs(point["x"] - 0.5))

            def optimum(self, agent: int) -> float:
                return 1.0

            def optimal_point(self, agent: int) -> Any:
                return given

        check_scenario(Peak())
        given = None
        check_scenario(Peak())
        given = point
        with pytest.raises(ConformanceError, match=message):
            check_scenario(Peak())

    @pytest.mark.parametrize("option", ["a", "b", "c", "d", "e"])
    def test_an_objective_that_fails_for_one_option(self, option: str) -> None:
        class Broken(Bowl):
            space: Any = Space((Parameter("x", 0, 1), Choice("kind", list("abcde"))))

            def objective(self, agent: int) -> Any:
                return lambda point, rng: float("nan") if point["kind"] == option else 1.0

        with pytest.raises(ConformanceError, match=f"'kind': '{option}'.*finite number"):
            check_scenario(Broken(), points=0)

    def test_a_class_is_no_scenario(self) -> None:
        given: Any = Bowl
        with pytest.raises(
            ConformanceError, match=r"an object, got the class: pass Bowl\(\.\.\.\)"
        ):
            check_scenario(given)

    def test_a_direction_that_is_none(self) -> None:
        class Broken(Bowl):
            direction: Any = "up"

        with pytest.raises(ConformanceError, match="expected maximize or minimize, got 'up'"):
            check_scenario(Broken())


@dataclass
class Agent:
    """A good agent with optional faults (``spoil``): proposes near its best point so far."""

    spoil: str

    def __post_init__(self) -> None:
        self.history: list[Any] = []
        self.proposed = 0
        self.prepared = 0

    def propose(self, step: int, message: Any, rng: Any) -> Any:
        self.proposed += 1
        if self.spoil == "nothing":
            return []
        if self.spoil == "forgets":  # keeps something that is not in its history
            return [Proposal(np.full(2, self.proposed / 10), "own")]
        if self.spoil == "prepares":  # and proposes something else then
            return [Proposal(np.full(2, 0.5 + self.prepared / 10), "own")]
        if self.spoil == "unseeded":
            return [Proposal(np.random.default_rng().random(2), "own")]
        if self.spoil == "writes" and message is not None:
            message.payload["w"][0] = 1.0
        if self.spoil == "nan":
            return [Proposal(np.array([np.nan, 0.5]), "own")]
        best = max(self.history, key=lambda o: o.y).u if self.history else np.full(2, 0.5)
        return [Proposal(best + 0.1 * rng("jump").normal(size=2), "own")]

    def prepare(self, step: int, rng: Any) -> None:
        assert self.spoil != "stumbles"
        self.prepared = 1

    def observe(self, observations: Any) -> None:
        self.history += observations

    def reply(self, request: Request, rng: Any) -> Any:
        return {"y": np.array([o.y for o in self.history])}


class Server(SilentServer):
    """Sends a count of rounds; with a fault, it does not return its state, or does nothing."""

    def __init__(self, spoil: str) -> None:
        self.spoil, self.count = spoil, 0.0

    def round(self, t: int, fleet: Any) -> Any:
        self.count += 1
        if self.spoil != "idle":
            fleet.step(t, Broadcast({"w": np.array([self.count])}), then=Request("y"))
        return {}

    def state(self) -> Any:
        return {} if self.spoil == "stateless" else {"count": np.array(self.count)}

    def restore(self, state: Any) -> None:
        self.count = float(state.get("count", 0.0))


class Spoilt:
    def __init__(self, spoil: str) -> None:
        self.spoil = spoil

    def agent(self, agent: int) -> Agent:
        return Agent(self.spoil)

    def server(self) -> Server:
        return Server(self.spoil)


class Wrong:
    """A method one of whose values is wrong: it is agents, server and aggregator in one."""

    def __init__(self, where: str, value: Any) -> None:
        self.where, self.value = where, value

    def given(self, where: str, otherwise: Any) -> Any:
        return self.value if where == self.where else otherwise

    def agent(self, agent: int) -> Any:
        return self.given("agent", self)

    def server(self) -> Any:
        return self

    def propose(self, step: int, message: Any, rng: Any) -> Any:
        return self.given("propose", [Proposal(np.full(2, 0.5), "own")])

    def observe(self, observations: Any) -> None: ...

    def reply(self, request: Request, rng: Any) -> Any:
        return self.given("reply", {"y": np.zeros(1)})

    def start(self, fleet: Any) -> None: ...

    def round(self, t: int, fleet: Any) -> Any:
        message = self.given("step", Broadcast({"w": np.zeros(1)}))
        then, to = self.given("then", Request("y")), self.given("to", None)
        fleet.step(self.given("t", t), message, to=to, then=then, via=self)

    @property
    def aggregators(self) -> Any:
        return self.given("aggregators", {"one": self})

    def cost(self, t: int) -> Any:
        return Uncharged.NOT_PRIVATE

    def aggregate(self, t: int, replies: Any, fleet: Any, rng: Any) -> Any:
        return self.given("aggregate", Release({"v": np.zeros(1)}))

    def state(self) -> Any:
        return self.given("state", {})

    def restore(self, state: Any) -> None: ...


class TestMethods:
    @pytest.mark.parametrize(
        "factory",
        [
            RandomSearch,
            ThompsonSampling,
            lambda context: DPFTSDE(context),
            lambda context: DPFTSDE(context, dp=None, subregions=1),
            lambda context: Spoilt(""),
        ],
    )
    def test_ours_conform(self, factory: Any) -> None:
        check_method(factory, scenario=Bowl(agents=2), rounds=3)

    @pytest.mark.parametrize(
        ("spoil", "message"),
        [
            ("nothing", "expected at least one proposal, got none"),
            ("nan", "expected proposals of 2 finite unit coordinates"),
            ("forgets", "rebuilt from history and state, got .*agent 0"),
            ("prepares", "rebuilt from history and state, got .*agent 0"),
            ("stumbles", "agent 0 failed in round 1: AssertionError"),
            ("unseeded", "rebuilt from history and state, got .*agent 0"),
            ("writes", "read-only"),
            ("stateless", "rebuilt from history and state, got .*message"),
            (
                "idle",
                "the server failed in round 0: expected a call of fleet.step in round 0, got none",
            ),
        ],
    )
    def test_broken_methods(self, spoil: str, message: str) -> None:
        with pytest.raises(ConformanceError, match=message):
            check_method(lambda context: Spoilt(spoil))

    @pytest.mark.parametrize(
        ("where", "value", "message"),
        [
            (
                "agent",
                None,
                "agent\\(\\): expected an object with propose, .* got None",
            ),
            (
                "propose",
                None,
                "agent 0 failed in round 0: propose\\(\\): expected a list of",
            ),
            ("propose", "text", "propose\\(\\): expected a list of Proposal, got 't'"),
            ("propose", [Proposal(np.zeros(2), None)], "expected a text as source, got None"),  # type: ignore[arg-type]
            (
                "propose",
                [Proposal(np.array([0.5, 1.5]), "own")],
                "agent 0 failed in round 0: propose.* expected coordinates from 0 to 1, got .*1.5",
            ),
            (
                "propose",
                [Proposal(np.full(2, 0.5), "own")] * 2,
                "agent 0 failed in round 1: propose\\(\\): expected one proposal after the initial",
            ),
            ("reply", [1.0], "agent 0 failed in round 0: its reply: expected named arrays"),
            ("step", {"w": 1}, "message: expected a Broadcast, got {'w': 1}"),
            ("then", "y", "then: expected a Request, got 'y'"),
            ("to", 1, "to: expected a list of agents, or None, got 1"),
            ("to", [0.5], "to: expected a list of agents, or None"),
            ("to", [0, 3], "to: expected agents 0 to 2, got \\[3\\]"),
            ("t", 0.5, "t: expected the round, a whole number, got 0.5"),
            ("t", 7, "t: expected round 0, got 7"),
            ("aggregate", None, "aggregator Wrong: aggregate\\(\\): expected a Release, got None"),
            ("aggregate", Release([1.0]), "aggregator Wrong: expected named arrays"),  # type: ignore[arg-type]
            ("aggregate", Release({}, experimenter={"x": "text"}), "experimenter: expected named"),  # type: ignore[dict-item]
            ("aggregators", [1], "aggregators: expected aggregators by name, got \\[1\\]"),
            ("aggregators", {1: None}, "aggregators: expected names of letters"),
            ("aggregators", {"a": None}, "aggregators: a: expected an object with cost"),
            ("state", None, "the server's state in round 0: expected named arrays, got None"),
        ],
    )
    def test_wrong_values_of_users_programs_are_named(
        self, where: str, value: Any, message: str
    ) -> None:
        with pytest.raises(ConformanceError, match=message):
            check_method(lambda context: Wrong(where, value))

    def test_what_is_no_method(self) -> None:
        with pytest.raises(ConformanceError, match="is not a method: it has no agent"):
            check_method(lambda context: object())  # type: ignore[arg-type,return-value]


@dataclass
class Mean:
    """An aggregator with optional faults."""

    spoil: str = ""
    rounds: int = 0

    def cost(self, t: int) -> Any:
        return SubsampledGaussian(0.5, 1.0, 1.0 + self.rounds) if self.spoil == "drifts" else COST

    def aggregate(self, t: int, replies: Any, fleet: Any, rng: Any) -> Release:
        vectors = [r.payload["vector"] for r in replies if r.status == "ok"]
        if self.spoil == "writes" and vectors:
            vectors[0][:] = 0
        self.rounds += 1
        if self.spoil in ("silent", "open") and not vectors:
            return Release(None, self.cost(t))
        draw = np.random.default_rng() if self.spoil == "unseeded" else rng("noise")
        noise = draw.normal(size=len(vectors) if self.spoil == "counts" else 4)
        shift = self.rounds if self.spoil == "stateful" else 0
        event: Cost = Uncharged.NOT_PRIVATE if self.spoil == "free" else COST
        if self.spoil == "data" and not vectors:
            event = replace(COST, sampling_rate=0.0)
        return Release({"v": noise + shift}, self.cost(t) if self.spoil == "drifts" else event)

    def state(self) -> Any:
        return {}

    def restore(self, state: Any) -> None:
        pass


class TestAggregators:
    @pytest.mark.parametrize(
        "factory",
        [
            lambda: SubsampledGaussianMechanism(3, 4, 2, 5.0, 0.5, 1.0),
            lambda: WeightedAverage(3, 4, 2),
            Mean,
        ],
    )
    def test_ours_conform(self, factory: Callable[[], Any]) -> None:
        check_aggregator(factory, REPLIES)

    @pytest.mark.parametrize(
        ("spoil", "message"),
        [
            ("free", "release 0 to cost .* got .*NOT_PRIVATE"),
            ("data", "release 0 to cost .* as announced"),
            ("drifts", "one cost of release 1"),
            ("unseeded", "release 0 to depend only on the replies"),
            ("stateful", "release 1 to depend only on the replies, the state and rng"),
            ("counts", "release 0 to have one form for any replies"),
            ("silent", "release 0 to have one form for any replies, got None"),
        ],
    )
    def test_broken_aggregators(self, spoil: str, message: str) -> None:
        with pytest.raises(ConformanceError, match=message):
            check_aggregator(lambda: Mean(spoil), REPLIES)

    def test_replies_must_not_be_changed(self) -> None:
        with pytest.raises(ValueError, match="read-only"):
            check_aggregator(lambda: Mean("writes"), REPLIES)

    def test_a_cost_that_changes_by_itself(self) -> None:
        counter = count()

        class Odd(Mean):
            def cost(self, t: int) -> Any:
                return replace(COST, exact_noise_multiplier=1.0 + next(counter))

        with pytest.raises(ConformanceError, match="one cost of release 0"):
            check_aggregator(Odd, REPLIES)
