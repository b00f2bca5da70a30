"""Bayesian linear regression on fixed features: the model behind an agent's messages.

Paper: Dai, Low and Jaillet, Federated Bayesian Optimization via Thompson Sampling, NeurIPS
2020, Section 2, Eqs. (2) and (3). With the prior omega ~ N(0, I),

    omega | data ~ N(nu, lambda Sigma^-1),
    Sigma = Phi^T Phi + lambda I,    nu = Sigma^-1 Phi^T y.

Symbol   Meaning                                   Shape
Phi      features of the observations, by row      (n, M)
y        observed outputs                          (n,)
lambda   noise variance (the paper's sigma^2)      scalar
omega    a sample of the weights                   (M,)

With fewer observations than features, the same distribution is computed from the (n, n) matrix
Phi Phi^T + lambda I (Eq. (5), and Matheron's rule for samples). Outputs can be centred by a
public constant first; the weights then describe the difference from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedsim.space import Array
from fedsim.surrogates.cholesky import factorise, inverse_triangle, solve, solve_lower


@dataclass(frozen=True, slots=True, eq=False)
class LinearPosterior:
    """The posterior of the weights; made by :func:`linear_posterior`.

    Attributes:
        mean: nu, shape (M,).
        noise_variance: lambda.
        features: Phi, shape (n, M).
        factor: lower Cholesky factor of Phi Phi^T + lambda I (n, n) if n < M, else of Sigma.
    """

    mean: Array
    noise_variance: float
    features: Array
    factor: Array

    def sample(self, generator: np.random.Generator, scale: float = 1.0) -> Array:
        """Draw omega ~ N(nu, scale^2 lambda Sigma^-1), shape (M,).

        Args:
            generator: consumed.
            scale: multiplies the standard deviation; Thompson sampling's beta.
        """
        n, M = self.features.shape
        noise = math.sqrt(self.noise_variance)
        prior = generator.standard_normal((M,))
        if n < M:
            # Matheron: a prior sample, corrected by its misfit to the data.
            misfit = self.features @ prior + noise * generator.standard_normal(n)
            deviation = prior - self.features.T @ solve(self.factor, misfit)
        else:
            deviation = solve_lower(self.factor, noise * prior, transposed=True)
        return self.mean + scale * deviation

    def inverse_precision(self) -> Array:
        """Return Sigma^-1, symmetric, shape (M, M): the law's covariance over lambda."""
        n, M = self.features.shape
        if n < M:
            # Woodbury: lambda Sigma^-1 = I - Phi^T (Phi Phi^T + lambda I)^-1 Phi.
            half = solve_lower(self.factor, self.features)
            inverse: Array = _add_to_diagonal(-half.T @ half, 1.0) / self.noise_variance
            return inverse
        lower = inverse_triangle(self.factor)
        return lower + np.tril(lower, -1).T


def linear_posterior(features: Array, outputs: Array, noise_variance: float) -> LinearPosterior:
    """Return the posterior of the weights given observations.

    Args:
        features: Phi, shape (n, M); n may be 0.
        outputs: y, shape (n,).
        noise_variance: lambda, above 0.

    Raises:
        RunError: if the noise variance is too small for the number of features.
    """
    n, M = features.shape
    what = f"linear model with {M} features, noise variance {noise_variance:g}"
    if n < M:
        factor = factorise(_add_to_diagonal(features @ features.T, noise_variance), what)
        mean = features.T @ solve(factor, outputs)
    else:
        factor = factorise(_add_to_diagonal(features.T @ features, noise_variance), what)
        mean = solve(factor, features.T @ outputs)
    return LinearPosterior(mean, noise_variance, features, factor)


def _add_to_diagonal(matrix: Array, value: float) -> Array:
    matrix.flat[:: len(matrix) + 1] += value
    return matrix
