"""A toy method on a secure sum: agents move in the direction of the sum of their best values.

Named ``summing:Summing`` in configurations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedsim.crypto import Encryption, Scheme, SumClient, upload_request
from fedsim.methods.common import SilentServer, initial_design
from fedsim.protocol import (
    AgentProgram,
    Aggregator,
    Broadcast,
    Context,
    Fleet,
    Observation,
    Payload,
    Proposal,
    Request,
    RoundInfo,
    ServerProgram,
    State,
)
from fedsim.rng import Keys
from fedsim.space import Array, Box

LENGTH = 44


class Summing:
    """Sums the agents' best values times a public vector."""

    def __init__(
        self,
        context: Context,
        *,
        encryption: Encryption = "plain",
        fraction_bits: int = 40,
        minimum_members: int = 3,
    ) -> None:
        self.context = context
        self.scheme: Scheme = Scheme(
            encryption, fraction_bits=fraction_bits, minimum_members=minimum_members
        )

    def agent(self, agent: int) -> AgentProgram:
        """Return an agent without keys."""
        return SummingAgent(self.context, self.scheme.client(agent))

    def server(self) -> ServerProgram:
        """Return a server that asks for one sum per round."""
        return SummingServer(self.context, self.scheme)


class SummingAgent:
    """Holds its client."""

    def __init__(self, context: Context, client: SumClient) -> None:
        self.space = context.space
        self.client = client
        self.best = -np.inf

    @property
    def holds_secrets(self) -> bool:
        """Whether its client does."""
        return self.client.holds_secrets

    def propose(self, step: int, message: Broadcast | None, rng: Keys) -> Sequence[Proposal]:
        """Propose the point given by the sum."""
        dimension = self.space.dimension
        if step == 0:
            return initial_design(self.space, Box((0.0,) * dimension, (1.0,) * dimension), 2, rng)
        jitter = rng("jitter").random(dimension)
        if message is None:
            return [Proposal(jitter, "own")]
        towards = np.modf(np.abs(message.payload["sum"][:dimension]))[0]
        return [Proposal((0.7 * towards + 0.3 * jitter) % 1.0, "sum")]

    def observe(self, observations: Sequence[Observation]) -> None:
        """Keep the best value."""
        self.best = max(self.best, *(o.y for o in observations))

    def reply(self, request: Request, rng: Keys) -> Payload:
        """Answer the secure sum's requests."""
        assert self.client.knows(request)
        return self.client.reply(request, lambda payload: self._vector(payload, rng))

    def _vector(self, payload: Payload, rng: Keys) -> Array:
        dither: Array = 1e-3 * rng("dither").standard_normal(LENGTH)
        return self.best * payload["weights"] + dither


class SummingServer(SilentServer):
    """Sends the last sum."""

    def __init__(self, context: Context, scheme: Scheme) -> None:
        self.rounds = context.rounds
        self.sum = scheme.aggregator(range(context.agents))
        self.last: Broadcast | None = None

    @property
    def aggregators(self) -> Mapping[str, Aggregator]:
        """The sum."""
        return {"sum": self.sum}

    def round(self, t: int, fleet: Fleet) -> RoundInfo:
        """Let all agents take a step."""
        if t == self.rounds:
            fleet.step(t, self.last)
            return {}
        weights = np.linspace(-1.0, 2.0, LENGTH) * (1 + t)
        upload = upload_request(LENGTH, {"weights": weights})
        release: Any = fleet.step(t, self.last, then=upload, via=self.sum)
        self.last = None if release.payload is None else Broadcast(release.payload)
        return {"members": 0.0 if self.last is None else len(self.last.payload["members"])}

    def state(self) -> State:
        """Return the last sum."""
        return {} if self.last is None else dict(self.last.payload)

    def restore(self, state: State) -> None:
        """Restore it."""
        self.last = Broadcast(dict(state)) if state else None
