"""A call that goes to agents, and what their answers become."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedsim.protocol import Broadcast, Request
from fedsim.record.observer import CallFinished
from fedsim.simulation.calls import Answer, Call, Task
from fedsim.simulation.exchange import exchanged, replies_of

ANSWERS = [
    Answer(0, (), {"v": np.zeros(3)}, cpu_seconds=2.0, objective_cpu_seconds=0.5),
    Answer(2, (), None, cpu_seconds=1.0, lost_keys=True),
    Answer(3, (), None, cpu_seconds=1.0),
]


class Agents:
    def handle(self, call: Call, tasks: Sequence[Task]) -> list[Answer]:
        return ANSWERS


def test_the_observer_is_told_what_a_call_cost() -> None:
    call = Call(4, 7, True, Broadcast({"m": np.zeros(5)}), Request("vector", {"r": np.zeros(2)}))
    told: list[object] = []
    tasks = [Task(agent, 1) for agent in (0, 2, 3)]
    assert exchanged(Agents(), call, tasks, 6, told.append) is ANSWERS
    (event,) = told
    assert isinstance(event, CallFinished)
    assert (event.t, event.call, event.agents) == (4, 6, 3)
    assert (event.request, event.then) == (None, "vector")
    assert (event.agent_cpu_seconds, event.objective_cpu_seconds, event.lost_keys) == (4.0, 0.5, 1)
    assert (event.sent_bytes, event.received_bytes) == (3 * 8 * (5 + 2), 8 * 3)


def test_what_an_aggregator_asks_is_told_by_its_kind() -> None:
    call, told = Call(4, 7, False, None, Request("keys", {})), list[object]()
    exchanged(Agents(), call, [Task(0, 1)], 5, told.append, request="keys")
    (event,) = told
    assert isinstance(event, CallFinished)
    assert (event.call, event.request, event.then) == (5, "keys", None)


def test_agents_that_did_not_answer_are_missing() -> None:
    replies = replies_of([0, 1, 2, 3], ANSWERS)
    assert [(one.agent, one.status) for one in replies] == [
        (0, "ok"),
        (1, "missing"),
        (2, "lost_keys"),
        (3, "missing"),
    ]
    assert replies_of([], ANSWERS) == ()
