"""One client of the threshold scheme: its secrets, and what it answers."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fedsim.crypto import requests, wire
from fedsim.crypto.ledger import AnswerLedger
from fedsim.crypto.parameters import Layout, Parameters
from fedsim.crypto.ring import (
    DEGREE,
    ELEMENT_BYTES,
    ByteSum,
    Transform,
    TransformCache,
    forward,
    to_bytes,
)
from fedsim.crypto.secure_sum import UPLOAD, Vector, length_of
from fedsim.crypto.strict import check_sum
from fedsim.crypto.threshold import (
    NONCE_BYTES,
    common_transform,
    encrypt,
    key_commitment,
    make_keys,
    nonce_commitment,
    session_id,
    share,
)
from fedsim.crypto.vectors import checked_integers
from fedsim.crypto.wire import Header, Kind
from fedsim.errors import LostKeysError, RunError
from fedsim.protocol import AgentId, Payload, Request

_SUMS = TransformCache(4)


@dataclass
class _Session:
    """A client's part in one session, as far as its set-up has come.

    Attributes:
        members: all members, ascending.
        nonce: its own.
        stage: the request that it expects next; empty once all keys are checked.
        commitments: of all members, to what is revealed next.
        identifier: the session's; empty before all nonces are known.
        secret: transform of its secret key.
        key: its public key, as it is sent.
        opening: of the commitment to it.
        common: transform of the common public key.
        layout: of its last upload.
        mask: digest of the c1 of its last upload.
    """

    members: tuple[AgentId, ...]
    nonce: bytes
    stage: str = requests.REVEAL_NONCE
    commitments: tuple[bytes, ...] = ()
    identifier: bytes = b""
    secret: Transform | None = None
    key: bytes = b""
    opening: bytes = b""
    common: Transform | None = None
    layout: Layout | None = None
    mask: bytes = b""


class ThresholdClient:
    """A client with its own secret key.

    Args:
        agent: whose it is.
        parameters: of the scheme.
        minimum_members: it takes part in no smaller session.
        strict: it decrypts a sum of ciphertexts only if it gets them all, has added them itself and
            found its own among them. That catches a server that asks for a share of something else,
            if uploads are signed; it costs the server M times the traffic.
    """

    holds_secrets = True

    def __init__(
        self, agent: AgentId, parameters: Parameters, minimum_members: int, *, strict: bool = False
    ) -> None:
        self._agent = agent
        self._parameters = parameters
        self._identifier = parameters.identifier
        self._minimum = minimum_members
        self._strict = strict
        self._session: _Session | None = None
        self._ledger = AnswerLedger(agent)
        self._stages: Mapping[str, Callable[[_Session, Request], Payload]] = {
            requests.REVEAL_NONCE: self._reveal_nonce,
            requests.COMMIT_KEY: self._commit_key,
            requests.REVEAL_KEY: self._reveal_key,
            requests.CHECK_KEYS: self._check_keys,
        }

    def knows(self, request: Request) -> bool:
        """Return whether a request is one of the scheme's."""
        own = (UPLOAD, requests.COMMIT_NONCE, requests.SHARE)
        return request.kind in own or request.kind in self._stages

    def reply(self, request: Request, vector: Vector) -> Payload:
        """See :class:`fedsim.crypto.secure_sum.SumClient`."""
        if request.kind == requests.COMMIT_NONCE:
            return self._commit_nonce(request)
        session = self._session
        if session is None or (session.stage and request.kind in (UPLOAD, requests.SHARE)):
            raise LostKeysError(f"agent {self._agent} has no keys")
        if request.kind == UPLOAD:
            return self._upload(session, request, vector)
        if request.kind == requests.SHARE:
            return self._share(session, request)
        if request.kind != session.stage:
            raise RunError(
                f"agent {self._agent} refuses {request.kind}: the next step of its keys' set-up is "
                f"{session.stage or 'none'}"
            )
        return self._stages[request.kind](session, request)

    def _commit_nonce(self, request: Request) -> Payload:
        """Begin a new session; its last one is over."""
        members = requests.members_of(request)
        requests.check_session(self._agent, members, self._minimum)
        self._session = _Session(members, os.urandom(NONCE_BYTES))
        self._ledger.new_session()
        commitment = nonce_commitment(self._agent, self._session.nonce)
        return {requests.COMMITMENT: requests.one_row(commitment)}

    def _reveal_nonce(self, session: _Session, request: Request) -> Payload:
        session.commitments = self._rows(session, request, requests.COMMITMENTS)
        self._check_own(session, nonce_commitment(self._agent, session.nonce))
        session.stage = requests.COMMIT_KEY
        return {requests.NONCE: requests.one_row(session.nonce)}

    def _commit_key(self, session: _Session, request: Request) -> Payload:
        """Check all nonces, make a key and commit to it."""
        nonces = self._rows(session, request, requests.NONCES)
        for agent, nonce, commitment in zip(
            session.members, nonces, session.commitments, strict=True
        ):
            if nonce_commitment(agent, nonce) != commitment:
                raise self._mismatch(agent, "nonce")
        session.identifier = session_id(self._identifier, nonces)
        keys = make_keys(common_transform(self._identifier, session.identifier))
        session.secret, public = keys.secret, to_bytes(keys.public)
        session.key = wire.seal(self._key_header(session, self._agent), public)
        session.opening = os.urandom(NONCE_BYTES)
        session.stage = requests.REVEAL_KEY
        commitment = key_commitment(session.identifier, self._agent, public, session.opening)
        session.commitments = (commitment,)
        return {requests.COMMITMENT: requests.one_row(commitment)}

    def _reveal_key(self, session: _Session, request: Request) -> Payload:
        (own,) = session.commitments
        session.commitments = self._rows(session, request, requests.COMMITMENTS)
        self._check_own(session, own)
        session.stage = requests.CHECK_KEYS
        return {
            requests.KEY: requests.one_row(session.key),
            requests.OPENING: requests.one_row(session.opening),
        }

    def _check_keys(self, session: _Session, request: Request) -> Payload:
        """Check all public keys against their commitments, and add them."""
        keys = self._rows(session, request, requests.KEYS)
        openings = self._rows(session, request, requests.OPENINGS)
        total = ByteSum(DEGREE)
        for agent, key, opening, commitment in zip(
            session.members, keys, openings, session.commitments, strict=True
        ):
            header, whose = self._key_header(session, agent), f"the public key of agent {agent}"
            public = wire.unseal(key, header, ELEMENT_BYTES, whose)
            if key_commitment(session.identifier, agent, public, opening) != commitment:
                raise self._mismatch(agent, "public key")
            total.add(public)
        session.common = forward(total.digits())
        session.stage = ""
        return {}

    def _upload(self, session: _Session, request: Request, vector: Vector) -> Payload:
        """Encrypt the vector."""
        assert session.common is not None  # the set-up is complete
        fraction = self._parameters.fraction_bits
        integers = checked_integers(self._agent, request, vector, fraction)
        layout = session.layout = Layout.of(length_of(request))
        number, digest, messages = self._ledger.upload(), hashlib.sha256(), []
        a = common_transform(self._identifier, session.identifier)
        for part, own in enumerate(layout.split(integers)):
            c0, c1 = map(to_bytes, encrypt(a, session.common, own))
            if self._strict:
                digest.update(c1)
            header = self._header(session, Kind.CIPHERTEXT, number, part)
            messages.append(wire.seal(header, c0 + c1))
        session.mask = digest.digest()
        return {requests.CIPHERTEXT: wire.as_array(messages)}

    def _share(self, session: _Session, request: Request) -> Payload:
        """Help to decrypt the sum of the last upload, once."""
        layout, secret = session.layout, session.secret
        if layout is None or secret is None:
            raise RunError(f"agent {self._agent} refuses to decrypt: it has uploaded nothing")
        t = int(request.payload[requests.ROUND])
        members = requests.members_of(request)
        if members != session.members:
            raise RunError(
                f"agent {self._agent} refuses to decrypt for {members}: the session's members are "
                f"{session.members}"
            )
        aggregates = self._aggregates(session, layout, request)

        def made() -> Payload:
            self._check_decryption(session, layout, request, [g1 for g1, _ in aggregates])
            number, messages = self._ledger.uploads - 1, []
            for part, (g1, digest) in enumerate(aggregates):
                own = share(secret, _SUMS.transform(g1, digest), layout.coefficients)
                header = self._header(session, Kind.SHARE, number, part)
                messages.append(wire.seal(header, to_bytes(own)))
            return {requests.CIPHERTEXT: wire.as_array(messages)}

        return self._ledger.once(t, members, [digest for _, digest in aggregates], made)

    def _check_decryption(
        self,
        session: _Session,
        layout: Layout,
        request: Request,
        aggregates: list[memoryview],
    ) -> None:
        """Check that the key is not worn, and if strict, the sum."""
        if self._ledger.decryptions + layout.parts > self._parameters.decryptions:
            raise RunError(
                f"agent {self._agent} refuses to decrypt: its key allows "
                f"{self._parameters.decryptions} decryptions; new keys are needed"
            )
        if self._strict:
            masks = wire.as_messages(
                request.payload.get(requests.UPLOADS),
                len(session.members),
                "the members' ciphertexts",
            )
            sent = dict(zip(session.members, masks, strict=True))
            check_sum(self._agent, session.mask, sent, aggregates)

    def _aggregates(
        self, session: _Session, layout: Layout, request: Request
    ) -> list[tuple[memoryview, bytes]]:
        """Return G1 of all parts, with the digests of their messages."""
        whose, number = "the server's sum of ciphertexts", self._ledger.uploads - 1
        sent = wire.as_messages(request.payload.get(requests.AGGREGATE), layout.parts, whose)
        found = []
        for part, message in enumerate(sent):
            header = self._header(session, Kind.AGGREGATE, number, part, wire.SERVER)
            g1 = wire.unseal(message, header, ELEMENT_BYTES, f"agent {self._agent} refuses {whose}")
            found.append((g1, wire.digest_of(message)))
        return found

    def _header(
        self, session: _Session, kind: Kind, number: int, part: int, client: int | None = None
    ) -> Header:
        assert session.layout is not None  # of the upload that the message is about
        n = DEGREE if kind is Kind.AGGREGATE else session.layout.coefficients
        sender = self._agent if client is None else client
        return Header(kind, part, self._identifier, session.identifier, number, sender, n)

    def _key_header(self, session: _Session, agent: AgentId) -> Header:
        return Header(Kind.PUBLIC_KEY, 0, self._identifier, session.identifier, 0, agent, DEGREE)

    def _rows(self, session: _Session, request: Request, name: str) -> tuple[bytes, ...]:
        whose = f"agent {self._agent}: {name} of its session"
        return tuple(wire.as_messages(request.payload.get(name), len(session.members), whose))

    def _check_own(self, session: _Session, own: bytes) -> None:
        if session.commitments[session.members.index(self._agent)] != own:
            raise self._mismatch(self._agent, "commitment")

    def _mismatch(self, agent: AgentId, what: str) -> RunError:
        return RunError(
            f"agent {self._agent} stops the set-up of keys: the {what} of agent {agent} is not "
            "what was committed to"
        )
