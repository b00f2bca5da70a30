"""The programs of a method, and what they may call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from fedsim.protocol.messages import (
    AgentId,
    Broadcast,
    Cost,
    Observation,
    Payload,
    PrivacyEvent,
    Proposal,
    Release,
    Replies,
    Request,
)
from fedsim.rng import Keys, Randomness
from fedsim.space import Array, Space

State = Mapping[str, Array]
"""A program's state between rounds, written to the run folder; scalars are 0-d arrays."""

RoundInfo = Mapping[str, float]
"""Diagnostics of a round, for the record only; they control nothing."""


@runtime_checkable
class AgentProgram(Protocol):
    """One participant; its state is a function of its settings and history.

    Proposing and replying in one step have the same keys: give their draws different purposes.
    """

    def propose(self, step: int, message: Broadcast | None, rng: Keys) -> Sequence[Proposal]:
        """Return the initial design at step 0, else one proposal."""
        ...

    def observe(self, observations: Sequence[Observation]) -> None:
        """Add evaluations to the history."""
        ...

    def reply(self, request: Request, rng: Keys) -> Payload:
        """Answer the server.

        Raises:
            LostKeysError: if the answer needs secrets that were lost with the agent's process;
                the aggregator gets ``lost_keys``.
        """
        ...


@runtime_checkable
class SecretHolder(Protocol):
    """An agent program whose replies depend on secrets, such as encryption keys.

    Secrets are never written, so a rebuilt program lacks them. The content of a release must not
    depend on them.
    """

    @property
    def holds_secrets(self) -> bool:
        """Whether this program holds secrets."""
        ...


@runtime_checkable
class PreparingAgent(AgentProgram, Protocol):
    """An agent program that can prepare its next step while the server works."""

    def prepare(self, step: int, rng: Keys) -> None:
        """Do work for :meth:`propose` in this step that does not depend on its message.

        This may or may not be called, and must not change proposals or replies; ``rng`` is the
        step's.
        """
        ...


class Stateful(Protocol):
    """An object with state between rounds."""

    def state(self) -> State:
        """Return the state that must survive a restart."""
        ...

    def restore(self, state: State) -> None:
        """Restore a state that :meth:`state` returned."""
        ...


@runtime_checkable
class Aggregator(Stateful, Protocol):
    """Turns agents' replies into a release that the server may use."""

    def cost(self, t: int) -> Cost:
        """Return the cost of a release in round ``t``; must not depend on data."""
        ...

    def aggregate(self, t: int, replies: Replies, fleet: Respondents, rng: Randomness) -> Release:
        """Return a release in round ``t``; may ask again, e.g. for decryption shares.

        If a reply's status is ``lost_keys``, make new keys with the agents and ask for everything
        again; the release must be the same. ``rng`` differs between two releases of a round.
        """
        ...


@runtime_checkable
class RunsAtServer(Protocol):
    """An aggregator that nobody has to trust, because encryption protects what it receives.

    It is a part of the server: a transcript of what the server receives has its replies, too.
    """

    @property
    def runs_at_server(self) -> bool:
        """Whether the server runs it."""
        ...


class Respondents(Protocol):
    """An aggregator's only access to the agents: it may ask them, and no more."""

    @property
    def members(self) -> tuple[AgentId, ...]:
        """All agents, ascending."""
        ...

    @property
    def request(self) -> Request | None:
        """The server program's request, which the replies answer; None if there was none.

        To ask it again is to repeat it: agents answer with the randomness of the first time.
        """
        ...

    def ask(self, t: int, request: Request, *, to: Sequence[AgentId] | None = None) -> Replies:
        """Ask agents.

        Args:
            t: the round.
            request: what is asked.
            to: the agents that are asked; None for all.
        """
        ...


class Fleet(Protocol):
    """The server program's only access to its agents."""

    @property
    def members(self) -> tuple[AgentId, ...]:
        """All agents, ascending."""
        ...

    def step(
        self,
        t: int,
        message: Broadcast | None,
        *,
        to: Sequence[AgentId] | None = None,
        then: Request | None = None,
        via: Aggregator | None = None,
    ) -> Replies | Release:
        """Let agents propose, evaluate and observe, then answer ``then``.

        Every agent takes at most one step in a round; before round 0, any number.

        Args:
            t: the round; below 0 before round 0.
            message: the server's broadcast, or None.
            to: the agents that take part; None for all, an empty list for none.
            then: the request to each agent after it has observed.
            via: turns the answers into a :class:`Release`; the program sees only that. It must
                be one of the program's :attr:`AggregatingServer.aggregators`.
        """
        ...

    def ask(
        self,
        t: int,
        request: Request,
        *,
        to: Sequence[AgentId] | None = None,
        via: Aggregator | None = None,
    ) -> Replies | Release:
        """Ask agents without a step; otherwise as in :meth:`step`."""
        ...


@runtime_checkable
class ServerProgram(Stateful, Protocol):
    """The server's side of a method."""

    def start(self, fleet: Fleet) -> None:
        """Do the work before round 0, such as helpers' own runs, key set-up or a support set."""
        ...

    def round(self, t: int, fleet: Fleet) -> RoundInfo:
        """Run round ``t``: 0 is the initial design, then one query per round.

        It calls ``fleet.step`` at least once.
        """
        ...


@runtime_checkable
class AggregatingServer(Protocol):
    """A server program that uses aggregators."""

    @property
    def aggregators(self) -> Mapping[str, Aggregator]:
        """The aggregators that it passes to its fleet, by name; their states are saved."""
        ...


@dataclass(frozen=True, slots=True)
class Context:
    """What a method may know about the federation; all of it is public.

    Attributes:
        space: the search space.
        agents: the number of agents N; they are 0 .. N-1.
        rounds: the number of queries T after the initial design.
        seed: the run's seed, for public randomness such as shared features.
    """

    space: Space
    agents: int
    rounds: int
    seed: int


@runtime_checkable
class Method(Protocol):
    """An algorithm: built as ``Class(context, **settings)``, for agents and server separately.

    Its settings are the keyword arguments of its constructor; a configuration file's
    ``method:`` section is checked against their names and annotations. See also
    :class:`PlansCosts`, :class:`WarnsOfPlan` and :class:`HasTargets`.
    """

    def agent(self, agent: AgentId) -> AgentProgram:
        """Return a new program for an agent without history."""
        ...

    def server(self) -> ServerProgram:
        """Return a new server program."""
        ...


@runtime_checkable
class PlansCosts(Protocol):
    """A method that knows a run's privacy costs in advance."""

    def planned_costs(self) -> Sequence[PrivacyEvent]:
        """Return the events of a whole run, for its privacy loss before it starts."""
        ...


@runtime_checkable
class WarnsOfPlan(Protocol):
    """A method that knows in advance what a user should be warned of."""

    def plan_warnings(self) -> Sequence[str]:
        """Return sentences, without a capital and a full stop; none if there is nothing to say."""
        ...


@runtime_checkable
class HasTargets(Protocol):
    """A method of which only some agents' results count: the others are their helpers."""

    @property
    def target_agents(self) -> Sequence[AgentId]:
        """The agents whose results count, at least one."""
        ...
