"""The threshold scheme: exact sums, FLINT's numbers, and shares that are not the right ones."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fedsim.crypto import threshold
from fedsim.crypto.fixed_point import Integers, add_integers, carry, exact_integers
from fedsim.crypto.ring import DEGREE, Digits, Transform, forward, multiply, to_bytes
from fedsim.crypto.sampling import centred_binomial, ternary
from fedsim.errors import RunError
from tests.fedsim.crypto.test_ring import Q, integers, product

EDGE = 2**61 - 1


def total(elements: Sequence[Digits]) -> Digits:
    return carry(np.sum(elements, axis=0))


class Session:
    """Keys of M clients, made once per number of clients."""

    def __init__(self, members: int) -> None:
        self.a = forward(threshold.common_element(b"p" * 16, bytes([members % 256]) * 32))
        self.keys = [threshold.make_keys(self.a) for _ in range(members)]
        self.b = forward(total([key.public for key in self.keys]))

    def encrypt(self, values: Integers) -> tuple[Digits, Transform]:
        """Return G0 and the transform of G1."""
        pairs = [threshold.encrypt(self.a, self.b, row) for row in values]
        return total([c0 for c0, _ in pairs]), forward(total([c1 for _, c1 in pairs]))

    def shares(self, g1: Transform, n: int) -> list[Digits]:
        return [threshold.share(key.secret, g1, n) for key in self.keys]

    def decrypted(self, values: Integers) -> Integers:
        g0, g1 = self.encrypt(values)
        n = values.shape[1]
        return threshold.combine(g0, total(self.shares(g1, n)), len(self.keys))


session = functools.cache(Session)


def values(members: int, n: int, seed: int = 0) -> Integers:
    return np.random.default_rng(seed).integers(-EDGE, EDGE, (members, n), endpoint=True)


@pytest.mark.parametrize("members", [1, 2, 3, 30])
def test_sums_are_the_integers_sums(members: int) -> None:
    given = values(members, 560)
    found = session(members).decrypted(given)
    assert exact_integers(found) == [sum(map(int, column)) for column in given.T]
    assert np.array_equal(found, add_integers(given))


@pytest.mark.parametrize("n", [1, 44, 2144, DEGREE])
def test_any_number_of_coefficients(n: int) -> None:
    given = values(3, n)
    assert np.array_equal(session(3).decrypted(given), add_integers(given))


@pytest.mark.parametrize("edge", [EDGE, -EDGE, 0])
def test_extremes(edge: int) -> None:
    found = session(30).decrypted(np.full((30, 44), edge, np.int64))
    assert exact_integers(found) == [30 * edge] * 44


@pytest.mark.slow
@pytest.mark.parametrize("edge", [EDGE, -EDGE])
def test_1024_clients_at_the_edge(edge: int) -> None:
    found = session(1024).decrypted(np.full((1024, 44), edge, np.int64))
    assert exact_integers(found) == [1024 * edge] * 44


def test_two_encryptions_have_one_sum_and_nothing_else_in_common() -> None:
    given = values(3, 44)
    one, other = (session(3).encrypt(given) for _ in range(2))
    assert not (one[0] == other[0]).all(axis=0).any()
    assert np.array_equal(session(3).decrypted(given), session(3).decrypted(given))


def centred(values: Sequence[int]) -> list[int]:
    return [x - Q if x >= Q // 2 else x for x in values]


def test_key_and_ciphertext_are_flints() -> None:
    """b = -a s + e, c1 = a v + e1, c0 = b v + e0 + Delta z, with the samples of a known stream."""

    def stream(label: str) -> Callable[[int], bytes]:
        position = iter(range(100))
        return lambda n: hashlib.shake_256(f"{label}{next(position)}".encode()).digest(n)

    a = threshold.common_element(b"p" * 16, b"s" * 32)
    z = values(1, 44)[0]
    with pytest.warns(UserWarning, match="test vectors only"):
        key = threshold.make_keys(forward(a), insecure_test_rand=stream("key"))
    b, rand = forward(key.public), stream("encrypt")
    with pytest.warns(UserWarning, match="test vectors only"):
        c0, c1 = threshold.encrypt(forward(a), b, z, insecure_test_rand=rand)
    rand = stream("key")
    secret, error = ternary(DEGREE, rand), centred_binomial(DEGREE, rand)
    public = [(int(e) - x) % Q for e, x in zip(error, product(a, secret), strict=True)]
    assert integers(key.public) == public
    rand = stream("encrypt")
    mask, e1, e0 = ternary(DEGREE, rand), centred_binomial(DEGREE, rand), centred_binomial(44, rand)
    assert integers(c1) == [(x + int(e)) % Q for x, e in zip(product(a, mask), e1, strict=True)]
    expected = product(key.public, mask)[:44]
    assert integers(c0) == [
        (x + int(e) + (int(one) << 120)) % Q for x, e, one in zip(expected, e0, z, strict=True)
    ]


def test_a_share_hides_its_product_by_noise_of_the_right_size() -> None:
    """D - s G1 is the smudging noise: up to 2^108, far above the noise that it hides (2^39)."""
    secret = np.random.default_rng(0).integers(-1, 2, DEGREE)
    g1 = threshold.common_element(b"q" * 16, b"t" * 32)
    share = threshold.share(forward(secret), forward(g1), 2000)
    noise = [(x - y) % Q for x, y in zip(integers(share), product(g1, secret), strict=False)]
    sizes = np.array(centred(noise), dtype=float) / 2.0**108
    assert len(sizes) == 2000
    assert np.abs(sizes).max() <= 1
    # Uniform: the mean of |x| is 1/2 with a standard error of 1/sqrt(12 * 2000).
    assert np.abs(sizes).mean() == pytest.approx(0.5, abs=5 / np.sqrt(12 * 2000))


def test_the_noise_of_a_sum_is_as_predicted() -> None:
    """Standard deviation M sqrt(14 N) = 338.7 M, within 5 %: 8192 coefficients."""
    members = 30
    own = session(members)
    zeros = np.zeros((members, DEGREE), np.int64)
    g0, g1 = own.encrypt(zeros)
    shares = [carry(multiply(g1, key.secret)) for key in own.keys]  # without smudging
    noise = np.array(centred(integers(carry(g0 + total(shares)))), dtype=float)
    assert noise.std() == pytest.approx(members * np.sqrt(14 * DEGREE), rel=0.05)


WRONG: dict[str, Callable[[Session, list[Digits], Transform], list[Digits]]] = {
    "withheld": lambda own, shares, g1: shares[1:],
    "doubled": lambda own, shares, g1: [shares[0], *shares[:-1]],
    "stale": lambda own, shares, g1: [
        threshold.share(own.keys[0].secret, own.encrypt(values(10, 44, 1))[1], 44),
        *shares[1:],
    ],
    "foreign": lambda own, shares, g1: [
        threshold.share(session(3).keys[0].secret, g1, 44),
        *shares[1:],
    ],
    "one bit": lambda own, shares, g1: [flipped(shares[0]), *shares[1:]],
}


def flipped(share: Digits) -> Digits:
    changed = share.copy()
    changed[3, 7] ^= 1 << 20
    changed[4, 7] ^= 1 << 22
    return changed


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_share_is_an_error_and_never_a_number(wrong: str) -> None:
    own = session(10)
    for seed in range(5):
        g0, g1 = own.encrypt(values(10, 44, seed))
        shares = WRONG[wrong](own, own.shares(g1, 44), g1)
        with pytest.raises(RunError, match="missing, stale or wrong"):
            threshold.combine(g0, total(shares), 10)


def test_commitments_bind_who_and_what() -> None:
    made = {
        threshold.nonce_commitment(0, b"a" * 32),
        threshold.nonce_commitment(1, b"a" * 32),
        threshold.nonce_commitment(0, b"b" * 32),
        threshold.key_commitment(b"s" * 32, 0, b"key", b"r" * 32),
        threshold.key_commitment(b"s" * 32, 1, b"key", b"r" * 32),
        threshold.key_commitment(b"t" * 32, 0, b"key", b"r" * 32),
        threshold.key_commitment(b"s" * 32, 0, b"yek", b"r" * 32),
        threshold.key_commitment(b"s" * 32, 0, b"key", b"q" * 32),
    }
    assert len(made) == 8


def test_the_session_is_everybodys() -> None:
    nonces = [bytes([i]) * 32 for i in range(3)]
    ids = {
        threshold.session_id(b"p" * 16, nonces),
        threshold.session_id(b"q" * 16, nonces),
        threshold.session_id(b"p" * 16, nonces[:2]),
        threshold.session_id(b"p" * 16, [*nonces[:2], b"x" * 32]),
    }
    assert len(ids) == 4
    elements = {to_bytes(threshold.common_element(b"p" * 16, one)) for one in ids}
    assert len(elements) == 4


def test_a_common_element_is_uniform() -> None:
    """Chi-square of the bytes of 196,608."""
    data = np.frombuffer(to_bytes(threshold.common_element(b"p" * 16, b"s" * 32)), np.uint8)
    counts: Any = np.bincount(data, minlength=256)
    assert counts.sum() == 196_608
    assert stats.chisquare(counts).pvalue > 1e-3


def test_a_rogue_key_would_decrypt_alone() -> None:
    """Which is why no public key may be chosen after others': see the commitments."""
    honest = [threshold.make_keys(session(3).a) for _ in range(2)]
    own = threshold.make_keys(session(3).a)
    rogue = carry(own.public - honest[0].public - honest[1].public)
    b = total([rogue, honest[0].public, honest[1].public])
    c0, c1 = threshold.encrypt(session(3).a, forward(b), np.arange(44))
    alone = threshold.share(own.secret, forward(c1), 44)
    assert exact_integers(threshold.combine(c0, alone, 1)) == list(range(44))
