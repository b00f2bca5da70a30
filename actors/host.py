"""The actor that holds agents."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import ray
from threadpoolctl import threadpool_limits

from fedsim.config.construct import build_method, build_scenario
from fedsim.config.spec import RunSpec
from fedsim.errors import UserCodeError
from fedsim.protocol import AgentId
from fedsim.record.capture import captured
from fedsim.record.entries import Recorded
from fedsim.record.logfolder import LogFolder
from fedsim.simulation.agents import AgentGroup
from fedsim.simulation.calls import Activity, Answer, Call, Evaluating, Proposed, Task
from fedsim.simulation.evaluation import LocalEvaluator


@dataclass(frozen=True, slots=True)
class Assignment:
    """Agents of a run that a host takes over.

    Attributes:
        spec: the run.
        agents: the agents.
        history: their evaluations, in journal order.
        logs: where the host keeps what it prints.
        name: the host's name there.
    """

    spec: RunSpec
    agents: tuple[AgentId, ...]
    history: tuple[Recorded, ...]
    logs: LogFolder
    name: str


@dataclass(frozen=True, slots=True)
class Health:
    """What a host is doing.

    Attributes:
        agent: the agent whose part of a call is being done, or None.
        evaluating: the objective that is running now, or None.
        seconds: how long it has been running.
        node: the machine's name.
        output: what it printed last in this turn.
        printed: what the server has to keep, because the host does not see the run folder.
    """

    agent: AgentId | None
    evaluating: Evaluating | None
    seconds: float
    node: str
    output: str = ""
    printed: bytes = b""


class AgentHost:
    """Holds a share of a run's agents. It can be killed at any time: its state is derived."""

    def __init__(self) -> None:
        self._group: AgentGroup | None = None
        self._activity = Activity()
        self._output = ExitStack()
        self._far = False

    def propose(
        self, call: Call, tasks: Sequence[Task], assignment: Assignment | None = None
    ) -> list[Proposed]:
        """Let agents propose points to evaluate elsewhere; arguments as for :meth:`handle`."""
        with self._group_of(assignment) as group:
            return group.propose(call, tasks)

    def handle(
        self, call: Call, tasks: Sequence[Task], assignment: Assignment | None = None
    ) -> list[Answer]:
        """Let agents do their part in a call.

        Args:
            call: the call.
            tasks: each agent's part.
            assignment: agents to take over first; None: use the current ones.
        """
        with self._group_of(assignment) as group:
            return group.handle(call, tasks)

    def prepare_next(self) -> None:
        """Let the agents prepare their next step while the server works on their answers."""
        with self._group_of(None) as group:
            group.prepare_next()

    @contextmanager
    def _group_of(self, assignment: Assignment | None) -> Iterator[AgentGroup]:
        """Yield the host's agents; an assignment replaces them, rebuilt from its history."""
        if assignment is not None:
            # One BLAS thread: results must not depend on the number of cores. Ray sets a variable
            # too late for libraries that are already loaded.
            threadpool_limits(limits=1)
            self._activity.busy, self._group = assignment.agents[0], None
            self._open_log(assignment)
            try:
                group = _new_group(assignment.spec, self._activity)
                group.rebuild(assignment.agents, assignment.history)
            except UserCodeError as error:
                self._activity.show_output(error)
                raise
            self._group = group
        assert self._group is not None
        try:
            yield self._group
        finally:
            self._activity.rest()

    def _open_log(self, assignment: Assignment) -> None:
        self._activity.log = None
        self._output.close()
        log = assignment.logs.open(assignment.name)
        self._far = not assignment.logs.seen
        self._activity.log = self._output.enter_context(captured(log))

    @ray.method(concurrency_group="health")
    def health(self) -> Health:
        """Return what the host is doing; answers while an objective runs."""
        busy, evaluating = self._activity.busy, self._activity.evaluating
        seconds = time.monotonic() - evaluating.since if evaluating else 0.0
        log = self._activity.log
        output = log.last_lines() if log is not None else ""
        printed = log.drain() if log is not None and self._far else b""
        return Health(busy, evaluating, seconds, platform.node(), output, printed)


def _new_group(spec: RunSpec, activity: Activity) -> AgentGroup:
    scenario = build_scenario(spec)
    evaluator = LocalEvaluator(spec, scenario, activity, node=platform.node())
    return AgentGroup(spec, scenario, build_method(spec, scenario), evaluator, activity)


# Ray's type stubs do not know concurrency groups.
HostActor: Any = ray.remote(concurrency_groups={"health": 1})(AgentHost)  # type: ignore[call-overload]
