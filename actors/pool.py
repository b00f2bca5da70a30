"""The host actors of a server: started together, replaced when they die."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import RayError

from fedsim.actors.host import Health, HostActor
from fedsim.config.model import DeadlinesConfig
from fedsim.errors import FedsimError, ResourceError, RunError
from fedsim.protocol import AgentId
from fedsim.running.jobs import SILENT_SECONDS
from fedsim.simulation.calls import hung, where


@dataclass
class Host:
    """One host actor, as its server sees it.

    Attributes:
        actor: the handle.
        alive: whether it has ever answered.
        asked: the pending health check, and when it was sent.
        next_question: when to send the next one.
        program: the agent whose program, not objective, was seen running, and since when.
        printed: what it has sent to be kept, if it does not see the run folder.
        silent: for how long its answer has been waited for, in seconds.
        node: the name of its machine, once it is known.
    """

    actor: Any
    alive: bool = False
    asked: tuple[Any, float] | None = None
    next_question: float = 0.0
    program: tuple[AgentId, float] | None = None
    printed: bytes = b""
    silent: float = 0.0
    node: str = ""


@dataclass
class HostPool:
    """The hosts of one server, reused from run to run.

    Attributes:
        count: the number of hosts.
        cpus_per_host: CPUs that each asks Ray for.
        deadlines: how long to wait.
        hosts: the hosts.
        last_start: when a host last answered for the first time.
    """

    count: int
    cpus_per_host: float
    deadlines: DeadlinesConfig
    hosts: list[Host] = field(init=False)
    last_start: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.hosts = [Host(self._new_actor(self.cpus_per_host)) for _ in range(self.count)]

    def _new_actor(self, cpus: float) -> Any:
        return HostActor.options(num_cpus=cpus, scheduling_strategy="SPREAD").remote()

    def replace(self, host: Host) -> Host:
        """Kill a host, if it is still alive, and return its replacement.

        The replacement asks for no CPU: if a node was lost, no CPU may be free for it, and an
        infrastructure fault must not end a run.
        """
        ray.kill(host.actor)
        replacement = Host(self._new_actor(0.0))
        self.hosts[self.hosts.index(host)] = replacement
        self.last_start = time.monotonic()
        return replacement

    def problem(self, host: Host) -> FedsimError | None:
        """Return what is wrong with a host whose answer is pending, or None. Never waits.

        Raises:
            ResourceError: if a host does not start: usually the cluster has no room.
        """
        now = time.monotonic()
        if host.asked is None:
            if now >= host.next_question:
                host.asked = (host.actor.health.remote(), now)
            return None
        question, asked = host.asked
        if not ray.wait([question], timeout=0)[0]:
            host.silent = now - asked
            return self._silence(host, asked)
        host.asked, host.silent = None, 0.0
        # Each check costs messages: no more often than the deadline needs.
        host.next_question = now + min(5.0, self.deadlines.evaluation / 4)
        try:
            health: Health = ray.get(question, timeout=self.deadlines.answer)
        except RayError:
            return None  # the host is dead: its pending call reports it
        host.printed += health.printed
        host.node = health.node
        if not host.alive:
            host.alive, self.last_start = True, now
        return self._overdue(host, health)

    def waiting(self) -> str:
        """Return which hosts are silent for longer than usual, in words; may be empty.

        Other threads may ask.
        """
        silent = [host for host in self.hosts if host.silent > SILENT_SECONDS]
        if not silent:
            return ""
        host = max(silent, key=lambda host: host.silent)
        if not host.alive:
            starting = sum(not one.alive for one in self.hosts)
            return f"{starting} of {self.count} host actors have not started yet"
        limit = self.deadlines.evaluation + self.deadlines.answer
        return (
            f"a host on {host.node} has been silent for {host.silent:.0f} s; it is replaced after "
            f"{limit:g} s"
        )

    def _silence(self, host: Host, asked: float) -> FedsimError | None:
        now, deadlines = time.monotonic(), self.deadlines
        # With more hosts than CPUs, hosts start one after another: each start resets the clock.
        if not host.alive and now - max(asked, self.last_start) > deadlines.start:
            raise ResourceError(
                f"host actors did not start within {deadlines.start:g} s: "
                f"{sum(not h.alive for h in self.hosts)} of {self.count} wait for "
                f"{self.cpus_per_host:g} CPUs each; the cluster has "
                f"{ray.available_resources().get('CPU', 0):g} of "
                f"{ray.cluster_resources().get('CPU', 0):g} CPUs free; deadlines.start sets the "
                "limit"
            )
        # A host cannot answer while code holds the interpreter's lock: allow as long as an
        # evaluation may take.
        silent = now - asked
        if host.alive and silent > deadlines.evaluation + deadlines.answer:
            return RunError(f"a host did not answer for {silent:.0f} s")
        return None

    def _overdue(self, host: Host, health: Health) -> FedsimError | None:
        limit, now = self.deadlines.evaluation, time.monotonic()
        # Anything but an objective (such as building agents on a busy machine) may take longer.
        patience = limit + self.deadlines.answer
        if health.evaluating is not None:
            host.program = None
            now_at = health.evaluating
            place = where(now_at.agent, now_at.t, now_at.point, health.node)
            if health.seconds <= limit:
                return None
            problem = hung(place, limit)
            problem.add_output(health.output)
            return problem
        if health.agent is None:
            host.program = None
        elif host.program is None or host.program[0] != health.agent:
            host.program = (health.agent, now)
        elif now - host.program[1] > patience:
            return RunError(
                f"the method's program of agent {health.agent} did not return within "
                f"{patience:g} s; deadlines.evaluation and deadlines.answer set the limit"
            )
        return None
