"""Which support set a federation uses in which round.

Paper: FBO-FedGP, Alg. 1 and App. C.7; see :mod:`fedsim.surrogates.support`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fedsim.errors import require
from fedsim.protocol import Context, Replies, Request
from fedsim.rng import SERVER, rng
from fedsim.space import Array
from fedsim.surrogates.support import global_centres, random_support, sobol_support

CENTRES = "local-centres"
"""The kind of the request for a client's centres; Alg. 2, lines 3-4."""

_CENTRES_PER_POINT = 2.0  # local centres of all clients together, for each point of the support set


@dataclass(frozen=True, slots=True)
class SupportSettings:
    """The support set.

    Attributes:
        kind: ``sobol`` (public), ``random`` (public, uniform) or ``clustered`` (Algorithm 1, which
            shows the clients' local centres to the server).
        size: the number of points |S| at first, at least 1.
        grow_by: add ``grow_by`` points every ``grow_every`` rounds (App. C.7); at least 0.
        grow_every: at least 1. A clustered set is clustered anew each time.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    kind: Literal["sobol", "random", "clustered"] = "sobol"
    size: int = 32
    grow_by: int = 0
    grow_every: int = 10

    def __post_init__(self) -> None:
        where = "method.support"
        for name, least in (("size", 1), ("grow_by", 0), ("grow_every", 1)):
            value = getattr(self, name)
            require(value >= least, f"{where}.{name}", f"at least {least}", value)


class SupportSets:
    """The support sets of a run.

    Args:
        settings: which.
        context: the federation.
    """

    def __init__(self, settings: SupportSettings, context: Context) -> None:
        self._settings = settings
        self._context = context

    def size(self, t: int) -> int:
        """Return |S| in round t."""
        s = self._settings
        return s.size + s.grow_by * (t // s.grow_every)

    def changes(self, t: int) -> bool:
        """Return whether round t has another set than the one before."""
        return t == 0 or self.size(t) != self.size(t - 1)

    def centres_request(self, t: int) -> Request | None:
        """Return what clients are asked before a new set; None for public sets."""
        if self._settings.kind != "clustered":
            return None
        count = math.ceil(_CENTRES_PER_POINT * self.size(t) / self._context.agents)
        return Request(CENTRES, {"count": np.array(count)})

    def clustered(self, t: int, replies: Replies) -> Array:
        """Return the set that clients' centres lead to, shape (at most s, E).

        Where no client answers, it is a public one.
        """
        groups = [reply.payload["centres"] for reply in replies if reply.status == "ok"]
        if not any(len(group) for group in groups):
            return self.public(t)
        generator = rng(self._context.seed, "support-set", SERVER, t)
        return global_centres(groups, self.size(t), generator)

    def public(self, t: int) -> Array:
        """Return a set that depends on the seed alone, shape (s, E)."""
        context = self._context
        generator = rng(context.seed, "support-set", SERVER, 0)
        draw = random_support if self._settings.kind == "random" else sobol_support
        return draw(context.space, self.size(t), generator)
