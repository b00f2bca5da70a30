"""Classic test functions, shifted and rotated by the seed: no data, any number of dimensions.

The functions are in :mod:`fedsim.scenarios.classics`. An agent's function at x is the classic one
at z = R (x - o) + z*, where z* is the classic one's minimum, o the agent's own minimum, and R a
rotation that all agents share. So its smallest value is known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np

from fedsim.errors import require
from fedsim.protocol import AgentId
from fedsim.rng import SERVER, rng
from fedsim.scenarios import classics
from fedsim.scenarios.boxes import box, row_of
from fedsim.scenarios.cec_functions import Base
from fedsim.space import Array, Space, Value
from fedsim.workload import Evaluation

Classic = Literal[
    "sphere",
    "ellipsoid",
    "rosenbrock",
    "rastrigin",
    "griewank",
    "ackley",
    "schwefel",
    "levy",
    "michalewicz",
]

_BOXES: Mapping[Classic, tuple[float, float]] = {
    "sphere": (-5.12, 5.12),
    "ellipsoid": (-5.12, 5.12),
    "rosenbrock": (-2.048, 2.048),
    "rastrigin": (-5.12, 5.12),
    "griewank": (-600.0, 600.0),
    "ackley": (-32.768, 32.768),
    "schwefel": (-500.0, 500.0),
    "levy": (-10.0, 10.0),
    "michalewicz": (0.0, math.pi),
}

_MARGIN = 0.1
"""No minimum is nearer to the border than this share of the box."""


@dataclass(frozen=True)
class Functions:
    """A classic test function, to be minimised.

    Attributes:
        agents: the number of agents, at least 1.
        function: which one.
        dimension: D, at least 1; of ``rosenbrock``, at least 2.
        rotated: False: R is the identity, and separable functions remain so.
        shared: True: all agents have the same function. False: each has its own minimum.
        heterogeneity: how different the agents' minima are if not ``shared``, in [0, 1]: 0 makes
            all alike, 1 makes them independent.
        noise_variance: of the Gaussian observation noise, at least 0.
        seed: the run's seed; equal seeds give equal functions.

    Raises:
        ConfigError: if a setting is out of range.
    """

    agents: int = 10
    function: Classic = "ackley"
    dimension: int = 10
    rotated: bool = True
    shared: bool = True
    heterogeneity: float = 0.2
    noise_variance: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        names, least = get_args(Classic), 2 if self.function == "rosenbrock" else 1
        expected = f"one of {', '.join(names)}"
        require(self.function in names, "scenario.function", expected, self.function)
        require(self.agents >= 1, "scenario.agents", "at least 1", self.agents)
        expected = f"at least {least} ({self.function})"
        require(self.dimension >= least, "scenario.dimension", expected, self.dimension)
        fits = 0 <= self.heterogeneity <= 1
        require(fits, "scenario.heterogeneity", "0 to 1", self.heterogeneity)
        fits = 0 <= self.noise_variance < math.inf
        expected = "finite and at least 0"
        require(fits, "scenario.noise_variance", expected, self.noise_variance)

    @cached_property
    def space(self) -> Space:
        """The coordinates ``x1``, ..., ``xD``, all with the function's usual box."""
        return box(*_BOXES[self.function], self.dimension)

    @property
    def direction(self) -> Literal["minimize"]:
        """Smaller values are better."""
        return "minimize"

    def objective(self, agent: AgentId) -> ClassicObjective:
        """Return the agent's function."""
        base: Base = getattr(classics, self.function)
        scale = math.sqrt(self.noise_variance)
        return ClassicObjective(base, self.minimiser(agent), self._origin, self._rotation, scale)

    def optimum(self, agent: AgentId) -> float:
        """Return the smallest value."""
        base: Base = getattr(classics, self.function)
        return float(base(self._origin[None])[0])

    def minimiser(self, agent: AgentId) -> Array:
        """Return where an agent's function is smallest, shape (D,)."""
        shared = self._draw(SERVER)
        if self.shared:
            return shared
        return shared + self.heterogeneity * (self._draw(agent) - shared)

    def _draw(self, agent: AgentId) -> Array:
        """Return a point that is not near the border, shape (D,)."""
        lower, upper = _BOXES[self.function]
        u = rng(self.seed, "classic minimum", agent, 0).uniform(
            _MARGIN, 1.0 - _MARGIN, self.dimension
        )
        return np.asarray(lower + u * (upper - lower))

    @cached_property
    def _origin(self) -> Array:
        """The classic function's minimum z*, shape (D,)."""
        if self.function == "michalewicz":
            return np.array(classics.michalewicz_minimiser(self.dimension))
        return np.full(self.dimension, 1.0 if self.function in ("rosenbrock", "levy") else 0.0)

    @cached_property
    def _rotation(self) -> Array:
        """R, shape (D, D): uniform among all rotations and reflections, or the identity."""
        if not self.rotated:
            return np.eye(self.dimension)
        normal = rng(self.seed, "classic rotation", SERVER, 0).standard_normal(
            (self.dimension, self.dimension)
        )
        q, r = np.linalg.qr(normal)
        return np.asarray(q * np.sign(np.diag(r)))


@dataclass(frozen=True)
class ClassicObjective:
    """A shifted and rotated function of ``x1``, ..., ``xD`` plus Gaussian noise.

    Attributes:
        base: the classic function.
        minimiser: o, shape (D,).
        origin: z*, shape (D,).
        rotation: R, shape (D, D).
        noise_scale: standard deviation of the observation noise.
    """

    base: Base
    minimiser: Array
    origin: Array
    rotation: Array
    noise_scale: float

    def __call__(self, point: Mapping[str, Value], rng: np.random.Generator) -> Evaluation:
        """Evaluate the function; ``rng`` draws the noise."""
        exact = float(self.values(row_of(point))[0])
        if not self.noise_scale:
            return Evaluation(exact, exact)
        return Evaluation(exact + self.noise_scale * rng.standard_normal(), exact)

    def values(self, X: Array) -> Array:
        """Return the values without noise at points X (n, D), shape (n,)."""
        return self.base((X - self.minimiser) @ self.rotation.T + self.origin)
