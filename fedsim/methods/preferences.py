"""P_N: which helpers a target prefers to draw from.

Paper: FTS (NeurIPS 2020), Sec. 3.1, leaves P_N to the user, and says uniform if it is not known
which helpers are similar. What is learned here are misranked pairs, as in RGPE (Feurer, Letham and
Bakshy, 2018), but weighed by a likelihood instead of the winners of bootstrap samples: with few
observations these pick the lucky ones, where a likelihood is still nearly uniform.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
from scipy.special import betainc, betaln

from fedsim.errors import ConfigError
from fedsim.methods.roles import Roles
from fedsim.protocol import AgentId
from fedsim.space import Array

Preferences = Callable[[Sequence[AgentId], Callable[[], Array], Array], Array]
"""Weights of helpers, at least 0, shape (H,), given these:

- which agents they are,
- what computes their messages' values at the target's own points, shape (H, n),
- the outputs that the target observed there, shape (n,).
"""


def preferences_of(
    given: Literal["uniform", "learned"] | Sequence[float] | Mapping[int, float], roles: Roles
) -> Preferences:
    """Return P_N as configured, not normalised.

    Args:
        given: the setting ``method.preferences``.
        roles: targets and helpers.

    Raises:
        ConfigError: if weights are not finite and at least 0, or no helper's is above 0.
    """
    if isinstance(given, str):
        return _uniform if given == "uniform" else learned
    where, agents = "method.preferences", roles.agents
    if isinstance(given, Mapping):
        if not set(given) <= set(range(agents)):
            raise ConfigError(f"{where}: expected agents 0 to {agents - 1}, got {sorted(given)}")
        weights = np.array([given.get(agent, 0.0) for agent in range(agents)])
    else:
        if len(given) != agents:
            raise ConfigError(
                f"{where}: expected {agents} weights, one per agent, got {len(given)}"
            )
        weights = np.array(given)
    if not all(0 <= weight < math.inf for weight in weights):
        raise ConfigError(f"{where}: expected finite weights of at least 0, got {given}")
    if roles.helpers and not weights[list(roles.helpers)].any():
        raise ConfigError(f"{where}: expected a weight above 0 for some helper, got {given}")
    return lambda senders, values, outputs: weights[list(senders)].astype(float)


def _uniform(senders: Sequence[AgentId], values: Callable[[], Array], outputs: Array) -> Array:
    return np.ones(len(senders))


def learned(senders: Sequence[AgentId], values: Callable[[], Array], outputs: Array) -> Array:
    """Return how well each message explains the order of the target's own outputs.

    Let s be the share of pairs of the n outputs that the message's values at the same points have
    in the same order. The weight is the likelihood of s (n - 1) agreeing comparisons of n - 1, if
    each agrees with an unknown probability of 1/2 to 1: n outputs have more pairs, but these are
    not independent. It is relative to the best message's. Without observations all weights are 1.
    Units, and one huge output, do not matter.
    """
    n = len(outputs)
    if n < 2:
        return np.ones(len(senders))
    agreeing = (n - 1.0) * np.array([concordance(one, outputs) for one in values()])
    a, b = agreeing + 1.0, n - agreeing
    # The integral of theta^(a - 1) (1 - theta)^(b - 1) over 1/2 <= theta <= 1.
    evidence = betaln(a, b) + np.log(np.maximum(betainc(b, a, 0.5), np.finfo(float).tiny))
    weights: Array = np.exp(evidence - evidence.max())
    return weights


def concordance(one: Array, other: Array) -> float:
    """Return the share of pairs that two sequences (n,) have in the same order; ties are half."""
    first, second = np.triu_indices(len(one), 1)
    same = np.sign(one[first] - one[second]) * np.sign(other[first] - other[second])
    return float(0.5 + 0.5 * same.mean())
