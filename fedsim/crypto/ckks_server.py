"""The server's part of a secure sum with CKKS: relays the key, adds ciphertexts.

It holds a public key only; :mod:`fedsim.crypto.ckks_client` says what that does not protect from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsim.crypto import ckks, requests, wire
from fedsim.crypto.fixed_point import decode
from fedsim.crypto.parameters import Layout
from fedsim.crypto.secure_sum import Members
from fedsim.crypto.wire import Header, Kind
from fedsim.protocol import AgentId, Payload
from fedsim.space import Array


@dataclass
class _Session:
    """What the server knows of a session.

    Attributes:
        members: all, ascending.
        context: TenSEAL's, public.
        fingerprint: of the key.
        uploads: how often all have uploaded a vector.
    """

    members: tuple[AgentId, ...]
    context: Any
    fingerprint: bytes
    uploads: int = 0


class CkksCombiner:
    """Adds what CKKS clients send; it holds a public key only.

    Args:
        fraction_bits: of the fixed point.
    """

    def __init__(self, fraction_bits: int) -> None:
        self._fraction_bits = fraction_bits
        self._identifier = ckks.parameters_identifier(fraction_bits)
        self._session: _Session | None = None

    def ready(self, members: tuple[AgentId, ...], length: int) -> bool:
        """See :class:`fedsim.crypto.secure_sum.Combiner`."""
        return self._session is not None and self._session.members == members

    def close(self) -> None:
        """Forget the session."""
        self._session = None

    def set_up(self, members: Members) -> None:
        """Relay the members' exchange keys, and the sealed secret key of the first member."""
        agents, t = members.agents, members.t
        first, others = agents[0], agents[1:]
        answers = members.ask(requests.of_session(requests.EXCHANGE, t, agents))
        rows = [
            wire.as_message(answers[agent].get(requests.PUBLIC), f"the public key of agent {agent}")
            for agent in agents
        ]
        publics = wire.as_array(rows)
        make = requests.of_session(requests.MAKE_KEY, t, agents, public=publics)
        made = members.ask(make, to=(first,))[first]
        whose = f"the public key of agent {first}"
        public = wire.as_message(made.get(requests.PUBLIC), whose)
        context = ckks.load_public(public, whose)
        if others:
            sealed = {name: made[name] for name in (requests.WRAPS, requests.BODY)}
            request = requests.of_session(requests.OPEN_KEY, t, agents, public=publics, **sealed)
            members.ask(request, to=others)
        self._session = _Session(agents, context, ckks.fingerprint(public))

    def combine(self, members: Members, length: int, uploads: Mapping[AgentId, Payload]) -> Array:
        """See :class:`fedsim.crypto.secure_sum.Combiner`."""
        session, layout = self._session, ckks.layout_of(length)
        assert session is not None  # ready() was asked
        number = session.uploads
        session.uploads += 1
        arrays = {}
        for part in range(layout.parts):
            own = [
                self._opened(Kind.CIPHERTEXT, session, number, part, layout, agent, payload)
                for agent, payload in uploads.items()
            ]
            header = self._header(Kind.AGGREGATE, session, number, part, layout, wire.SERVER)
            message = wire.seal(header, ckks.add(session.context, own))
            arrays[requests.part_name(part)] = requests.one_row(message)
        request = requests.of_session(requests.SHARE, members.t, members.agents, **arrays)
        first = members.agents[0]
        answer = members.ask(request, to=(first,))[first]
        found = []
        for part in range(layout.parts):
            data = self._opened(Kind.SHARE, session, number, part, layout, first, answer)
            found.append(ckks.sum_digits(np.frombuffer(data, "<i8").reshape(2, -1)))
        return decode(np.concatenate(found, axis=1)[:, :length], self._fraction_bits)

    def _opened(
        self,
        kind: Kind,
        session: _Session,
        number: int,
        part: int,
        layout: Layout,
        agent: AgentId,
        payload: Payload,
    ) -> memoryview:
        """Return what a member's message holds, checked."""
        whose = f"the {kind.name.lower()} of agent {agent}"
        message = wire.as_message(payload.get(requests.part_name(part)), whose)
        size = 16 * layout.coefficients if kind is Kind.SHARE else None
        header = self._header(kind, session, number, part, layout, agent)
        return wire.unseal(message, header, size, whose)

    def _header(
        self,
        kind: Kind,
        session: _Session,
        number: int,
        part: int,
        layout: Layout,
        client: int,
    ) -> Header:
        n = layout.coefficients
        return Header(kind, part, self._identifier, session.fingerprint, number, client, n)
