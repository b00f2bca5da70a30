"""Clients and a secure sum, without a run: what travels between them can be seen and changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from fedsim.crypto import Scheme, SumClient, upload_request
from fedsim.errors import LostKeysError
from fedsim.payloads import frozen
from fedsim.protocol import AgentId, Payload, Replies, Reply, Request
from fedsim.rng import SERVER, Keys
from fedsim.space import Array

Change = Callable[[str, AgentId, dict[str, Any]], dict[str, Any]]


@dataclass
class Federation:
    """The agents of a secure sum.

    Attributes:
        encryption: the scheme.
        count: how many agents.
        length: of their vectors.
        change: what happens to a reply on its way: gets kind, agent and payload.
        change_request: what happens to a request on its way: gets kind, agent and payload.
        absent: whether an agent answers nothing to a kind.
        asked: the kinds of all requests so far.
    """

    encryption: Any = "threshold"
    count: int = 3
    length: int = 44
    minimum_members: int = 3
    strict: bool = False
    change: Change = lambda kind, agent, payload: payload
    change_request: Change = lambda kind, agent, payload: payload
    absent: Callable[[str, AgentId], bool] = lambda kind, agent: False
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.scheme = Scheme(
            self.encryption,
            fraction_bits=40,
            minimum_members=self.minimum_members,
            strict_decryption=self.strict,
        )
        self.members = tuple(range(self.count))
        self.clients: dict[AgentId, SumClient] = {a: self.scheme.client(a) for a in self.members}
        self.request = upload_request(self.length, {})
        self.sum = self.scheme.aggregator(self.members)
        self.vectors: dict[AgentId, Array] = {
            a: np.random.default_rng(a).normal(scale=1e3, size=self.length) for a in self.members
        }

    def ask(self, t: int, request: Request, *, to: Sequence[AgentId] | None = None) -> Replies:
        """Let agents answer."""
        self.asked.append(request.kind)
        return tuple(self._reply(request, agent) for agent in (self.members if to is None else to))

    def _reply(self, request: Request, agent: AgentId) -> Reply:
        status: Literal["missing", "lost_keys"] = "missing"
        if not self.absent(request.kind, agent):
            try:
                return Reply(agent, "ok", self.sent(request, agent))
            except LostKeysError:
                status = "lost_keys"
        return Reply(agent, status, {})

    def sent(self, request: Request, agent: AgentId) -> Payload:
        """Return an agent's answer as it arrives."""
        changed = self.change_request(request.kind, agent, dict(request.payload))
        asked = Request(request.kind, frozen(changed, "the request"))
        answer = self.clients[agent].reply(asked, lambda payload: self.vectors[agent])
        return frozen(self.change(request.kind, agent, dict(answer)), f"agent {agent}")

    def release(self, t: int = 0) -> Payload | None:
        """Let them make one sum."""
        return self.sum.aggregate(t, self.ask(t, self.request), self, Keys(0, SERVER, t)).payload

    def restart(self, agent: AgentId) -> None:
        """Let an agent lose its keys."""
        self.clients[agent] = self.scheme.client(agent)

    def expected(self, members: Sequence[AgentId] | None = None) -> Array:
        """Return the exact sum of the rounded vectors."""
        some = self.members if members is None else members
        total = sum(
            np.rint(self.vectors[a] * 2.0**40).astype(np.int64).astype(object) for a in some
        )
        return np.array([float(int(x)) for x in np.asarray(total)]) / 2.0**40
