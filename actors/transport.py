"""Carries a run's calls to its hosts, and repairs hosts that die or hang.

An infrastructure fault is always repaired: a lost host is rebuilt from the journal and its part of
the call is sent again. Objectives' keys do not change, so the result is the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Literal

import ray
from ray.exceptions import RayError, RayTaskError

from fedsim.actors.host import Assignment
from fedsim.actors.nodes import reason, unforeseen
from fedsim.actors.pool import Host, HostPool
from fedsim.actors.shares import Part, Share, deal
from fedsim.config.spec import RunSpec
from fedsim.errors import (
    ConfigError,
    FedsimError,
    Interrupted,
    ObjectiveError,
    RunError,
    UserCodeError,
)
from fedsim.protocol import AgentId
from fedsim.record.entries import Recorded, observations
from fedsim.record.journal import read_journal
from fedsim.record.logfolder import LogFolder
from fedsim.record.logs import unfinished
from fedsim.record.position import Start
from fedsim.record.runfolder import RunFolder
from fedsim.simulation.calls import (
    Answer,
    Call,
    Evaluator,
    Proposed,
    Task,
    completed,
    with_evaluations,
)

ATTEMPTS = 3
"""How often a host's part of one call is tried before the run fails."""

FEW_HOSTS = 4
"""Up to this many hosts get the call in their own message: cheaper than reading Ray's store."""

GRACE_SECONDS = 5.0
"""How long hosts may take to send what they have printed, at the end of a run."""

POLL_SECONDS = 0.5
"""How often a wait for answers checks for dead or hung hosts. Answers do not wait for it."""


class RayTransport:
    """The transport of one run over a pool of hosts.

    Args:
        pool: the hosts.
        spec: the run.
        folder: the run's folder: hosts are built from its journal.
        agents: the number of agents.
        start: where the run stands.
        logs: where hosts keep what they print.
        stopped: checked while waiting; True makes :meth:`handle` raise ``Interrupted``.
        evaluator: evaluates the agents' proposals, if the hosts do not.
    """

    def __init__(
        self,
        pool: HostPool,
        spec: RunSpec,
        folder: RunFolder,
        agents: int,
        start: Start,
        logs: LogFolder,
        stopped: Callable[[], bool],
        evaluator: Evaluator | None = None,
    ) -> None:
        self._pool = pool
        self._spec = spec
        self._folder = folder
        # Kept for the first call, so that the journal is not read twice.
        self._history, self._known = start.history(), start.position.entries
        self._logs = logs
        self._stopped = stopped
        self._evaluator = evaluator
        self._shares = [
            Share(own, host)
            for host, own in zip(pool.hosts, deal(agents, pool.count), strict=True)
            if own
        ]

    def handle(self, call: Call, tasks: Sequence[Task]) -> list[Answer]:
        """See :class:`fedsim.simulation.exchange.Transport`."""
        new = [task for task in tasks if call.evaluate and task.recorded is None]
        if self._evaluator is None or not new:
            answers: dict[AgentId, Answer] = self._exchange("handle", call, tasks)
            return [answers[task.agent] for task in tasks]
        proposed: dict[AgentId, Proposed] = self._exchange("propose", call, new)
        evaluated = self._evaluator.evaluate(call, list(proposed.values()))
        answers = self._exchange("handle", call, with_evaluations(tasks, evaluated))
        in_order = [answers[task.agent] for task in tasks]
        return completed(in_order, list(proposed.values()), evaluated)

    def close(self) -> None:
        """Keep what hosts have printed that do not see the run folder."""
        hosts = [share.host for share in self._shares if share.assigned]
        asked = {host.actor.health.remote(): host for host in hosts}
        if not asked:
            return
        ready, _ = ray.wait(list(asked), num_returns=len(asked), timeout=GRACE_SECONDS)
        for ref in ready:
            with suppress(RayError):  # it is dead
                asked[ref].printed += ray.get(ref).printed
        for host in hosts:
            self._keep_printed(host)

    def _keep_printed(self, host: Host) -> None:
        printed, host.printed = host.printed, b""
        self._logs.keep(self._name(host), printed)

    def _name(self, host: Host) -> str:
        return f"host-{self._pool.hosts.index(host)}"

    def _exchange(
        self, method: Literal["propose", "handle"], call: Call, tasks: Sequence[Task]
    ) -> dict[AgentId, Any]:
        """Call a method of the hosts with their shares of the tasks; return results by agent."""
        by_agent = {task.agent: task for task in tasks}
        parts = [
            Part(share, own)
            for share in self._shares
            if (own := tuple(by_agent[a] for a in share.agents if a in by_agent))
        ]
        shared = call if len(parts) <= FEW_HOSTS else ray.put(call)
        pending = self._send(method, parts, call, shared)
        results: dict[AgentId, Any] = {}
        poll = min(POLL_SECONDS, self._pool.deadlines.evaluation / 4)
        while pending:
            if self._stopped():
                raise Interrupted(f"stopped in round {call.t}")
            ready, _ = ray.wait(list(pending), num_returns=len(pending), timeout=poll)
            lost = []
            for ref in ready:
                part = pending.pop(ref)
                try:
                    results |= {one.agent: one for one in self._received(ref, part)}
                except RayError as error:
                    lost.append(self._lost(part, call, reason(error)))
            for ref, part in list(pending.items()):
                problem = self._pool.problem(part.share.host)
                self._keep_printed(part.share.host)
                if problem is not None:
                    del pending[ref]
                    lost.append(self._given_up(part, call, problem))
            pending |= self._send(method, lost, call, shared)
        return {task.agent: results[task.agent] for task in tasks}

    def _send(self, method: str, parts: Sequence[Part], call: Call, shared: Any) -> dict[Any, Part]:
        """Send parts of a call, given itself or by reference, to their hosts.

        Each part includes its agents if the host does not have them.
        """
        new = [part for part in parts if not part.share.assigned]
        histories = self._histories([part.share for part in new], call.settled)
        pending = {}
        for part in parts:
            share, actor = part.share, part.share.host.actor
            part.attempts += 1
            share.host.program = None  # a new call starts
            assignment = None
            if not share.assigned:
                history = histories[share.agents[0]]
                name = self._name(share.host)
                assignment = Assignment(self._spec, share.agents, history, self._logs, name)
                share.assigned = True
            pending[getattr(actor, method).remote(shared, part.tasks, assignment)] = part
            if method == "handle" and call.evaluate and call.t < self._spec.rounds:
                actor.prepare_next.remote()  # starts when the host has answered
        return pending

    def _histories(
        self, shares: Sequence[Share], settled: int
    ) -> dict[AgentId, tuple[Recorded, ...]]:
        """Return each share's evaluations in the journal, by the share's first agent."""
        first = {agent: share.agents[0] for share in shares for agent in share.agents}
        found: dict[AgentId, list[Recorded]] = {share.agents[0]: [] for share in shares}
        if shares:
            for record in self._recorded(settled):
                if record.agent in first:
                    found[first[record.agent]].append(record)
        return {agent: tuple(records) for agent, records in found.items()}

    def _recorded(self, settled: int) -> Iterable[Recorded]:
        """Return the evaluations in the journal's first entries."""
        history, self._history = self._history, []
        if settled == self._known:
            self._known = -1
            return history
        lines = itertools.islice(read_journal(self._folder.journal), settled)
        return (record for _, record in observations(lines))

    def _received(self, ref: Any, part: Part) -> list[Any]:
        """Return a part's results.

        Raises:
            FedsimError: if an agent failed.
            RayError: if the host was lost.
        """
        try:
            results: list[Any] = ray.get(ref, timeout=self._pool.deadlines.answer)
        except RayTaskError as error:
            cause = error.cause
            if isinstance(cause, ConfigError):  # the driver could build the same, this node cannot
                raise RunError(
                    f"a host of {part.names} cannot build its agents: {cause}; "
                    "every node needs the same packages and files"
                ) from None
            if isinstance(cause, FedsimError):
                raise cause from None
            raise unforeseen(f"a host of {part.names}", error) from None
        part.share.host.alive, part.share.host.silent = True, 0.0
        return results

    def _lost(self, part: Part, call: Call, why: str) -> Part:
        """Move a part to a new host after its host was lost; errors as in :meth:`_given_up`."""
        if part.attempts >= ATTEMPTS:
            error = UserCodeError(
                f"the host of {part.names} died {ATTEMPTS} times in round {call.t} ({why}); an "
                "objective that ends its process or runs out of memory does this"
            )
            error.add_output(unfinished(self._logs.path_of(self._name(part.share.host))))
            raise error
        part.share.host = self._pool.replace(part.share.host)
        part.share.assigned = False
        return part

    def _given_up(self, part: Part, call: Call, problem: FedsimError) -> Part:
        """Move a part to a new host if its host hangs.

        Raises:
            ObjectiveError: if an objective hangs for the second time.
            RunError: if that was the last attempt.
        """
        if isinstance(problem, ObjectiveError):
            if part.hung:
                raise problem
            part.hung = True
        return self._lost(part, call, str(problem))
