"""What encrypted sums of a run sent where, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedsim.crypto.requests import SHARE
from fedsim.crypto.secure_sum import UPLOAD

_PREFIX = "secure-sum-"


def sentence(traffic: Mapping[str, Sequence[float]]) -> str:
    """Return how many bytes of sums went where, as part of a sentence; empty if none did.

    Args:
        traffic: by the kind of request, the bytes of requests to all agents, and those of their
            replies.
    """
    nothing = (0.0, 0.0)
    _, uploads = traffic.get(UPLOAD, nothing)
    if SHARE not in traffic:  # nothing was decrypted
        return f"sums, not encrypted: {size_words(uploads)} to the server" if uploads else ""
    sums, shares = traffic[SHARE]
    other = [
        both
        for kind, both in traffic.items()
        if kind.startswith(_PREFIX) and kind not in (UPLOAD, SHARE)
    ]
    keys = [sum(direction) for direction in zip(*other, strict=True)] or nothing
    return (
        f"encrypted sums: ciphertexts {size_words(uploads)} to the server, their sums "
        f"{size_words(sums)} to the agents, decryption shares {size_words(shares)} to the server; "
        f"keys {size_words(keys[1])} to the server, {size_words(keys[0])} to the agents"
    )


def size_words(count: float) -> str:
    """Return a number of bytes as text, with three digits."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= 0.9995 * size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} bytes"
