"""Ways to deal one labelled data set to many agents."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from fedsim.errors import ConfigError, require

Labels = NDArray[np.integer]
Indices = NDArray[np.intp]


def dirichlet_label_skew(
    labels: Labels,
    agents: int,
    concentration: float,
    minimum: int,
    generator: np.random.Generator,
) -> tuple[Indices, ...]:
    """Deal samples so that agents differ in their mix of labels.

    For every class, the agents' shares of its samples are drawn from a symmetric Dirichlet
    distribution (Yurochkin et al., "Bayesian nonparametric federated learning of neural
    networks", 2019). Small concentrations leave most agents few classes and make their sizes
    differ; large ones make them alike.

    Every agent is sure of ``minimum`` samples of each of two classes: these are set aside first,
    from the two classes in which its shares are largest (or, where those are used up, from the
    next pair with samples left), and the shares are applied to what remains. The usual
    alternative, drawing again until everybody has enough, need not end.

    Args:
        labels: one class per sample, shape (n,).
        agents: the number of agents, at least 1.
        concentration: the Dirichlet parameter, greater than 0.
        minimum: the fewest samples an agent gets of each of two classes, at least 1.
        generator: consumed.

    Returns:
        One ascending array of sample indices per agent; together they hold every index once.

    Raises:
        ConfigError: if a setting is out of range or there are too few samples for ``agents``.
    """
    valid = 0 < concentration < math.inf
    require(valid, "concentration", "a number greater than 0", concentration)
    if not (agents >= 1 and minimum >= 1):
        raise ConfigError(
            f"agents and minimum: expected at least 1, got agents {agents} and minimum {minimum}"
        )
    _, classes = np.unique(labels, return_inverse=True)
    counts = np.bincount(classes)
    _check_capacity(counts, agents, minimum)
    shares = generator.dirichlet(np.full(agents, concentration), size=len(counts))  # (K, agents)
    reserved = minimum * _pairs(shares, counts // minimum)  # (K, agents)

    hands: list[list[Indices]] = [[] for _ in range(agents)]
    for k in range(len(counts)):
        samples = generator.permutation(np.flatnonzero(classes == k))
        free = counts[k] - reserved[k].sum()
        ends = np.floor(free * np.cumsum(shares[k])).astype(int)
        ends[-1] = free  # the shares may add up to a little less than 1
        sizes = reserved[k] + np.diff(ends, prepend=0)
        for hand, part in zip(hands, np.split(samples, np.cumsum(sizes)[:-1]), strict=True):
            hand.append(part)
    return tuple(np.sort(np.concatenate(hand)) for hand in hands)


def _check_capacity(counts: Indices, agents: int, minimum: int) -> None:
    """Refuse a deal that cannot give every agent ``minimum`` samples of two classes."""
    blocks = counts // minimum
    most = agents
    while most and not _feasible(blocks, most):
        most -= 1
    if most < agents:
        raise ConfigError(
            f"agents: expected at most {most}, got {agents}: {counts.sum()} samples of "
            f"{len(counts)} classes do not give every agent {minimum} samples of two classes; "
            "use fewer agents or a smaller minimum"
        )


def _feasible(blocks: Indices, agents: int) -> bool:
    """Return whether ``agents`` agents can each have blocks of two different classes."""
    return bool(np.minimum(blocks, agents).sum() >= 2 * agents)


def _pairs(shares: NDArray[np.float64], blocks: Indices) -> Indices:
    """Choose two classes for every agent: its largest shares that leave enough for the others.

    Args:
        shares: the agents' shares of every class, shape (K, agents).
        blocks: how many agents every class can serve, shape (K,).

    Returns:
        1 where a class was chosen, else 0, shape (K, agents).
    """
    chosen = np.zeros(shares.shape, dtype=np.intp)
    first, second = np.array(list(combinations(range(len(blocks)), 2))).T
    left = blocks.copy()
    for agent, share in enumerate(shares.T):
        others = shares.shape[1] - agent - 1
        for i in np.argsort(-(share[first] + share[second]), kind="stable"):
            pair = [first[i], second[i]]
            after = left.copy()
            after[pair] -= 1
            if after.min() >= 0 and _feasible(after, others):
                chosen[pair, agent] = 1
                left = after
                break
    return chosen
