"""A call that goes to agents, their answers that come back, and what that costs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from fedsim.protocol import AgentId, Broadcast, Replies, Reply, Request
from fedsim.record.logs import Log
from fedsim.record.observer import CallFinished, Observer
from fedsim.simulation.calls import Answer, Call, Task


class Transport(Protocol):
    """Carries calls to agents and returns their answers."""

    def handle(self, call: Call, tasks: Sequence[Task]) -> list[Answer]:
        """Return one answer per task, in task order."""
        ...


def exchanged(
    transport: Transport,
    call: Call,
    tasks: Sequence[Task],
    number: int,
    observer: Observer,
    *,
    log: Log | None = None,
    request: str | None = None,
) -> list[Answer]:
    """Return agents' answers to a call, one per task.

    Args:
        transport: carries the call.
        call: the call.
        tasks: the agents' tasks.
        number: of the server program's call that it is, or belongs to.
        observer: is told when it is finished.
        log: what this process prints, or None; while agents work, it is theirs.
        request: the kind of what an aggregator asks; None: the server program calls.
    """
    start = time.perf_counter()
    if log is not None:
        log.turn("agents")
    answers = transport.handle(call, tasks)
    if log is not None:
        log.turn(f"server, round {call.t}")
    observer(
        CallFinished(
            t=call.t,
            call=number,
            request=request,
            then=None if request or call.then is None else call.then.kind,
            agents=len(tasks),
            seconds=time.perf_counter() - start,
            agent_cpu_seconds=sum(a.cpu_seconds for a in answers),
            objective_cpu_seconds=sum(a.objective_cpu_seconds for a in answers),
            lost_keys=sum(a.lost_keys for a in answers),
            sent_bytes=len(tasks) * (_bytes_of(call.message) + _bytes_of(call.then)),
            received_bytes=sum(_bytes_of(answer) for answer in answers),
        )
    )
    return answers


def replies_of(chosen: Sequence[AgentId], answers: Sequence[Answer]) -> Replies:
    """Return the replies of all chosen agents; those of absent agents are missing."""
    given = {answer.agent: answer for answer in answers}

    def reply(agent: AgentId) -> Reply:
        answer = given.get(agent)
        if answer is None or (answer.payload is None and not answer.lost_keys):
            return Reply(agent, "missing", {})
        if answer.payload is None:
            return Reply(agent, "lost_keys", {})
        return Reply(agent, "ok", answer.payload)

    return tuple(map(reply, chosen))


def _bytes_of(sent: Broadcast | Request | Answer | None) -> int:
    payload = None if sent is None else sent.payload
    return sum(np.asarray(array).nbytes for array in payload.values()) if payload else 0
