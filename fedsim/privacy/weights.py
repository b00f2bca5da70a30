"""Weights: how much each agent counts in each sub-region's average.

Dai, Low and Jaillet, "Differentially Private Federated Bayesian Optimization with Distributed
Exploration" (NeurIPS 2021), Sec. 3.2 and App. B.

=========  ============================================================  =======
symbol     meaning                                                       shape
=========  ============================================================  =======
N, P       agents, sub-regions
a_t        emphasis on a region's own agents; how many times as much as
           others they count depends on the scheme
phi        weights phi_n^(i) of agent n in region i; rows sum to 1        (P, N)
=========  ============================================================  =======

=============  ====================  ============  ===============================
scheme         an own agent's ratio  a_t at first  in the paper
=============  ====================  ============  ===============================
``softmax``    exp(a_t - 1)          a + 1         App. B: temperature a / (a_t - 1)
``linear``     a_t                   a             App. B.2.3, "weights 2"
``quadratic``  a_t^2                 a             App. B.2.3, "weights 3"
``uniform``    1                     1             App. B.1.2, Fig. 5
=============  ====================  ============  ===============================

The paper says of B.2.3's schemes only that a is "similarly gradually decayed" to 1. Here a_t is
held and then falls linearly, as App. B says it of the softmax; the ratio is 1 at the end of all.

The weights are public: they depend on the round and the roster, never on data. Agent n belongs
to region n mod P. Rounds are counted from release 0, where the paper counts from 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from fedsim.errors import ConfigError, require
from fedsim.space import Array

Scheme = Literal["softmax", "linear", "quadratic", "uniform"]

_DEFAULTS: Mapping[str, float] = {
    "softmax": 15.0,
    "linear": 1000.0,
    "quadratic": 40.0,
    "uniform": 15.0,
}
"""The paper's values of a; ``uniform`` has no use for one."""


@dataclass(frozen=True, slots=True)
class WeightSchedule:
    """How the emphasis on a region's own agents fades (App. B, first paragraph).

    The defaults are the paper's for its synthetic experiments; for its real data it uses
    ``hold=10, decay=30``.

    Attributes:
        scheme: ``softmax``, ``linear``, ``quadratic`` or ``uniform``; see above.
        a: how large the emphasis is at first: at least 0 with ``softmax``, at least 1 with
            ``linear`` and ``quadratic``. None: the paper's 15, 1000 and 40.
        hold: the number of releases at full emphasis.
        decay: the number of releases after that over which a_t falls linearly to 1, the first of
            them still at full emphasis, the last at 1 (1: only full emphasis); then all weights
            are equal.
        adaptive: False keeps the full emphasis forever (App. B.2.5: temperature 1).

    Raises:
        ConfigError: if a value is outside its range.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    scheme: Scheme = "softmax"
    a: float | None = None
    hold: int = 5
    decay: int = 5
    adaptive: bool = True

    def __post_init__(self) -> None:
        if self.scheme not in _DEFAULTS:
            raise ConfigError(
                f"method.weights.scheme: expected one of {', '.join(_DEFAULTS)}, "
                f"got {self.scheme!r}"
            )
        least = 1 if self.scheme in ("linear", "quadratic") else 0
        expected = f"a finite number of at least {least} with scheme {self.scheme}"
        require(least <= self._a < math.inf, "method.weights.a", expected, self._a)
        for name in ("hold", "decay"):
            value, expected = getattr(self, name), "a number of releases of at least 0"
            require(value >= 0, f"method.weights.{name}", expected, value)

    def emphasis(self, t: int) -> float:
        """Return a_t of release ``t`` (0, 1, ...), at least 1."""
        if self.scheme == "uniform":
            return 1.0
        start = self._a + 1.0 if self.scheme == "softmax" else self._a
        if not self.adaptive or t < self.hold:
            return start
        if t < self.hold + self.decay:
            if t == self.hold + self.decay - 1 and self.decay > 1:
                return 1.0
            return start + (t - self.hold) * ((1.0 - start) / max(1, self.decay - 1))
        return 1.0

    def log_ratio(self, t: int) -> float:
        """Return ln of how many times as much as others a region's own agents count, at least 0."""
        a_t = self.emphasis(t)
        if self.scheme == "softmax":
            return a_t - 1.0
        return (2.0 if self.scheme == "quadratic" else 1.0) * math.log(a_t)

    @property
    def _a(self) -> float:
        return _DEFAULTS[self.scheme] if self.a is None else self.a


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
    logits = np.where(own, schedule.log_ratio(t), 0.0)
    if present is not None:
        logits = np.where(present, logits, -np.inf)
    return np.asarray(softmax(logits, axis=1))
