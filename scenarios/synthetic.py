"""Functions drawn from a Gaussian process on a grid: the papers' synthetic workload.

Sources: Dai, Low and Jaillet, "Differentially private federated Bayesian optimization with
distributed exploration" (DP-FTS-DE), Apps. B.1.1 and B.1.2; "Federated Bayesian optimization
via Thompson sampling" (FTS), App. D.1.

Notation: n grid points x_i = i / (n - 1); m >= n points of a circle that contains the grid;
c, shape (m,), covariances of the circle's first point with all of its points; lambda, shape
(m // 2 + 1,), the eigenvalues of the circulant covariance matrix, which are the discrete Fourier
transform of c.

Deviations: more than one dimension is ours. The papers do not say how they draw from the process.
Here it is done by circulant embedding, which is exact and needs neither jitter nor a linear algebra
library (Dietrich and Newsam, "Fast and exact simulation of stationary Gaussian processes through
circulant embedding of the covariance matrix", 1997). In more dimensions the kernel is the product
of its values along the axes, so the covariance's root is the Kronecker product of theirs: white
noise is multiplied by an axis's root along every axis.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from fedsim.errors import ConfigError, require
from fedsim.protocol import AgentId
from fedsim.rng import SERVER, rng
from fedsim.space import Array, Parameter, Space, Value
from fedsim.space.space import GRID_POINTS
from fedsim.workload import Evaluation

_REACH = 9.0
"""Length scales after which the kernel, exp(-40.5), is below the rounding of 1."""


@dataclass(frozen=True)
class Synthetic:
    """Related functions on a grid of [0, 1]^D, to be maximised.

    All agents start from one function with values in [0, 1]. There are two ways to make them
    differ; exactly one is used:

    - ``perturbation`` d: +d or -d, with equal probability, is added at every grid point; with
      several d, agent n has the one with the number n modulo their number (FTS: d_n);
    - ``mixture`` alpha: ``alpha * own + (1 - alpha) * shared``, where ``own`` is the agent's own
      draw with values in [0, 1]. 0 makes all agents alike, 1 makes them independent.

    Attributes:
        agents: the number of agents, at least 1.
        dimension: D, at least 1.
        grid_size: the number of grid points along every axis, at least 2. With ``dimension`` above
            1, the grid has at most 16,384 points in all.
        length_scale: of the squared exponential kernel, in (0, 1].
        noise_variance: of the Gaussian observation noise, at least 0.
        perturbation: d, at least 0, or several, or None if ``mixture`` is set.
        mixture: alpha, in [0, 1], or None if ``perturbation`` is set.
        unchanged: agents that have the shared function itself, in either way; FTS: the target.
        seed: the run's seed; equal seeds give equal functions.
    """

    agents: int = 200
    dimension: int = 1
    grid_size: int = 1000
    length_scale: float = 0.03
    noise_variance: float = 0.01
    perturbation: float | tuple[float, ...] | None = 0.02
    mixture: float | None = None
    unchanged: tuple[int, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ConfigError: if a setting is out of range, not exactly one of ``perturbation`` and
                ``mixture`` is set, or there is no agent of a number in ``unchanged``.
        """
        _require(self.agents >= 1, "agents", "at least 1", self.agents)
        _require(self.dimension >= 1, "dimension", "at least 1", self.dimension)
        _require(self.grid_size >= 2, "grid_size", "at least 2", self.grid_size)
        most = GRID_POINTS.bit_length() - 1
        _require(self.dimension <= most, "dimension", f"at most {most}", self.dimension)
        if self.dimension > 1:
            most = max(n for n in range(129) if n**self.dimension <= GRID_POINTS)
            expected = f"at most {most} with dimension {self.dimension}"
            _require(self.grid_size <= most, "grid_size", expected, self.grid_size)
        _require(0 < self.length_scale <= 1, "length_scale", "in (0, 1]", self.length_scale)
        _require(
            0 <= self.noise_variance < math.inf,
            "noise_variance",
            "finite and at least 0",
            self.noise_variance,
        )
        if (self.perturbation is None) == (self.mixture is None):
            raise ConfigError(
                "scenario: expected exactly one of perturbation and mixture, got "
                f"perturbation {self.perturbation} and mixture {self.mixture}; "
                "set exactly one of them to null"
            )
        if self.perturbation == ():
            raise ConfigError("scenario.perturbation: expected at least one number, got none")
        for perturbation in self._perturbations:
            expected = "finite and at least 0"
            _require(0 <= perturbation < math.inf, "perturbation", expected, perturbation)
        if self.mixture is not None:
            _require(0 <= self.mixture <= 1, "mixture", "in [0, 1]", self.mixture)
        for agent in self.unchanged:
            expected = f"agents of 0 to {self.agents - 1}"
            _require(0 <= agent < self.agents, "unchanged", expected, agent)

    @cached_property
    def space(self) -> Space:
        """A grid of the unit cube: ``x``, or ``x1``, ..., ``xD``; values are unit coordinates."""
        names = [f"x{i}" for i in range(1, self.dimension + 1)] if self.dimension > 1 else ["x"]
        return Space(tuple(Parameter(name, 0.0, 1.0, levels=self.grid_size) for name in names))

    @property
    def direction(self) -> Literal["maximize"]:
        """Larger values are better."""
        return "maximize"

    def objective(self, agent: AgentId) -> GridObjective:
        """Return the agent's function with observation noise."""
        noise_scale = math.sqrt(self.noise_variance)
        return GridObjective(self.values(agent), noise_scale, self.space.names)

    def optimum(self, agent: AgentId) -> float:
        """Return the largest noiseless value on the agent's grid."""
        return float(self.values(agent).max())

    def values(self, agent: AgentId) -> Array:
        """Return the agent's noiseless function on the grid, shape (points,).

        The points are those of the space's grid, in its order: the last axis varies fastest.
        """
        if agent in self.unchanged:
            return self._shared.copy()
        if self.mixture is not None:
            return self.mixture * self._draw(agent) + (1 - self.mixture) * self._shared
        d = self._perturbations[agent % len(self._perturbations)]
        coins = rng(self.seed, "synthetic perturbation", agent, 0).random(self._points)
        return self._shared + np.where(coins < 0.5, d, -d)

    @property
    def _perturbations(self) -> tuple[float, ...]:
        """All d; empty if ``mixture`` is set."""
        if self.perturbation is None:
            return ()
        return self.perturbation if isinstance(self.perturbation, tuple) else (self.perturbation,)

    @cached_property
    def _shared(self) -> Array:
        return self._draw(SERVER)

    @property
    def _points(self) -> int:
        return int(self.grid_size**self.dimension)

    @cached_property
    def _root(self) -> Array:
        make = circulant_root if self.dimension == 1 else axis_root
        return make(self.grid_size, self.length_scale)

    def _draw(self, agent: AgentId) -> Array:
        """Return one draw from the process, scaled to [0, 1], shape (points,)."""
        generator = rng(self.seed, "synthetic function", agent, 0)
        if self.dimension == 1:
            circle = circle_size(self.grid_size, self.length_scale)
            white = generator.standard_normal(circle)
            f = np.fft.irfft(self._root * np.fft.rfft(white), circle)[: self.grid_size]
        else:
            f = generator.standard_normal((self.grid_size,) * self.dimension)
            for _ in range(self.dimension):  # each turn moves the axes on by one
                f = np.tensordot(f, self._root, axes=(0, 0))
            f = f.ravel()
        scaled: Array = (f - f.min()) / (f.max() - f.min())
        return scaled


@dataclass(frozen=True, slots=True)
class GridObjective:
    """A tabulated function on a grid of the unit cube, plus Gaussian noise.

    Attributes:
        values: noiseless values at equally spaced points, the last axis fastest, shape (n^D,).
        noise_scale: standard deviation of the observation noise.
        names: of the D coordinates.
    """

    values: Array
    noise_scale: float
    names: tuple[str, ...]

    def __call__(self, point: Mapping[str, Value], rng: np.random.Generator) -> Evaluation:
        """Evaluate the grid point nearest to ``point``."""
        last = round(len(self.values) ** (1 / len(self.names))) - 1
        index = 0
        for name in self.names:
            index = index * (last + 1) + round(float(point[name]) * last)
        noiseless = float(self.values[index])
        return Evaluation(noiseless + self.noise_scale * rng.standard_normal(), noiseless)


def circle_size(grid_size: int, length_scale: float) -> int:
    """Return the number of points m of a circle on which the embedding is exact.

    Around the far side of the circle, two grid points must be further apart than the kernel
    reaches, so that their covariance is the line's. Half of the circle must be longer than that
    reach, so that the matrix is positive semi-definite.
    """
    reach = math.ceil(_REACH * length_scale * (grid_size - 1))
    needed = max(grid_size + reach, 2 * reach)
    return 1 << (needed - 1).bit_length()  # a power of two, for the speed of the transform


def circulant_root(grid_size: int, length_scale: float) -> Array:
    """Return the square roots of lambda, shape (m // 2 + 1,)."""
    circle = circle_size(grid_size, length_scale)
    steps = np.arange(circle)
    distance = np.minimum(steps, circle - steps) / (grid_size - 1)
    c = np.exp(-0.5 * (distance / length_scale) ** 2)
    # Eigenvalues are non-negative except for rounding, of about 1e-15.
    return np.sqrt(np.maximum(np.fft.rfft(c).real, 0.0))


def axis_root(grid_size: int, length_scale: float) -> Array:
    """Return the symmetric root R of one axis's covariance matrix, R R = K, shape (n, n)."""
    x = np.arange(grid_size) / (grid_size - 1)
    K = np.exp(-0.5 * ((x[:, None] - x) / length_scale) ** 2)
    eigenvalues, axes = np.linalg.eigh(K)
    # Eigenvalues are non-negative except for rounding, of about 1e-15.
    root: Array = (axes * np.sqrt(np.maximum(eigenvalues, 0.0))) @ axes.T
    return root


def _require(valid: bool, setting: str, expected: str, got: float) -> None:
    require(valid, f"scenario.{setting}", expected, got)
