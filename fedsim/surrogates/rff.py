"""Random Fourier features: a finite-dimensional approximation of a kernel, shared by agents.

Paper: Dai, Low and Jaillet, Federated Bayesian Optimization via Thompson Sampling, NeurIPS
2020, Appendix A (after Rahimi and Recht, 2007). DP-FTS-DE (NeurIPS 2021) uses the same.

Symbol   Meaning                                          Shape
S        frequencies s_i, drawn from the spectral density  (M, D)
b        phases, uniform on [0, 2 pi]                      (M,)
phi(x)   [sqrt(2 / M) cos(s_i.x + b_i)]_i, then scaled     (M,)
         so that |phi(x)|^2 is the kernel's variance

Deviations: also offers the Matern-5/2 kernel (its spectral density is a multivariate Student-t
with 5 degrees of freedom), and features without the last scaling, sqrt(2 variance / M)
cos(s_i.x + b_i), whose inner product is the kernel on average: samples of a Gaussian process
prior need them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fedsim.errors import require
from fedsim.space import Array
from fedsim.surrogates.kernels import Kernel

_T = TypeVar("_T", np.float32, np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class RandomFeatures:
    """A draw of random Fourier features.

    Attributes:
        frequencies: S, shape (M, D).
        phases: b, shape (M,).
        variance: the kernel's variance.
        normalised: whether each phi(x) is scaled to norm sqrt(variance).
    """

    frequencies: Array
    phases: Array
    variance: float
    normalised: bool = True

    def matrix(self, U: Array) -> Array:
        """Return phi at the rows of ``U`` (n, D), shape (n, M)."""
        cosines = np.cos(U @ self.frequencies.T + self.phases)
        cosines *= self._deviation * self._scale(cosines)
        return cosines

    def single_sums(self, U: Array, weights: Array) -> Array:
        """Return phi(u)^T weights, shape (n,), with single-precision cosines: ten times faster.

        Only numbers of about the size 1 are in single precision, whatever the units.
        """
        size = float(np.abs(weights).max()) or 1.0
        S, b, w = (a.astype(np.float32) for a in (self.frequencies, self.phases, weights / size))
        cosines = np.cos(U.astype(np.float32) @ S.T + b)
        sums: Array = ((cosines @ w) * self._scale(cosines)[:, 0]).astype(np.float64)
        return self._deviation * size * sums

    def sums_and_gradients(self, U: Array, weights: Array) -> tuple[Array, Array]:
        """Return phi(u)^T weights and its gradient at the rows of ``U`` (n, D).

        With cosines c, f = s c.w / |c| has the gradient -(s / |c|) S^T [sin * (w - c f / (s |c|))];
        without the normalisation, the last term is absent and |c| is a constant.

        Returns:
            Values, shape (n,), and gradients, shape (n, D).
        """
        angles = U @ self.frequencies.T + self.phases
        cosines = np.cos(angles)  # (n, M)
        scale = self._scale(cosines)
        values = (cosines @ weights)[:, None] * scale  # (n, 1)
        pull = np.sin(angles)
        if self.normalised:
            pull *= weights - cosines * (values * scale)
        else:
            pull *= weights
        return self._deviation * values[:, 0], -self._deviation * scale * (pull @ self.frequencies)

    def gradients(self, U: Array, weights: Array) -> Array:
        """Return the gradient of phi(u)^T w at the rows of ``U`` (n, D), shape (n, D).

        Args:
            U: points.
            weights: w of each row, shape (n, M).
        """
        angles = U @ self.frequencies.T + self.phases
        cosines = np.cos(angles)  # (n, M)
        scale = self._scale(cosines)
        pull = weights
        if self.normalised:
            values = (cosines * weights).sum(axis=1, keepdims=True) * scale
            pull = weights - cosines * (values * scale)
        slopes: Array = -self._deviation * scale * ((np.sin(angles) * pull) @ self.frequencies)
        return slopes

    @property
    def _deviation(self) -> float:
        """The kernel's standard deviation s."""
        return math.sqrt(self.variance)

    def _scale(self, cosines: NDArray[_T]) -> NDArray[_T]:
        """Return the factors that turn cosines (n, M) into phi / s, shape (n, 1) or (1, 1)."""
        if self.normalised:
            squared_norms = np.square(cosines).sum(axis=1, keepdims=True)
            scale: NDArray[_T] = np.sqrt(cosines.dtype.type(1.0) / squared_norms)
            return scale
        return np.array([[np.sqrt(2.0 / cosines.shape[1])]], cosines.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class FeatureFunction:
    """The function u -> phi(u)^T weights, with the maximiser's interface.

    Attributes:
        features: phi.
        weights: shape (M,).
    """

    features: RandomFeatures
    weights: Array

    def values(self, U: Array) -> Array:
        """Return the function at the rows of ``U`` (n, D), shape (n,)."""
        return self.features.matrix(U) @ self.weights

    def values_and_gradients(self, U: Array) -> tuple[Array, Array]:
        """Return values, shape (n,), and gradients, shape (n, D)."""
        return self.features.sums_and_gradients(U, self.weights)


def draw_features(
    kernel: Kernel,
    dimension: int,
    count: int,
    generator: np.random.Generator,
    *,
    normalised: bool = True,
) -> RandomFeatures:
    """Draw random Fourier features of a kernel.

    Args:
        kernel: what phi(x)^T phi(x') approximates.
        dimension: D.
        count: the number of features M, at least 1.
        generator: consumed.
        normalised: see :class:`RandomFeatures`.

    Raises:
        ConfigError: if ``count`` is below 1 or the kernel has another dimension.
    """
    require(count >= 1, "features", "at least 1", count)
    frequencies = generator.standard_normal((count, dimension)) / kernel.scales(dimension)
    if kernel.family == "matern52":
        # A Gaussian vector over sqrt(chi^2_5 / 5) has a Student-t distribution, 5 d.o.f.
        frequencies /= np.sqrt(generator.chisquare(5.0, (count, 1)) / 5.0)
    phases = generator.uniform(0.0, 2.0 * np.pi, count)
    return RandomFeatures(frequencies, phases, kernel.variance, normalised)
