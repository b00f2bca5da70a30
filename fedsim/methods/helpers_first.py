"""Helpers query first, then send messages, then targets use them: the schedule and its server.

Paper: FTS (Dai, Low and Jaillet, NeurIPS 2020), Secs. 3.1 and 3.2 (its rivals RGPE and TAF work in
the same way), Apps. D.1 and D.2.1. What helpers send and what targets make of it is a method's
own, see :mod:`fedsim.methods.helped_agent`.

- Before round 0, every helper makes t_n observations of its own, and sends its first message, which
  the server relays to the targets from query 1 on.
- With ``renew: k``, helpers send new messages before the queries 1 + k, 1 + 2k, ... If they
  continue, they make a query of their own before every query from 2 on (App. D.2.1: k = 1).
- If all agents are targets, they are one another's helpers, and every query counts. So nothing
  happens before round 0: they query alone until they have t_n observations, and send their first
  messages then. Renewals follow as above, counted from there.

A helper that does not answer (a straggler, Sec. 3.1) has no message; one that misses a renewal
keeps its former one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from fedsim.acquisition import whole_cube
from fedsim.errors import ConfigError, require
from fedsim.methods.common import MOST_INITIAL_POINTS, InitialDesign
from fedsim.methods.roles import Roles
from fedsim.protocol import (
    AgentId,
    Broadcast,
    Fleet,
    Payload,
    Proposal,
    Release,
    Replies,
    Request,
    RoundInfo,
    State,
)
from fedsim.rng import Keys
from fedsim.space import Array, Space

Renewal = Literal["never"] | int
"""How often helpers send new messages: never, or every so many rounds."""

HelperDesign = Literal["thompson", "random"]
"""How helpers choose their queries."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Who queries and sends when.

    Attributes:
        roles: targets and helpers.
        rounds: the number of queries T.
        initial: the initial design.
        helper_queries: t_n, a helper's observations before its first message, initial design
            included; 0: there are no messages.
        helper_design: ``thompson``: initial design, then Thompson sampling; ``random``: all t_n
            at random.
        renew: the rounds between messages, at least 1, or ``never``.
        helpers_continue: whether helpers query in every round, if messages are renewed; if all
            agents are targets, they do anyway.

    Raises:
        ConfigError: if a setting is out of range.
    """

    roles: Roles
    rounds: int
    initial: InitialDesign
    helper_queries: int
    helper_design: HelperDesign
    renew: Renewal
    helpers_continue: bool

    def __post_init__(self) -> None:
        count, most = self.helper_queries, MOST_INITIAL_POINTS
        require(0 <= count <= most, "method.helper_queries", f"0 to {most:,}", count)
        if self.renew != "never":
            require(self.renew >= 1, "method.renew", "never, or a number of rounds", self.renew)
        if self.roles.mutual and self.helper_design == "random":
            raise ConfigError(
                "method.helper_design: expected thompson, as all agents are targets, got random"
            )

    @property
    def alone(self) -> int:
        """Queries after its initial design that a target makes before there are messages."""
        return self._after_design if self.roles.mutual else 0

    @property
    def helper_steps(self) -> int:
        """Steps of a helper before round 0."""
        if self.roles.mutual or not self.helper_queries:
            return 0
        return 1 if self.helper_design == "random" else 1 + self._after_design

    @property
    def _after_design(self) -> int:
        return max(0, self.helper_queries - self.initial.count)

    @property
    def renewing_steps(self) -> bool:
        """Whether helpers that are no targets query in rounds."""
        return self.helper_steps > 0 and self.helpers_continue and self.renew != "never"

    def number(self, t: int) -> int:
        """Return which message is new in round ``t``: 1, 2, ...; 0 if none."""
        since = t - self.alone - 1
        if not self.helper_queries or since < 0 or t > self.rounds:
            return 0
        if since == 0:
            return 1
        return 0 if self.renew == "never" or since % self.renew else 1 + since // self.renew

    def design(self, agent: AgentId, space: Space, keys: Keys) -> list[Proposal]:
        """Return an agent's initial design."""
        design, cube = self.initial, whole_cube(space.dimension)
        if agent not in self.roles.targets and self.helper_queries:
            if self.helper_design == "random":
                design = InitialDesign(self.helper_queries)
            else:
                design = replace(design, count=min(design.count, self.helper_queries))
        return design.proposals(space, cube, keys)


@dataclass(frozen=True, slots=True)
class Messages:
    """The helpers' messages that a target has, in the order of their senders.

    Attributes:
        senders: the helpers, shape (H,).
        numbers: which of a helper's messages it is: 1, 2, ..., shape (H,).
        content: what the helpers sent: each name's arrays stacked, shape (H, ...).
    """

    senders: Array
    numbers: Array
    content: Payload

    @classmethod
    def of(cls, payload: Payload) -> Messages:
        """Return the messages in a payload that :meth:`payload` made."""
        content = {n: a for n, a in payload.items() if n not in ("senders", "numbers")}
        return cls(payload["senders"], payload["numbers"], content)

    def payload(self) -> Payload:
        """Return the messages as named arrays."""
        return {"senders": self.senders, "numbers": self.numbers, **self.content}


class HelpersFirstServer:
    """Runs the schedule, and relays the helpers' messages.

    Args:
        schedule: the schedule.
        request: what helpers answer with their message; all messages of a run have the same names
            and shapes.
    """

    def __init__(self, schedule: Schedule, request: Request) -> None:
        self._schedule = schedule
        self._request = request
        self._received: dict[AgentId, tuple[int, Payload]] = {}

    def start(self, fleet: Fleet) -> None:
        """Let helpers query, and take their first messages."""
        helpers, steps = self._schedule.roles.helpers, self._schedule.helper_steps
        if not helpers:
            return
        for t in range(-steps, 0):
            then = self._request if t == -1 else None
            replies = fleet.step(t, None, to=helpers, then=then)
        if steps:
            self._take(1, replies)

    def round(self, t: int, fleet: Fleet) -> RoundInfo:
        """Take what is new, and let targets query."""
        schedule, roles = self._schedule, self._schedule.roles
        if roles.mutual:
            number = schedule.number(t + 1)
            then = self._request if number else None
            self._take(number, fleet.step(t, self._broadcast(), then=then))
            return {}
        if t > 1 and roles.helpers:
            self._renew(t, fleet)
        fleet.step(t, self._broadcast(), to=roles.targets)
        return {}

    def _renew(self, t: int, fleet: Fleet) -> None:
        number, helpers = self._schedule.number(t), self._schedule.roles.helpers
        if self._schedule.renewing_steps:
            then = self._request if number else None
            self._take(number, fleet.step(t, None, to=helpers, then=then))
        elif number:
            self._take(number, fleet.ask(t, self._request, to=helpers))

    def _take(self, number: int, replies: Replies | Release) -> None:
        assert not isinstance(replies, Release)  # there is no aggregator
        self._received |= {r.agent: (number, r.payload) for r in replies if r.status == "ok"}

    def _messages(self) -> Messages | None:
        if not self._received:
            return None
        senders = sorted(self._received)
        numbers, payloads = zip(*(self._received[agent] for agent in senders), strict=True)
        content = {name: np.stack([p[name] for p in payloads]) for name in payloads[0]}
        return Messages(np.array(senders), np.array(numbers), content)

    def _broadcast(self) -> Broadcast | None:
        messages = self._messages()
        return None if messages is None else Broadcast(messages.payload())

    def state(self) -> State:
        """Return the messages."""
        messages = self._messages()
        return {} if messages is None else messages.payload()

    def restore(self, state: State) -> None:
        """Restore the messages."""
        self._received = {}
        if state:
            found = Messages.of(state)
            for i, agent in enumerate(found.senders):
                own = {name: array[i] for name, array in found.content.items()}
                self._received[int(agent)] = int(found.numbers[i]), own
