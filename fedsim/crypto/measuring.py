"""What encryption costs: CPU time and bytes of each operation, and of whole rounds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedsim.crypto import ckks, threshold
from fedsim.crypto.fixed_point import decode, encode
from fedsim.crypto.ring import COEFFICIENT_BYTES, DEGREE, ByteSum, forward, from_bytes, to_bytes
from fedsim.crypto.schemes import Encryption, Scheme
from fedsim.crypto.secure_sum import upload_request
from fedsim.errors import LostKeysError, RunError
from fedsim.payloads import frozen
from fedsim.protocol import AgentId, Replies, Reply, Request
from fedsim.rng import SERVER, Keys
from fedsim.space import Array

FRACTION_BITS = 40


@dataclass(frozen=True, slots=True)
class Costs:
    """CPU milliseconds (medians on one core) and bytes of the operations of one sum.

    Attributes:
        members: M.
        support: |S|: a vector has |S| (|S| + 1) / 2 + |S| numbers.
        key: one client's key; for CKKS the one key of all.
        encrypt: one vector, with its encoding.
        aggregate: all M ciphertexts.
        share: one decryption share; for CKKS nothing.
        decrypt: all shares' sum, decrypted and decoded; for CKKS the sum.
        ciphertext_bytes: of one client's upload, without headers.
        share_bytes: of one share, without headers; for CKKS 0.
    """

    members: int
    support: int
    key: float
    encrypt: float
    aggregate: float
    share: float
    decrypt: float
    ciphertext_bytes: int
    share_bytes: int


def numbers_of(support: int) -> int:
    """Return how many numbers summarise data on a support set: a triangle and a vector."""
    return support * (support + 1) // 2 + support


def milliseconds(operation: Callable[[], object], repeats: int) -> float:
    """Return the median CPU time of some calls after one that does not count."""
    operation()
    found = []
    for _ in range(repeats):
        start = time.process_time()
        operation()
        found.append(1e3 * (time.process_time() - start))
    return statistics.median(found)


def threshold_costs(members: int, support: int, repeats: int = 11) -> Costs:
    """Measure the threshold scheme's operations; vectors of up to 8192 numbers."""
    n = numbers_of(support)
    vector = np.random.default_rng(0).normal(scale=1e3, size=n)
    a = forward(threshold.common_element(bytes(16), bytes(32)))
    keys = threshold.make_keys(a)
    b = forward(keys.public)
    c0, c1 = threshold.encrypt(a, b, encode(vector, FRACTION_BITS))
    rows = to_bytes(c0), to_bytes(c1)
    own = threshold.share(keys.secret, forward(c1), n)

    def aggregate() -> None:
        sums = ByteSum(n), ByteSum(DEGREE)
        for _ in range(members):
            for total, row in zip(sums, rows, strict=True):
                total.add(row)
        for total in sums:
            total.digits()

    return Costs(
        members,
        support,
        milliseconds(lambda: threshold.make_keys(a), repeats),
        milliseconds(lambda: threshold.encrypt(a, b, encode(vector, FRACTION_BITS)), repeats),
        milliseconds(aggregate, repeats),
        milliseconds(
            lambda: threshold.share(keys.secret, forward(from_bytes(rows[1])), n), repeats
        ),
        milliseconds(lambda: decode(threshold.combine(c0, own, 1), FRACTION_BITS), repeats),
        (DEGREE + n) * COEFFICIENT_BYTES,
        n * COEFFICIENT_BYTES,
    )


def ckks_costs(members: int, support: int, repeats: int = 3) -> Costs:
    """Measure the same operations with TenSEAL, one key for all."""
    n = numbers_of(support)
    vector = np.random.default_rng(0).normal(scale=1e3, size=n)
    layout, key = ckks.layout_of(n), ckks.make_key()
    secret, public = ckks.load_context(key.secret), ckks.load_context(key.public)

    def encrypted() -> list[bytes]:
        parts = layout.split(encode(vector, FRACTION_BITS))
        return [ckks.encrypt(public, own) for own in parts]

    def aggregated() -> list[bytes]:
        return [ckks.add(public, [one] * members) for one in parts]

    def decrypted() -> list[Array]:
        found = (ckks.decrypt(secret, one, layout.coefficients) for one in sums)
        return [decode(ckks.sum_digits(limbs), FRACTION_BITS) for limbs in found]

    parts = encrypted()
    sums = aggregated()
    return Costs(
        members,
        support,
        milliseconds(ckks.make_key, repeats),
        milliseconds(encrypted, repeats),
        milliseconds(aggregated, repeats),
        0.0,
        milliseconds(decrypted, repeats),
        sum(map(len, parts)),
        0,
    )


class Rounds:
    """Whole rounds of a secure sum in this process: set-up, wire format, digests and checks.

    Args:
        encryption: the scheme.
        members: M.
        numbers: of each vector.
    """

    def __init__(self, encryption: Encryption, members: int, numbers: int) -> None:
        scheme = Scheme(encryption, FRACTION_BITS, min(3, members))
        self.members = tuple(range(members))
        self.request: Request | None = upload_request(numbers, {})
        self.bytes_sent = {"to clients": 0, "to the server": 0}
        self._clients = {agent: scheme.client(agent) for agent in self.members}
        self._sum = scheme.aggregator(self.members)
        rng = np.random.default_rng(0)
        self._vectors = {a: rng.normal(scale=1e3, size=numbers) for a in self.members}

    def ask(self, t: int, request: Request, *, to: Sequence[AgentId] | None = None) -> Replies:
        """Let clients answer."""
        asked = Request(request.kind, frozen(request.payload, "the request"))
        return tuple(self._reply(asked, agent) for agent in (self.members if to is None else to))

    def _reply(self, request: Request, agent: AgentId) -> Reply:
        status: Literal["ok", "lost_keys"] = "ok"
        try:
            answer = self._clients[agent].reply(request, lambda payload: self._vectors[agent])
        except LostKeysError:
            status, answer = "lost_keys", {}
        sent = {"to clients": request.payload, "to the server": answer}
        for where, payload in sent.items():
            self.bytes_sent[where] += sum(np.asarray(array).nbytes for array in payload.values())
        return Reply(agent, status, frozen(answer, f"agent {agent}"))

    def run(self, t: int) -> Array:
        """Return the sum of round ``t``.

        Raises:
            RunError: if there is none.
        """
        assert self.request is not None  # it was made above
        replies = self.ask(t, self.request)
        payload = self._sum.aggregate(t, replies, self, Keys(0, SERVER, t)).payload
        if payload is None:
            raise RunError("the secure sum has no payload")
        return payload["sum"]
