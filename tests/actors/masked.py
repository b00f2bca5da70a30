"""A toy of secure summation: a method with secrets, whose aggregator asks again and has state.

Agents send their best values plus a secret mask, then the masks; both must use the same keys.
Masks are lost with the process. Named ``masked:Masked`` in configurations.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedsim.errors import LostKeysError
from fedsim.methods.common import SilentServer, initial_design
from fedsim.privacy.events import SubsampledGaussian
from fedsim.protocol import (
    AgentProgram,
    Aggregator,
    Broadcast,
    Context,
    Cost,
    Fleet,
    Observation,
    Payload,
    Proposal,
    Release,
    Replies,
    Request,
    Respondents,
    RoundInfo,
    ServerProgram,
    State,
    Uncharged,
)
from fedsim.rng import Keys, Randomness
from fedsim.space import Box

MODULUS = 2**32
MASKED_VALUE, NEW_KEY, MASK = Request("masked-value"), Request("new-key"), Request("mask")
HORIZON = SubsampledGaussian(1.0, 4.0, 4.0)


class Masked:
    """Agents move in the direction of the sum of their best values."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def agent(self, agent: int) -> AgentProgram:
        """Return a program without a key."""
        return MaskedAgent(self.context)

    def server(self) -> ServerProgram:
        """Return a server that asks for two sums per round."""
        return SummingServer(self.context.rounds)


class MaskedAgent:
    """Holds a secret mask."""

    holds_secrets = True

    def __init__(self, context: Context) -> None:
        self.space = context.space
        self.best = -np.inf
        self.mask: int | None = None

    def propose(self, step: int, message: Broadcast | None, rng: Keys) -> Sequence[Proposal]:
        """Propose the point given by the sum."""
        dimension = self.space.dimension
        if message is None:
            return initial_design(self.space, Box((0.0,) * dimension, (1.0,) * dimension), 2, rng)
        towards = np.modf(message.payload["sum"] / 10.0)[0]
        jitter = rng("jitter").random(dimension)
        return [Proposal((0.7 * towards + 0.3 * jitter) % 1.0, "sum")]

    def observe(self, observations: Sequence[Observation]) -> None:
        """Keep the best value."""
        self.best = max(self.best, *(o.y for o in observations))

    def reply(self, request: Request, rng: Keys) -> Payload:
        """Send the best value and some seeded noise, masked; or the mask."""
        if request.kind == NEW_KEY.kind:
            self.mask = int.from_bytes(os.urandom(4), "little")
            return {}
        if self.mask is None:
            raise LostKeysError("a rebuilt agent has no mask")
        if request.kind == MASK.kind:
            return {"mask": np.array(self.mask)}
        value = round(1000 * (self.best + rng("dither").normal()))
        return {"masked": np.array((value + self.mask) % MODULUS)}


class MaskedSum:
    """Sums masked values and subtracts the masks; adds its earlier releases, and noise."""

    def __init__(self) -> None:
        self.total = 0.0
        self.releases = 0

    def cost(self, t: int) -> Cost:
        """The first release pays for all."""
        return Uncharged.ALREADY_PAID if self.releases else HORIZON

    def aggregate(self, t: int, replies: Replies, fleet: Respondents, rng: Randomness) -> Release:
        """Return the running total."""
        cost = self.cost(t)
        while (found := self._sum(t, replies, fleet)) is None:
            fleet.ask(t, NEW_KEY)
            replies = fleet.ask(t, MASKED_VALUE)
        self.releases += 1
        self.total = 0.5 * self.total + found / 1000 + rng("noise").normal()
        return Release({"sum": np.array(self.total)}, cost)

    def _sum(self, t: int, replies: Replies, fleet: Respondents) -> int | None:
        """Return the sum of the values, or None if a mask is lost."""
        if any(reply.status == "lost_keys" for reply in replies):
            return None
        masks = fleet.ask(t, MASK)
        if any(reply.status == "lost_keys" for reply in masks):
            return None
        masked = sum(int(reply.payload["masked"]) for reply in replies)
        found = (masked - sum(int(reply.payload["mask"]) for reply in masks)) % MODULUS
        return found - MODULUS if found > MODULUS // 2 else found

    def state(self) -> State:
        """Return the sum of its releases."""
        return {"total": np.array(self.total), "releases": np.array(self.releases)}

    def restore(self, state: State) -> None:
        """Restore it."""
        self.total, self.releases = float(state["total"]), int(state["releases"])


class SummingServer(SilentServer):
    """Sends the sum of two releases per round."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.message: Broadcast | None = None
        self.sum = MaskedSum()

    @property
    def aggregators(self) -> Mapping[str, Aggregator]:
        """The sum."""
        return {"sum": self.sum}

    def round(self, t: int, fleet: Fleet) -> RoundInfo:
        """Let all agents take a step."""
        message = self.message
        if t == self.rounds:
            fleet.step(t, message)
            return {}
        releases: list[Any] = [
            fleet.step(t, message, then=MASKED_VALUE, via=self.sum),
            fleet.ask(t, MASKED_VALUE, via=self.sum),
        ]
        self.message = Broadcast({"sum": sum(r.payload["sum"] for r in releases)})
        return {}

    def state(self) -> State:
        """Return the message."""
        return {} if self.message is None else dict(self.message.payload)

    def restore(self, state: State) -> None:
        """Restore it."""
        self.message = Broadcast(dict(state)) if state else None
