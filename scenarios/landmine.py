"""Landmine detection: every agent tunes C and gamma of a support vector machine on its own field.

Data: 29 fields of Xue, Liao, Carin and Krishnapuram, "Multi-Task Learning for Classification with
Dirichlet Process Priors" (JMLR 8, 2007): 445 to 690 radar measurements each, 9 features, about 6 %
mines. The workload of FTS (Dai, Low and Jaillet, NeurIPS 2020), of DP-FTS-DE (the same, NeurIPS
2021) and others: half of a field trains, the other half validates, stratified; the value is the
area under the ROC curve (AUC) on the validation half.

Two scores:

- ``decision``: the AUC of the decision function. It is exact.
- ``platt``: the AUC of Platt's probabilities, as in the papers' published code. The sigmoid is
  fitted to out-of-fold decision values of a random 5-fold cross-validation, as in LIBSVM. A
  sigmoid keeps the order of the decision values or, if its slope has the wrong sign, reverses it:
  the AUC is then 1 - AUC. With as few as 7 mines in a training half, this happens in about a
  quarter of all calls at random points. So this objective is noisy, and the best value so far
  profits from the noise. The noiseless value, recorded for the experimenter, is ``decision``.

The sigmoid need not be fitted: the likelihood's maximum over the intercept is concave in the
slope, and its derivative at slope 0 is proportional to the difference of the two classes' mean
decision values, so the sign of that difference is the slope's sign.

Deviation from the published code: LIBSVM rounds and clips probabilities, which ties or swaps some
neighbours; this code does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedsim.data.datasets import locate
from fedsim.errors import require
from fedsim.protocol import AgentId
from fedsim.scenarios.kernel_svm import rbf_kernel, squared_distances, train
from fedsim.scenarios.partition import by_column
from fedsim.space import Array, Parameter, Space, Value
from fedsim.workload import Evaluation

FIELDS = 29
FOLDS = 5

Labels = NDArray[np.uint8]


@dataclass(frozen=True)
class Landmine:
    """An RBF-kernel SVM per landmine field, validation AUC to be maximised.

    Attributes:
        agents: the number of agents, 1 to 29: agent n has field n + 1.
        score: ``decision`` or ``platt``; see the module.
        scale: of both parameters, ``linear`` as in the papers, or ``log``.
        data_dir: the folder of the data sets, or None for the user's cache.

    Raises:
        ConfigError: if a setting is out of range.
    """

    agents: int = FIELDS
    score: Literal["decision", "platt"] = "decision"
    scale: Literal["linear", "log"] = "linear"
    data_dir: Path | None = None

    def __post_init__(self) -> None:
        require(1 <= self.agents <= FIELDS, "scenario.agents", f"1 to {FIELDS}", self.agents)

    @cached_property
    def space(self) -> Space:
        """The penalty parameter ``C`` and the kernel's ``gamma``."""
        return Space(
            (
                Parameter("C", 1e-4, 10.0, scale=self.scale),
                Parameter("gamma", 1e-2, 10.0, scale=self.scale),
            )
        )

    @property
    def direction(self) -> Literal["maximize"]:
        """Larger areas are better."""
        return "maximize"

    def objective(self, agent: AgentId) -> FieldObjective:
        """Return the agent's black box.

        Raises:
            MissingDataError: if the data set is missing.
            ConfigError: if its checksum is wrong.
        """
        # Imported here, so that fedsim's commands do not load scikit-learn.
        from sklearn.model_selection import train_test_split

        features, labels = self._fields[agent]
        train_X, validation_X, train_y, validation_y = train_test_split(
            features, labels, test_size=0.5, stratify=labels, random_state=0
        )
        train, validation = Half(train_X, train_y), Half(validation_X, validation_y)
        return FieldObjective(train, validation, self.score)

    @cached_property
    def _fields(self) -> list[tuple[Array, Labels]]:
        """Features, shape (n, 9), and labels, shape (n,), 1 for a mine, of every field."""
        path = locate("landmine", self.data_dir)
        if path.suffix == ".mat":
            from scipy.io import loadmat

            original = loadmat(path)
            return [
                (np.ascontiguousarray(X, dtype=np.float64), y.ravel().astype(np.uint8))
                for X, y in zip(original["feature"][0], original["label"][0], strict=True)
            ]
        with np.load(path) as arrays:
            X, y, field = (arrays[name] for name in ("X", "y", "field"))
        return [(X[rows], y[rows]) for rows in by_column(field, FIELDS)]


@dataclass(frozen=True)
class Half:
    """Half of a field.

    Attributes:
        features: shape (n, 9).
        labels: 1 for a mine, else 0; shape (n,).
    """

    features: Array
    labels: Labels


@dataclass(frozen=True)
class FieldObjective:
    """Trains on one half of a field and returns the AUC on the other.

    Attributes:
        train: the training half.
        validation: the validation half, with both classes.
        score: ``decision`` or ``platt``.
    """

    train: Half
    validation: Half
    score: Literal["decision", "platt"]

    def __call__(self, point: Mapping[str, Value], rng: np.random.Generator) -> Evaluation:
        """Return the validation AUC, in [0, 1]; ``rng`` draws the folds of ``platt``."""
        C, gamma = float(point["C"]), float(point["gamma"])
        inside, across = (rbf_kernel(distances, gamma) for distances in self._distances)
        labels = self.train.labels
        decision = train(inside, labels, C).decision(across)
        exact = area_under_curve(self.validation.labels, decision)
        if self.score == "decision":
            return Evaluation(exact, exact)
        sign = sigmoid_sign(inside, labels, C, rng)
        return Evaluation(0.5 + sign * (exact - 0.5), exact)

    @cached_property
    def _distances(self) -> tuple[Array, Array]:
        """Squared distances of training samples from one another, and of validation samples."""
        X = self.train.features
        return squared_distances(X, X), squared_distances(self.validation.features, X)

    def __getstate__(self) -> dict[str, object]:
        """Return what is sent to where it is evaluated: not the distances."""
        return {name: getattr(self, name) for name in ("train", "validation", "score")}


def area_under_curve(labels: Labels, scores: Array) -> float:
    """Return the area under the ROC curve: how often a positive scores above a negative.

    Args:
        labels: 0 or 1, both present, shape (m,).
        scores: larger for 1, shape (m,); ties count half.
    """
    positives, negatives = scores[labels == 1], np.sort(scores[labels == 0])
    below = np.searchsorted(negatives, positives, "left").sum()
    not_above = np.searchsorted(negatives, positives, "right").sum()
    return float((below + not_above) / (2 * len(positives) * len(negatives)))


def sigmoid_sign(kernel: Array, labels: Labels, C: float, generator: np.random.Generator) -> float:
    """Return the sign of the slope of Platt's sigmoid in the decision value: -1, 0 or 1.

    Args:
        kernel: of the training samples, shape (n, n).
        labels: 1 for a mine, else 0, both present, shape (n,).
        C: the penalty parameter.
        generator: assigns the samples to folds; consumed.
    """
    decision = np.empty(len(labels))
    for fold in np.array_split(generator.permutation(len(labels)), FOLDS):
        rest = np.delete(np.arange(len(labels)), fold)
        machine = train(kernel[np.ix_(rest, rest)], labels[rest], C)
        decision[fold] = machine.decision(kernel[np.ix_(fold, rest)])
    return float(np.sign(decision[labels == 1].mean() - decision[labels == 0].mean()))
