"""The exact posterior of a Gaussian process with a constant mean.

Paper: FTS (Dai, Low and Jaillet, NeurIPS 2020), Eq. (1); Rasmussen and Williams (2006), Alg. 2.1.

Symbol   Meaning                                     Shape
X, y     observed inputs (unit cube) and outputs     (n, D), (n,)
m        the constant mean                           scalar
K        kernel matrix of X                          (n, n)
L        lower Cholesky factor of K + sigma^2 I      (n, n)
alpha    (K + sigma^2 I)^-1 (y - m)                  (n,)

The prior may have basis functions (:mod:`fedsim.surrogates.basis`), such as a smooth trend, whose
covariance is then part of K and of k(u, X).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedsim.space import Array
from fedsim.surrogates.basis import Basis
from fedsim.surrogates.cholesky import factorise, solve, solve_lower
from fedsim.surrogates.kernels import Kernel

SMALLEST_VARIANCE = 1e-12
"""Of a posterior, in multiples of the kernel's variance, so that its root has a slope."""


@dataclass(frozen=True, slots=True, eq=False)
class ExactGP:
    """A posterior; made by :func:`condition`.

    Attributes:
        kernel: the prior's covariance function.
        mean_constant: the prior's mean m.
        noise_variance: sigma^2.
        inputs: X, shape (n, D).
        factor: L, shape (n, n).
        weights: alpha, shape (n,).
        basis: what is added to the kernel, in units of its variance; None: nothing.
    """

    kernel: Kernel
    mean_constant: float
    noise_variance: float
    inputs: Array
    factor: Array
    weights: Array
    basis: Basis | None = None

    def mean(self, U: Array) -> Array:
        """Return the posterior mean at the rows of ``U`` (k, D), shape (k,)."""
        return self.mean_constant + self._prior(U, self.inputs) @ self.weights

    def covariance(self, U: Array) -> Array:
        """Return the posterior covariance of the noiseless values at ``U`` (k, D), (k, k)."""
        half = solve_lower(self.factor, self._prior(self.inputs, U))
        return self._prior(U, U) - half.T @ half

    def moments(self, U: Array) -> tuple[Array, Array]:
        """Return mean and variance of the noiseless values at ``U`` (k, D), each (k,)."""
        k = self._prior(U, self.inputs)
        half = solve_lower(self.factor, k.T)
        return self.mean_constant + k @ self.weights, self._variances(U, half, half)

    def moments_and_gradients(self, U: Array) -> tuple[Array, Array, Array, Array]:
        """Return :meth:`moments` and their gradients, each (k, D)."""
        k, g = self.kernel.matrix_and_slopes(U, self.inputs)
        if self.basis is not None:
            size = self.kernel.variance
            F, known = self.basis.matrix(U), self.basis.matrix(self.inputs)
            k = k + size * F @ known.T
        solved = self.solve(k.T)
        variance = self._variances(U, k.T, solved)
        slopes = self.kernel.gradients(U, self.inputs, g * self.weights)
        variance_slopes = self.kernel.gradients(U, self.inputs, -2.0 * g * solved.T)
        if self.basis is not None:
            slopes = slopes + self.basis.sums_and_gradients(U, size * known.T @ self.weights)[1]
            remaining = F - solved.T @ known
            further = self.basis.sums_and_gradients(U, 2.0 * size * remaining)[1]
            variance_slopes = variance_slopes + further
        return self.mean_constant + k @ self.weights, variance, slopes, variance_slopes

    def _prior(self, U: Array, X: Array) -> Array:
        """Return the prior's covariance between the rows of ``U`` and of ``X``."""
        return prior_matrix(self.kernel, self.basis, U, X)

    def _variances(self, U: Array, left: Array, right: Array) -> Array:
        """Return the prior's variance minus the products of columns, at least a trace of it."""
        variance = self.kernel.variance
        prior = variance
        if self.basis is not None:
            prior = variance * (1.0 + np.square(self.basis.matrix(U)).sum(axis=1))
        remaining = prior - np.einsum("ji,ji->i", left, right)
        positive: Array = np.maximum(remaining, SMALLEST_VARIANCE * variance)
        return positive

    def solve(self, right: Array) -> Array:
        """Return (K + sigma^2 I)^-1 right, shape (n,) or (n, k)."""
        return solve(self.factor, right)

    def misfit(self, residuals: Array) -> float:
        """Return r^T (K + sigma^2 I)^-1 r, given the residuals r = y - m, shape (n,)."""
        return float(residuals @ self.weights)


def prior_matrix(kernel: Kernel, basis: Basis | None, U: Array, X: Array) -> Array:
    """Return the prior's covariance between the rows of ``U`` (n, D) and of ``X`` (m, D), (n, m).

    Args:
        kernel: the covariance function.
        basis: what is added to it, in units of its variance; None: nothing.
        U: points.
        X: points.
    """
    covariance = kernel.matrix(U, X)
    if basis is not None:
        covariance += kernel.variance * basis.matrix(U) @ basis.matrix(X).T
    return covariance


def condition(
    kernel: Kernel,
    noise_variance: float,
    inputs: Array,
    outputs: Array,
    mean_constant: float = 0.0,
    basis: Basis | None = None,
) -> ExactGP:
    """Return the posterior given observations.

    Args:
        kernel: the prior's covariance function.
        noise_variance: sigma^2, above 0.
        inputs: X, shape (n, D); n may be 0.
        outputs: y, shape (n,).
        mean_constant: the prior's mean m.
        basis: what is added to the kernel, in units of its variance; None: nothing.

    Raises:
        RunError: if K + sigma^2 I is not positive definite in floating point.
    """
    covariance = prior_matrix(kernel, basis, inputs, inputs)
    covariance.flat[:: len(inputs) + 1] += noise_variance
    factor = factorise(covariance, f"Gaussian process, {kernel}, noise variance {noise_variance:g}")
    weights = solve(factor, outputs - mean_constant)
    return ExactGP(kernel, mean_constant, noise_variance, inputs, factor, weights, basis)
