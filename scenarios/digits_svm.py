"""Support vector machines on handwritten digits: every agent tunes C and gamma on its own data.

The data are scikit-learn's bundled digits (1797 images of 8 x 8 pixels, ten classes), so that
nothing is downloaded. As in the papers' experiments, an agent trains on half of its samples and
its objective is the accuracy on the other half.

Accuracy moves in steps of one validation sample. It has a floor where C or gamma is too small or
gamma is too large (only the most frequent digits are predicted): with the default settings about
two fifths of the square, while about a sixth of it reaches an agent's best value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedsim.errors import require
from fedsim.protocol import AgentId
from fedsim.rng import SERVER, rng
from fedsim.scenarios.partition import Indices, dirichlet_label_skew
from fedsim.space import Array, Parameter, Space, Value

SPACE = Space(
    (
        Parameter("C", 1e-1, 1e3, scale="log"),
        Parameter("gamma", 1e-4, 1.0, scale="log"),
    )
)


@dataclass(frozen=True)
class DigitsSVM:
    """An RBF-kernel SVM per agent, validation accuracy to be maximised.

    Attributes:
        agents: the number of agents, at least 1. At most 177 with the default ``minimum``.
        concentration: of the Dirichlet label skew, greater than 0; small values leave an agent
            few digits, see :func:`fedsim.scenarios.partition.dirichlet_label_skew`.
        minimum: the fewest samples an agent has of each of two digits, at least 2, so that both
            its training and its validation half know two digits.
        seed: the run's seed; equal seeds give equal deals.
    """

    agents: int = 20
    concentration: float = 0.5
    minimum: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ConfigError: if a setting is out of range.
        """
        require(self.agents >= 1, "scenario.agents", "at least 1", self.agents)
        expected = "a number greater than 0"
        require(self.concentration > 0, "scenario.concentration", expected, self.concentration)
        expected = "at least 2 (one to train, one to validate)"
        require(self.minimum >= 2, "scenario.minimum", expected, self.minimum)

    @property
    def space(self) -> Space:
        """The penalty parameter ``C`` and the kernel's ``gamma``, both on log scales."""
        return SPACE

    @property
    def direction(self) -> Literal["maximize"]:
        """Larger accuracies are better."""
        return "maximize"

    def objective(self, agent: AgentId) -> SVMObjective:
        """Return the agent's black box.

        Raises:
            ConfigError: if there are too few digits for so many agents.
        """
        samples = self._hands[agent]
        pixels, labels = self._digits
        generator = rng(self.seed, "digits split", agent, 0)
        train, validation = stratified_halves(samples, labels, generator)
        return SVMObjective(pixels, labels, train, validation)

    @cached_property
    def _digits(self) -> tuple[Array, NDArray[np.int64]]:
        """Pixels in [0, 1], shape (1797, 64), and digits, shape (1797,)."""
        from sklearn.datasets import load_digits

        pixels, labels = load_digits(return_X_y=True)
        return pixels / 16.0, labels

    @cached_property
    def _hands(self) -> tuple[Indices, ...]:
        """Every agent's samples."""
        generator = rng(self.seed, "digits partition", SERVER, 0)
        _, labels = self._digits
        return dirichlet_label_skew(
            labels, self.agents, self.concentration, self.minimum, generator
        )


@dataclass(frozen=True, slots=True)
class SVMObjective:
    """Trains on one part of the data and returns the accuracy on another.

    Attributes:
        pixels: features of all agents' samples, shared, shape (n, D).
        labels: their classes, shared, shape (n,).
        train: this agent's training samples.
        validation: this agent's validation samples.
    """

    pixels: Array
    labels: NDArray[np.int64]
    train: Indices
    validation: Indices

    def __call__(self, point: Mapping[str, Value], rng: np.random.Generator) -> float:
        """Return the validation accuracy, in [0, 1]; ``rng`` is not used: training is exact."""
        from sklearn.svm import SVC

        model = SVC(C=point["C"], gamma=point["gamma"])
        model.fit(self.pixels[self.train], self.labels[self.train])
        hits = model.predict(self.pixels[self.validation]) == self.labels[self.validation]
        return float(np.mean(hits))


def stratified_halves(
    samples: Indices, labels: NDArray[np.int64], generator: np.random.Generator
) -> tuple[Indices, Indices]:
    """Split samples at random into halves that share every class equally, up to one sample.

    Args:
        samples: indices into ``labels``, shape (n,).
        labels: classes of all samples.
        generator: consumed.
    """
    order = generator.permutation(samples)
    order = order[np.argsort(labels[order], kind="stable")]
    return order[0::2], order[1::2]
