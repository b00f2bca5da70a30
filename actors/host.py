"""The actor that agents live in."""

from __future__ import annotations

import os
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
class Health:
    """A host's sign of life.

    Attributes:
        pid: its process.
        evaluating: the objective that runs just now, or None.
        seconds: how long that has been running.
    """

    pid: int
    evaluating: Evaluating | None
    seconds: float


class AgentHost:
    """Holds a share of a run's agents. It can always be killed: its content is derived."""

    def __init__(self) -> None:
        self._group: AgentGroup | None = None

    def assign(self, spec: RunSpec, agents: Sequence[AgentId], history: Sequence[Recorded]) -> None:
        """Take over agents of a run, with what the journal holds of them."""
        # One BLAS thread: results must not depend on the number of cores. The variable that Ray
        # sets comes too late for libraries that are loaded already.
        threadpool_limits(limits=1)
        self._group = AgentGroup(spec)
        self._group.rebuild(agents, history)

    def handle(self, call: Call, tasks: Sequence[Task]) -> list[Answer]:
        """Let agents do their part in a call."""
        assert self._group is not None
        return self._group.handle(call, tasks)

    @ray.method(concurrency_group="health")
    def health(self) -> Health:
        """Tell what the host is doing; answered while an objective runs."""
        evaluating = self._group.evaluating if self._group else None
        seconds = time.monotonic() - evaluating.since if evaluating else 0.0
        return Health(os.getpid(), evaluating, seconds)


# Ray's type stubs do not know concurrency groups.
HostActor: Any = ray.remote(concurrency_groups={"health": 1})(AgentHost)  # type: ignore[call-overload]
