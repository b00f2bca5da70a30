"""Divides a labelled data set among agents, and each agent's samples into two halves.

A partition (a deal) is one ascending array of sample indices per agent; all kinds but ``natural``
use every sample exactly once. The kinds:

- ``dirichlet``: label skew, Yurochkin et al., "Bayesian nonparametric federated learning of neural
  networks" (ICML 2019). Deviation: a few samples per agent are set aside first.
- ``quantity``: quantity skew, Li et al., "Federated learning on non-IID data silos: an experimental
  study" (ICDE 2022). The same deviation.
- ``iid``: at random, in equal numbers.
- ``natural``: by a column of the data, such as the writer of a digit, one agent per value; samples
  with other values are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fedsim.errors import ConfigError, require
from fedsim.space import Array

Labels = NDArray[np.integer]
Indices = NDArray[np.intp]
Column = NDArray[Any]
Kind = Literal["dirichlet", "quantity", "iid", "natural"]

WHERE = "scenario.partition"
LARGEST = 1e9
"""Largest concentration: shares are equal to 1 part in 30,000, and sums of gammas are finite."""


@dataclass(frozen=True, slots=True)
class Partition:
    """How a data set is divided among the agents.

    Attributes:
        kind: ``dirichlet``, ``quantity``, ``iid`` or ``natural``.
        concentration: of the Dirichlet distribution of shares, in (0, 1e9]; small values make
            agents differ. Only for ``dirichlet`` and ``quantity``.
        minimum: the fewest samples of an agent, at least 1: ``dirichlet``: of each of two classes;
            ``quantity``: of any class. Other kinds ignore it.

    Raises:
        ConfigError: if a setting is out of range.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    kind: Kind = "dirichlet"
    concentration: float = 0.5
    minimum: int = 5

    def __post_init__(self) -> None:
        kinds = get_args(Kind)
        require(self.kind in kinds, f"{WHERE}.kind", f"one of {', '.join(kinds)}", self.kind)
        _check_ranges(1, self.concentration, self.minimum)


def deal(
    partition: Partition,
    labels: Labels,
    agents: int,
    generator: np.random.Generator,
    column: Column | None = None,
) -> tuple[Indices, ...]:
    """Deal samples as configured.

    Args:
        partition: how to deal them.
        labels: one class per sample, shape (n,).
        agents: the number of agents, at least 1.
        generator: consumed, except by ``natural``.
        column: one value per sample, shape (n,), for ``natural``; None if the data have none.

    Raises:
        ConfigError: if this is impossible with the data.
    """
    concentration, minimum = partition.concentration, partition.minimum
    match partition.kind:
        case "dirichlet":
            return dirichlet_label_skew(labels, agents, concentration, minimum, generator)
        case "quantity":
            return quantity_skew(len(labels), agents, concentration, minimum, generator)
        case "iid":
            return iid(len(labels), agents, generator)
        case "natural":
            if column is None:
                raise ConfigError(
                    f"{WHERE}.kind: expected dirichlet, quantity or iid, got natural: these data "
                    "do not say whose a sample is"
                )
            return by_column(column, agents)


def dirichlet_label_skew(
    labels: Labels,
    agents: int,
    concentration: float,
    minimum: int,
    generator: np.random.Generator,
) -> tuple[Indices, ...]:
    """Deal samples so that agents differ in their mix of labels.

    For every class, the agents' shares of its samples are drawn from a symmetric Dirichlet
    distribution. Small concentrations leave most agents few classes and unequal sizes.

    Every agent gets at least ``minimum`` samples of each of two classes: these are set aside
    first, from the two classes in which its shares are largest (or, if those are used up, from the
    next pair with samples left), and the shares are applied to the rest. The usual alternative,
    drawing again until every agent has enough, may never end.

    Args:
        labels: one class per sample, shape (n,).
        agents: the number of agents, at least 1.
        concentration: the Dirichlet parameter, in (0, 1e9].
        minimum: the fewest samples an agent gets of each of two classes, at least 1.
        generator: consumed.

    Raises:
        ConfigError: if a setting is out of range or there are too few samples for ``agents``.
    """
    _check_ranges(agents, concentration, minimum)
    _, classes = np.unique(labels, return_inverse=True)
    counts = np.bincount(classes)
    _check_capacity(counts, agents, minimum)
    shares = generator.dirichlet(np.full(agents, concentration), size=len(counts))  # (K, agents)
    reserved = minimum * _pairs(shares, counts // minimum)  # (K, agents)

    hands: list[list[Indices]] = [[] for _ in range(agents)]
    for k in range(len(counts)):
        samples = generator.permutation(np.flatnonzero(classes == k))
        sizes = reserved[k] + _apportion(shares[k], counts[k] - reserved[k].sum())
        for hand, part in zip(hands, np.split(samples, np.cumsum(sizes)[:-1]), strict=True):
            hand.append(part)
    return tuple(np.sort(np.concatenate(hand)) for hand in hands)


def quantity_skew(
    samples: int,
    agents: int,
    concentration: float,
    minimum: int,
    generator: np.random.Generator,
) -> tuple[Indices, ...]:
    """Deal samples at random, in unequal numbers.

    Every agent gets ``minimum`` of the n ``samples``, plus a share of the other r samples drawn
    from a symmetric Dirichlet distribution. So a size has the mean n / N and the standard deviation
    r sqrt((N - 1) / (N a + 1)) / N, for N ``agents`` and the ``concentration`` a.

    Raises:
        ConfigError: if a setting is out of range or there are too few samples for ``agents``.
    """
    _check_ranges(agents, concentration, minimum)
    _check_samples(samples, agents, minimum)
    shares = generator.dirichlet(np.full(agents, concentration))
    sizes = minimum + _apportion(shares, samples - agents * minimum)
    parts = np.split(generator.permutation(samples), np.cumsum(sizes)[:-1])
    return tuple(np.sort(part) for part in parts)


def iid(samples: int, agents: int, generator: np.random.Generator) -> tuple[Indices, ...]:
    """Deal a number of samples at random, in sizes that differ by at most one.

    Raises:
        ConfigError: if there are more agents than samples, or none.
    """
    _check_samples(samples, agents, 1)
    return tuple(np.sort(part) for part in np.array_split(generator.permutation(samples), agents))


def by_column(column: Column, agents: int) -> tuple[Indices, ...]:
    """Give each agent the samples of one value of a column, agent 0 those of the smallest value.

    Args:
        column: one value per sample, shape (n,), of any sortable type.
        agents: the number of values to use, at least 1; the smallest ones are used.

    Raises:
        ConfigError: if there are fewer values than agents.
    """
    values, owners = np.unique(column, return_inverse=True)
    if not 1 <= agents <= len(values):
        shown = ", ".join(str(value) for value in values[:8])
        raise ConfigError(
            f"scenario.agents: expected 1 to {len(values)}, got {agents}: the column that tells "
            f"agents apart holds the values {shown}{', ...' if len(values) > 8 else ''}"
        )
    return tuple(np.flatnonzero(owners == agent) for agent in range(agents))


def stratified_halves(
    samples: Indices, labels: Labels, generator: np.random.Generator
) -> tuple[Indices, Indices]:
    """Split samples at random into halves with equal shares of every class, up to one sample.

    Args:
        samples: indices into ``labels``, shape (n,).
        labels: classes of all samples.
        generator: consumed.
    """
    order = generator.permutation(samples)
    order = order[np.argsort(labels[order], kind="stable")]
    return order[0::2], order[1::2]


def require_two_classes(halves: Sequence[tuple[Indices, Indices]], labels: Labels) -> None:
    """Refuse a deal in which some agent's data cannot train and validate a classifier.

    Args:
        halves: every agent's training and validation samples, indices into ``labels``.
        labels: classes of all samples.

    Raises:
        ConfigError: if an agent's training half has fewer than two classes, or its validation half
            is empty; names the first such agent.
    """
    for agent, (train, validation) in enumerate(halves):
        classes = np.unique(labels[train])
        if len(classes) < 2 or not len(validation):
            held = f"{len(train)} (classes: {', '.join(map(str, classes)) or 'none'})"
            raise ConfigError(
                f"agent {agent}: expected samples of two classes to train with and at least one to "
                f"validate with, got {held} and {len(validation)}; use fewer agents, another seed "
                f"or, in {WHERE}, another kind or a larger minimum"
            )


def _check_ranges(agents: int, concentration: float, minimum: int) -> None:
    require(agents >= 1, "scenario.agents", "at least 1", agents)
    expected = f"a number greater than 0, at most {LARGEST:g}"
    require(0 < concentration <= LARGEST, f"{WHERE}.concentration", expected, concentration)
    require(minimum >= 1, f"{WHERE}.minimum", "at least 1", minimum)


def _check_samples(samples: int, agents: int, minimum: int) -> None:
    """Refuse a deal that cannot give every agent ``minimum`` samples."""
    expected = f"1 to {samples // minimum} ({samples} samples, {minimum} or more for each agent)"
    require(1 <= agents <= samples // minimum, "scenario.agents", expected, agents)


def _check_capacity(counts: Indices, agents: int, minimum: int) -> None:
    """Refuse a deal that cannot give every agent ``minimum`` samples of two classes."""
    blocks = counts // minimum
    most = agents
    while most and not _feasible(blocks, most):
        most -= 1
    if most < agents:
        raise ConfigError(
            f"scenario.agents: expected at most {most}, got {agents}: {counts.sum()} samples of "
            f"{len(counts)} classes do not give every agent {minimum} samples of two classes; "
            f"use fewer agents or a smaller {WHERE}.minimum"
        )


def _feasible(blocks: Indices, agents: int) -> bool:
    """Return whether ``agents`` agents can each have blocks of two different classes."""
    return bool(np.minimum(blocks, agents).sum() >= 2 * agents)


def _pairs(shares: Array, blocks: Indices) -> Indices:
    """Choose two classes for every agent: its largest shares that leave enough for other agents.

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


def _apportion(shares: Array, total: int) -> Indices:
    """Return integers that add up to ``total``, each within 1 of its share."""
    ends = np.floor(total * np.cumsum(shares)).astype(np.intp)
    ends[-1] = total  # the shares may add up to a little less than 1
    return np.diff(ends, prepend=0)
