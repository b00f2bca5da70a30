"""What agents and server send one another, and what a release costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, Protocol, runtime_checkable

from fedsim.space import Array

AgentId = int
Payload = Mapping[str, Array]
"""All that agents and server can send: named arrays of numbers."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A point that an agent wants evaluated.

    Attributes:
        u: unit-cube coordinates, shape (D,), each in [0, 1].
        source: how it was chosen, e.g. ``initial``, ``own``, ``server``, ``random``.
    """

    u: Array
    source: str


@dataclass(frozen=True, slots=True)
class Observation:
    """One evaluation as the agent sees it: always to be maximised, in any scenario.

    Attributes:
        step: the agent's own count of steps; 0 is the initial design.
        index: position among the step's proposals.
        u: the point, in unit-cube coordinates, shape (D,).
        y: the observed value, larger is better.
        source: the proposal's source.
    """

    step: int
    index: int
    u: Array
    y: float
    source: str


@dataclass(frozen=True, slots=True)
class Broadcast:
    """A message from the server to its agents, with everything that they need from it."""

    payload: Payload


@dataclass(frozen=True, slots=True)
class Request:
    """A request from the server to its agents.

    Attributes:
        kind: a name that the agent program knows.
        payload: arrays needed for the answer.
    """

    kind: str
    payload: Payload = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """One agent's answer.

    Attributes:
        agent: the agent that answered.
        status: ``ok``; ``missing`` (no answer); ``lost_keys`` (the agent was rebuilt and has lost
            its secrets). Only aggregators get the last: they let the agents agree on new keys and
            ask again.
        payload: the answer; empty unless ``ok``.
    """

    agent: AgentId
    status: Literal["ok", "missing", "lost_keys"]
    payload: Payload


Replies = tuple[Reply, ...]
"""Answers in agent order, one per agent that was asked."""


@runtime_checkable
class PrivacyEvent(Protocol):
    """The privacy cost of a release: a frozen, hashable value, the input of accountants.

    :mod:`fedsim.privacy.events` has the kinds that fedsim can account for.
    """

    @property
    def kind(self) -> str:
        """The mechanism, e.g. ``subsampled-gaussian``."""
        ...

    @property
    def agent(self) -> AgentId | None:
        """The only agent that pays, or None if all do."""
        ...

    def record(self) -> Mapping[str, Any]:
        """Return the event as JSON for the journal, with its ``kind``."""
        ...


class Uncharged(Enum):
    """Why a release costs nothing.

    Attributes:
        ALREADY_PAID: an earlier event covers it, e.g. one that paid for a whole horizon.
        NOT_PRIVATE: the release is not private.
    """

    ALREADY_PAID = "already paid"
    NOT_PRIVATE = "not private"


Cost = PrivacyEvent | Uncharged
"""The cost of a release: an event to charge, or why nothing is charged."""


@dataclass(frozen=True, slots=True)
class Release:
    """An aggregator's result for the server program.

    Attributes:
        payload: named arrays; None if a budget refused the release or the aggregator could not
            make it, e.g. an average of no replies. Where privacy is promised, replies never
            decide whether there is one.
        cost: its cost.
        experimenter: diagnostics that depend on private values. They are only written to the run
            folder, never given to a program, an agent or shared output.
    """

    payload: Payload | None
    cost: Cost = Uncharged.NOT_PRIVATE
    experimenter: Mapping[str, float] = field(default_factory=dict)
