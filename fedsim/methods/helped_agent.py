"""An agent that helps others, is helped by them, or both: the same for all rules of the targets.

Alone it does Thompson sampling on its own history, as in :mod:`fedsim.methods.thompson`, with the
same draws. What it sends as a helper, and what it does with messages as a target, is a method's
own (:class:`Rule`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fedsim.errors import RunError
from fedsim.methods.helpers_first import HelpersFirstServer, Messages, Schedule
from fedsim.methods.local_model import LocalModel, LocalModelSettings
from fedsim.methods.shared_work import SharedWork
from fedsim.protocol import (
    AgentId,
    AgentProgram,
    Broadcast,
    Observation,
    Payload,
    Proposal,
    Request,
    ServerProgram,
)
from fedsim.rng import Keys
from fedsim.space import Space

HELPERS_MESSAGE = Request("helpers-message")


class Rule(Protocol):
    """What a method's helpers send, and what its targets do with it; it has no state."""

    def message(self, model: LocalModel, keys: Keys) -> Payload:
        """Return a helper's message, made from its own history."""
        ...

    def asks(self, t: int, keys: Keys) -> bool:
        """Return whether the t-th query that could use messages does, t = 1, 2, ..."""
        ...

    def query(
        self, agent: AgentId, messages: Messages, model: LocalModel, used: set[str], keys: Keys
    ) -> Proposal | None:
        """Return a target's query, or None: from its own model.

        Args:
            agent: the target.
            messages: those that it has; with mutual help, its own too.
            model: its history, and its own model.
            used: the sources of its history.
            keys: for draws.
        """
        ...


class HelpedAgent:
    """A target, a helper or both.

    Args:
        agent: the agent.
        schedule: who does what when.
        space: the search space.
        model: its own.
        rule: the method's.
    """

    def __init__(
        self, agent: AgentId, schedule: Schedule, space: Space, model: LocalModel, rule: Rule
    ) -> None:
        self._agent = agent
        self._schedule = schedule
        self._space = space
        self._model = model
        self._rule = rule
        self._is_target = agent in schedule.roles.targets
        self._sources: set[str] = set()

    def propose(self, step: int, message: Broadcast | None, rng: Keys) -> Sequence[Proposal]:
        """Return the initial design, or a query."""
        if step == 0:
            return self._schedule.design(self._agent, self._space, rng)
        query = None
        if message is not None and self._asks(step, rng):
            messages = Messages.of(message.payload)
            query = self._rule.query(self._agent, messages, self._model, self._sources, rng)
        return [query or Proposal(self._model.propose(rng), "own")]

    def prepare(self, step: int, rng: Keys) -> None:
        """Draw the sample of the own model, if the next query will need it for sure."""
        if step == 0 or self._asks(step, rng):
            return
        if self._is_target or self._schedule.renewing_steps or step < self._schedule.helper_steps:
            self._model.prepare(rng)

    def _asks(self, step: int, rng: Keys) -> bool:
        t = step - self._schedule.alone
        return self._is_target and t > 0 and self._rule.asks(t, rng)

    def observe(self, observations: Sequence[Observation]) -> None:
        """Add evaluations to the history."""
        self._model.observe(observations)
        self._sources |= {one.source for one in observations}

    def reply(self, request: Request, rng: Keys) -> Payload:
        """Return a helper's message."""
        if request.kind != HELPERS_MESSAGE.kind:
            raise RunError(f"method: its helpers do not know the request {request.kind!r}")
        return self._rule.message(self._model, rng)


@dataclass(frozen=True, slots=True)
class Programs:
    """Makes the programs of a method whose targets are helped.

    Attributes:
        schedule: who does what when.
        surrogate: the agents' own Gaussian processes.
        shared: the process's shared work; knows the search space.
        rule: the method's.
    """

    schedule: Schedule
    surrogate: LocalModelSettings
    shared: SharedWork
    rule: Rule

    def agent(self, agent: AgentId) -> AgentProgram:
        """Return a new program."""
        model = LocalModel(self.surrogate, self.shared)
        return HelpedAgent(agent, self.schedule, self.shared.space, model, self.rule)

    def server(self) -> ServerProgram:
        """Return a new server program."""
        return HelpersFirstServer(self.schedule, HELPERS_MESSAGE)
