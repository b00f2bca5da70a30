"""A client's own vector: asked for, checked, and made integers before anything is encrypted."""

from __future__ import annotations

import numpy as np

from fedsim.crypto.fixed_point import Integers, encode
from fedsim.crypto.secure_sum import Vector, about, length_of
from fedsim.errors import RunError
from fedsim.protocol import AgentId, Request


class TooLargeError(RunError):
    """A number does not fit in the fixed point."""


def checked_integers(
    agent: AgentId, request: Request, vector: Vector, fraction_bits: int
) -> Integers:
    """Return an agent's vector in fixed point: int64, shape (length,).

    Args:
        agent: the agent.
        request: the upload request.
        vector: computes the vector.
        fraction_bits: of the fixed point.

    Raises:
        RunError: if it has another length, or a number is not finite.
        TooLargeError: if a number does not fit.
    """
    length = length_of(request)
    values = np.asarray(vector(about(request)), np.float64)
    if values.shape != (length,):
        raise RunError(
            f"agent {agent}: its vector for the secure sum: expected shape ({length},), got "
            f"{values.shape}"
        )
    try:
        return encode(values, fraction_bits)
    except ValueError as error:
        raise RunError(f"agent {agent}: its vector for the secure sum: {error}") from None
    except OverflowError as error:
        raise TooLargeError(
            f"agent {agent}: its vector for the secure sum: {error}; fewer fraction bits allow "
            "larger numbers: correct the public bounds that the method derives them from, such as "
            "the scale of the outputs or their least noise"
        ) from None
