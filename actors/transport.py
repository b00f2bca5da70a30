"""Carries a run's calls to its hosts, and repairs hosts that die or hang.

An infrastructure fault is always repaired: a lost host is made anew from the journal and its
part of the call is sent again. Objectives' keys do not change, so the result is the same.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError

from fedsim.actors.host import Health, HostActor
from fedsim.agents import Answer, Call, Task
from fedsim.build import RunSpec
from fedsim.config import DeadlinesConfig
from fedsim.errors import FedsimError, Interrupted, ObjectiveError, ResourceError, RunError
from fedsim.journal import Recorded, observations, read_journal
from fedsim.protocol import AgentId
from fedsim.runfolder import RunFolder
from fedsim.serial import hung
from fedsim.simulation import recorded_history

ATTEMPTS = 3
"""How often a host's part of one call is tried before the run fails."""


@dataclass
class Share:
    """One host and the agents that it holds.

    Attributes:
        agents: the agents, ascending.
        actor: the host.
        health: the outstanding question for a sign of life, and when it was asked.
    """

    agents: tuple[AgentId, ...]
    actor: Any
    health: tuple[Any, float] | None = None


@dataclass
class Pending:
    """A host's part of a call that is under way."""

    share: Share
    tasks: list[Task]
    attempts: int = 1
    deaths: list[str] = field(default_factory=list)


class HostPool:
    """The host actors of one server, reused from run to run.

    Args:
        hosts: how many.
        cpus_per_host: CPUs that each asks Ray for.
        deadlines: how long to wait.
    """

    def __init__(self, hosts: int, cpus_per_host: float, deadlines: DeadlinesConfig) -> None:
        self._options = {"num_cpus": cpus_per_host, "scheduling_strategy": "SPREAD"}
        self.deadlines = deadlines
        self.actors = [self.new_actor() for _ in range(hosts)]

    def new_actor(self) -> Any:
        """Start a host."""
        return HostActor.options(**self._options).remote()

    def wait_for(self, refs: Sequence[Any], what: str) -> None:
        """Wait for answers within the start deadline.

        Raises:
            ResourceError: if they do not come: usually the cluster has no room.
        """
        try:
            ray.get(list(refs), timeout=self.deadlines.start)
        except GetTimeoutError:
            raise ResourceError(
                f"{what} did not start within {self.deadlines.start:g} s; the cluster has "
                f"{ray.available_resources().get('CPU', 0):g} of "
                f"{ray.cluster_resources().get('CPU', 0):g} CPUs free; deadlines.start sets the "
                "limit"
            ) from None

    def shutdown(self) -> None:
        """End all hosts."""
        for actor in self.actors:
            ray.kill(actor)


class RayTransport:
    """The transport of one run over a pool of hosts.

    Args:
        pool: the hosts.
        spec: the run.
        folder: the run's folder: hosts are rebuilt from its journal.
        agents: the number of agents.
        stopped: asked while waiting; True makes :meth:`handle` raise ``Interrupted``.
    """

    def __init__(
        self, pool: HostPool, spec: RunSpec, folder: RunFolder, agents: int, stopped: Any
    ) -> None:
        self._pool = pool
        self._spec = spec
        self._folder = folder
        self._stopped = stopped
        self._shares = [
            Share(tuple(range(*bounds)), actor)
            for actor, bounds in zip(pool.actors, _deal(agents, len(pool.actors)), strict=True)
            if bounds[0] < bounds[1]
        ]

    def start(self) -> None:
        """Give every host its agents with their histories up to the last checkpoint."""
        history = recorded_history(self._folder)
        refs = []
        for share in self._shares:
            held = set(share.agents)
            own = [record for record in history if record.agent in held]
            refs.append(share.actor.assign.remote(self._spec, share.agents, own))
        try:
            self._pool.wait_for(refs, f"{len(refs)} host actors")
        except RayTaskError as error:
            raise _translated(error) from None

    def handle(self, call: Call, tasks: Sequence[Task]) -> list[Answer]:
        """See :class:`fedsim.fleet.Transport`."""
        call_ref = ray.put(call)
        by_agent = {task.agent: task for task in tasks}
        pending: dict[Any, Pending] = {}
        for share in self._shares:
            own = [by_agent[agent] for agent in share.agents if agent in by_agent]
            if own:
                pending[share.actor.handle.remote(call_ref, own)] = Pending(share, own)
        answers: dict[AgentId, Answer] = {}
        poll = min(0.5, self._pool.deadlines.evaluation / 4)
        while pending:
            if self._stopped():
                raise Interrupted(f"stopped in round {call.t}")
            ready, _ = ray.wait(list(pending), num_returns=1, timeout=poll)
            for ref in ready:
                part = pending.pop(ref)
                try:
                    for answer in ray.get(ref, timeout=self._pool.deadlines.answer):
                        answers[answer.agent] = answer
                except RayTaskError as error:
                    raise _translated(error) from None
                except RayActorError as error:
                    reference = self._again(part, call, call_ref, str(error))
                    pending[reference] = part
            if not ready:
                self._watch(pending, call, call_ref)
        return [answers[task.agent] for task in tasks]

    def _watch(self, pending: dict[Any, Pending], call: Call, call_ref: Any) -> None:
        """Kill and rebuild hosts whose objective, or whose process, hangs."""
        for ref, part in list(pending.items()):
            problem = self._problem(part)
            if problem is None:
                continue
            if part.attempts > 1 and isinstance(problem, ObjectiveError):
                raise problem
            ray.kill(part.share.actor)
            del pending[ref]
            pending[self._again(part, call, call_ref, str(problem))] = part

    def _problem(self, part: Pending) -> FedsimError | None:
        """Return what is wrong with a host that has not answered yet, or None."""
        deadlines, share = self._pool.deadlines, part.share
        if share.health is None:
            share.health = (share.actor.health.remote(), time.monotonic())
        question, asked = share.health
        ready, _ = ray.wait([question], timeout=0)
        if not ready:
            silent = time.monotonic() - asked
            # Code that holds the interpreter's lock keeps the host silent: allow it as long as
            # an evaluation may take.
            if silent > deadlines.evaluation + deadlines.answer:
                return RunError(f"a host gave no sign of life for {silent:.0f} s")
            return None
        share.health = None
        try:
            health: Health = ray.get(question, timeout=deadlines.answer)
        except RayActorError:
            return None  # the call itself will report it
        if health.evaluating is not None and health.seconds > deadlines.evaluation:
            return hung(health.evaluating, deadlines.evaluation)
        return None

    def _again(self, part: Pending, call: Call, call_ref: Any, why: str) -> Any:
        """Rebuild a host from the journal and send its part of the call again."""
        part.deaths.append(why)
        if part.attempts >= ATTEMPTS:
            raise RunError(
                f"a host of agents {part.share.agents[0]}-{part.share.agents[-1]} died "
                f"{ATTEMPTS} times in round {call.t}; the last reason: {why.strip()}"
            )
        part.attempts += 1
        share = part.share
        replacement = self._pool.new_actor()
        self._pool.actors[self._pool.actors.index(share.actor)] = replacement
        share.actor, share.health = replacement, None
        assigned = replacement.assign.remote(
            self._spec, share.agents, self._history(share.agents, call.settled)
        )
        try:
            self._pool.wait_for([assigned], "the replacement of a dead host")
        except RayActorError as error:
            return self._again(part, call, call_ref, str(error))
        return replacement.handle.remote(call_ref, part.tasks)

    def _history(self, agents: Sequence[AgentId], settled: int) -> list[Recorded]:
        lines = itertools.islice(read_journal(self._folder.journal), settled)
        held = set(agents)
        return [record for _, record in observations(lines) if record.agent in held]


def _deal(agents: int, hosts: int) -> list[tuple[int, int]]:
    """Return each host's range of agents: consecutive, sizes differing by at most one."""
    return [(h * agents // hosts, (h + 1) * agents // hosts) for h in range(hosts)]


def _translated(error: RayTaskError) -> FedsimError:
    """Return fedsim's own error out of Ray's wrapping."""
    cause = error.cause
    if isinstance(cause, FedsimError):
        return cause
    return RunError(f"a host failed: {type(cause).__name__}: {cause}\n{error}")
