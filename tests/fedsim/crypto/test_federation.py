"""Secure sums between clients and server: sums, absences, lost keys, and what is wrong."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from fedsim.crypto import requests, wire
from fedsim.crypto.fixed_point import carry
from fedsim.crypto.parameters import Parameters
from fedsim.crypto.requests import EXCHANGE, MAKE_KEY, OPEN_KEY
from fedsim.crypto.ring import from_bytes, to_bytes
from fedsim.crypto.secure_sum import UPLOAD, Members
from fedsim.crypto.threshold import nonce_commitment
from fedsim.errors import LostKeysError, RunError
from fedsim.protocol import AgentId, Request
from fedsim.rng import SERVER, Keys
from tests.fedsim.crypto.federation import Federation

SCHEMES = ("plain", "threshold", "ckks")
SET_UP = [
    requests.COMMIT_NONCE,
    requests.REVEAL_NONCE,
    requests.COMMIT_KEY,
    requests.REVEAL_KEY,
    requests.CHECK_KEYS,
]


def summed(payload: Any) -> Any:
    assert payload is not None
    return payload["sum"]


class TestSums:
    @pytest.mark.parametrize("encryption", SCHEMES)
    @pytest.mark.parametrize("length", [1, 44, 8384])
    def test_they_are_exact(self, encryption: str, length: int) -> None:
        federation = Federation(encryption, length=length)
        for t in range(2):
            payload = federation.release(t)
            assert np.array_equal(summed(payload), federation.expected())
            assert payload is not None
            assert payload["members"].tolist() == [0, 1, 2]

    def test_keys_are_made_once(self) -> None:
        federation = Federation()
        for t in range(3):
            federation.release(t)
        once = [UPLOAD, *SET_UP, UPLOAD, requests.SHARE]
        assert federation.asked == once + [UPLOAD, requests.SHARE] * 2

    def test_strict_clients_add_up_themselves(self) -> None:
        federation = Federation(strict=True, length=8384)
        assert np.array_equal(summed(federation.release()), federation.expected())


class TestAbsences:
    @pytest.mark.parametrize("encryption", SCHEMES)
    def test_who_misses_the_upload_is_left_out(self, encryption: str) -> None:
        federation = Federation(encryption, count=5)
        missing: set[AgentId] = set()
        federation.absent = lambda kind, agent: agent in missing
        for t, gone in enumerate([{1}, set(), {0, 4}, {0, 4}]):
            missing = gone
            there = [a for a in federation.members if a not in gone]
            payload = federation.release(t)
            assert payload is not None
            assert payload["members"].tolist() == there
            assert np.array_equal(payload["sum"], federation.expected(there))

    @pytest.mark.parametrize("encryption", SCHEMES)
    @pytest.mark.parametrize("gone", [{0}, {0, 1, 2}])
    def test_too_few_have_no_sum(self, encryption: str, gone: set[AgentId]) -> None:
        federation = Federation(encryption, absent=lambda kind, agent: agent in gone)
        assert federation.release() is None
        assert federation.asked == [UPLOAD]

    @pytest.mark.parametrize("kind", SET_UP)
    def test_who_goes_missing_while_keys_are_made_is_left_out(self, kind: str) -> None:
        gone: set[AgentId] = set()

        def absent(asked: str, agent: AgentId) -> bool:
            if asked == kind and agent == 2:
                gone.add(agent)
            return agent in gone

        federation = Federation(count=4, absent=absent)
        assert np.array_equal(summed(federation.release()), federation.expected([0, 1, 3]))

    def test_who_goes_missing_before_the_shares_leaves_no_sum_and_no_keys(self) -> None:
        federation = Federation(count=4)
        federation.release(0)
        federation.absent = lambda kind, agent: kind == requests.SHARE and agent == 1
        assert federation.release(1) is None
        federation.absent = lambda kind, agent: False
        federation.asked.clear()
        assert np.array_equal(summed(federation.release(2)), federation.expected())
        assert federation.asked == [UPLOAD, *SET_UP, UPLOAD, requests.SHARE]


class TestLostKeys:
    @pytest.mark.parametrize("encryption", SCHEMES)
    @pytest.mark.parametrize(
        "kind", [UPLOAD, *SET_UP, EXCHANGE, MAKE_KEY, OPEN_KEY, requests.SHARE]
    )
    @pytest.mark.parametrize(("first", "who"), [(True, 0), (False, 1)])
    def test_they_are_made_again_and_the_sum_is_the_same(
        self, encryption: str, kind: str, first: bool, who: AgentId
    ) -> None:
        """Whatever is lost whenever: in the first sum, or later."""
        federation = Federation(encryption)
        if not first:
            federation.release(0)
        lost: list[AgentId] = []

        def lose(asked: str, agent: AgentId, payload: dict[str, Any]) -> dict[str, Any]:
            if asked == kind and agent == who and not lost:
                lost.append(agent)
                federation.restart(agent)
            return payload

        federation.change_request = lose
        assert np.array_equal(summed(federation.release(1)), federation.expected())

    def test_a_worn_key_is_replaced(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("fedsim.crypto.schemes.Parameters", lambda bits: Parameters(bits, 2))
        federation = Federation()
        for t in range(5):
            assert np.array_equal(summed(federation.release(t)), federation.expected())
        assert federation.asked.count(requests.COMMIT_NONCE) == 3

    def test_a_client_counts_for_itself(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("fedsim.crypto.schemes.Parameters", lambda bits: Parameters(bits, 2))
        federation = Federation()
        monkeypatch.setattr(federation.sum._combiner, "ready", lambda members, length: True)
        agents = federation.members
        federation.sum._combiner.set_up(Members(0, agents, federation))
        federation.release(0)
        federation.release(1)
        with pytest.raises(RunError, match=r"agent 0 refuses .* key allows 2 decryptions"):
            federation.release(2)


def of_agent(
    kind: str, who: AgentId, name: str, change: Callable[[Any], Any]
) -> Callable[[str, AgentId, dict[str, Any]], dict[str, Any]]:
    """Return what changes one array of one agent's answers to a kind."""

    def changed(asked: str, agent: AgentId, payload: dict[str, Any]) -> dict[str, Any]:
        if (asked, agent) == (kind, who):
            payload[name] = change(payload[name])
        return payload

    return changed


def header_of(message: bytes) -> wire.Header:
    """Return what a message says about itself."""
    numbers = (int.from_bytes(message[i : i + 4], "little") for i in (56, 60, 64))
    return wire.Header(wire.Kind(message[5]), message[6], message[8:24], message[24:56], *numbers)


def flip(array: Any) -> Any:
    changed = np.array(array)
    changed[0, changed.shape[1] // 2] ^= 1
    return changed


class TestWrongBytes:
    @pytest.mark.parametrize(("kind", "what"), [(UPLOAD, "ciphertext"), (requests.SHARE, "share")])
    def test_a_flipped_bit_names_the_client(self, kind: str, what: str) -> None:
        federation = Federation(change=of_agent(kind, 1, "ciphertext", flip))
        with pytest.raises(RunError, match=f"round 4: the {what} of agent 1: its digest"):
            federation.release(4)

    @pytest.mark.parametrize("kind", [UPLOAD, requests.SHARE])
    @pytest.mark.parametrize("change", [lambda x: x[:, :-1], lambda x: x[:0], lambda x: x * 1.0])
    def test_another_shape_names_the_client(self, kind: str, change: Callable[[Any], Any]) -> None:
        federation = Federation(change=of_agent(kind, 2, "ciphertext", change))
        with pytest.raises(RunError, match=r"round 0: the .* of agent 2: expected"):
            federation.release()

    @pytest.mark.parametrize("kind", [UPLOAD, requests.SHARE])
    def test_bytes_of_another_client_name_the_one_that_sent_them(self, kind: str) -> None:
        sent: dict[AgentId, Any] = {}

        def double(asked: str, agent: AgentId, payload: dict[str, Any]) -> dict[str, Any]:
            if asked == kind:
                sent[agent] = payload["ciphertext"]
                return {"ciphertext": sent[0]} if agent == 1 else payload
            return payload

        with pytest.raises(RunError, match=r"agent 1: its client: expected 1, got 0"):
            Federation(change=double).release()

    @pytest.mark.parametrize("kind", [UPLOAD, requests.SHARE])
    def test_bytes_of_an_earlier_round(self, kind: str) -> None:
        sent: list[Any] = []

        def stale(asked: str, agent: AgentId, payload: dict[str, Any]) -> dict[str, Any]:
            if (asked, agent) == (kind, 1):
                sent.append(payload["ciphertext"])
                return {"ciphertext": sent[0]}
            return payload

        federation = Federation(change=stale)
        federation.release(0)
        with pytest.raises(RunError, match=r"round 1: .* agent 1: its round: expected 1, got 0"):
            federation.release(1)

    @pytest.mark.parametrize("kind", [UPLOAD, requests.SHARE])
    def test_bytes_of_another_session(self, kind: str) -> None:
        other = Federation()
        sent: list[Any] = []

        def keep(asked: str, agent: AgentId, payload: dict[str, Any]) -> dict[str, Any]:
            if (asked, agent) == (kind, 1):
                sent.append(payload["ciphertext"])
            return payload

        other.change = keep
        other.release()
        foreign = of_agent(kind, 1, "ciphertext", lambda own: sent[0])
        with pytest.raises(RunError, match="agent 1: its session: expected"):
            Federation(change=foreign).release()

    def test_a_wrong_share_with_a_right_header_names_the_round(self) -> None:
        def resealed(array: Any) -> Any:
            message = array[0].tobytes()
            noise = hashlib.shake_256(message).digest(len(message) - 100)
            return wire.as_array([wire.seal(header_of(message), noise)])

        wrong = of_agent(requests.SHARE, 1, "ciphertext", resealed)
        with pytest.raises(RunError, match=r"round 3: a share is missing, stale or wrong"):
            Federation(change=wrong).release(3)

    def test_numbers_that_do_not_fit_name_the_client_and_the_bound(self) -> None:
        for encryption in SCHEMES:
            federation = Federation(encryption)
            federation.vectors[2] = np.full(44, 2.0**21)
            with pytest.raises(RunError, match=r"agent 2: .*below 2.09715e\+06.*bounds"):
                federation.release()

    def test_integers_in_the_clear_are_checked(self) -> None:
        for change, told in (
            (lambda x: x[:3], r"got int64 of shape \(3,\)"),
            (lambda x: x.astype(float), "got float64"),
            (lambda x: x * 0 + 2**61, "got 2305843009213693952"),
            (lambda x: np.full_like(x, -(2**63)), "got -"),
        ):
            federation = Federation("plain", change=of_agent(UPLOAD, 1, "integers", change))
            with pytest.raises(RunError, match=rf"agent 1: expected 44 integers .*{told}"):
                federation.release()


class TestSetUp:
    """What a client checks while keys are made."""

    @pytest.mark.parametrize(
        ("kind", "name", "told"),
        [
            (requests.REVEAL_NONCE, "nonce", "the nonce of agent 1"),
            (requests.REVEAL_KEY, "opening", "the public key of agent 1"),
            (requests.REVEAL_KEY, "key", "the public key of agent 1"),
        ],
    )
    def test_what_was_not_committed_to_stops_it(self, kind: str, name: str, told: str) -> None:
        with pytest.raises(RunError, match=told):
            Federation(change=of_agent(kind, 1, name, flip)).release()

    @pytest.mark.parametrize("kind", [requests.COMMIT_NONCE, requests.COMMIT_KEY])
    def test_who_does_not_find_its_own_commitment_stops_it(self, kind: str) -> None:
        """A server that replaces somebody's commitment is found by them."""
        with pytest.raises(RunError, match=r"agent 1 stops .* commitment of agent 1 is not what"):
            Federation(change=of_agent(kind, 1, "commitment", flip)).release()

    def test_a_rogue_key_comes_too_late(self) -> None:
        """Agent 2 waits for the others' keys, to publish one that cancels them."""
        seen: dict[AgentId, bytes] = {}

        def rogue(asked: str, agent: AgentId, payload: dict[str, Any]) -> dict[str, Any]:
            if asked != requests.REVEAL_KEY:
                return payload
            seen[agent] = payload["key"][0].tobytes()
            if agent == 2:
                keys = [from_bytes(message[68:-32]) for message in seen.values()]
                chosen = to_bytes(carry(keys[2] - keys[0] - keys[1]))
                payload["key"] = wire.as_array([wire.seal(header_of(seen[2]), chosen)])
            return payload

        with pytest.raises(RunError, match="the public key of agent 2 is not what was committed"):
            Federation(change=rogue).release()

    @pytest.mark.parametrize("members", [(0, 1), (1, 2, 3), (0, 2, 1), (0, 0, 1)])
    def test_sessions_that_a_client_refuses(self, members: Sequence[int]) -> None:
        request = requests.of_session(requests.COMMIT_NONCE, 0, members)
        with pytest.raises(RunError, match="agent 0 refuses a session of"):
            Federation().clients[0].reply(request, lambda payload: np.zeros(1))

    def test_small_sessions_are_allowed_on_demand(self) -> None:
        for count in (1, 2):
            federation = Federation(count=count, minimum_members=1)
            assert np.array_equal(summed(federation.release()), federation.expected())

    def test_steps_come_in_order(self) -> None:
        federation = Federation()
        federation.release()
        request = requests.of_session(requests.REVEAL_KEY, 0, (0, 1, 2))
        with pytest.raises(RunError, match=r"agent 0 refuses .*: the next step .* is none"):
            federation.clients[0].reply(request, lambda payload: np.zeros(1))
        federation.restart(0)
        for kind in (*SET_UP[1:], UPLOAD, requests.SHARE):
            with pytest.raises(LostKeysError):
                federation.clients[0].reply(Request(kind), lambda payload: np.zeros(1))

    def test_nobody_knows_the_nonce_before_all_have_committed(self) -> None:
        federation = Federation()
        answers: dict[str, list[Any]] = {}

        def keep(asked: str, agent: AgentId, payload: dict[str, Any]) -> dict[str, Any]:
            answers.setdefault(asked, []).append(payload)
            return payload

        federation.change = keep
        federation.release()
        nonces = [one["nonce"][0].tobytes() for one in answers[requests.REVEAL_NONCE]]
        commitments = [one["commitment"][0].tobytes() for one in answers[requests.COMMIT_NONCE]]
        assert commitments == [nonce_commitment(a, n) for a, n in enumerate(nonces)]
        assert len(set(nonces)) == 3


class TestShares:
    """A client decrypts what it can account for, once."""

    def shares(self, federation: Federation) -> list[tuple[Request, Any]]:
        """Let them make a sum; return the requests for agent 0's share and its answers."""
        asked: list[Any] = []

        def keep(kind: str, agent: AgentId, payload: dict[str, Any]) -> dict[str, Any]:
            if (kind, agent) == (requests.SHARE, 0):
                asked.append(payload)
            return payload

        federation.change_request, federation.change = keep, keep
        federation.release()
        return [(Request(requests.SHARE, asked[0]), asked[1]["ciphertext"])]

    def test_a_repeat_gets_the_same_bytes(self) -> None:
        federation = Federation()
        ((request, answer),) = self.shares(federation)
        for _ in range(2):
            again = federation.clients[0].reply(request, lambda payload: np.zeros(1))
            assert np.array_equal(again["ciphertext"], answer)

    def test_another_request_about_the_same_upload_is_refused(self) -> None:
        federation = Federation()
        ((request, _),) = self.shares(federation)
        message = request.payload["aggregate"][0].tobytes()
        chosen = wire.seal(header_of(message), (1 << 180).to_bytes(len(message) - 100, "little"))
        for change in ({"aggregate": wire.as_array([chosen])}, {"round": np.array(1)}):
            other = Request(requests.SHARE, {**request.payload, **change})
            with pytest.raises(RunError, match="agent 0 refuses: it has helped to decrypt"):
                federation.clients[0].reply(other, lambda payload: np.zeros(1))

    def test_an_old_request_is_refused(self) -> None:
        federation = Federation()
        ((request, _),) = self.shares(federation)
        federation.release(1)
        with pytest.raises(RunError, match="agent 0 refuses"):
            federation.clients[0].reply(request, lambda payload: np.zeros(1))

    def test_nothing_is_decrypted_before_an_upload(self) -> None:
        federation = Federation()
        ((request, _),) = self.shares(federation)
        federation.sum._combiner.set_up(Members(1, federation.members, federation))
        with pytest.raises(RunError, match="agent 0 refuses to decrypt: it has uploaded nothing"):
            federation.clients[0].reply(request, lambda payload: np.zeros(1))

    @pytest.mark.parametrize("members", [(0, 1), (0, 1, 2, 3)])
    def test_other_members_are_refused(self, members: Sequence[int]) -> None:
        def others(kind: str, agent: AgentId, payload: dict[str, Any]) -> dict[str, Any]:
            return payload | {"members": np.array(members)} if kind == requests.SHARE else payload

        with pytest.raises(RunError, match=r"agent 0 refuses to decrypt for \(0, 1"):
            Federation(change_request=others).release()

    def test_two_sets_of_members_are_never_decrypted_in_one_round(self) -> None:
        """Their difference would be one client's vector."""
        gone: set[AgentId] = set()
        federation = Federation(count=4, absent=lambda kind, agent: agent in gone)
        federation.release(0)
        federation.release(1)
        gone.add(3)
        with pytest.raises(RunError, match=r"4 agents \(0, 1, 2, 3\) in round 1"):
            federation.release(1)

    def test_earlier_rounds_are_over(self) -> None:
        federation = Federation(count=4)
        federation.release(1)
        with pytest.raises(RunError, match=r"in round 0: it has decrypted one .* in round 1"):
            federation.release(0)

    @pytest.mark.parametrize(
        ("name", "change", "told"),
        [
            ("uploads", lambda x: x[[1, 1, 2]], "agent 0 refuses .* its upload is not in the sum"),
            ("uploads", lambda x: x[[0, 1, 1]], "agent 0 refuses to decrypt what is not the mem"),
            ("uploads", lambda x: x[:2], "expected 3 rows"),
            ("uploads", lambda x: x[:, 1:], "agent 0 refuses the ciphertext of agent 0"),
        ],
    )
    def test_strict_clients_refuse_other_sums(
        self, name: str, change: Callable[[Any], Any], told: str
    ) -> None:
        def changed(kind: str, agent: AgentId, payload: dict[str, Any]) -> dict[str, Any]:
            return payload | {name: change(payload[name])} if kind == requests.SHARE else payload

        with pytest.raises(RunError, match=told):
            Federation(strict=True, change_request=changed).release()

    def test_strict_clients_refuse_to_decrypt_one_ciphertext(self) -> None:
        """The attack of a server that asks for shares of one client's ciphertext."""
        uploads: dict[AgentId, bytes] = {}

        def keep(asked: str, agent: AgentId, payload: dict[str, Any]) -> dict[str, Any]:
            if asked == UPLOAD:
                uploads[agent] = payload["ciphertext"][0].tobytes()
            return payload

        def replace(kind: str, agent: AgentId, payload: dict[str, Any]) -> dict[str, Any]:
            if kind == requests.SHARE:
                header = header_of(payload["aggregate"][0].tobytes())
                one = uploads[1][68 + 44 * 24 : -32]
                payload["aggregate"] = wire.as_array([wire.seal(header, one)])
            return payload

        with pytest.raises(RunError, match="agent 0 refuses to decrypt what is not the members'"):
            Federation(strict=True, change=keep, change_request=replace).release()

    def test_a_damaged_sum_is_refused(self) -> None:
        def damage(kind: str, agent: AgentId, payload: dict[str, Any]) -> dict[str, Any]:
            if kind == requests.SHARE:
                payload["aggregate"] = flip(payload["aggregate"])
            return payload

        with pytest.raises(RunError, match=r"agent 0 refuses the server's sum .*: its digest"):
            Federation(change_request=damage).release()


def test_the_server_sees_bytes_and_the_sum_only() -> None:
    """Its whole view of two sums: no plaintext, no integer of one, no secret."""
    federation = Federation()
    seen: list[bytes] = []

    def keep(asked: str, agent: AgentId, payload: dict[str, Any]) -> dict[str, Any]:
        assert all(np.asarray(array).dtype == np.uint8 for array in payload.values())
        seen.extend(np.asarray(array).tobytes() for array in payload.values())
        return payload

    federation.change = keep
    for t in range(2):
        federation.release(t)
    view = b"".join(seen)
    for vector in federation.vectors.values():
        for value in vector[:8]:
            assert value.tobytes() not in view
            assert np.rint(value * 2.0**40).astype(np.int64).tobytes()[:6] not in view
    assert federation.sum.state() == {}


@pytest.mark.parametrize("encryption", SCHEMES)
def test_a_sum_answers_uploads_only(encryption: str) -> None:
    federation = Federation(encryption)
    federation.request = Request("something-else")
    assert not federation.clients[0].knows(federation.request)
    with pytest.raises(RunError, match=r"a request of .*upload_request .*'something-else'"):
        federation.sum.aggregate(0, (), federation, Keys(0, SERVER, 0))
