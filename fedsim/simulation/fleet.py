"""The recording fleet, between a server program and the transport that carries its calls.

It numbers the calls, counts each agent's steps, writes the journal and, after a restart, replays
what the journal holds: agents get recorded evaluations instead of making them again, and recorded
releases whose noise must not be drawn twice are read back. To a program, a replay looks the same
as the first run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral

from fedsim.config.spec import Availability
from fedsim.errors import ProtocolError, RunFolderError
from fedsim.payloads import frozen
from fedsim.protocol import (
    AgentId,
    Aggregator,
    Broadcast,
    Release,
    Replies,
    Request,
    RunsAtServer,
)
from fedsim.record.entries import AskEntry, StepEntry
from fedsim.record.lines import Appender
from fedsim.record.logs import Log
from fedsim.record.observer import (
    AggregatorReceived,
    Observer,
    Received,
    StepTaken,
)
from fedsim.record.position import Position, recorded_by_agent
from fedsim.simulation.availability import present
from fedsim.simulation.calls import Answer, Call, Task
from fedsim.simulation.exchange import Transport, exchanged, replies_of
from fedsim.simulation.releases import AskingFleet, Releases
from fedsim.simulation.rounds import CurrentRound, servers_fault
from fedsim.usercode.calling import expect, offers


@dataclass
class RecordingFleet:
    """The fleet of one run.

    Attributes:
        transport: carries the calls.
        members: all agents, ascending.
        seed: the run's seed.
        position: where the run stands; kept up to date.
        journal: every call is appended to it.
        observer: called with each event.
        releases: makes the releases.
        aggregators: the aggregators that the server program may use, by name.
        availability: the probability that an agent takes part in a round.
        log: what this process prints, or None; while agents work, it is theirs.
        round: what the server program may do now.
    """

    transport: Transport
    members: tuple[AgentId, ...]
    seed: int
    position: Position
    journal: Appender
    observer: Observer
    releases: Releases
    aggregators: Mapping[str, Aggregator] = field(default_factory=dict)
    availability: Availability = 1.0
    log: Log | None = None
    round: CurrentRound = field(default_factory=CurrentRound)

    def step(
        self,
        t: int,
        message: Broadcast | None,
        *,
        to: Sequence[AgentId] | None = None,
        then: Request | None = None,
        via: Aggregator | None = None,
    ) -> Replies | Release:
        """See :meth:`fedsim.protocol.Fleet.step`."""
        with servers_fault():
            self._check_aggregator(via)
            given = isinstance(message, Broadcast)
            expect(message is None or given, "message", "a Broadcast", message)
            t, chosen, agents = self._taking_part(t, to)
            self.round.step(t, chosen)
            if message is not None:
                message = Broadcast(frozen(message.payload, "the server's message"))
            then = _frozen(then)
        recorded = self.position.next_recorded(StepEntry, t)
        call = Call(t, self.position.entries, True, message, then)
        made = None if recorded is None else recorded_by_agent(recorded, agents)
        tasks = [
            Task(
                agent,
                self.position.steps[agent],
                self.position.request_number(agent, step=True),
                recorded=None if made is None else made[agent],
            )
            for agent in agents
        ]
        answers = self._exchange(call, tasks)
        entry = recorded
        if entry is None:
            observations = tuple(record for a in answers for record in a.observations)
            failed = tuple(failure for a in answers for failure in a.failed)
            entry = StepEntry(t, observations, failed, _others(chosen, agents))
            self.journal.append(entry.to_json())
        self.position.take(entry)
        self.observer(StepTaken(entry, replayed=recorded is not None))
        return self._received(t, chosen, tasks, answers, then, via)

    def ask(
        self,
        t: int,
        request: Request,
        *,
        to: Sequence[AgentId] | None = None,
        via: Aggregator | None = None,
    ) -> Replies | Release:
        """See :meth:`fedsim.protocol.Fleet.ask`."""
        with servers_fault():
            self._check_aggregator(via)
            expect(isinstance(request, Request), "request", "a Request", request)
            t, chosen, agents = self._taking_part(t, to)
            asked = _frozen(request)
        recorded = self.position.next_recorded(AskEntry, t)
        entry = AskEntry(t, request.kind, agents, _others(chosen, agents))
        if recorded not in (None, entry):
            raise RunFolderError(
                f"journal: expected {entry}, got {recorded}; the journal belongs to another "
                "configuration or version"
            )
        tasks = [
            Task(agent, self._last_step(agent), self.position.request_number(agent, step=False))
            for agent in agents
        ]
        call = Call(t, self.position.entries, False, None, asked)
        answers = self._exchange(call, tasks)
        if recorded is None:
            self.journal.append(entry.to_json())
        self.position.take(entry)
        return self._received(t, chosen, tasks, answers, asked, via)

    def _ask_within(
        self,
        made: Mapping[AgentId, Task],
        first: Request | None,
        visible: bool,
        t: int,
        request: Request,
        to: Sequence[AgentId] | None,
        number: int,
    ) -> Replies:
        """Ask agents for an aggregator.

        Args:
            made: the tasks of the program's call that the release belongs to.
            first: the call's own request; asked again, or after keys were lost, it is repeated.
            visible: whether the server sees the replies.
            t: the round.
            request: what to ask.
            to: the agents to ask; None for all.
            number: how often this kind was asked before.
        """
        with servers_fault():
            expect(isinstance(request, Request), "request", "a Request", request)
            t, chosen, agents = self._taking_part(t, to)
            asked = _frozen(request)
        again = first is not None and (request.kind, number) == (first.kind, 0)
        scope = f"release {self.position.releases}: {request.kind} {number}: "
        tasks = [
            replace(made[agent], recorded=None)
            if again and agent in made
            else Task(agent, self._last_step(agent), scope=scope)
            for agent in agents
        ]
        call = Call(t, self.position.entries, False, None, asked)
        replies = replies_of(chosen, self._exchange(call, tasks, request.kind))
        self._show(visible, t, request, replies)
        return replies

    def _received(
        self,
        t: int,
        chosen: Sequence[AgentId],
        tasks: Sequence[Task],
        answers: Sequence[Answer],
        request: Request | None,
        via: Aggregator | None,
    ) -> Replies | Release:
        """Return the part of a call's answers that the server program sees."""
        replies = replies_of(chosen if request is not None else (), answers)
        received: Replies | Release = replies
        if via is not None:
            visible = offers(via, RunsAtServer) and via.runs_at_server
            self._show(visible, t, request, replies)
            made = {task.agent: task for task in tasks}
            ask = partial(self._ask_within, made, request, visible)
            fleet = AskingFleet(self.members, ask, request, replies)
            received = self.releases.make(t, replies, via, fleet)
        elif any(reply.status == "lost_keys" for reply in replies):
            raise ProtocolError(
                "agents that were rebuilt have lost their keys: ask for what needs secrets "
                "through an aggregator (via), which can make new keys and ask again"
            )
        self.observer(Received(t, self.position.calls - 1, received))
        return received

    def _show(self, visible: bool, t: int, request: Request | None, replies: Replies) -> None:
        """Tell the observer what an aggregator received, if the server sees it."""
        if visible and request is not None:
            number = self.position.calls - 1
            self.observer(AggregatorReceived(t, number, request.kind, replies))

    def _exchange(
        self, call: Call, tasks: Sequence[Task], request: str | None = None
    ) -> list[Answer]:
        number = self.position.calls - (request is not None)
        return exchanged(
            self.transport, call, tasks, number, self.observer, log=self.log, request=request
        )

    def _taking_part(
        self, t: int, to: Sequence[AgentId] | None
    ) -> tuple[int, tuple[AgentId, ...], tuple[AgentId, ...]]:
        """Return the round, the agents chosen for a call, and those of them that are present.

        Raises:
            ProtocolError: if the round or an agent is not the run's.
        """
        expect(_is_whole(t), "t", "the round, a whole number", t)
        self.round.check(int(t))
        whole = to is None or (isinstance(to, Iterable) and all(map(_is_whole, to)))
        expect(whole, "to", "a list of agents, or None", to)
        chosen = self.members if to is None else tuple(sorted(set(map(int, to))))
        unknown = set(chosen) - self.position.steps.keys()
        if unknown:
            raise ProtocolError(
                f"to: expected agents 0 to {len(self.members) - 1}, got {sorted(unknown)}"
            )
        return int(t), chosen, present(self.seed, t, chosen, self.availability)

    def _last_step(self, agent: AgentId) -> int:
        return max(0, self.position.steps[agent] - 1)

    def _check_aggregator(self, via: Aggregator | None) -> None:
        if via is not None and not any(via is known for known in self.aggregators.values()):
            raise ProtocolError(
                f"via: expected one of the server program's aggregators "
                f"({', '.join(self.aggregators) or 'it has none'}), got a {type(via).__name__}; "
                "add it to the program's `aggregators`, so that its state is saved"
            )


def _others(chosen: Sequence[AgentId], agents: Sequence[AgentId]) -> tuple[AgentId, ...]:
    return tuple(sorted(set(chosen) - set(agents)))


def _frozen(request: Request | None) -> Request | None:
    if request is None:
        return None
    expect(isinstance(request, Request), "then", "a Request", request)
    return Request(request.kind, frozen(request.payload, f"the request {request.kind!r}"))


def _is_whole(number: object) -> bool:
    return isinstance(number, Integral) and not isinstance(number, bool)
