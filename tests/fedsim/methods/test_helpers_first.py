"""The schedule of targets and helpers, and the server that relays messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from fedsim.errors import ConfigError
from fedsim.methods.common import InitialDesign
from fedsim.methods.helpers_first import HelpersFirstServer, Messages, Schedule
from fedsim.methods.roles import Roles, roles_of
from fedsim.protocol import AgentId, Broadcast, Replies, Reply, Request
from fedsim.rng import Keys
from fedsim.space import Parameter, Space

ASK = Request("anything")
LINE = Space((Parameter("x", 0.0, 1.0),))


def schedule(targets: Any = (1,), **changes: Any) -> Schedule:
    settings: dict[str, Any] = {
        "rounds": 6,
        "initial": InitialDesign(2),
        "helper_queries": 4,
        "helper_design": "thompson",
        "renew": "never",
        "helpers_continue": True,
    }
    return Schedule(roles_of(targets, 3), **{**settings, **changes})


class TestRoles:
    def test_the_others_are_helpers(self) -> None:
        assert roles_of([3, 1], 5) == Roles(5, (1, 3))
        assert roles_of([3, 1], 5).helpers == (0, 2, 4)
        assert not roles_of([3, 1], 5).mutual

    @pytest.mark.parametrize("targets", ["all", [2, 0, 1]])
    def test_if_all_are_targets_all_help(self, targets: Any) -> None:
        roles = roles_of(targets, 3)
        assert (roles.targets, roles.helpers, roles.mutual) == ((0, 1, 2), (0, 1, 2), True)

    @pytest.mark.parametrize("targets", [[], [3], [-1], [0, 0], "some"])
    def test_refusals(self, targets: Any) -> None:
        with pytest.raises(ConfigError, match=r"^method.targets: expected all, or "):
            roles_of(targets, 3)


@dataclass
class FakeFleet:
    """Notes calls; the helpers in ``absent`` do not answer in these rounds."""

    absent: dict[int, set[AgentId]] = field(default_factory=dict)
    members: tuple[AgentId, ...] = (0, 1, 2)
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    messages: dict[int, dict[str, list[Any]]] = field(default_factory=dict)

    def step(
        self,
        t: int,
        message: Broadcast | None,
        *,
        to: Sequence[AgentId] | None = None,
        then: Request | None = None,
    ) -> Replies:
        if message is not None:
            self.messages[t] = {name: np.asarray(a).tolist() for name, a in message.payload.items()}
        agents = self.members if to is None else tuple(to)
        return self._answered("step", t, agents, then)

    def ask(self, t: int, request: Request, *, to: Sequence[AgentId]) -> Replies:
        return self._answered("ask", t, tuple(to), request)

    def _answered(
        self, kind: str, t: int, agents: Sequence[AgentId], request: Request | None
    ) -> Replies:
        self.calls.append((kind, t, agents, request is not None))
        if request is None:
            return ()
        gone = self.absent.get(t, set())
        return tuple(
            Reply(a, "missing", {})
            if a in gone
            else Reply(a, "ok", {"weights": np.array([10.0 * t + a])})
            for a in agents
        )


def run(one: Schedule, fleet: FakeFleet, *, restart: bool = False) -> FakeFleet:
    any_fleet: Any = fleet
    server = HelpersFirstServer(one, ASK)
    server.start(any_fleet)
    for t in range(one.rounds + 1):
        if restart:
            state = {name: np.array(array) for name, array in server.state().items()}
            server = HelpersFirstServer(one, ASK)
            server.restore(state)
        server.round(t, any_fleet)
    return fleet


def test_helpers_query_and_send_before_round_0() -> None:
    found = run(schedule(rounds=2), FakeFleet())
    assert found.calls == [
        ("step", -3, (0, 2), False),  # 2 initial points and 2 queries are t_n = 4
        ("step", -2, (0, 2), False),
        ("step", -1, (0, 2), True),
        ("step", 0, (1,), False),
        ("step", 1, (1,), False),
        ("step", 2, (1,), False),
    ]
    sent = {"senders": [0, 2], "numbers": [1, 1], "weights": [[-10.0], [-8.0]]}
    assert found.messages == {0: sent, 1: sent, 2: sent}


def test_random_helpers_take_one_step() -> None:
    one = schedule(helper_design="random", rounds=0)
    assert run(one, FakeFleet()).calls == [("step", -1, (0, 2), True), ("step", 0, (1,), False)]
    assert len(one.design(0, LINE, Keys(0, 0, 0))) == 4
    assert len(one.design(1, LINE, Keys(0, 1, 0))) == 2


def test_designs_are_those_of_other_methods_or_their_start() -> None:
    short = schedule(helper_queries=1)
    (first,) = short.design(0, LINE, Keys(5, 0, 0))
    both = schedule().design(0, LINE, Keys(5, 0, 0))
    assert np.array_equal(first.u, both[0].u)
    assert len(both) == 2


@pytest.mark.parametrize("targets", [(1,), "all"])
def test_without_queries_of_helpers_there_are_no_messages(targets: Any) -> None:
    found = run(schedule(targets, helper_queries=0, renew=1), FakeFleet())
    assert [call[1] for call in found.calls] == [*range(7)]
    assert found.messages == {}
    assert not any(asked for *_, asked in found.calls)


def test_helpers_that_continue_query_in_every_round_and_send_in_some() -> None:
    found = run(schedule(renew=2, rounds=5), FakeFleet())
    assert [call for call in found.calls if call[1] > 0] == [
        ("step", 1, (1,), False),
        ("step", 2, (0, 2), False),
        ("step", 2, (1,), False),
        ("step", 3, (0, 2), True),
        ("step", 3, (1,), False),
        ("step", 4, (0, 2), False),
        ("step", 4, (1,), False),
        ("step", 5, (0, 2), True),
        ("step", 5, (1,), False),
    ]
    assert [m["numbers"] for m in found.messages.values()] == [[n, n] for n in (1, 1, 1, 2, 2, 3)]
    assert found.messages[4]["weights"] == [[30.0], [32.0]]


def test_helpers_that_do_not_continue_only_answer() -> None:
    found = run(schedule(renew=3, helpers_continue=False, rounds=4), FakeFleet())
    assert [call for call in found.calls if call[1] > 1] == [
        ("step", 2, (1,), False),
        ("step", 3, (1,), False),
        ("ask", 4, (0, 2), True),
        ("step", 4, (1,), False),
    ]


def test_a_straggler_keeps_its_former_message() -> None:
    found = run(schedule(renew=1, rounds=3), FakeFleet({2: {0}, 3: {2}}), restart=True)
    assert [found.messages[t]["numbers"] for t in (1, 2, 3)] == [[1, 1], [1, 2], [3, 2]]
    assert found.messages[3]["weights"] == [[30.0], [22.0]]


def test_a_helper_that_never_answered_has_no_message() -> None:
    found = run(schedule(), FakeFleet({-1: {0}}), restart=True)
    assert found.messages[1] == {"senders": [2], "numbers": [1], "weights": [[-8.0]]}


def test_if_all_are_targets_every_query_counts() -> None:
    # 2 initial points and the queries of rounds 1 and 2 are t_n = 4; then they send.
    found = run(schedule("all", renew=2), FakeFleet({2: {1}}), restart=True)
    everybody = (0, 1, 2)
    assert found.calls == [("step", t, everybody, t in (2, 4)) for t in range(7)]
    assert {t: (m["senders"], m["numbers"]) for t, m in found.messages.items()} == {
        3: ([0, 2], [1, 1]),
        4: ([0, 2], [1, 1]),
        5: ([0, 1, 2], [2, 2, 2]),
        6: ([0, 1, 2], [2, 2, 2]),
    }


def test_messages_are_the_same_after_the_wire() -> None:
    content = {"a": np.zeros((2, 3)), "b": np.ones((2, 3, 3)), "c": np.array([4.0, 5.0])}
    sent = Messages(np.array([3, 5]), np.array([1, 2]), content)
    found = Messages.of(sent.payload())
    assert (found.senders.tolist(), found.numbers.tolist()) == ([3, 5], [1, 2])
    assert found.content.keys() == content.keys()
    assert all(found.content[name] is content[name] for name in content)


@pytest.mark.parametrize(
    ("targets", "changes", "message"),
    [
        ((1,), {"helper_queries": -1}, "method.helper_queries: expected 0 to 10,000, got -1"),
        ((1,), {"renew": 0}, "method.renew: expected never, or a number of rounds, got 0"),
        ("all", {"helper_design": "random"}, "method.helper_design: expected thompson, as all"),
    ],
)
def test_refusals(targets: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        schedule(targets, **changes)
