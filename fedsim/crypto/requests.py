"""The requests of the encrypted schemes, besides the upload, and what their payloads are called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from fedsim.errors import RunError
from fedsim.protocol import AgentId, Payload, Request
from fedsim.space import Array

COMMIT_NONCE = "secure-sum-commit-nonce"
REVEAL_NONCE = "secure-sum-reveal-nonce"
COMMIT_KEY = "secure-sum-commit-key"
REVEAL_KEY = "secure-sum-reveal-key"
CHECK_KEYS = "secure-sum-check-keys"
SHARE = "secure-sum-share"
EXCHANGE = "secure-sum-exchange"
MAKE_KEY = "secure-sum-make-key"
OPEN_KEY = "secure-sum-open-key"

MEMBERS, ROUND = "members", "round"
COMMITMENTS, NONCES, KEYS, OPENINGS = "commitments", "nonces", "keys", "openings"
COMMITMENT, NONCE, KEY, OPENING = "commitment", "nonce", "key", "opening"
CIPHERTEXT, AGGREGATE, UPLOADS = "ciphertext", "aggregate", "uploads"
PUBLIC, WRAPS, BODY = "public", "wraps", "body"


def part_name(part: int) -> str:
    """Return what one of several ciphertexts of different lengths is called."""
    return f"{CIPHERTEXT}-{part}"


def of_session(kind: str, t: int, members: Sequence[AgentId], **arrays: Array) -> Request:
    """Return a request to the members of a session in round ``t``."""
    told: Payload = {ROUND: np.array(t), MEMBERS: np.array(members), **arrays}
    return Request(kind, told)


def members_of(request: Request) -> tuple[AgentId, ...]:
    """Return the members that a request names."""
    return tuple(int(agent) for agent in request.payload[MEMBERS])


def check_session(agent: AgentId, members: tuple[AgentId, ...], minimum: int) -> None:
    """Check that a client may join a session.

    Raises:
        RunError: if it is not a member, the members are not in order, or they are too few.
    """
    if agent not in members or tuple(sorted(set(members))) != members:
        raise RunError(f"agent {agent} refuses a session of {members}")
    if len(members) < minimum:
        raise RunError(
            f"agent {agent} refuses a session of {len(members)}, expected at least {minimum} "
            "members: with fewer, a sum gives away a vector"
        )


def one_row(data: bytes) -> Array:
    """Return bytes as an array of uint8, shape (1, len(data))."""
    return cast(Array, np.frombuffer(data, np.uint8).reshape(1, -1))
