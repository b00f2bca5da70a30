"""The secure sum: an aggregator whose releases are the sum of the agents' vectors.

Three parties see three things. A client (:class:`SumClient`, inside an agent's program) knows its
own vector and its own keys. The server (:class:`SecureSum`) sees what clients send it. The server
program sees the release: the sum, and whose vectors are in it.

One release goes like this, whatever the scheme:

1. All agents are asked for their vectors. Those that answer are the members of this sum.
2. If the members have no common keys, or some have lost theirs, they make new ones, and 1. is
   repeated among them. Nothing was decrypted yet.
3. The scheme computes the sum, if need be with the members' help. If a member is missing now,
   there is no sum in this round, and no keys are left: two different sets of members are never
   decrypted in one round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from fedsim.errors import RunError
from fedsim.protocol import (
    AgentId,
    Cost,
    Payload,
    Release,
    Replies,
    Request,
    Respondents,
    State,
    Uncharged,
)
from fedsim.rng import Randomness
from fedsim.space import Array

UPLOAD = "secure-sum-upload"

MOST_SETUPS = 10
"""How often one round's members try to make common keys and a sum."""

_LENGTH, _ABOUT = "length", "about/"

Vector = Callable[[Payload], Array]
"""Returns an agent's vector, given the payload of the upload request; float64, shape (length,)."""


def upload_request(length: int, payload: Payload) -> Request:
    """Return the request that a secure sum answers.

    Args:
        length: how many numbers every agent's vector has, at least 1.
        payload: what agents need to compute it, apart from their own data.
    """
    about = {f"{_ABOUT}{name}": array for name, array in payload.items()}
    return Request(UPLOAD, {_LENGTH: np.array(length), **about})


def length_of(request: Request | None) -> int:
    """Return the length of the vectors that an upload request asks for.

    Raises:
        RunError: if it is not one.
    """
    if request is None or request.kind != UPLOAD:
        got = "none" if request is None else repr(request.kind)
        raise RunError(
            f"secure sum: expected a request of fedsim.crypto.upload_request with via, got {got}"
        )
    return int(request.payload[_LENGTH])


def about(request: Request) -> Payload:
    """Return the payload that an upload request was made with."""
    return {
        name.removeprefix(_ABOUT): array
        for name, array in request.payload.items()
        if name.startswith(_ABOUT)
    }


class SumClient(Protocol):
    """One agent's part in secure sums; an agent's program holds one and asks it to reply."""

    @property
    def holds_secrets(self) -> bool:
        """Whether its replies need secrets, which are lost with its process."""
        ...

    def knows(self, request: Request) -> bool:
        """Return whether a request is one of the secure sum's."""
        ...

    def reply(self, request: Request, vector: Vector) -> Payload:
        """Answer one of the secure sum's requests.

        Args:
            request: the request.
            vector: called for uploads only.

        Raises:
            LostKeysError: if it needs keys that this client does not have.
            RunError: if the vector is not what was asked for or does not fit, or the request is
                not one that an honest server makes.
        """
        ...


class KeysLostError(Exception):
    """A member has lost its keys while a sum was made."""


class MemberMissingError(Exception):
    """A member did not answer while a sum was made."""


class Members:
    """The members of one sum, as the server asks them.

    Args:
        t: the round.
        agents: the members, ascending.
        fleet: all agents.
    """

    def __init__(self, t: int, agents: tuple[AgentId, ...], fleet: Respondents) -> None:
        self.t = t
        self.agents = agents
        self._fleet = fleet

    def ask(
        self, request: Request, to: tuple[AgentId, ...] | None = None
    ) -> dict[AgentId, Payload]:
        """Return the answers of all members, or of ``to``, by agent.

        Raises:
            KeysLostError: if one has lost its keys.
            MemberMissingError: if one does not answer, and none has lost its keys.
        """
        replies = self._fleet.ask(self.t, request, to=self.agents if to is None else to)
        if any(reply.status == "lost_keys" for reply in replies):
            raise KeysLostError
        if any(reply.status == "missing" for reply in replies):
            raise MemberMissingError
        return {reply.agent: reply.payload for reply in replies}


class Combiner(Protocol):
    """The server's part of one scheme; it holds what the members of a session share."""

    def ready(self, members: tuple[AgentId, ...], length: int) -> bool:
        """Return whether these, and no others, have common keys for one more such sum."""
        ...

    def set_up(self, members: Members) -> None:
        """Let members make new keys; raises what :meth:`Members.ask` does."""
        ...

    def combine(self, members: Members, length: int, uploads: Mapping[AgentId, Payload]) -> Array:
        """Return the sum, float64, shape (length,).

        Raises:
            KeysLostError: if a member has lost its keys.
            MemberMissingError: if a member does not answer.
            RunError: if bytes are not what they should be; it names the agent, or the round.
        """
        ...

    def close(self) -> None:
        """Forget the common keys: new ones are needed before the next sum."""
        ...


class SecureSum:
    """Releases the sum of the members' vectors: ``sum`` (length,) and ``members`` (k,).

    There is no payload if fewer than ``minimum_members`` answer, or one goes missing on the way.
    It costs no privacy budget, because it promises none: sums are exact.

    Args:
        combiner: the server's part of the scheme.
        minimum_members: with fewer members there is no sum. The members of a sum of two learn each
            other's vector.
    """

    runs_at_server = True

    def __init__(self, combiner: Combiner, minimum_members: int) -> None:
        self._combiner = combiner
        self._minimum = minimum_members

    def cost(self, t: int) -> Cost:
        """Return that nothing is charged."""
        return Uncharged.NOT_PRIVATE

    def aggregate(self, t: int, replies: Replies, fleet: Respondents, rng: Randomness) -> Release:
        """See :class:`SecureSum`.

        Raises:
            RunError: if bytes are not what they should be, or members lose their keys again and
                again.
        """
        request, combiner = fleet.request, self._combiner
        length = length_of(request)
        assert request is not None  # length_of checks it
        for _ in range(MOST_SETUPS):
            agents = tuple(reply.agent for reply in replies if reply.status != "missing")
            members = Members(t, agents, fleet)
            if len(agents) < self._minimum:
                combiner.close()
                return Release(None)
            lost = any(reply.status == "lost_keys" for reply in replies)
            if lost or not combiner.ready(agents, length):
                combiner.close()
                try:
                    combiner.set_up(members)
                except (KeysLostError, MemberMissingError):
                    combiner.close()
                replies = fleet.ask(t, request, to=agents)
                continue
            uploads = {reply.agent: reply.payload for reply in replies if reply.status == "ok"}
            try:
                found = combiner.combine(members, length, uploads)
            except KeysLostError:
                combiner.close()
                replies = fleet.ask(t, request, to=agents)
            except MemberMissingError:
                combiner.close()
                return Release(None)
            except RunError as error:
                raise RunError(f"secure sum in round {t}: {error}") from None
            else:
                return Release({"sum": found, "members": np.array(agents)})
        raise RunError(
            f"secure sum in round {t}: members lost their keys {MOST_SETUPS} times; keep the "
            "client in the agent program, which lives for the whole run"
        )

    def state(self) -> State:
        """Return nothing: keys are never written, and new ones give the same sums."""
        return {}

    def restore(self, state: State) -> None:
        """Start without common keys."""
        self._combiner.close()
