"""The agents of one process: what they receive, and how their errors are reported."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from fedsim.config.spec import RunSpec
from fedsim.errors import Interrupted, LostKeysError, ObjectiveError, RunError, UserCodeError
from fedsim.protocol import Broadcast, Observation, Proposal, Request
from fedsim.record.entries import Failed, Recorded
from fedsim.rng import Keys, rng
from fedsim.simulation.agents import AgentGroup
from fedsim.simulation.calls import Activity, Call, Evaluated, Proposed, Task
from fedsim.simulation.evaluation import LocalEvaluator, call_once
from fedsim.space import Parameter, Space
from fedsim.workload import Evaluation
from tests.util.bowl import OURS

SPEC = RunSpec({"name": "testing"}, {"name": "tested"}, 3, 0, None)


@dataclass
class Workload:
    """A scenario with one objective for all; counts its calls."""

    value: Any = 1.0
    direction: str = "maximize"
    agents: int = 2
    space: Space = field(default_factory=lambda: Space((Parameter("x", 0, 10, integer=True),)))
    calls: int = 0

    def objective(self, agent: int) -> Any:
        def objective(point: Any, rng: np.random.Generator) -> Any:
            self.calls += 1
            return self.value() if callable(self.value) else self.value

        return objective


@dataclass
class Puppet:
    """A method whose agents propose and reply as the test sets."""

    proposals: Any = (Proposal(np.array([0.44]), "own"),)
    answer: Any = None
    seen: list[tuple[int, Observation]] = field(default_factory=list)

    def agent(self, agent: int) -> Any:
        method = self

        class Program:
            def propose(self, step: int, message: Any, rng: Any) -> Any:
                proposals = method.proposals
                return proposals() if callable(proposals) else proposals

            def observe(self, observations: Sequence[Observation]) -> None:
                method.seen += [(agent, o) for o in observations]

            def reply(self, request: Request, rng: Any) -> Any:
                return method.answer(request) if callable(method.answer) else method.answer

        return Program()

    def server(self) -> Any: ...


def group(scenario: Any, method: Any, stopped: Callable[[], bool] = lambda: False) -> AgentGroup:
    activity = Activity()
    evaluator = LocalEvaluator(SPEC, scenario, activity, stopped)
    return AgentGroup(SPEC, scenario, method, evaluator, activity, stopped)


def step(then: Request | None = None, message: Broadcast | None = None) -> Call:
    return Call(1, 0, True, message, then)


def fail() -> Any:
    raise ValueError("[bold]user's words[/bold]")


def leave() -> Any:
    raise SystemExit(0)


FOUR = 4.5 / 11  # the coordinate of 4 among the whole numbers from 0 to 10


class TestHandle:
    @pytest.mark.parametrize(("direction", "sign"), [("maximize", 1.0), ("minimize", -1.0)])
    def test_agents_maximise_and_the_record_keeps_the_sign(
        self, direction: str, sign: float
    ) -> None:
        method = Puppet()
        (answer,) = group(Workload(3.0, direction), method).handle(step(), [Task(1, 4)])
        (record,) = answer.observations
        assert (record.agent, record.step, record.index, record.source) == (1, 4, 0, "own")
        assert record.u == (FOUR,)  # 0.44 is in its cell
        assert record.y == 3.0
        ((agent, observation),) = method.seen
        assert (agent, observation.y, observation.u.tolist()) == (1, 3.0 * sign, [FOUR])
        assert answer.payload is None

    def test_the_noiseless_value_is_recorded_but_not_shown(self) -> None:
        method = Puppet()
        (answer,) = group(Workload(Evaluation(3.0, 2.5)), method).handle(step(), [Task(0, 0)])
        assert answer.observations[0].noiseless == 2.5
        assert not hasattr(method.seen[0][1], "noiseless")

    def test_recorded_evaluations_are_observed_and_not_made_again(self) -> None:
        scenario, method = Workload(), Puppet()
        (answer,) = group(scenario, method).handle(step(), [Task(0, 1)])
        again = Puppet(proposals=fail)
        (back,) = group(scenario, again).handle(step(), [Task(0, 1, recorded=answer.observations)])
        assert scenario.calls == 1
        assert back.observations == answer.observations
        assert again.seen[0][1].u.tolist() == method.seen[0][1].u.tolist()

    def test_rebuilt_agents_observe_their_history_step_by_step(self) -> None:
        scenario, method = Workload(), Puppet()
        agents = group(scenario, method)
        records = [
            r for s in range(3) for a in agents.handle(step(), [Task(0, s)]) for r in a.observations
        ]
        seen, method.seen = method.seen, []
        agents.rebuild([0], records)
        assert [(a, o.step, o.y) for a, o in method.seen] == [(a, o.step, o.y) for a, o in seen]

    def test_replies_are_read_only_copies(self) -> None:
        own = np.zeros(3)
        call = step(then=Request("r"))
        (answer,) = group(Workload(), Puppet(answer={"v": own})).handle(call, [Task(0, 0)])
        assert answer.payload is not None
        own[:] = 1
        assert answer.payload["v"].tolist() == [0, 0, 0]
        with pytest.raises(ValueError, match="read-only"):
            answer.payload["v"][0] = 1

    def test_it_stops_between_evaluations(self) -> None:
        scenario = Workload()
        three = tuple(Proposal(np.array([x]), "initial") for x in (0.1, 0.2, 0.3))
        agents = group(scenario, Puppet(three), stopped=lambda: scenario.calls >= 2)
        with pytest.raises(Interrupted, match="stopped in round 1"):
            agents.handle(step(), [Task(0, 0)])
        assert scenario.calls == 2


class TestEvaluator:
    """Who evaluates is the evaluator's business; it may be asked from anywhere."""

    def test_it_gets_checked_points_and_its_answers_are_observed(self) -> None:
        proposed: list[Proposed] = []

        class Outside:
            def evaluate(self, call: Call, new: Sequence[Proposed]) -> dict[int, Evaluated]:
                proposed.extend(new)
                one, other = new
                record = Recorded.made(one.agent, one.step, 0, one.proposals[0], Evaluation(7.0))
                failed = Failed(other.agent, other.step, 0, (FOUR,), "own", "refused")
                return {
                    one.agent: Evaluated((record,), (), 1.5),
                    other.agent: Evaluated((), (failed,), 0.5),
                }

        scenario: Any = Workload()
        method: Any = Puppet()
        agents = AgentGroup(SPEC, scenario, method, Outside(), Activity())
        first, second = agents.handle(step(), [Task(0, 3), Task(1, 3)])
        assert [p.proposals[0].u.tolist() for p in proposed] == [[FOUR], [FOUR]]
        assert scenario.calls == 0
        assert [o.y for _, o in method.seen] == [7.0]
        assert (first.observations[0].y, first.objective_cpu_seconds) == (7.0, 1.5)
        assert (second.observations, second.failed[0].reason) == ((), "refused")

    def test_it_is_not_asked_for_what_is_recorded(self) -> None:
        (answer,) = group(Workload(), Puppet()).handle(step(), [Task(0, 1)])

        class Nobody:
            def evaluate(self, call: Call, new: Sequence[Proposed]) -> dict[int, Evaluated]:
                raise AssertionError

        scenario, method = Workload(), Puppet()
        agents = AgentGroup(SPEC, scenario, method, Nobody(), Activity())  # type: ignore[arg-type]
        agents.handle(step(), [Task(0, 1, recorded=answer.observations)])
        assert len(method.seen) == 1


class TestSecrets:
    def test_a_reply_without_its_keys_says_so_and_no_more(self) -> None:
        def lost(request: Request) -> Any:
            raise LostKeysError("a rebuilt agent")

        agents = group(Workload(), Puppet(answer=lost))
        (answer,) = agents.handle(step(then=Request("share")), [Task(0, 1)])
        assert (answer.lost_keys, answer.payload, len(answer.observations)) == (True, None, 1)

    def test_rebuilding_one_agent_leaves_the_others(self) -> None:
        agents = group(Workload(), Puppet())
        records = [
            record
            for answer in agents.handle(step(), [Task(0, 0), Task(1, 0)])
            for record in answer.observations
        ]
        before = [agents.program(agent) for agent in (0, 1)]
        agents.rebuild([1], [record for record in records if record.agent == 1])
        assert agents.program(0) is before[0]
        assert agents.program(1) is not before[1]


class TestPrepareNext:
    """Agents may do in advance what no message decides."""

    class Preparing(Puppet):
        """Its agents log what they are asked to prepare, then use some CPU time or fail."""

        prepared: list[tuple[int, int]]

        def agent(self, agent: int) -> Any:
            program, self.prepared = super().agent(agent), []

            def prepare(step: int, rng: Keys) -> None:
                assert (rng.agent, rng.step) == (agent, step)
                self.prepared.append((agent, step))
                if callable(self.answer):
                    self.answer()
                end = time.thread_time() + 0.02
                while time.thread_time() < end:
                    pass

            program.prepare = prepare
            return program

    def test_it_is_for_the_next_step_of_those_who_took_one(self) -> None:
        method = self.Preparing()
        agents = group(Workload(), method)
        agents.prepare_next()  # nobody took a step yet
        agents.handle(step(), [Task(1, 4)])
        agents.prepare_next()
        agents.prepare_next()
        assert method.prepared == [(1, 5)]

    def test_its_time_counts_with_that_step(self) -> None:
        agents = group(Workload(), self.Preparing())
        agents.handle(step(), [Task(1, 4)])
        agents.prepare_next()
        (answer,) = agents.handle(step(), [Task(1, 5)])
        assert answer.cpu_seconds - answer.objective_cpu_seconds >= 0.02

    def test_who_only_answers_prepares_nothing(self) -> None:
        method = self.Preparing(answer={})
        agents = group(Workload(), method)
        agents.handle(Call(1, 0, False, None, Request("r")), [Task(1, 4)])
        agents.prepare_next()
        assert method.prepared == []

    @pytest.mark.parametrize("raiser", [fail, leave])
    def test_a_failure_is_told_when_that_step_comes(self, raiser: Callable[[], Any]) -> None:
        method = self.Preparing()
        agents = group(Workload(), method)
        agents.handle(step(), [Task(0, 4), Task(1, 4)])
        method.answer = raiser
        agents.prepare_next()
        assert method.prepared == [(0, 5), (1, 5)]
        method.answer = None
        with pytest.raises(UserCodeError, match="agent 1 failed in round 1") as failed:
            agents.handle(step(), [Task(1, 5)])
        assert f"in {raiser.__name__}" in failed.value.user_traceback

    def test_others_are_left_alone(self) -> None:
        agents = group(Workload(), Puppet())
        (first,) = agents.handle(step(), [Task(1, 4)])
        agents.prepare_next()
        (second,) = agents.handle(step(), [Task(1, 5)])  # a failure would be raised here
        assert second.observations[0].y == first.observations[0].y


class TestMistakes:
    @pytest.mark.parametrize(
        "u", [[np.nan], [np.inf], [0.1, 0.2], [], 0.5, ["a"], [[0.1]], [1j], [None]]
    )
    def test_proposals_that_are_no_points(self, u: Any) -> None:
        agents = group(Workload(), Puppet((Proposal(np.array(u), "own"),)))
        with pytest.raises(RunError, match=r"'tested': agent 1 failed in round 1: expected propos"):
            agents.handle(step(), [Task(1, 0)])

    @pytest.mark.parametrize("u", [-1e-6, 1 + 1e-6, 7.0, -1e300])
    def test_proposals_outside_the_cube(self, u: float) -> None:
        agents = group(Workload(), Puppet((Proposal(np.array([u]), "own"),)))
        words = (
            r"'tested': agent 1 failed in round 1: propose\(\): expected coordinates from 0 to 1"
        )
        with pytest.raises(RunError, match=words):
            agents.handle(step(), [Task(1, 0)])

    @pytest.mark.parametrize(("u", "moved"), [(-1e-12, 0.0), (1 + 1e-12, 1.0)])
    def test_rounding_is_no_mistake(self, u: float, moved: float) -> None:
        agents = group(Workload(), Puppet((Proposal(np.array([u]), "own"),)))
        (proposed,) = agents.propose(step(), [Task(1, 0)])
        (snapped,) = Workload().space.snap(np.array([moved])).tolist()
        assert proposed.proposals[0].u.tolist() == [snapped]

    @pytest.mark.parametrize(
        ("count", "at", "words"),
        [
            (0, 0, "expected at least one proposal, got none"),
            (0, 2, "expected one proposal after the initial design, got none"),
            (2, 2, "expected one proposal after the initial design, got 2"),
        ],
    )
    def test_too_few_or_many_proposals(self, count: int, at: int, words: str) -> None:
        some = (Proposal(np.array([0.5]), "own"),) * count
        with pytest.raises(RunError, match=words):
            group(Workload(), Puppet(some)).handle(step(), [Task(0, at)])

    @pytest.mark.parametrize("reply", [{"v": "text"}, {"v": {"a": 1}}, {"v": [1j]}, {"v": None}])
    def test_replies_that_are_no_numbers(self, reply: Any) -> None:
        agents = group(Workload(), Puppet(answer=reply))
        with pytest.raises(RunError, match="its reply: v: expected an array of numbers"):
            agents.handle(step(then=Request("r")), [Task(0, 0)])

    @pytest.mark.parametrize("raiser", [fail, leave])
    def test_programs_that_raise_show_their_traceback(self, raiser: Callable[[], Any]) -> None:
        agents = group(Workload(), Puppet(raiser))
        with pytest.raises(UserCodeError, match="agent 0 failed in round 1") as caught:
            agents.handle(step(), [Task(0, 0)])
        assert f"in {raiser.__name__}" in caught.value.user_traceback
        assert not OURS.search(caught.value.user_traceback)

    def test_replies_that_raise_show_their_traceback(self) -> None:
        agents = group(Workload(), Puppet(answer=lambda request: fail()))
        with pytest.raises(UserCodeError, match="user's words") as caught:
            agents.handle(step(then=Request("r")), [Task(0, 0)])
        assert "in fail" in caught.value.user_traceback

    @pytest.mark.parametrize("what", ["agent", "objective"])
    def test_what_cannot_be_built_shows_its_traceback(self, what: str) -> None:
        scenario, method = Workload(), Puppet()
        broken: Any = method if what == "agent" else scenario
        setattr(broken, what, lambda agent: fail())
        with pytest.raises(UserCodeError, match=f"{what}.*0.* cannot be built") as caught:
            group(scenario, method).handle(step(), [Task(0, 0)])
        assert "in fail" in caught.value.user_traceback


class TestEvaluate:
    @pytest.mark.parametrize("value", [1, 1.5, np.float32(1.5), np.int64(2), Evaluation(1, 2)])
    def test_numbers_are_floats(self, value: Any) -> None:
        found = call_once(lambda point, rng: value, {}, rng(0, "x", 0, 0), "here")
        assert type(found.y) is float

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            (float("nan"), r"returned nan \(here\): expected a finite number; return the worst"),
            (math.inf, "possible value if an evaluation fails, or set on_error: skip$"),
            (float("-inf"), r"returned -inf \(here\)"),
            (np.float64("inf"), r"returned inf"),
            (Evaluation(1.0, float("nan")), "returned nan"),
            (None, r"returned NoneType \(here\): expected a number"),
            ("1", "returned str"),
            (True, "returned bool"),
            (np.True_, "returned bool"),
            (np.zeros(1), "returned ndarray"),
            (np.complex128(1), r"returned \(1\+0j\)"),
            (Evaluation("1"), "returned str"),  # type: ignore[arg-type]
        ],
    )
    def test_other_values_are_refused(self, value: Any, message: str) -> None:
        with pytest.raises(ObjectiveError, match=message):
            call_once(lambda point, rng: value, {}, rng(0, "x", 0, 0), "here")

    @pytest.mark.parametrize(("raiser", "word"), [(fail, "ValueError"), (leave, "SystemExit")])
    def test_what_it_raises_is_shown_with_its_own_traceback(
        self, raiser: Callable[[], Any], word: str
    ) -> None:
        with pytest.raises(ObjectiveError, match=word) as caught:
            call_once(lambda point, rng: raiser(), {}, rng(0, "x", 0, 0), "here")
        assert f"in {raiser.__name__}" in caught.value.user_traceback
        assert not OURS.search(caught.value.user_traceback)
