"""The sum in the clear: what the encrypted schemes compute, without encryption.

The server sees every vector. Sums are those of the encrypted schemes, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np

from fedsim.crypto.fixed_point import INTEGER_BITS, Integers, add_integers, decode
from fedsim.crypto.secure_sum import UPLOAD, Members, Vector
from fedsim.crypto.vectors import checked_integers
from fedsim.errors import RunError
from fedsim.protocol import AgentId, Payload, Request
from fedsim.space import Array

INTEGERS = "integers"


class PlainClient:
    """A client without keys.

    Args:
        agent: whose it is.
        fraction_bits: of the fixed point.
    """

    holds_secrets = False

    def __init__(self, agent: AgentId, fraction_bits: int) -> None:
        self._agent = agent
        self._fraction_bits = fraction_bits

    def knows(self, request: Request) -> bool:
        """Return whether it is an upload request."""
        return request.kind == UPLOAD

    def reply(self, request: Request, vector: Vector) -> Payload:
        """Return the vector as integers."""
        integers = checked_integers(self._agent, request, vector, self._fraction_bits)
        return {INTEGERS: cast(Array, integers)}


class PlainCombiner:
    """Adds integers.

    Args:
        fraction_bits: of the fixed point.
    """

    def __init__(self, fraction_bits: int) -> None:
        self._fraction_bits = fraction_bits

    def ready(self, members: tuple[AgentId, ...], length: int) -> bool:
        """Return True: there are no keys."""
        return True

    def set_up(self, members: Members) -> None:
        """Do nothing."""

    def combine(self, members: Members, length: int, uploads: Mapping[AgentId, Payload]) -> Array:
        """See :class:`fedsim.crypto.secure_sum.Combiner`."""
        many = [_checked(agent, sent.get(INTEGERS), length) for agent, sent in uploads.items()]
        return decode(add_integers(np.stack(many)), self._fraction_bits)

    def close(self) -> None:
        """Do nothing."""


def _checked(agent: AgentId, sent: Array | None, length: int) -> Integers:
    integers = np.asarray(sent)
    expected = f"agent {agent}: expected {length} integers below 2^{INTEGER_BITS} in magnitude"
    if integers.dtype != np.int64 or integers.shape != (length,):
        raise RunError(f"{expected}, got {integers.dtype} of shape {integers.shape}")
    if (np.abs(integers) >> INTEGER_BITS).any():
        raise RunError(f"{expected}, got {np.abs(integers).max()}")
    return integers
