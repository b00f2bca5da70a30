"""The server's part of the threshold scheme: relays the set-up, adds ciphertexts, adds shares.

It holds public bytes only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedsim.crypto import requests, wire
from fedsim.crypto.fixed_point import decode
from fedsim.crypto.parameters import Layout, Parameters
from fedsim.crypto.ring import COEFFICIENT_BYTES, DEGREE, ByteSum, to_bytes
from fedsim.crypto.secure_sum import Members
from fedsim.crypto.strict import masks_of
from fedsim.crypto.threshold import combine, session_id
from fedsim.crypto.wire import Header, Kind
from fedsim.protocol import AgentId, Payload
from fedsim.space import Array


@dataclass
class _Session:
    """What members with common keys share.

    Attributes:
        members: they, ascending.
        identifier: the session's.
        uploads: how often all have uploaded a vector.
        decryptions: how many sums they have decrypted.
    """

    members: tuple[AgentId, ...]
    identifier: bytes
    uploads: int = 0
    decryptions: int = 0


class ThresholdCombiner:
    """Adds what threshold clients send.

    Args:
        parameters: of the scheme.
        strict: whether clients get all ciphertexts to check the sum that they decrypt.
    """

    def __init__(self, parameters: Parameters, *, strict: bool = False) -> None:
        self._parameters = parameters
        self._identifier = parameters.identifier
        self._strict = strict
        self._session: _Session | None = None

    def ready(self, members: tuple[AgentId, ...], length: int) -> bool:
        """See :class:`fedsim.crypto.secure_sum.Combiner`."""
        session = self._session
        if session is None or session.members != members:
            return False
        return session.decryptions + Layout.of(length).parts <= self._parameters.decryptions

    def close(self) -> None:
        """Forget the session."""
        self._session = None

    def set_up(self, members: Members) -> None:
        """Relay nonces and public keys: first all commitments, then what was committed to."""
        agents = members.agents

        def relay(kind: str, **arrays: Array) -> dict[str, Array]:
            """Return what all members answer, by name, one row each."""
            answers = members.ask(requests.of_session(kind, members.t, agents, **arrays))
            names = answers[agents[0]]
            return {
                name: wire.as_array(
                    [
                        wire.as_message(answers[agent].get(name), f"the {name} of agent {agent}")
                        for agent in agents
                    ]
                )
                for name in names
            }

        committed = relay(requests.COMMIT_NONCE)[requests.COMMITMENT]
        nonces = relay(requests.REVEAL_NONCE, commitments=committed)[requests.NONCE]
        committed = relay(requests.COMMIT_KEY, nonces=nonces)[requests.COMMITMENT]
        keys = relay(requests.REVEAL_KEY, commitments=committed)
        relay(requests.CHECK_KEYS, keys=keys[requests.KEY], openings=keys[requests.OPENING])
        identifier = session_id(self._identifier, [row.tobytes() for row in nonces])
        self._session = _Session(agents, identifier)

    def combine(self, members: Members, length: int, uploads: Mapping[AgentId, Payload]) -> Array:
        """See :class:`fedsim.crypto.secure_sum.Combiner`."""
        session, layout = self._session, Layout.of(length)
        assert session is not None  # ready() was asked
        number = session.uploads
        session.uploads += 1
        n = layout.coefficients
        split = n * COEFFICIENT_BYTES
        g0 = [ByteSum(n) for _ in range(layout.parts)]
        g1 = [ByteSum(DEGREE) for _ in range(layout.parts)]
        for agent, payload in uploads.items():
            for part, data in enumerate(
                self._parts(Kind.CIPHERTEXT, session, number, layout, agent, payload)
            ):
                g0[part].add(data[:split])
                g1[part].add(data[split:])
        aggregates = [
            wire.seal(
                self._header(Kind.AGGREGATE, session, number, part, wire.SERVER, DEGREE),
                to_bytes(total.digits()),
            )
            for part, total in enumerate(g1)
        ]
        shares = self._shares(members, session, layout, number, aggregates, uploads)
        found = [
            combine(c0.digits(), total.digits(), len(members.agents))
            for c0, total in zip(g0, shares, strict=True)
        ]
        digits = np.concatenate(found, axis=1)[:, :length]
        return decode(digits, self._parameters.fraction_bits)

    def _shares(
        self,
        members: Members,
        session: _Session,
        layout: Layout,
        number: int,
        aggregates: list[bytes],
        uploads: Mapping[AgentId, Payload],
    ) -> list[ByteSum]:
        """Return the sum of all members' shares, for every part."""
        arrays = {requests.AGGREGATE: wire.as_array(aggregates)}
        if self._strict:
            arrays[requests.UPLOADS] = np.stack(
                [masks_of(uploads[agent][requests.CIPHERTEXT], layout) for agent in members.agents]
            )
        request = requests.of_session(requests.SHARE, members.t, members.agents, **arrays)
        session.decryptions += layout.parts
        totals = [ByteSum(layout.coefficients) for _ in range(layout.parts)]
        for agent, payload in members.ask(request).items():
            for total, data in zip(
                totals,
                self._parts(Kind.SHARE, session, number, layout, agent, payload),
                strict=True,
            ):
                total.add(data)
        return totals

    def _parts(
        self,
        kind: Kind,
        session: _Session,
        number: int,
        layout: Layout,
        agent: AgentId,
        payload: Payload,
    ) -> list[memoryview]:
        """Return what a member's messages hold, checked."""
        n = layout.coefficients
        numbers = n + DEGREE if kind is Kind.CIPHERTEXT else n  # n of c0 and N of c1, or a share
        size = numbers * COEFFICIENT_BYTES
        whose = f"the {kind.name.lower()} of agent {agent}"
        messages = wire.as_messages(payload.get(requests.CIPHERTEXT), layout.parts, whose)
        return [
            wire.unseal(
                message,
                self._header(kind, session, number, part, agent, n),
                size,
                whose,
            )
            for part, message in enumerate(messages)
        ]

    def _header(
        self, kind: Kind, session: _Session, number: int, part: int, client: int, n: int
    ) -> Header:
        return Header(kind, part, self._identifier, session.identifier, number, client, n)
