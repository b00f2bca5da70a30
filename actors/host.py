"""The actor that agents live in."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ray
from threadpoolctl import threadpool_limits

from fedsim.agents import AgentGroup, Answer, Call, Evaluating, Task
from fedsim.build import RunSpec
from fedsim.journal import Recorded
from fedsim.protocol import AgentId


@dataclass(frozen=True, slots=True)
class Assignment:
    """Agents of a run, as a host takes them over.

    Attributes:
        spec: the run.
        agents: whom.
        history: what the journal holds of them, in its order.
    """

    spec: RunSpec
    agents: tuple[AgentId, ...]
    history: tuple[Recorded, ...]


@dataclass(frozen=True, slots=True)
class Health:
    """A host's sign of life.

    Attributes:
        agent: whose part of a call is being done, or None.
        evaluating: the objective that runs just now, or None.
        seconds: how long that objective has been running.
    """

    agent: AgentId | None
    evaluating: Evaluating | None
    seconds: float


class AgentHost:
    """Holds a share of a run's agents. It can always be killed: its content is derived."""

    def __init__(self) -> None:
        self._group: AgentGroup | None = None
        self._busy: AgentId | None = None

    def take_over(self, assignment: Assignment, call: Call, tasks: Sequence[Task]) -> list[Answer]:
        """Build agents from their history in place of those held so far, then :meth:`handle`."""
        # One BLAS thread: results must not depend on the number of cores. The variable that Ray
        # sets comes too late for libraries that are loaded already.
        threadpool_limits(limits=1)
        self._group, self._busy = None, assignment.agents[0]
        group = AgentGroup(assignment.spec)
        group.rebuild(assignment.agents, assignment.history)
        self._group = group
        return self.handle(call, tasks)

    def handle(self, call: Call, tasks: Sequence[Task]) -> list[Answer]:
        """Let agents do their part in a call."""
        assert self._group is not None
        answers = []
        try:
            for task in tasks:
                self._busy = task.agent
                answers += self._group.handle(call, [task])
        finally:
            self._busy = None
        return answers

    @ray.method(concurrency_group="health")
    def health(self) -> Health:
        """Tell what the host is doing; answered while an objective runs."""
        evaluating = self._group.evaluating if self._group else None
        seconds = time.monotonic() - evaluating.since if evaluating else 0.0
        return Health(self._busy, evaluating, seconds)


# Ray's type stubs do not know concurrency groups.
HostActor: Any = ray.remote(concurrency_groups={"health": 1})(AgentHost)  # type: ignore[call-overload]
