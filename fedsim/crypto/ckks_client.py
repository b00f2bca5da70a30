"""One client of a secure sum with CKKS: its keys, and what it answers.

The first member makes the key and seals it for the others; the server relays it and gets the
public part. The first member also decrypts the sums: all members could. What the scheme does not
protect from: a client can read another's upload if it gets hold of it, and whoever decrypts cannot
tell a sum from one client's ciphertext.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedsim.crypto import ckks, requests, wire
from fedsim.crypto.ckks import Exchange, Sealed
from fedsim.crypto.ledger import AnswerLedger
from fedsim.crypto.parameters import Layout
from fedsim.crypto.secure_sum import UPLOAD, Vector, length_of
from fedsim.crypto.vectors import checked_integers
from fedsim.crypto.wire import Header, Kind
from fedsim.errors import LostKeysError, RunError
from fedsim.protocol import AgentId, Payload, Request


@dataclass
class _Session:
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
        self._session: _Session | None = None
        self._ledger = AnswerLedger(agent)

    def knows(self, request: Request) -> bool:
        """Return whether a request is one of the scheme's."""
        return request.kind in (
            UPLOAD,
            requests.EXCHANGE,
            requests.MAKE_KEY,
            requests.OPEN_KEY,
            requests.SHARE,
        )

    def reply(self, request: Request, vector: Vector) -> Payload:
        """See :class:`fedsim.crypto.secure_sum.SumClient`."""
        if request.kind == requests.EXCHANGE:
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
            request.payload.get(requests.PUBLIC), len(session.members), "the members' public keys"
        )
        position = session.members.index(self._agent)
        if publics[position] != session.exchange.public:
            raise RunError(f"agent {self._agent} stops the set-up: its public key was replaced")
        if request.kind == requests.MAKE_KEY:
            return self._make_key(session, publics)
        return self._open_key(session, publics, position, request)

    def _begin(self, request: Request) -> Payload:
        members = requests.members_of(request)
        requests.check_session(self._agent, members, self._minimum)
        self._session = _Session(members, Exchange())
        self._ledger.new_session()
        return {requests.PUBLIC: requests.one_row(self._session.exchange.public)}

    def _make_key(self, session: _Session, publics: Sequence[bytes]) -> Payload:
        key = ckks.make_key()
        sealed = session.exchange.seal(key, publics)
        session.context, session.fingerprint = ckks.load_context(key.secret), key.fingerprint
        return {
            requests.PUBLIC: requests.one_row(key.public),
            requests.WRAPS: wire.as_array(sealed.wraps),
            requests.BODY: requests.one_row(sealed.body),
        }

    def _open_key(
        self, session: _Session, publics: Sequence[bytes], position: int, request: Request
    ) -> Payload:
        whose = f"agent {self._agent}: its sealed key"
        wraps = wire.as_messages(request.payload.get(requests.WRAPS), len(publics), whose)
        body = wire.as_message(request.payload.get(requests.BODY), whose)
        try:
            fingerprint, secret = session.exchange.open(
                Sealed(body, tuple(wraps)), publics, 0, position
            )
        except RunError as error:
            raise RunError(f"agent {self._agent}: {error}") from None
        session.context, session.fingerprint = ckks.load_context(secret), fingerprint
        return {}

    def _upload(self, session: _Session, request: Request, vector: Vector) -> Payload:
        integers = checked_integers(self._agent, request, vector, self._fraction_bits)
        layout = session.layout = ckks.layout_of(length_of(request))
        number = self._ledger.upload()
        return {
            requests.part_name(part): requests.one_row(
                wire.seal(
                    self._header(session, Kind.CIPHERTEXT, number, part, self._agent),
                    ckks.encrypt(session.context, own),
                )
            )
            for part, own in enumerate(layout.split(integers))
        }

    def _decrypt(self, session: _Session, request: Request) -> Payload:
        layout, members = session.layout, requests.members_of(request)
        if layout is None or members != session.members:
            raise RunError(f"agent {self._agent} refuses to decrypt for {members}")
        t, number = int(request.payload[requests.ROUND]), self._ledger.uploads - 1
        sums = self._sums(session, layout, request)

        def made() -> Payload:
            answer = {}
            for part, (data, _) in enumerate(sums):
                limbs = ckks.decrypt(session.context, data, layout.coefficients)
                header = self._header(session, Kind.SHARE, number, part, self._agent)
                message = wire.seal(header, limbs.astype("<i8").tobytes())
                answer[requests.part_name(part)] = requests.one_row(message)
            return answer

        return self._ledger.once(t, members, [digest for _, digest in sums], made)

    def _sums(
        self, session: _Session, layout: Layout, request: Request
    ) -> list[tuple[memoryview, bytes]]:
        """Return the sums of all parts, with the digests of their messages."""
        whose, number = "the server's sum of ciphertexts", self._ledger.uploads - 1
        found = []
        for part in range(layout.parts):
            message = wire.as_message(request.payload.get(requests.part_name(part)), whose)
            header = self._header(session, Kind.AGGREGATE, number, part, wire.SERVER)
            data = wire.unseal(message, header, None, f"agent {self._agent} refuses {whose}")
            found.append((data, wire.digest_of(message)))
        return found

    def _header(self, session: _Session, kind: Kind, number: int, part: int, client: int) -> Header:
        assert session.layout is not None  # of the upload that the message is about
        n = session.layout.coefficients
        return Header(kind, part, self._identifier, session.fingerprint, number, client, n)
