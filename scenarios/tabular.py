"""Gradient boosting on tables: every agent tunes a classifier on its own rows.

The workload of FBO-FedGP, Sec. 5.1: credit default, diabetes and death in hospital
(:mod:`fedsim.scenarios.tables`), dealt to agents with skewed quantities or labels. An agent trains
scikit-learn's histogram gradient boosting, which handles gaps, on one half of its rows; its
objective is the error, or the area under the ROC curve, on the other half.

The baseline is to always predict the class that is more frequent in the training half. It is far
from useless: with 22 %, 14 % and 26 % of yes, its error is 0.22, 0.14 and 0.26, so that the "near
zero error" that the paper reports on credit default and on death in hospital is out of reach.

Deviations: the paper states neither classifier nor hyper-parameters nor the number of rows used.
A larger data set is thinned at random before it is dealt, so that one evaluation takes a fraction
of a second, and quantities remain skewed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from threadpoolctl import ThreadpoolController

from fedsim.errors import ConfigError, require
from fedsim.protocol import AgentId
from fedsim.rng import SERVER, rng
from fedsim.scenarios.partition import (
    WHERE,
    Indices,
    Partition,
    deal,
    require_two_classes,
    stratified_halves,
)
from fedsim.scenarios.tables import Name, Table, read_table
from fedsim.space import Parameter, Space, Value

Metric = Literal["error", "auc"]

SPACE = Space(
    (
        Parameter("learning_rate", 0.01, 1.0, scale="log"),
        Parameter("max_iter", 5, 100, scale="log", integer=True),
        Parameter("max_leaf_nodes", 2, 32, scale="log", integer=True),
        Parameter("min_samples_leaf", 1, 64, scale="log", integer=True),
        Parameter("l2_regularization", 1e-3, 1e2, scale="log"),
    )
)

USUAL_AGENTS: Mapping[Name, int] = {"credit_default": 30, "cdc_diabetes": 30, "support2": 9}
QUANTITY = Partition("quantity", 10.0)
"""As in the paper, which follows Archetti et al. (2023)."""


class Tabular:
    """A gradient boosting classifier per agent.

    Args:
        dataset: ``credit_default``, ``cdc_diabetes`` or ``support2``.
        agents: the number of agents, at least 1; None: 30, 30 and 9.
        partition: how rows are divided, see :mod:`fedsim.scenarios.partition`.
        rows: how many rows an agent has on average, at most, of which half are for training; at
            least 4. Of a larger data set, a random sample is dealt.
        metric: ``error``, to be minimised, or ``auc``, to be maximised.
        seed: the run's seed; equal seeds give equal shares.
        data_dir: the folder of the data sets, or None for the user's cache.

    Raises:
        ConfigError: if a setting is out of range.
    """

    baseline_name = "always the more frequent class"

    def __init__(
        self,
        dataset: Name = "credit_default",
        agents: int | None = None,
        partition: Partition = QUANTITY,
        rows: int = 500,
        metric: Metric = "error",
        seed: int = 0,
        data_dir: Path | None = None,
    ) -> None:
        names = ", ".join(get_args(Name))
        require(dataset in get_args(Name), "scenario.dataset", f"one of {names}", dataset)
        require(metric in get_args(Metric), "scenario.metric", "error or auc", metric)
        require(agents is None or agents >= 1, "scenario.agents", "at least 1", agents)
        require(rows >= 4, "scenario.rows", "at least 4", rows)
        self.dataset, self.partition, self.rows, self.metric = dataset, partition, rows, metric
        self.agents = USUAL_AGENTS[dataset] if agents is None else agents
        self._seed, self._data_dir = seed, data_dir

    @property
    def space(self) -> Space:
        """Five of the classifier's arguments, all on log scales."""
        return SPACE

    @property
    def direction(self) -> Literal["minimize", "maximize"]:
        """Smaller errors and larger areas are better."""
        return "minimize" if self.metric == "error" else "maximize"

    def objective(self, agent: AgentId) -> BoostingObjective:
        """Return the agent's black box; the first call checks the data of all agents.

        Raises:
            MissingDataError: if the data set is missing.
            ConfigError: if its checksum is wrong, this partition is impossible, or an agent's rows
                cannot train and validate a classifier.
        """
        for module in ("sklearn.ensemble", "sklearn.metrics"):
            import_module(module)  # takes seconds, which the first evaluation would seem to take
        train, validation = (self._part(rows) for rows in self._halves[agent])
        return BoostingObjective(train, validation, self.metric)

    def baseline(self, agent: AgentId) -> float:
        """Return the value of always predicting the training half's more frequent class."""
        if self.metric == "auc":
            return 0.5
        train, validation = (self._table.y[rows] for rows in self._halves[agent])
        frequent = float(2 * np.sum(train) > len(train))
        return float(np.mean(validation != frequent))

    def _part(self, rows: Indices) -> Table:
        return Table(self._table.X[rows], self._table.y[rows])

    @cached_property
    def _table(self) -> Table:
        """The rows that are dealt."""
        table = read_table(self.dataset, self._data_dir)
        count = self.rows * self.agents
        if count >= len(table.y):
            return table
        kept = rng(self._seed, "tabular rows", SERVER, 0).choice(len(table.y), count, replace=False)
        return Table(table.X[kept], table.y[kept])

    @cached_property
    def _halves(self) -> tuple[tuple[Indices, Indices], ...]:
        """Every agent's training and validation rows."""
        labels = self._table.y
        generator = rng(self._seed, "tabular partition", SERVER, 0)
        hands = deal(self.partition, labels, self.agents, generator)
        halves = tuple(
            stratified_halves(hand, labels, rng(self._seed, "tabular split", agent, 0))
            for agent, hand in enumerate(hands)
        )
        require_two_classes(halves, labels)
        if self.metric == "auc":
            for agent, (_, validation) in enumerate(halves):
                _require_both(agent, labels[validation])
        return halves


def _require_both(agent: AgentId, labels: np.ndarray) -> None:
    if labels.min() == labels.max():
        raise ConfigError(
            f"agent {agent}: scenario.metric: auc needs both classes to validate with, got only "
            f"{labels[0]} in {len(labels)} rows; use error, fewer agents, more scenario.rows or, "
            f"in {WHERE}, another kind or a larger minimum"
        )


@dataclass(frozen=True, slots=True)
class BoostingObjective:
    """Trains on one half of an agent's rows and scores on the other.

    Attributes:
        train: the training half, with both classes.
        validation: the validation half; with both classes, for ``auc``.
        metric: ``error`` or ``auc``.
    """

    train: Table
    validation: Table
    metric: Metric

    def __call__(self, point: Mapping[str, Value], rng: np.random.Generator) -> float:
        """Return the validation score, in [0, 1]; ``rng`` is not used: training is exact."""
        # Imported here, so that fedsim's commands do not load scikit-learn.
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.metrics import roc_auc_score

        model = HistGradientBoostingClassifier(**point, early_stopping=False, random_state=0)
        # What limits a process's threads does not know libraries that are loaded later.
        with _thread_pools().limit(limits=1):
            model.fit(self.train.X, self.train.y)
            chances = model.predict_proba(self.validation.X)[:, 1]
        if self.metric == "auc":
            return float(roc_auc_score(self.validation.y, chances))
        return float(np.mean((chances > 0.5) != self.validation.y))


@cache
def _thread_pools() -> ThreadpoolController:
    """Return scikit-learn's thread pools; it is loaded. Finding them takes milliseconds."""
    return ThreadpoolController()
