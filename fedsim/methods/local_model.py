"""An agent's own surrogate: a Gaussian process on its own history, for Thompson sampling.

Paper: DP-FTS-DE (Dai, Low and Jaillet, NeurIPS 2021), Alg. 2, line 6: maximise
f ~ GP(mu, beta^2 sigma^2) given the agent's observations.

Deviations: beta is a constant (default 1), not the theorem's schedule. The prior mean is by
default the mean of the agent's outputs (the paper's: zero), and hyper-parameters are by default
fitted. On a grid a sample is exact and compared at every point, where the grid's factor is not too
large (:data:`fedsim.surrogates.paths.GRID_WORK`). On any other space all agents compare their
samples at the step's shared candidates, 400 by default (App. B.2.6: 1000 of their own), and climb
from the best. A proposal that repeats an earlier query is
kept: observations are noisy, so a repeated one is informative.

The model is a function of settings and history alone. Length scales and the ratio of noise to
variance are refitted whenever the history's length is a multiple of ``fit_every``, from that part
of the history and fixed starting points, so an agent rebuilt from its history is the same agent.
The variance, whose best value is known in closed form, follows the outputs at every query. So the
queries do not depend on the outputs' units, and one huge output does not outlast its explanation.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, Literal, TypeVar

import numpy as np

from fedsim.acquisition import Piece, draw_candidates, maximize, whole_cube
from fedsim.errors import ConfigError, RunError, require
from fedsim.protocol import Observation
from fedsim.rng import SERVER, Keys, rng
from fedsim.space import Array, Space
from fedsim.space.cells import Indices
from fedsim.surrogates.exact_gp import best_variance, condition
from fedsim.surrogates.fit import Hyperparameters, fit
from fedsim.surrogates.kernels import Kernel
from fedsim.surrogates.paths import feature_count, grid_factor, sample_on_grid, sample_path
from fedsim.surrogates.scaling import mean_of, standardised

Result = TypeVar("Result")

_LARGEST = 1e150
"""Largest outputs in units of a given prior standard deviation: nothing overflows below."""


@dataclass(frozen=True, slots=True)
class LocalModelSettings:
    """Settings of an agent's own Gaussian process.

    Attributes:
        kernel: the covariance function's family.
        ard: fit one length scale per parameter instead of one for all.
        length_scale: in unit-cube coordinates; used until the first fit.
        variance: prior variance of the objective, in the outputs' units; used without fits.
        noise_variance: variance of the observation noise, in the outputs' units; its ratio to
            ``variance`` is used until the first fit.
        fit_every: refit at multiples of this many observations; 0: never, keep the values above.
        mean: the prior mean: ``zero``, or the mean of the agent's ``observed`` outputs.
        beta: multiplies the posterior standard deviation of a sample.
        candidates: the number of points at which a sample is evaluated, before refinement.
        starts: how many of the best are refined.
        path_features: random Fourier features of a sample's prior part; None: by the noise, see
            :func:`fedsim.surrogates.paths.feature_count`.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    kernel: Literal["squared_exponential", "matern52"] = "squared_exponential"
    ard: bool = False
    length_scale: float = 0.2
    variance: float = 1.0
    noise_variance: float = 1e-3
    fit_every: int = 5
    mean: Literal["zero", "observed"] = "observed"
    beta: float = 1.0
    candidates: int = 400
    starts: int = 4
    path_features: int | None = None

    def __post_init__(self) -> None:
        for name in ("length_scale", "variance", "noise_variance"):
            value = getattr(self, name)
            self._require(0 < value < math.inf, name, "a number above 0")
        self._require(0 <= self.beta < math.inf, "beta", "a number of at least 0")
        expected = "a number of observations, or 0 for no fits"
        self._require(self.fit_every >= 0, "fit_every", expected)
        for name in ("candidates", "starts", "path_features"):
            count = getattr(self, name)
            self._require(count is None or count >= 1, name, "at least 1")
        if self.mean not in ("zero", "observed"):
            raise ConfigError(
                f"method.surrogate.mean: expected 'zero' or 'observed', got {self.mean!r}"
            )
        Kernel(self.kernel, (self.length_scale,), self.variance)  # checks the family

    def _require(self, valid: bool, name: str, expected: str) -> None:
        require(valid, f"method.surrogate.{name}", expected, getattr(self, name))


class Memo(Generic[Result]):
    """A cache of a pure function's most recent results, keyed by what they depend on.

    It saves work for agents that share a process, and never changes a result.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._results: OrderedDict[Hashable, Result] = OrderedDict()

    def get(self, key: Hashable, compute: Callable[[], Result]) -> Result:
        """Return the result for ``key``, an array read-only; compute it if needed."""
        if key not in self._results:
            result = compute()
            if isinstance(result, np.ndarray):
                result.setflags(write=False)
            self._results[key] = result
            if len(self._results) > self._size:
                self._results.popitem(last=False)
        self._results.move_to_end(key)
        return self._results[key]


class SharedWork:
    """Work shared by the agents of one process; a method object owns one.

    Args:
        space: the search space.
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self._candidates: Memo[Array] = Memo(2)
        self._factors: Memo[Array] = Memo(16)

    def candidates(self, seed: int, step: int, count: int) -> Array:
        """Return points to compare, the same for all agents, shape (count, D).

        Args:
            seed: the run's seed.
            step: the agent's own step for its own model, which is all that it knows when it
                prepares; the round for what all agents of a round maximise together.
            count: how many; on a grid, all of its points are returned.
        """

        def draw() -> Array:
            return draw_candidates(self.space, count, rng(seed, "candidates", SERVER, step))

        return self._candidates.get((seed, step, count), draw)

    def grid_factor(self, kernel: Kernel) -> Array | None:
        """Return the factor of the grid's kernel matrix, shape (points, rank).

        None if the space is no grid, or its factor with this kernel is too large.
        """
        grid = self.space.grid
        if grid is None:
            return None

        def factorise() -> Array:
            factor = grid_factor(kernel, self.space.embed(grid))
            return np.empty((0, 0)) if factor is None else factor

        found = self._factors.get(kernel, factorise)
        return found if len(found) else None


class LocalModel:
    """One agent's history and the Gaussian process on it.

    Args:
        settings: of the Gaussian process and of the maximisation.
        shared: the process's shared work; knows the search space.
    """

    def __init__(self, settings: LocalModelSettings, shared: SharedWork) -> None:
        self._settings = settings
        self._shared = shared
        self._inputs = np.empty((0, shared.space.dimension))
        self._outputs = np.empty(0)
        self._fitted: tuple[int, Hyperparameters] | None = None
        self._prepared: tuple[Keys, Array] | None = None

    @property
    def inputs(self) -> Array:
        """The queried points in order, shape (n, D)."""
        return self._inputs

    @property
    def outputs(self) -> Array:
        """The observed outputs in order, shape (n,)."""
        return self._outputs

    def observe(self, observations: Sequence[Observation]) -> None:
        """Add evaluations to the history."""
        self._prepared = None
        self._inputs = np.vstack([self._inputs, *(o.u for o in observations)])
        self._outputs = np.append(self._outputs, [o.y for o in observations])

    def hyperparameters(self) -> Hyperparameters:
        """Return the current values: those of the last fit at this length of the history.

        They are in units of the outputs' spread then, else as the settings say.
        """
        s, n = self._settings, len(self._outputs)
        size = n - n % s.fit_every if s.fit_every else 0
        if self._fitted is None or self._fitted[0] != size:
            self._fitted = (size, self._fit(size))
        return self._fitted[1]

    def fitted(self) -> Hyperparameters:
        """Return what a fit to all of the history leads to."""
        n, s = len(self._outputs), self._settings
        due = s.fit_every and n % s.fit_every == 0
        return self.hyperparameters() if due else self._fit(n)

    def propose(self, keys: Keys) -> Array:
        """Return the maximiser of one posterior sample, shape (D,).

        Raises:
            RunError: if the kernel matrix is not positive definite.
            ConfigError: if the space is a grid and the history has points off it.
        """
        self.prepare(keys)
        assert self._prepared is not None
        return self._prepared[1]

    def prepare(self, keys: Keys) -> None:
        """Compute what :meth:`propose` will return, if not done yet; errors as there."""
        if self._prepared is None or self._prepared[0] != keys:
            self._prepared = (keys, self._propose(keys))

    def _propose(self, keys: Keys) -> Array:
        s, space = self._settings, self._shared.space
        current, generator = self.hyperparameters(), keys("posterior-sample")
        # In units of the prior's standard deviation, or if that is fitted of the outputs' spread.
        kernel = replace(current.kernel, variance=1.0)
        noise = current.noise_variance / current.kernel.variance
        y = self._standardised(len(self._outputs)) if s.fit_every else self._in_prior_units()
        factor, beta = self._shared.grid_factor(kernel), s.beta
        if s.fit_every or factor is None:
            posterior = condition(kernel, noise, space.embed(self.inputs), y)
        if s.fit_every and y.any():
            beta *= math.sqrt(best_variance(posterior, y))
        if factor is not None:
            observed = grid_indices(space, self.inputs)
            sample = sample_on_grid(factor, observed, y, noise, beta, generator)
            assert space.grid is not None
            best: Array = space.grid[int(np.argmax(sample))]
            return best
        path = sample_path(posterior, s.path_features or feature_count(noise), beta, generator)
        candidates = self._shared.candidates(keys.seed, keys.step, s.candidates)
        piece = Piece(whole_cube(space.dimension), path)
        ranking = path.ranking(space.embed(candidates))
        u, _ = maximize(space, (piece,), candidates, starts=s.starts, ranking=ranking)
        return u

    def _fit(self, size: int) -> Hyperparameters:
        s, y = self._settings, self._standardised(size)
        if not y.any():  # no outputs, or equal ones, cannot be fitted
            kernel = Kernel(s.kernel, (s.length_scale,), s.variance)
            return Hyperparameters(kernel, s.noise_variance)
        space = self._shared.space
        return fit(s.kernel, s.ard, space.embed(self.inputs[:size]), y, space.embedded_widths)

    def _standardised(self, size: int) -> Array:
        """Return the first outputs, minus the prior mean, in units of their spread."""
        return standardised(self._outputs[:size], centred=self._settings.mean == "observed")

    def _in_prior_units(self) -> Array:
        """Return the outputs, minus the prior mean, in units of the prior's standard deviation.

        Raises:
            RunError: if they are too large for that.
        """
        s, y = self._settings, self._outputs
        with np.errstate(over="ignore", invalid="ignore"):
            centre = mean_of(y) if s.mean == "observed" else 0.0
            scaled: Array = (y - centre) / math.sqrt(s.variance)
            largest = np.abs(scaled).max(initial=0.0)
        if not largest <= _LARGEST:
            raise RunError(
                f"method.surrogate.variance: expected the prior variance of the outputs, got "
                f"{s.variance:g} for outputs of up to {np.abs(y).max():g}; use about their "
                "variance, or let it be fitted (fit_every above 0)"
            )
        return scaled


def grid_indices(space: Space, inputs: Array) -> Indices:
    """Return the indices of ``inputs`` (n, D) in ``space.grid``, shape (n,).

    Raises:
        ConfigError: if one is not on the grid.
    """
    indices = space.grid_indices(inputs)
    assert space.grid is not None
    if not np.allclose(space.grid[indices], inputs, rtol=0.0, atol=1e-9):
        raise ConfigError("surrogate: expected observations on the space's grid, got one off it")
    return indices
