"""Support vector machines on handwritten digits: every agent tunes C and gamma on its own data.

The data are scikit-learn's bundled digits (1797 images of 8 x 8 pixels, ten classes), so nothing is
downloaded. As in the papers' experiments, an agent trains on half of its samples and its objective
is the accuracy on the other half. The writers of the digits are unknown, so there is no ``natural``
partition.

Accuracy changes in steps of one validation sample. It has a floor where C or gamma is too small or
gamma is too large (only the most frequent digits are predicted): with the default settings, on
about two fifths of the square (on log scales). About a sixth of it reaches an agent's best value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from fedsim.errors import require
from fedsim.protocol import AgentId
from fedsim.rng import SERVER, rng
from fedsim.scenarios.partition import (
    Indices,
    Labels,
    Partition,
    deal,
    require_two_classes,
    stratified_halves,
)
from fedsim.space import Array, Parameter, Space, Value


@dataclass(frozen=True)
class DigitsSVM:
    """An RBF-kernel SVM per agent, validation accuracy to be maximised.

    Attributes:
        agents: the number of agents, at least 1. At most 177 with the default partition.
        partition: how the digits are divided, see :mod:`fedsim.scenarios.partition`.
        scale: of both parameters, ``log`` or ``linear``.
        seed: the run's seed; equal seeds give equal shares.

    Raises:
        ConfigError: if a setting is out of range.
    """

    agents: int = 20
    partition: Partition = Partition()
    scale: Literal["log", "linear"] = "log"
    seed: int = 0

    def __post_init__(self) -> None:
        require(self.agents >= 1, "scenario.agents", "at least 1", self.agents)

    @cached_property
    def space(self) -> Space:
        """The penalty parameter ``C`` and the kernel's ``gamma``."""
        return Space(
            (
                Parameter("C", 1e-1, 1e3, scale=self.scale),
                Parameter("gamma", 1e-4, 1.0, scale=self.scale),
            )
        )

    @property
    def direction(self) -> Literal["maximize"]:
        """Larger accuracies are better."""
        return "maximize"

    def objective(self, agent: AgentId) -> SVMObjective:
        """Return the agent's black box; the first call checks the data of all agents.

        Raises:
            ConfigError: if this partition is impossible, or an agent's training half has only one
                class or its validation half is empty.
        """
        pixels, labels = self._digits
        train, validation = self._halves[agent]
        return SVMObjective(pixels[train], labels[train], pixels[validation], labels[validation])

    @cached_property
    def _digits(self) -> tuple[Array, Labels]:
        """Pixels in [0, 1], shape (1797, 64), and digits, shape (1797,)."""
        from sklearn.datasets import load_digits

        pixels, labels = load_digits(return_X_y=True)
        return pixels / 16.0, labels

    @cached_property
    def _halves(self) -> tuple[tuple[Indices, Indices], ...]:
        """Every agent's training and validation samples."""
        _, labels = self._digits
        generator = rng(self.seed, "digits partition", SERVER, 0)
        hands = deal(self.partition, labels, self.agents, generator)
        halves = tuple(
            stratified_halves(hand, labels, rng(self.seed, "digits split", agent, 0))
            for agent, hand in enumerate(hands)
        )
        require_two_classes(halves, labels)
        return halves


@dataclass(frozen=True, slots=True)
class SVMObjective:
    """Trains on one half of an agent's samples and returns the accuracy on the other.

    It has no other data, so it can be sent to where it is evaluated.

    Attributes:
        train_pixels: pixels of the training half, shape (n, D).
        train_labels: their classes, at least two different ones, shape (n,).
        validation_pixels: pixels of the validation half, shape (m, D).
        validation_labels: their classes, shape (m,).
    """

    train_pixels: Array
    train_labels: Labels
    validation_pixels: Array
    validation_labels: Labels

    def __call__(self, point: Mapping[str, Value], rng: np.random.Generator) -> float:
        """Return the validation accuracy, in [0, 1]; ``rng`` is not used: training is exact."""
        from sklearn.svm import SVC

        model = SVC(C=point["C"], gamma=point["gamma"]).fit(self.train_pixels, self.train_labels)
        return float(np.mean(model.predict(self.validation_pixels) == self.validation_labels))
