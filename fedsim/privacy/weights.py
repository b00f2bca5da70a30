"""Weights: how much each agent counts in each sub-region's average.

Dai, Low and Jaillet, "Differentially Private Federated Bayesian Optimization with Distributed
Exploration" (NeurIPS 2021), Sec. 3.2 and App. B.

=========  ============================================================  =======
symbol     meaning                                                       shape
=========  ============================================================  =======
N, P       agents, sub-regions
a_t        emphasis: an agent of the region counts exp(a_t - 1) times
           as much as another; App. B's temperature is a / (a_t - 1)
phi        weights phi_n^(i) of agent n in region i; rows sum to 1        (P, N)
=========  ============================================================  =======

The weights are public: they depend on the round and the roster, never on data. Agent n belongs
to region n mod P. Rounds are counted from release 0, where the paper counts from 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from fedsim.errors import ConfigError, require
from fedsim.space import Array


@dataclass(frozen=True, slots=True)
class WeightSchedule:
    """How the emphasis on a region's own agents fades (App. B, first paragraph).

    The defaults are the paper's for its synthetic experiments; for its real data it uses
    ``hold=10, decay=30``.

    Attributes:
        scheme: ``softmax``, or ``uniform`` for the same weight for all (App. B.1.2).
        a: the emphasis starts at a_t = a + 1; at least 0.
        hold: the number of releases at full emphasis.
        decay: the number of releases after that over which a_t falls linearly from a + 1 to 1,
            both included (1: only a + 1); then all weights are equal.
        adaptive: False keeps the full emphasis forever (App. B.2.5).

    Raises:
        ConfigError: if a value is outside its range.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    scheme: Literal["softmax", "uniform"] = "softmax"
    a: float = 15.0
    hold: int = 5
    decay: int = 5
    adaptive: bool = True

    def __post_init__(self) -> None:
        if self.scheme not in ("softmax", "uniform"):
            raise ConfigError(
                f"method.weights.scheme: expected softmax or uniform, got {self.scheme!r}"
            )
        expected = "a finite number of at least 0"
        require(0 <= self.a < math.inf, "method.weights.a", expected, self.a)
        for name in ("hold", "decay"):
            value, expected = getattr(self, name), "a number of releases of at least 0"
            require(value >= 0, f"method.weights.{name}", expected, value)

    def emphasis(self, t: int) -> float:
        """Return a_t of release ``t`` (0, 1, ...), in [1, a + 1]."""
        if self.scheme == "uniform":
            return 1.0
        if not self.adaptive or t < self.hold:
            return self.a + 1.0
        if t < self.hold + self.decay:
            if t == self.hold + self.decay - 1 and self.decay > 1:
                return 1.0
            start = self.a + 1.0
            return start + (t - self.hold) * ((1.0 - start) / max(1, self.decay - 1))
        return 1.0


def region_weights(
    schedule: WeightSchedule,
    t: int,
    agents: int,
    regions: int,
    present: NDArray[np.bool_] | None = None,
) -> Array:
    """Return the weights phi of release ``t``.

    Args:
        schedule: how the emphasis fades.
        t: the release, from 0.
        agents: N, at least 1.
        regions: P, at least 1.
        present: which agents get weight, shape (N,) of bool, at least one; the others get 0.
            None: all. A private mechanism must leave it None.

    Returns:
        Weights of shape (P, N), at least 0; each row sums to 1.
    """
    own = np.arange(regions)[:, None] == np.arange(agents)[None, :] % regions  # (P, N)
    logits = np.where(own, schedule.emphasis(t) - 1.0, 0.0)
    if present is not None:
        logits = np.where(present, logits, -np.inf)
    return np.asarray(softmax(logits, axis=1))
