"""A client's own Gaussian process in FBO-FedGP, and the settings of all of its Gaussian processes.

For the method, see :mod:`fedsim.methods.fbo_fedgp`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from fedsim.errors import require
from fedsim.methods.local_model import LocalModel, LocalModelSettings
from fedsim.methods.shared_work import SharedWork
from fedsim.protocol import Observation
from fedsim.space import Array
from fedsim.surrogates.exact_gp import ExactGP, condition
from fedsim.surrogates.fit import NOISE_RATIO_BOUNDS, best_variance
from fedsim.surrogates.kernels import Kernel
from fedsim.surrogates.scaling import standardised


@dataclass(frozen=True, slots=True)
class SurrogateSettings:
    """The Gaussian processes: the global one, and each client's own.

    Attributes:
        kernel: the covariance function's family.
        ard: one length scale per parameter instead of one for all.
        length_scale: in unit-cube coordinates, until the first fit or without fits; None: a quarter
            of the cube's diagonal, sqrt(D) / 4.
        noise_ratio: noise variance over the prior's, until the first fit or without fits; above 0.
        noise_floor: the least noise ratio of the global model, above 0, at most 10; public,
            as the fixed point of the encrypted sum follows from it.
        fit_every: clients refit their own at multiples of this many observations; 0: never.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    kernel: Literal["squared_exponential", "matern52"] = "matern52"
    ard: bool = False
    length_scale: float | None = None
    noise_ratio: float = 1e-3
    noise_floor: float = 1e-4
    fit_every: int = 5

    def __post_init__(self) -> None:
        where = "method.surrogate"
        for name in ("length_scale", "noise_ratio", "noise_floor"):
            value = getattr(self, name)
            valid = value is None or 0 < value < math.inf
            require(valid, f"{where}.{name}", "a number above 0", value)
        floor, most = self.noise_floor, NOISE_RATIO_BOUNDS[1]
        require(floor <= most, f"{where}.noise_floor", f"at most {most:g}", floor)
        require(self.fit_every >= 0, f"{where}.fit_every", "at least 0", self.fit_every)
        Kernel(self.kernel, (1.0,), 1.0)  # checks the family


class OwnModel:
    """One client's history and its Gaussian process.

    Args:
        settings: of the Gaussian process.
        length_scale: until the first fit.
        shared: the process's shared work; knows the search space.
    """

    def __init__(
        self, settings: SurrogateSettings, length_scale: float, shared: SharedWork
    ) -> None:
        self._space = shared.space
        local = LocalModelSettings(
            kernel=settings.kernel,
            ard=settings.ard,
            length_scale=length_scale,
            noise_variance=settings.noise_ratio,
            fit_every=settings.fit_every,
        )
        self._model = LocalModel(local, shared)

    @property
    def inputs(self) -> Array:
        """The queried points in order, shape (n, D)."""
        return self._model.inputs

    @property
    def outputs(self) -> Array:
        """The observed outputs in order, shape (n,)."""
        return self._model.outputs

    def observe(self, observations: Sequence[Observation]) -> None:
        """Add evaluations to the history."""
        self._model.observe(observations)

    def fitted(self) -> Array | None:
        """Return the logarithms of length scales and noise ratio fitted to all data, (p + 1,).

        None if nothing can be fitted: no, or only equal, outputs.
        """
        y = self.outputs
        if not len(y) or y.min() == y.max():
            return None
        current = self._model.fitted()
        ratio = current.noise_variance / current.kernel.variance
        return np.log([*current.kernel.length_scales, ratio])

    def posterior(self) -> ExactGP:
        """Return the posterior, centred and in units of the prior's standard deviation.

        The prior's variance is the most likely one.

        Raises:
            RunError: if the kernel matrix is not positive definite.
        """
        current, y = self._model.hyperparameters(), standardised(self.outputs)
        kernel = replace(current.kernel, variance=1.0)
        ratio = current.noise_variance / current.kernel.variance
        posterior = condition(kernel, ratio, self._space.embed(self.inputs), y)
        if not y.any():
            return posterior
        deviation = math.sqrt(best_variance(posterior.misfit(y), len(y)))
        return replace(posterior, weights=posterior.weights / deviation)
