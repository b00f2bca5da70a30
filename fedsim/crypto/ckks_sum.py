"""Secure sums with CKKS: the clients' part and the server's.

The first member makes the key and seals it for the others; the server relays it and gets the
public part. The first member also decrypts the sums: all members could. What the scheme does not
protect from: a client can read another's upload if it gets hold of it, and whoever decrypts cannot
tell a sum from one client's ciphertext.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsim.crypto import ckks, requests, wire
from fedsim.crypto.ckks import Exchange, Sealed
from fedsim.crypto.fixed_point import decode
from fedsim.crypto.ledger import AnswerLedger
from fedsim.crypto.parameters import Layout
from fedsim.crypto.secure_sum import UPLOAD, Members, Vector, length_of
from fedsim.crypto.vectors import checked_integers
from fedsim.crypto.wire import Header, Kind
from fedsim.errors import LostKeysError, RunError
from fedsim.protocol import AgentId, Payload, Request
from fedsim.space import Array

EXCHANGE = "secure-sum-exchange"
MAKE_KEY = "secure-sum-make-key"
OPEN_KEY = "secure-sum-open-key"
_PUBLIC, _WRAPS, _BODY = "public", "wraps", "body"


def layout_of(length: int) -> Layout:
    """Return how a vector is spread over ciphertexts."""
    return Layout.of(length, most=ckks.NUMBERS, least=1)


@dataclass
class _ClientSession:
    """A client's part in one session.

    Attributes:
        members: all, ascending.
        exchange: its keys for the set-up.
        context: TenSEAL's, with the secret key; None before the set-up is complete.
        fingerprint: of the key.
        layout: of its last upload.
    """

    members: tuple[AgentId, ...]
    exchange: Exchange
    context: Any = None
    fingerprint: bytes = b""
    layout: Layout | None = None


class CkksClient:
    """A client that shares one key with all others.

    Args:
        agent: whose it is.
        fraction_bits: of the fixed point.
        minimum_members: it takes part in no smaller session.
    """

    holds_secrets = True

    def __init__(self, agent: AgentId, fraction_bits: int, minimum_members: int) -> None:
        self._agent = agent
        self._fraction_bits = fraction_bits
        self._identifier = ckks.parameters_identifier(fraction_bits)
        self._minimum = minimum_members
        self._session: _ClientSession | None = None
        self._ledger = AnswerLedger(agent)

    def knows(self, request: Request) -> bool:
        """Return whether a request is one of the scheme's."""
        return request.kind in (UPLOAD, EXCHANGE, MAKE_KEY, OPEN_KEY, requests.SHARE)

    def reply(self, request: Request, vector: Vector) -> Payload:
        """See :class:`fedsim.crypto.secure_sum.SumClient`."""
        if request.kind == EXCHANGE:
            return self._begin(request)
        session, ready = self._session, request.kind in (UPLOAD, requests.SHARE)
        if session is None or (ready and session.context is None):
            raise LostKeysError(f"agent {self._agent} has no keys")
        if request.kind == UPLOAD:
            return self._upload(session, request, vector)
        if request.kind == requests.SHARE:
            return self._decrypt(session, request)
        if session.context is not None:
            raise RunError(f"agent {self._agent} refuses {request.kind}: its keys are made")
        publics = wire.as_messages(
            request.payload.get(_PUBLIC), len(session.members), "the members' public keys"
        )
        position = session.members.index(self._agent)
        if publics[position] != session.exchange.public:
            raise RunError(f"agent {self._agent} stops the set-up: its public key was replaced")
        if request.kind == MAKE_KEY:
            return self._make_key(session, publics)
        return self._open_key(session, publics, position, request)

    def _begin(self, request: Request) -> Payload:
        members = requests.members_of(request)
        requests.check_session(self._agent, members, self._minimum)
        self._session = _ClientSession(members, Exchange())
        self._ledger.new_session()
        return {_PUBLIC: requests.one_row(self._session.exchange.public)}

    def _make_key(self, session: _ClientSession, publics: Sequence[bytes]) -> Payload:
        key = ckks.make_key()
        sealed = session.exchange.seal(key, publics)
        session.context, session.fingerprint = ckks.load_context(key.secret), key.fingerprint
        return {
            _PUBLIC: requests.one_row(key.public),
            _WRAPS: wire.as_array(sealed.wraps),
            _BODY: requests.one_row(sealed.body),
        }

    def _open_key(
        self, session: _ClientSession, publics: Sequence[bytes], position: int, request: Request
    ) -> Payload:
        whose = f"agent {self._agent}: its sealed key"
        wraps = wire.as_messages(request.payload.get(_WRAPS), len(publics), whose)
        (body,) = wire.as_messages(request.payload.get(_BODY), 1, whose)
        try:
            fingerprint, secret = session.exchange.open(
                Sealed(body, tuple(wraps)), publics, 0, position
            )
        except RunError as error:
            raise RunError(f"agent {self._agent}: {error}") from None
        session.context, session.fingerprint = ckks.load_context(secret), fingerprint
        return {}

    def _upload(self, session: _ClientSession, request: Request, vector: Vector) -> Payload:
        integers = checked_integers(self._agent, request, vector, self._fraction_bits)
        layout = session.layout = layout_of(length_of(request))
        padded = np.zeros(layout.parts * layout.coefficients, np.int64)
        padded[: layout.length] = integers
        number = self._ledger.upload()
        return {
            _name(part): requests.one_row(
                wire.seal(
                    self._header(session, Kind.CIPHERTEXT, number, part, self._agent),
                    ckks.encrypt(session.context, own),
                )
            )
            for part, own in enumerate(padded.reshape(layout.parts, -1))
        }

    def _decrypt(self, session: _ClientSession, request: Request) -> Payload:
        layout, members = session.layout, requests.members_of(request)
        if layout is None or members != session.members:
            raise RunError(f"agent {self._agent} refuses to decrypt for {members}")
        t, number = int(request.payload[requests.ROUND]), self._ledger.uploads - 1
        sums = self._sums(session, layout, request)
        asked = requests.digest_of(t, members, [digest for _, digest in sums])
        if (before := self._ledger.repeated(asked)) is not None:
            return before
        self._ledger.check_members(t, members)
        answer = {}
        for part, (data, _) in enumerate(sums):
            limbs = ckks.decrypt(session.context, data, layout.coefficients)
            header = self._header(session, Kind.SHARE, number, part, self._agent)
            message = wire.seal(header, limbs.astype("<i8").tobytes())
            answer[_name(part)] = requests.one_row(message)
        return self._ledger.answered(asked, t, members, answer, layout.parts)

    def _sums(
        self, session: _ClientSession, layout: Layout, request: Request
    ) -> list[tuple[memoryview, bytes]]:
        """Return the sums of all parts, with the digests of their messages."""
        whose, number = "the server's sum of ciphertexts", self._ledger.uploads - 1
        found = []
        for part in range(layout.parts):
            (message,) = wire.as_messages(request.payload.get(_name(part)), 1, whose)
            header = self._header(session, Kind.AGGREGATE, number, part, wire.SERVER)
            data = wire.unseal(message, header, None, f"agent {self._agent} refuses {whose}")
            found.append((data, wire.digest_of(message)))
        return found

    def _header(
        self, session: _ClientSession, kind: Kind, number: int, part: int, client: int
    ) -> Header:
        assert session.layout is not None  # of the upload that the message is about
        n = session.layout.coefficients
        return Header(kind, part, self._identifier, session.fingerprint, number, client, n)


@dataclass
class _ServerSession:
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
        self._session: _ServerSession | None = None

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
        answers = members.ask(requests.of_session(EXCHANGE, t, agents))
        rows = [_row(agent, answers[agent], _PUBLIC) for agent in agents]
        publics = wire.as_array(rows)
        make = requests.of_session(MAKE_KEY, t, agents, public=publics)
        made = members.ask(make, to=(first,))[first]
        public = _row(first, made, _PUBLIC)
        context = ckks.load_public(public, f"the public key of agent {first}")
        if others:
            sealed = {name: made[name] for name in (_WRAPS, _BODY)}
            request = requests.of_session(OPEN_KEY, t, agents, public=publics, **sealed)
            members.ask(request, to=others)
        self._session = _ServerSession(agents, context, ckks.fingerprint(public))

    def combine(self, members: Members, length: int, uploads: Mapping[AgentId, Payload]) -> Array:
        """See :class:`fedsim.crypto.secure_sum.Combiner`."""
        session, layout = self._session, layout_of(length)
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
            arrays[_name(part)] = requests.one_row(message)
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
        session: _ServerSession,
        number: int,
        part: int,
        layout: Layout,
        agent: AgentId,
        payload: Payload,
    ) -> memoryview:
        """Return what a member's message holds, checked."""
        whose = f"the {kind.name.lower()} of agent {agent}"
        (message,) = wire.as_messages(payload.get(_name(part)), 1, whose)
        size = 16 * layout.coefficients if kind is Kind.SHARE else None
        header = self._header(kind, session, number, part, layout, agent)
        return wire.unseal(message, header, size, whose)

    def _header(
        self,
        kind: Kind,
        session: _ServerSession,
        number: int,
        part: int,
        layout: Layout,
        client: int,
    ) -> Header:
        n = layout.coefficients
        return Header(kind, part, self._identifier, session.fingerprint, number, client, n)


def _name(part: int) -> str:
    return f"{requests.CIPHERTEXT}-{part}"


def _row(agent: AgentId, answer: Payload, name: str) -> bytes:
    (row,) = wire.as_messages(answer.get(name), 1, f"the {name} of agent {agent}")
    return row
