"""Strict decryption: a client checks that what it decrypts is the sum of all members' uploads."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from fedsim.crypto import wire
from fedsim.crypto.parameters import Layout
from fedsim.crypto.ring import COEFFICIENT_BYTES, DEGREE, ELEMENT_BYTES, ByteSum, from_bytes
from fedsim.errors import RunError
from fedsim.protocol import AgentId
from fedsim.space import Array


def masks_of(ciphertext: Array, layout: Layout) -> Array:
    """Return the c1 of all parts of an upload, one after another."""
    start = wire.OVERHEAD - wire.DIGEST_BYTES + layout.coefficients * COEFFICIENT_BYTES
    return ciphertext[:, start : -wire.DIGEST_BYTES].reshape(-1)


def check_sum(
    agent: AgentId, own: bytes, masks: Mapping[AgentId, bytes], sums: Sequence[memoryview]
) -> None:
    """Check that sums are of all members' ciphertexts, the agent's own among them.

    Args:
        agent: the agent that is to decrypt.
        own: SHA-256 of what :func:`masks_of` gives for its upload.
        masks: what it gives for every member's.
        sums: G1 of every part.

    Raises:
        RunError: if they are of anything else.
    """
    totals = [ByteSum(DEGREE) for _ in sums]
    for member, mask in masks.items():
        if len(mask) != len(sums) * ELEMENT_BYTES:
            raise RunError(f"agent {agent} refuses the ciphertext of agent {member}")
        if member == agent and hashlib.sha256(mask).digest() != own:
            raise RunError(f"agent {agent} refuses to decrypt: its upload is not in the sum")
        for part, total in enumerate(totals):
            total.add(memoryview(mask)[part * ELEMENT_BYTES : (part + 1) * ELEMENT_BYTES])
    for total, g1 in zip(totals, sums, strict=True):
        if not np.array_equal(total.digits(), from_bytes(g1)):
            raise RunError(f"agent {agent} refuses to decrypt what is not the members' sum")
