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
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from fedsim.errors import ConfigError, RunError, require
from fedsim.methods.own_law import OwnLaw
from fedsim.methods.shared_mean import SharedMean
from fedsim.methods.shared_work import SharedWork, grid_indices
from fedsim.methods.warped_search import maximise_path
from fedsim.protocol import Observation
from fedsim.rng import Keys
from fedsim.space import Array
from fedsim.surrogates.exact_gp import condition
from fedsim.surrogates.fit import Hyperparameters, best_variance, fit
from fedsim.surrogates.kernels import Kernel
from fedsim.surrogates.paths import feature_count, sample_on_grid, sample_path
from fedsim.surrogates.prior_mean import residual, sample_around
from fedsim.surrogates.scaling import mean_of, standardised
from fedsim.surrogates.shared_scales import ScaleVectors, SharedScales
from fedsim.surrogates.trend import trend_of
from fedsim.surrogates.warping import Warp, choice_size, choose_warp, identity

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
        warp: ``own``: the agent chooses the most likely scale of each number from its own history,
            see :mod:`fedsim.surrogates.warping`; not without fits. ``none``: scales stay as the
            space has them.
        trend: ``smooth``: low polynomials are added to the kernel, see
            :mod:`fedsim.surrogates.trend`; ``none``: nothing is.
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
    warp: Literal["none", "own"] = "none"
    trend: Literal["none", "smooth"] = "none"

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
        for name, one, other in (
            ("mean", "zero", "observed"),
            ("warp", "none", "own"),
            ("trend", "none", "smooth"),
        ):
            valid = getattr(self, name) in (one, other)
            self._require(valid, name, f"{one!r} or {other!r}")
        if self.warp == "own" and not self.fit_every:
            raise ConfigError(
                "method.surrogate.fit_every: expected at least 1, as method.surrogate.warp is "
                "'own', got 0"
            )
        Kernel(self.kernel, (self.length_scale,), self.variance)  # checks the family

    def _require(self, valid: bool, name: str, expected: str) -> None:
        require(valid, f"method.surrogate.{name}", expected, getattr(self, name))


class LocalModel:
    """One agent's history and the Gaussian process on it.

    Args:
        settings: of the Gaussian process and of the maximisation.
        shared: the process's shared work; knows the search space.
        level: the prior mean that ``zero`` stands for.
    """

    def __init__(
        self, settings: LocalModelSettings, shared: SharedWork, level: float = 0.0
    ) -> None:
        self._settings = settings
        self._level = level
        self._shared = shared
        self._inputs = np.empty((0, shared.space.dimension))
        self._outputs = np.empty(0)
        self._trend = trend_of(shared.space) if settings.trend == "smooth" else None
        self._warp: tuple[int, Warp] = (0, identity(shared.space.dimension))
        self._scales: tuple[SharedScales, float] | None = None
        self._fitted: tuple[int, Warp, Hyperparameters] | None = None
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
        warp = self.warp()
        if self._fitted is None or self._fitted[:2] != (size, warp):
            self._fitted = (size, warp, self._fit(size, warp))
        return self._fitted[2]

    def fitted(self) -> Hyperparameters:
        """Return what a fit to all of the history leads to."""
        n, s = len(self._outputs), self._settings
        due = s.fit_every and n % s.fit_every == 0
        return self.hyperparameters() if due else self._fit(n, self.warp())

    def scale_vector(self, vectors: ScaleVectors) -> Array:
        """Return what the history says about the scales, shape (K,)."""
        s, y = self._settings, self._standardised(len(self._outputs))
        return vectors.vector(s.kernel, s.ard, self._inputs, y, self._trend)

    def use_scales(self, scales: SharedScales | None, weight: float) -> None:
        """From now on, use what all agents together know about the scales.

        Without a warp of its own, or before there are observations enough to choose it from, the
        agent uses the common warp.

        Args:
            scales: what is known; None: nothing.
            weight: of all agents' average beside the own history.
        """
        given = None if scales is None else (scales, weight)
        if given != self._scales:
            self._scales, self._prepared = given, None
            self._warp = (-1, self._warp[1])  # to be chosen again

    def warp(self) -> Warp:
        """Return the current warp: the one that was chosen at this length of the history."""
        size = choice_size(len(self._outputs)) if self._settings.warp == "own" else 0
        if self._warp[0] != size:
            self._warp = (size, self._choose_warp(size))
        return self._warp[1]

    def propose(self, keys: Keys, mean: SharedMean | None = None) -> Array:
        """Return the maximiser of one posterior sample, shape (D,).

        Args:
            keys: for the draws.
            mean: a prior mean, see :mod:`fedsim.surrogates.prior_mean`; None: none.

        Raises:
            RunError: if the kernel matrix is not positive definite.
            ConfigError: if the space is a grid and the history has points off it.
        """
        if mean is not None:
            return self._propose_around(mean, keys)
        self.prepare(keys)
        assert self._prepared is not None
        return self._prepared[1]

    def prepare(self, keys: Keys) -> None:
        """Compute what :meth:`propose` will return without a mean, if not done yet."""
        if self._prepared is None or self._prepared[0] != keys:
            self._prepared = (keys, self._propose(keys))

    def law(self) -> OwnLaw:
        """Return the law of the own function, given the history.

        Raises:
            RunError: if the kernel matrix is not positive definite.
        """
        s, space, warp = self._settings, self._shared.space, self.warp()
        current = self.hyperparameters()
        kernel = replace(current.kernel, variance=1.0)
        noise = current.noise_variance / current.kernel.variance
        y = self._in_units()
        inputs = space.embed(warp.forward(self.inputs))
        posterior = condition(kernel, noise, inputs, y, basis=self._trend)
        if s.fit_every and y.any():
            deviation = math.sqrt(best_variance(posterior.misfit(y), len(y)))
            posterior, y = replace(posterior, weights=posterior.weights / deviation), y / deviation
        columns = Warp(tuple(np.repeat(warp.strengths, space.embedded_widths).tolist()))
        return OwnLaw(posterior, y, columns)

    def _propose(self, keys: Keys) -> Array:
        s, space, warp = self._settings, self._shared.space, self.warp()
        current, generator = self.hyperparameters(), keys("posterior-sample")
        # In units of the prior's standard deviation, or if that is fitted of the outputs' spread.
        kernel = replace(current.kernel, variance=1.0)
        noise = current.noise_variance / current.kernel.variance
        y = self._in_units()
        factor, beta = self._shared.grid_factor(kernel, warp, self._trend), s.beta
        if s.fit_every or factor is None:
            inputs = space.embed(warp.forward(self.inputs))
            posterior = condition(kernel, noise, inputs, y, basis=self._trend)
        if s.fit_every and y.any():
            beta *= math.sqrt(best_variance(posterior.misfit(y), len(y)))
        if factor is not None:
            observed = grid_indices(space, self.inputs)
            sample = sample_on_grid(factor, observed, y, noise, beta, generator)
            assert space.grid is not None
            best: Array = space.grid[int(np.argmax(sample))]
            return best
        path = sample_path(posterior, s.path_features or feature_count(noise), beta, generator)
        return maximise_path(
            self._shared, path, warp, keys, candidates=s.candidates, starts=s.starts
        )

    def _propose_around(self, mean: SharedMean, keys: Keys) -> Array:
        s, space, warp, trend = self._settings, self._shared.space, self.warp(), self._trend
        current, generator = self.hyperparameters(), keys("posterior-sample")
        kernel = replace(current.kernel, variance=1.0)
        noise, y = current.noise_variance / current.kernel.variance, self._in_units()
        inputs, variance = space.embed(warp.forward(self.inputs)), 1.0
        if s.fit_every and y.any():
            posterior = condition(kernel, noise, inputs, y, basis=trend)
            variance = best_variance(posterior.misfit(y), len(y)) or 1.0
        level = None if s.mean == "observed" else self._level
        unit = None if s.fit_every else math.sqrt(s.variance)
        basis = mean.basis(space, warp, self.inputs, self.outputs, level, unit)
        left = residual(basis, kernel, trend, inputs, y, variance, noise * variance)
        factor = self._shared.grid_factor(kernel, warp, trend)
        if factor is not None:
            assert space.grid is not None
            assert mean.on_grid is not None
            observed, added = grid_indices(space, self.inputs), left.mean.of(mean.on_grid)
            sample = added[:, 0] + sample_on_grid(
                factor, observed, left.outputs, left.noise, s.beta, generator, added
            )
            best: Array = space.grid[int(np.argmax(sample))]
            return best
        path = sample_around(left, kernel, trend, inputs, s.path_features, s.beta, generator)
        return maximise_path(
            self._shared, path, warp, keys, candidates=s.candidates, starts=s.starts
        )

    def _choose_warp(self, size: int) -> Warp:
        s, y, space = self._settings, self._standardised(size), self._shared.space
        if not y.any():
            return self._scales[0].common() if self._scales else identity(space.dimension)
        doubt = self._scales[0].doubt(self._scales[1]) if self._scales else None
        return choose_warp(space, s.kernel, s.ard, self.inputs[:size], y, self._trend, doubt)

    def _fit(self, size: int, warp: Warp) -> Hyperparameters:
        s, y = self._settings, self._standardised(size)
        if not y.any():  # no outputs, or equal ones, cannot be fitted
            kernel = Kernel(s.kernel, (s.length_scale,), s.variance)
            return Hyperparameters(kernel, s.noise_variance)
        space = self._shared.space
        inputs = space.embed(warp.forward(self.inputs[:size]))
        return fit(s.kernel, s.ard, inputs, y, space.embedded_widths, self._trend)

    def _in_units(self) -> Array:
        """Return the outputs, minus the prior mean, in units that the model can work with."""
        if self._settings.fit_every:
            return self._standardised(len(self._outputs))
        return self._in_prior_units()

    def _standardised(self, size: int) -> Array:
        """Return the first outputs, minus the prior mean, in units of their spread."""
        y = self._outputs[:size]
        if self._settings.mean == "observed":
            return standardised(y)
        return standardised(y - self._level, centred=False)

    def _in_prior_units(self) -> Array:
        """Return the outputs, minus the prior mean, in units of the prior's standard deviation.

        Raises:
            RunError: if they are too large for that.
        """
        s, y = self._settings, self._outputs
        with np.errstate(over="ignore", invalid="ignore"):
            centre = mean_of(y) if s.mean == "observed" else self._level
            scaled: Array = (y - centre) / math.sqrt(s.variance)
            largest = np.abs(scaled).max(initial=0.0)
        if not largest <= _LARGEST:
            raise RunError(
                f"method.surrogate.variance: expected the prior variance of the outputs, got "
                f"{s.variance:g} for outputs of up to {np.abs(y).max():g}; use about their "
                "variance, or let it be fitted (fit_every above 0)"
            )
        return scaled
