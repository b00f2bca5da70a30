"""CKKS: exact sums, one key that the server never has, and what a wrong key does."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from fedsim.crypto import ckks, requests
from fedsim.crypto.ckks import Exchange, Key, Sealed
from fedsim.crypto.fixed_point import add_integers, exact_integers
from fedsim.crypto.requests import EXCHANGE, MAKE_KEY, OPEN_KEY
from fedsim.crypto.secure_sum import UPLOAD
from fedsim.errors import RunError
from fedsim.protocol import AgentId
from tests.fedsim.crypto.federation import Federation
from tests.fedsim.crypto.test_federation import flip, of_agent

EDGE = 2**61 - 1


@functools.cache
def key(number: int = 0) -> Key:
    return ckks.make_key()


def decrypted(values: Any) -> list[int]:
    """Return the sum of the rows of a table, added by who has the public key alone."""
    secret = ckks.load_context(key().secret)
    server = ckks.load_public(key().public, "it")
    rows = [ckks.encrypt(secret, row) for row in values]
    limbs = ckks.decrypt(secret, ckks.add(server, rows), values.shape[1])
    return exact_integers(ckks.sum_digits(limbs))


@pytest.mark.parametrize(("members", "n"), [(1, 1), (3, 44), (30, 560), (2, ckks.NUMBERS)])
def test_sums_are_the_integers_sums(members: int, n: int) -> None:
    values = np.random.default_rng(0).integers(-EDGE, EDGE, (members, n), endpoint=True)
    assert decrypted(values) == exact_integers(add_integers(values))


@pytest.mark.parametrize("edge", [EDGE, -EDGE])
def test_1024_clients_at_the_edge(edge: int) -> None:
    """The same ciphertext, many times: its noise adds up, instead of averaging out."""
    secret = ckks.load_context(key().secret)
    one = ckks.encrypt(secret, np.full(44, edge, np.int64))
    thirty_two = ckks.add(secret, [one] * 32)
    limbs = ckks.decrypt(secret, ckks.add(secret, [thirty_two] * 32), 44)
    assert exact_integers(ckks.sum_digits(limbs)) == [1024 * edge] * 44


def test_the_server_can_add_and_no_more() -> None:
    context = ckks.load_public(key().public, "it")
    assert not context.has_secret_key()
    assert not context.has_galois_keys()
    assert not context.has_relin_keys()
    ciphertext = ckks.encrypt(context, np.arange(44))
    with pytest.raises(ValueError, match="secret_key"):
        ckks.decrypt(context, ciphertext, 44)


def test_a_public_key_with_more_in_it_is_refused() -> None:
    with pytest.raises(RunError, match="agent 1: expected a public key alone"):
        ckks.load_public(key().secret, "agent 1")
    context = ckks.load_context(key().secret)
    context.generate_relin_keys()
    with pytest.raises(RunError, match="expected a public key alone"):
        ckks.load_public(context.serialize(True, False, False, True), "agent 1")


def test_another_key_is_an_error_and_never_a_number() -> None:
    ciphertext = ckks.encrypt(ckks.load_context(key().secret), np.arange(44))
    with pytest.raises(RunError, match="does not decrypt"):
        ckks.decrypt(ckks.load_context(key(1).secret), ciphertext, 44)


class TestExchange:
    def test_every_client_opens_the_same_key(self) -> None:
        clients = [Exchange() for _ in range(3)]
        publics = [one.public for one in clients]
        sealed = clients[0].seal(Key(b"the secret", b"public"), publics)
        for own, one in enumerate(clients):
            opened = one.open(sealed, publics, 0, own)
            assert opened == (ckks.fingerprint(b"public"), b"the secret")

    def test_nobody_else_does(self) -> None:
        clients = [Exchange() for _ in range(3)]
        publics = [one.public for one in clients]
        sealed = clients[0].seal(Key(b"the secret", b"public"), publics)
        assert b"the secret" not in sealed.body + b"".join(sealed.wraps)
        server = Exchange()
        for own in range(3):
            with pytest.raises(RunError, match="not sealed for this client"):
                server.open(sealed, publics, 0, own)
        with pytest.raises(RunError, match="not sealed for this client"):
            clients[1].open(sealed, publics, 0, 2)
        with pytest.raises(RunError, match="not sealed for this client"):
            clients[1].open(sealed, [publics[0], publics[1], server.public], 0, 1)

    @pytest.mark.parametrize("what", ["body", "wrap"])
    def test_damage_is_found(self, what: str) -> None:
        clients = [Exchange() for _ in range(2)]
        publics = [one.public for one in clients]
        sealed = clients[0].seal(Key(b"the secret", b"public"), publics)
        body, wraps = bytearray(sealed.body), [bytearray(wrap) for wrap in sealed.wraps]
        (body if what == "body" else wraps[1])[20] ^= 1
        damaged = Sealed(bytes(body), tuple(map(bytes, wraps)))
        with pytest.raises(RunError, match="or is damaged"):
            clients[1].open(damaged, publics, 0, 1)

    def test_two_seals_differ(self) -> None:
        clients = [Exchange() for _ in range(2)]
        publics = [one.public for one in clients]
        made = [clients[0].seal(Key(b"the secret", b"public"), publics) for _ in range(2)]
        assert made[0].body != made[1].body
        assert made[0].wraps[1] != made[1].wraps[1]


class TestWrongBytes:
    @pytest.mark.parametrize(("kind", "who"), [(UPLOAD, 1), (requests.SHARE, 0)])
    def test_a_flipped_bit_names_the_client(self, kind: str, who: AgentId) -> None:
        federation = Federation("ckks", change=of_agent(kind, who, "ciphertext-0", flip))
        with pytest.raises(RunError, match=f"round 2: the .* of agent {who}: its digest"):
            federation.release(2)

    def test_bytes_under_another_key_name_the_client(self) -> None:
        sent: list[Any] = []

        def keep(asked: str, agent: AgentId, payload: dict[str, Any]) -> dict[str, Any]:
            if (asked, agent) == (UPLOAD, 1):
                sent.append(payload["ciphertext-0"])
            return payload

        Federation("ckks", change=keep).release()
        foreign = of_agent(UPLOAD, 1, "ciphertext-0", lambda own: sent[0])
        with pytest.raises(RunError, match="agent 1: its session: expected"):
            Federation("ckks", change=foreign).release()

    def test_bytes_of_an_earlier_round_name_the_client(self) -> None:
        sent: list[Any] = []

        def stale(asked: str, agent: AgentId, payload: dict[str, Any]) -> dict[str, Any]:
            if (asked, agent) == (UPLOAD, 1):
                sent.append(payload["ciphertext-0"])
                return {"ciphertext-0": sent[0]}
            return payload

        federation = Federation("ckks", change=stale)
        federation.release(0)
        with pytest.raises(RunError, match=r"round 1: .* agent 1: its round: expected 1, got 0"):
            federation.release(1)

    def test_a_replaced_public_key_stops_the_set_up(self) -> None:
        with pytest.raises(RunError, match="agent 0 stops the set-up: its public key was repl"):
            Federation("ckks", change=of_agent(EXCHANGE, 0, "public", flip)).release()

    def test_a_damaged_sealed_key_names_the_client(self) -> None:
        with pytest.raises(RunError, match="agent 1: the secret key was not sealed for"):
            Federation("ckks", change=of_agent(MAKE_KEY, 0, "body", flip)).release()

    def test_keys_are_made_once_per_session(self) -> None:
        federation = Federation("ckks")
        federation.release(0)
        federation.release(1)
        assert federation.asked == [
            UPLOAD,
            EXCHANGE,
            MAKE_KEY,
            OPEN_KEY,
            UPLOAD,
            requests.SHARE,
            UPLOAD,
            requests.SHARE,
        ]

    def test_two_sets_of_members_are_never_decrypted_in_one_round(self) -> None:
        gone: set[AgentId] = set()
        federation = Federation("ckks", count=4, absent=lambda kind, agent: agent in gone)
        federation.release(1)
        gone.add(3)
        with pytest.raises(RunError, match=r"4 agents \(0, 1, 2, 3\) in round 1"):
            federation.release(1)


def test_the_server_never_sees_the_secret_key(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Key] = []
    make = ckks.make_key

    def make_and_keep() -> Key:
        made.append(make())
        return made[0]

    monkeypatch.setattr(ckks, "make_key", make_and_keep)
    seen: list[bytes] = []

    def keep(asked: str, agent: AgentId, payload: dict[str, Any]) -> dict[str, Any]:
        assert all(np.asarray(array).dtype == np.uint8 for array in payload.values())
        seen.extend(np.asarray(array).tobytes() for array in payload.values())
        return payload

    Federation("ckks", change=keep).release()
    (key,), view = made, b"".join(seen)
    pieces = [key.secret[i : i + 64] for i in range(0, len(key.secret) - 64, 1024)]
    secret = [piece for piece in pieces if piece not in key.public]
    assert len(secret) > 100
    assert not any(piece in view for piece in secret)
    assert key.public in view
