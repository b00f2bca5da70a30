"""The interfaces of a workload: a scenario, and one objective per agent.

The interfaces of methods are in :mod:`fedsim.protocol`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from fedsim.protocol import AgentId
from fedsim.space import Space, Value


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A value that an objective may return instead of a number.

    Attributes:
        y: the observed value, in the scenario's units.
        noiseless: the value without observation noise, for the record; agents never see it.
    """

    y: float
    noiseless: float | None = None


class Objective(Protocol):
    """One agent's black box; see also :class:`fedsim.resources.NeedsResources`."""

    def __call__(self, point: Mapping[str, Value], rng: np.random.Generator) -> float | Evaluation:
        """Evaluate ``point`` (in the user's units); all randomness comes from ``rng``."""
        ...


@runtime_checkable
class Scenario(Protocol):
    """A workload: a search space and one objective per agent.

    Built as ``Class(**settings)``, in every process and more than once: keep that cheap. A
    configuration file's ``scenario:`` section is checked against the constructor's names and
    annotations. Arguments named ``seed`` and ``data_dir`` get the run's seed and ``--data``.
    See also :class:`KnowsOptimum` and :class:`KnowsBaseline`.
    """

    @property
    def space(self) -> Space:
        """The search space that all agents share."""
        ...

    @property
    def direction(self) -> Literal["maximize", "minimize"]:
        """Whether larger or smaller values are better."""
        ...

    @property
    def agents(self) -> int:
        """The number of agents."""
        ...

    def objective(self, agent: AgentId) -> Objective:
        """Return an agent's black box."""
        ...


@runtime_checkable
class KnowsOptimum(Protocol):
    """A scenario that knows its best values, so that regret can be reported."""

    def optimum(self, agent: AgentId) -> float | None:
        """Return an agent's best noiseless value, or None; for the experimenter only."""
        ...


@runtime_checkable
class KnowsBaseline(Protocol):
    """A scenario that knows what no effort would give, to compare a run's scores with."""

    @property
    def baseline_name(self) -> str:
        """What is compared with, in a few words, such as ``always the most frequent class``."""
        ...

    def baseline(self, agent: AgentId) -> float:
        """Return its value for an agent, in the scenario's units; for the experimenter only."""
        ...
