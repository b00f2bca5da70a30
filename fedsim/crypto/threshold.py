"""An exact additive n-of-n threshold scheme on RLWE: pure functions of keys and ciphertexts.

=========  ==============================================================
symbol     meaning
=========  ==============================================================
a          common random element, from the session's public number
s_i, b_i   client i's secret, and its public share b_i = -a s_i + e_i
b          sum of all b_i: the common public key, of the secret sum of s_i
c0, c1     ciphertext: c0 = b v + e0 + Delta z, c1 = a v + e1
G0, G1     sums of all c0 and all c1
D_i        decryption share s_i G1 + eta_i, eta_i the smudging noise
Delta      q / t = 2^120
=========  ==============================================================

G0 + sum D_i = Delta sum z + noise. The noise is below Delta / 2 for honest inputs, always, so the
sum of the integers z is exact. A missing or wrong share leaves a uniform residual, which the check
in :func:`combine` finds.

It is private against parties that follow the protocol, as long as one client does not collude with
the others; see docs/encryption.md.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fedsim.crypto.fixed_point import DIGIT_BITS, Integers, carry, to_digits
from fedsim.crypto.ring import (
    DEGREE,
    DIGITS,
    ELEMENT_BYTES,
    Digits,
    Transform,
    forward,
    from_bytes,
    multiply,
)
from fedsim.crypto.sampling import (
    SMUDGING_BITS,
    Source,
    centred_binomial,
    smudging,
    source,
    ternary,
)
from fedsim.errors import RunError

SCALE_DIGITS = 5
"""Digits below Delta = 2^120."""

NONCE_BYTES = 32
_HALF = 1 << DIGIT_BITS - 1  # Delta / 2, as a summand of digit 4


@dataclass(frozen=True, slots=True)
class KeyPair:
    """One client's key.

    Attributes:
        secret: transform of s_i.
        public: b_i.
    """

    secret: Transform
    public: Digits


def nonce_commitment(client: int, nonce: bytes) -> bytes:
    """Return what a client publishes before it reveals its nonce."""
    return hashlib.sha256(b"fbhe/nonce" + struct.pack("<I", client) + nonce).digest()


def session_id(parameters: bytes, nonces: Sequence[bytes]) -> bytes:
    """Return the session's public number: an honest client's nonce makes it impossible to choose.

    Args:
        parameters: their identifier.
        nonces: in the order of the clients.
    """
    start = b"fbhe/sid" + parameters + struct.pack("<I", len(nonces))
    return hashlib.sha256(start + b"".join(nonces)).digest()


def key_commitment(
    session: bytes, client: int, public: bytes | memoryview, opening: bytes
) -> bytes:
    """Return what a client publishes before it reveals its public key.

    So nobody can choose a key that cancels the others' (a rogue key).
    """
    start = b"fbhe/pk" + session + struct.pack("<I", client)
    digest = hashlib.sha256(start)
    digest.update(public)
    digest.update(opening)
    return digest.digest()


def common_element(parameters: bytes, session: bytes) -> Digits:
    """Return a: uniform, from SHAKE-256 of the session's public number."""
    seed = b"fbhe/crs/v1" + parameters + session
    return from_bytes(hashlib.shake_256(seed).digest(ELEMENT_BYTES))


@lru_cache(maxsize=2)
def common_transform(parameters: bytes, session: bytes) -> Transform:
    """Return the transform of a; it is public, so the clients of a process share it."""
    transform = forward(common_element(parameters, session))
    transform.setflags(write=False)
    return transform


def make_keys(a: Transform, *, insecure_test_rand: Source | None = None) -> KeyPair:
    """Return a new key of one client."""
    rand = source(insecure_test_rand)
    secret = forward(ternary(DEGREE, rand))
    public = multiply(a, secret)
    np.negative(public, out=public)
    public[0] += centred_binomial(DEGREE, rand)
    return KeyPair(secret, carry(public))


def encrypt(
    a: Transform, b: Transform, integers: Integers, *, insecure_test_rand: Source | None = None
) -> tuple[Digits, Digits]:
    """Return c0, shape (8, n), and c1, shape (8, N).

    Args:
        a: transform of the common element.
        b: transform of the common public key.
        integers: shape (n,), n <= N, each below 2^61 in magnitude.
        insecure_test_rand: for test vectors only.
    """
    rand, n = source(insecure_test_rand), integers.size
    mask = forward(ternary(DEGREE, rand))
    c1 = multiply(a, mask)
    c1[0] += centred_binomial(DEGREE, rand)
    c0 = multiply(b, mask, n)
    c0[0] += centred_binomial(n, rand)
    c0[SCALE_DIGITS:] += to_digits(integers)
    return carry(c0), carry(c1)


def share(
    secret: Transform, g1: Transform, n: int, *, insecure_test_rand: Source | None = None
) -> Digits:
    """Return a decryption share, shape (8, n).

    Args:
        secret: transform of s_i.
        g1: transform of G1.
        n: coefficients of the sum.
        insecure_test_rand: for test vectors only.
    """
    noise = smudging(n, source(insecure_test_rand))
    noise += multiply(g1, secret, n)
    return carry(noise)


def combine(g0: Digits, shares: Digits, members: int, *, check: bool = True) -> Integers:
    """Return the sum of the integers as digits modulo 2^72, shape (3, n).

    Args:
        g0: sum of all c0, shape (8, n).
        shares: sum of all shares, shape (8, n).
        members: how many shares it is the sum of.
        check: whether a residual that no honest run has is an error; off for experiments only.

    Raises:
        RunError: if a share is missing, stale or wrong. Of wrong sums, at most a fraction
            (members / 2048)^n passes.
    """
    phase = g0 + shares
    phase[SCALE_DIGITS - 1] += _HALF
    carry(phase)
    residual = ((phase[SCALE_DIGITS - 1] - _HALF) << DIGIT_BITS) + phase[SCALE_DIGITS - 2]
    largest = (members << SMUDGING_BITS - DIGIT_BITS * (SCALE_DIGITS - 2)) + 1
    if check and (np.abs(residual) > largest).any():
        raise RunError("a share is missing, stale or wrong: the sum does not decrypt")
    return phase[SCALE_DIGITS:DIGITS]
