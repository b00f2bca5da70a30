"""CKKS with TenSEAL: one key, which all clients hold and the server does not.

CKKS computes with approximate numbers. So an integer z below 2^61 in magnitude travels as two,
z = 2^30 high + low. The approximation's error of their sums is about 1e-5: rounded to whole
numbers, they are exact, do not depend on keys or noise, and show nothing of the noise.

N = 8192 and coefficient moduli of 60 + 50 + 60 = 170 bits, below the limit of 214 for 128 bits of
security at this degree; scale 2^50. TenSEAL is imported where it is used: that takes a moment.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsim.crypto.fixed_point import DIGIT, DIGIT_BITS, Integers
from fedsim.crypto.parameters import Layout
from fedsim.errors import RunError

DEGREE, MODULI, SCALE_BITS = 8192, (60, 50, 60), 50
LIMB_BITS = 30
NUMBERS = DEGREE // 4
"""Numbers in one ciphertext: it has N/2 slots, and a number needs two."""

LARGEST_ERROR = 0.25
"""How far a decrypted number may be from a whole one; the approximation's error is about 1e-5."""

KEY_BYTES = 32
_NONCE_BYTES = 12


def layout_of(length: int) -> Layout:
    """Return how a vector is spread over ciphertexts."""
    return Layout.of(length, most=NUMBERS, least=1)


def parameters_identifier(fraction_bits: int) -> bytes:
    """Return 16 bytes that stand for all parameters in every header."""
    text = f"CKKS;N={DEGREE};q={MODULI};scale=2^{SCALE_BITS};limb={LIMB_BITS};f={fraction_bits}"
    return hashlib.sha256(text.encode()).digest()[:16]


@dataclass(frozen=True)
class Key:
    """A key pair.

    Attributes:
        secret: TenSEAL's context with the secret key, as bytes.
        public: the same without it, and without Galois and relinearisation keys: the server can add
            with it, and no more.
    """

    secret: bytes
    public: bytes

    @property
    def fingerprint(self) -> bytes:
        """32 bytes that are in every header."""
        return fingerprint(self.public)


def make_key() -> Key:
    """Return a new key; its randomness is SEAL's own, from the operating system."""
    import tenseal

    context = tenseal.context(
        tenseal.SCHEME_TYPE.CKKS,
        poly_modulus_degree=DEGREE,
        coeff_mod_bit_sizes=list(MODULI),
        n_threads=1,
    )
    context.global_scale = 2.0**SCALE_BITS
    return Key(*(context.serialize(True, secret, False, False) for secret in (True, False)))


def fingerprint(public: bytes | memoryview) -> bytes:
    """Return what stands for a key: SHA-256 of the public context."""
    return hashlib.sha256(public).digest()


def load_context(data: bytes) -> Any:
    """Return TenSEAL's context from bytes."""
    import tenseal

    return tenseal.context_from(data, n_threads=1)


def load_public(data: bytes, whose: str) -> Any:
    """Return a public context.

    Args:
        data: its bytes.
        whose: where it is from, for errors.

    Raises:
        RunError: if it holds a key that the server must not have.
    """
    context = load_context(data)
    if context.has_secret_key() or context.has_galois_keys() or context.has_relin_keys():
        raise RunError(f"{whose}: expected a public key alone")
    return context


def encrypt(context: Any, integers: Integers) -> bytes:
    """Return a ciphertext of up to 2048 integers below 2^61 in magnitude."""
    import tenseal

    low = integers & (1 << LIMB_BITS) - 1
    limbs = np.concatenate([integers >> LIMB_BITS, low]).astype(np.float64)
    data: bytes = tenseal.ckks_vector(context, limbs.tolist()).serialize()
    return data


def add(context: Any, ciphertexts: Sequence[bytes | memoryview]) -> bytes:
    """Return the ciphertext of a sum."""
    import tenseal

    total = tenseal.ckks_vector_from(context, bytes(ciphertexts[0]))
    for data in ciphertexts[1:]:
        total += tenseal.ckks_vector_from(context, bytes(data))
    found: bytes = total.serialize()
    return found


def decrypt(context: Any, ciphertext: bytes | memoryview, n: int) -> NDArray[np.int64]:
    """Return the sums of both limbs of n integers, shape (2, n).

    Args:
        context: with the secret key.
        ciphertext: the sum's.
        n: how many integers.

    Raises:
        RunError: if it does not decrypt to whole numbers: the key or the ciphertext is wrong.
    """
    import tenseal

    values = np.array(tenseal.ckks_vector_from(context, bytes(ciphertext)).decrypt())
    whole = np.rint(values)
    close = np.abs(values - whole) < LARGEST_ERROR  # false for NaN
    if len(values) != 2 * n or not (close & (np.abs(values) < 2.0**43)).all():
        raise RunError("the sum does not decrypt: a ciphertext or the key is wrong")
    limbs: NDArray[np.int64] = whole.astype(np.int64).reshape(2, n)
    return limbs


def sum_digits(limbs: NDArray[np.int64]) -> Integers:
    """Return sums of both limbs, shape (2, n), as digits modulo 2^72, shape (3, n)."""
    high, low = limbs
    middle = (low >> DIGIT_BITS) + (high << LIMB_BITS - DIGIT_BITS)
    return np.stack([low & DIGIT, middle & DIGIT, middle >> DIGIT_BITS & DIGIT])


@dataclass(frozen=True)
class Sealed:
    """The secret key on its way to the other clients, through the server.

    Attributes:
        body: the fingerprint and the secret context, sealed with a key of their own.
        wraps: that key, sealed for each client.
    """

    body: bytes
    wraps: tuple[bytes, ...]


class Exchange:
    """One client's key exchange: X25519, HKDF-SHA256 and ChaCha20-Poly1305.

    The server relays it. It protects against a server that follows the protocol and reads along;
    one that replaces clients' public keys is out of this model: the channel has to authenticate.
    """

    def __init__(self) -> None:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        self._private = X25519PrivateKey.generate()

    @property
    def public(self) -> bytes:
        """The client's public key, 32 bytes."""
        return self._private.public_key().public_bytes_raw()

    def seal(self, key: Key, publics: Sequence[bytes]) -> Sealed:
        """Return a key, sealed for the clients with these public keys, one's own included."""
        content_key = os.urandom(KEY_BYTES)
        transcript = _transcript(publics)
        wraps = (self._seal_for(one, transcript, content_key) for one in publics)
        body = _seal(content_key, key.fingerprint + key.secret, transcript)
        return Sealed(body, tuple(wraps))

    def open(
        self, sealed: Sealed, publics: Sequence[bytes], sender: int, own: int
    ) -> tuple[bytes, bytes]:
        """Return the fingerprint and the secret context.

        Args:
            sealed: what the sender sealed.
            publics: all clients' public keys.
            sender: the sender's position among them.
            own: one's own.

        Raises:
            RunError: if it was not sealed for this client and these clients.
        """
        from cryptography.exceptions import InvalidTag

        transcript = _transcript(publics)
        wrapping = self._wrapping_key(publics[sender], transcript, publics[own])
        try:
            plain = _open(_open(wrapping, sealed.wraps[own], transcript), sealed.body, transcript)
        except InvalidTag:
            raise RunError("the secret key was not sealed for this client, or is damaged") from None
        return plain[:32], plain[32:]

    def _seal_for(self, public: bytes, transcript: bytes, content_key: bytes) -> bytes:
        return _seal(self._wrapping_key(public, transcript, public), content_key, transcript)

    def _wrapping_key(self, other: bytes, transcript: bytes, receiver: bytes) -> bytes:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        shared = self._private.exchange(X25519PublicKey.from_public_bytes(other))
        information = b"fbhe/ckks/wrap" + receiver
        return HKDF(SHA256(), KEY_BYTES, transcript, information).derive(shared)


def _transcript(publics: Sequence[bytes]) -> bytes:
    return hashlib.sha256(b"fbhe/ckks/exchange" + b"".join(publics)).digest()


def _seal(key: bytes, plain: bytes, transcript: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    nonce = os.urandom(_NONCE_BYTES)
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, plain, transcript)


def _open(key: bytes, data: bytes, transcript: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305(key).decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], transcript)
