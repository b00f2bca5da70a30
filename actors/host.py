"""The actor that agents live in."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from threadpoolctl import threadpool_limits

from fedsim.agents import AgentGroup
from fedsim.build import RunSpec
from fedsim.calls import Answer, Call, Evaluating, Proposed, Task
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
        node: the machine.
    """

    agent: AgentId | None
    evaluating: Evaluating | None
    seconds: float
    node: str


class AgentHost:
    """Holds a share of a run's agents. It can always be killed: its content is derived."""

    def __init__(self) -> None:
        self._group: AgentGroup | None = None
        self._busy: AgentId | None = None

    def propose(
        self, call: Call, tasks: Sequence[Task], assignment: Assignment | None = None
    ) -> list[Proposed]:
        """Let agents choose what is to be evaluated elsewhere; arguments as for :meth:`handle`."""
        group = self._group_of(assignment)
        return [p for task in self._noted(tasks) for p in group.propose(call, [task])]

    def handle(
        self, call: Call, tasks: Sequence[Task], assignment: Assignment | None = None
    ) -> list[Answer]:
        """Let agents do their part in a call.

        Args:
            call: the call.
            tasks: each agent's part.
            assignment: agents to take over first; None: those that are here do it.
        """
        group = self._group_of(assignment)
        return [a for task in self._noted(tasks) for a in group.handle(call, [task])]

    def _group_of(self, assignment: Assignment | None) -> AgentGroup:
        """Return the agents here, built from their history in place of others if need be."""
        if assignment is not None:
            # One BLAS thread: results must not depend on the number of cores. The variable that
            # Ray sets comes too late for libraries that are loaded already.
            threadpool_limits(limits=1)
            self._group, self._busy = None, assignment.agents[0]
            group = AgentGroup(assignment.spec, node=platform.node())
            group.rebuild(assignment.agents, assignment.history)
            self._group = group
        assert self._group is not None
        return self._group

    def _noted(self, tasks: Sequence[Task]) -> Iterator[Task]:
        """Yield tasks one by one, for :meth:`health` to see whose turn it is."""
        try:
            for task in tasks:
                self._busy = task.agent
                yield task
        finally:
            self._busy = None

    @ray.method(concurrency_group="health")
    def health(self) -> Health:
        """Tell what the host is doing; answered while an objective runs."""
        evaluating = self._group.evaluating if self._group else None
        seconds = time.monotonic() - evaluating.since if evaluating else 0.0
        return Health(self._busy, evaluating, seconds, platform.node())


# Ray's type stubs do not know concurrency groups.
HostActor: Any = ray.remote(concurrency_groups={"health": 1})(AgentHost)  # type: ignore[call-overload]
