"""The events that a fleet sends to its observer, for timings, progress and transcripts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fedsim.protocol import Release, Replies
from fedsim.record.entries import StepEntry


@dataclass(frozen=True, slots=True)
class CallFinished:
    """All agents have answered a message.

    Attributes:
        t: the round.
        call: the number of the server program's call.
        request: the kind of what an aggregator asked within that call; None for the call itself.
        then: the kind of what the call itself asked of agents; None if it asked nothing.
        agents: how many took part.
        seconds: wall time.
        agent_cpu_seconds: their total CPU time.
        objective_cpu_seconds: CPU time of their objectives.
        lost_keys: how many had lost their secrets.
        sent_bytes: the arrays of message and request, for all agents together.
        received_bytes: the arrays of their replies.
    """

    t: int
    call: int
    request: str | None
    then: str | None
    agents: int
    seconds: float
    agent_cpu_seconds: float
    objective_cpu_seconds: float
    lost_keys: int
    sent_bytes: int
    received_bytes: int


@dataclass(frozen=True, slots=True)
class StepTaken:
    """Agents took a step.

    Attributes:
        entry: its journal entry; if it is new, its failures have their messages and tracebacks.
        replayed: whether the journal already had it.
    """

    entry: StepEntry
    replayed: bool


@dataclass(frozen=True, slots=True)
class ReleaseMade:
    """An aggregator made a release.

    Attributes:
        t: the round.
        seconds: wall time, including its requests to agents.
    """

    t: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Received:
    """The server program received the answer to a call.

    Attributes:
        t: the round.
        call: the number of the call.
        received: replies or a release, without the experimenter's diagnostics.
    """

    t: int
    call: int
    received: Replies | Release


@dataclass(frozen=True, slots=True)
class AggregatorReceived:
    """An aggregator that runs at the server received replies.

    Attributes:
        t: the round.
        call: the number of the server program's call that it belongs to.
        request: the kind of what was asked.
        replies: the replies.
    """

    t: int
    call: int
    request: str
    replies: Replies


Event = CallFinished | StepTaken | ReleaseMade | Received | AggregatorReceived
Observer = Callable[[Event], None]
