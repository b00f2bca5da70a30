"""The benchmark functions F1 to F20 of CEC 2005: all agents minimise one function.

The functions are in :mod:`fedsim.scenarios.cec_functions`; shifts and rotations come from the
organisers' data, the data set ``cec2005``. The workload of Table 1 and Figs. 1 and 8 of FBO-FedGP.

F4 and F17 are noisy: their distance from the optimum is multiplied by 1 + 0.4 |N(0, 1)| or
1 + 0.2 |N(0, 1)|. The noiseless value is recorded beside each observation.

Deviation: F7's box is [-600, 600]. In the report F7 has no box, only a starting range, [0, 600],
that its minimum is outside of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from fedsim.data.datasets import locate
from fedsim.errors import require
from fedsim.protocol import AgentId
from fedsim.scenarios.boxes import box, row_of
from fedsim.scenarios.cec_functions import DEFINITIONS, Function, Name, make_function
from fedsim.space import Space, Value
from fedsim.workload import Evaluation

Dimension = Literal[2, 10, 30, 50]
"""Those that the organisers' rotations exist for."""


@dataclass(frozen=True)
class CEC2005:
    """One of the functions, the same for all agents, to be minimised.

    Attributes:
        agents: the number of agents, at least 1.
        function: F1 to F20.
        dimension: 2, 10, 30 or 50.
        data_dir: the folder of the data sets, or None for the user's cache.

    Raises:
        ConfigError: if a setting is out of range.
    """

    agents: int = 10
    function: Name = "F1"
    dimension: Dimension = 10
    data_dir: Path | None = None

    def __post_init__(self) -> None:
        names, sizes = get_args(Name), get_args(Dimension)
        require(self.agents >= 1, "scenario.agents", "at least 1", self.agents)
        require(self.function in names, "scenario.function", "F1 to F20", self.function)
        expected = "2, 10, 30 or 50"
        require(self.dimension in sizes, "scenario.dimension", expected, self.dimension)

    @cached_property
    def space(self) -> Space:
        """The coordinates ``x1``, ..., ``xD``, all with the function's box."""
        return box(*DEFINITIONS[self.function].box, self.dimension)

    @property
    def direction(self) -> Literal["minimize"]:
        """Smaller values are better."""
        return "minimize"

    def objective(self, agent: AgentId) -> CECObjective:
        """Return the function.

        Raises:
            MissingDataError: if the data set is missing.
            ConfigError: if its checksum is wrong.
        """
        definition = DEFINITIONS[self.function]
        return CECObjective(self._function, definition.bias, definition.noise)

    def optimum(self, agent: AgentId) -> float:
        """Return the function's smallest value, its bias."""
        return DEFINITIONS[self.function].bias

    @cached_property
    def _function(self) -> Function:
        with np.load(locate("cec2005", self.data_dir)) as tables:
            return make_function(self.function, self.dimension, tables)


@dataclass(frozen=True)
class CECObjective:
    """A function of ``x1``, ..., ``xD``, with its noise.

    Attributes:
        function: without noise.
        bias: its smallest value, where there is no noise.
        noise: the factor of |N(0, 1)|; 0 for a function without noise.
    """

    function: Function
    bias: float
    noise: float

    def __call__(self, point: Mapping[str, Value], rng: np.random.Generator) -> Evaluation:
        """Evaluate the function; ``rng`` draws the noise."""
        exact = float(self.function(row_of(point))[0])
        if not self.noise:
            return Evaluation(exact, exact)
        factor = 1.0 + self.noise * abs(rng.standard_normal())
        return Evaluation((exact - self.bias) * factor + self.bias, exact)
