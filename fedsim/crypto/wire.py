"""Messages between clients and server: header, payload, SHA-256 of both.

The header has 68 bytes, little-endian: magic ``FBHE`` (4), version (1), kind (1), part (2),
parameters (16), session (32), round (4), client (4), coefficients (4). The round counts the uploads
of a session from 0. The digest finds accidents, not forgers: the channel has to authenticate.
Nothing is ever unpickled. FBHE: federated Bayesian optimisation with homomorphic encryption.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import cast

import numpy as np

from fedsim.errors import RunError
from fedsim.space import Array

MAGIC, VERSION = b"FBHE", 1
SERVER = 0xFFFFFFFF
"""The client number of messages from the server."""

_HEADER = struct.Struct("<4sBBH16s32sIII")
DIGEST_BYTES = 32
OVERHEAD = _HEADER.size + DIGEST_BYTES
"""Bytes of a message besides its payload: 100."""


class Kind(IntEnum):
    """What a message holds."""

    PUBLIC_KEY = 1
    CIPHERTEXT = 2
    SHARE = 3
    AGGREGATE = 4


@dataclass(frozen=True, slots=True)
class Header:
    """What a message says about itself; every field is compared with what is expected.

    Attributes:
        kind: what it holds.
        part: which of a vector's ciphertexts.
        parameters: 16 bytes, see :attr:`fedsim.crypto.parameters.Parameters.identifier`.
        session: 32 bytes.
        round: the number of the upload in its session.
        client: who sent it, or ``SERVER``.
        coefficients: numbers in it.
    """

    kind: Kind
    part: int
    parameters: bytes
    session: bytes
    round: int
    client: int
    coefficients: int


def seal(header: Header, payload: bytes) -> bytes:
    """Return a message."""
    start = _HEADER.pack(
        MAGIC,
        VERSION,
        header.kind,
        header.part,
        header.parameters,
        header.session,
        header.round,
        header.client,
        header.coefficients,
    )
    digest = hashlib.sha256(start)
    digest.update(payload)
    return b"".join((start, payload, digest.digest()))


def unseal(message: bytes, expected: Header, length: int | None, whose: str) -> memoryview:
    """Return a message's payload.

    Args:
        message: the bytes.
        expected: its header.
        length: the payload's; None for any.
        whose: what it is and who sent it, for errors.

    Raises:
        RunError: if the length, the digest or the header is not the expected one.
    """
    size = OVERHEAD + (length or 0)
    if len(message) != size and (length is not None or len(message) < size):
        raise RunError(f"{whose}: expected {size:,} bytes, got {len(message):,}")
    view = memoryview(message)
    body, digest = view[:-DIGEST_BYTES], view[-DIGEST_BYTES:]
    if hashlib.sha256(body).digest() != digest:
        raise RunError(
            f"{whose}: its digest does not match its bytes: they were damaged on the way"
        )
    magic, version, *values = _HEADER.unpack_from(message)
    if (magic, version) != (MAGIC, VERSION):
        raise RunError(f"{whose}: expected {MAGIC!r} version {VERSION}, got {magic!r} {version}")
    for field, got in zip(fields(Header), values, strict=True):
        if got != (wanted := getattr(expected, field.name)):
            told = [x.hex()[:16] if isinstance(x, bytes) else int(x) for x in (wanted, got)]
            raise RunError(f"{whose}: its {field.name}: expected {told[0]}, got {told[1]}")
    return body[_HEADER.size :]


def digest_of(message: bytes) -> bytes:
    """Return the digest at the end of a message."""
    return message[-DIGEST_BYTES:]


def as_array(messages: Sequence[bytes]) -> Array:
    """Return byte strings of one length as an array of uint8, one row each."""
    rows = np.frombuffer(b"".join(messages), np.uint8).reshape(len(messages), -1)
    return cast(Array, rows)


def as_messages(array: Array | None, count: int, whose: str) -> list[bytes]:
    """Return the rows of an array of uint8 as byte strings.

    Args:
        array: the array; None if there was none.
        count: how many rows it should have.
        whose: what it is and who sent it, for errors.

    Raises:
        RunError: if it is not an array of that many rows of uint8.
    """
    rows = np.asarray(array)
    if rows.dtype != np.uint8 or rows.ndim != 2 or len(rows) != count:
        raise RunError(
            f"{whose}: expected {count} rows of bytes, got {rows.dtype} of shape {rows.shape}"
        )
    return [row.tobytes() for row in rows]


def as_message(array: Array | None, whose: str) -> bytes:
    """Return the only row of an array of uint8; the rest as in :func:`as_messages`."""
    (message,) = as_messages(array, 1, whose)
    return message
