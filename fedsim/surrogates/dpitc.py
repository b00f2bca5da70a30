"""A sparse Gaussian process from sums over clients: the distributed PITC approximation.

Papers: FBO-FedGP, Appendix A, Eqs. (6)-(10); Chen et al., Parallel Gaussian Process Regression
with Low-Rank Covariance Matrix Approximations (UAI 2013); Quinonero-Candela and Rasmussen, A
Unifying View of Sparse Approximate Gaussian Process Regression (JMLR 2005), for PITC. The prior
mean is zero: outputs are centred before.

Symbol      Meaning                                                        Shape
S           the support set, the same for all clients                      (s, D)
D_i, y_i    client i's inputs and outputs                                  (n_i, D), (n_i,)
Sigma_AB    the kernel between the points of A and B
J           Sigma_SS + jitter I; L is its lower Cholesky factor            (s, s)
Lambda_i    Sigma_DD + sigma^2 I - Sigma_DS J^-1 Sigma_SD, given S         (n_i, n_i)
m_i, K_i    Sigma_SD Lambda_i^-1 y_i and Sigma_SD Lambda_i^-1 Sigma_DS     (s,), (s, s)
W           L^-1 (sum_i K_i) L^-T = Q diag(w) Q^T                          (s, s)
G           diag(sqrt(w / (1 + w))) Q^T L^-1                               (s, s)

Eqs. (9) and (10) are evaluated as

    mean(u) = k_uS a,                a = L^-T Q diag(1 / (1 + w)) Q^T L^-1 sum_i m_i,
    variance(u) = k_uu - |G k_Su|^2,

which is the same, as Sigma_SS^-1 - K_SS^-1 = G^T G. No nearly equal numbers are subtracted, and
directions of which the data say nothing (w = 0) drop out, however ill-conditioned Sigma_SS is.

Rules for numerical stability:

- jitter is always :data:`JITTER` times the kernel's variance, for every client and support set. It
  is part of the model, the noise of the support's own values, so that each Lambda_i is sigma^2 I
  plus a covariance matrix, support points may coincide, and all clients use the same model.
- w below 0 counts as 0. A sum of exact summaries has none; rounding to fixed point and approximate
  encryption may bring it about.
- The variance is at least :data:`~fedsim.surrogates.exact_gp.SMALLEST_VARIANCE` times the prior's,
  so that its root has a slope.

Deviation: Lambda_i includes the observation noise, without which Eqs. (6)-(10) are not the PITC
posterior, nor is Lambda_i invertible where inputs repeat; the paper does not say so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedsim.errors import require
from fedsim.space import Array
from fedsim.surrogates.cholesky import factorise, solve_lower
from fedsim.surrogates.exact_gp import SMALLEST_VARIANCE
from fedsim.surrogates.kernels import Kernel

JITTER = 1e-8
"""Added to the diagonal of Sigma_SS, in multiples of the kernel's variance."""


@dataclass(frozen=True, slots=True, eq=False)
class Support:
    """A support set with the kernel on it; made by :func:`support`.

    Attributes:
        kernel: the prior's covariance function.
        points: S, shape (s, D).
        factor: L, shape (s, s).
    """

    kernel: Kernel
    points: Array
    factor: Array


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """What one client's data, or those of several, say about the support; Eqs. (6)-(8).

    Attributes:
        covariance: K_i or a sum of them, shape (s, s), symmetric.
        means: m_i for each column of outputs, or a sum of them, shape (s, c).
        misfits: y^T Lambda_i^-1 y for the columns of outputs, or a sum, shape (c, c).
    """

    covariance: Array
    means: Array
    misfits: Array


@dataclass(frozen=True, slots=True, eq=False)
class SparsePosterior:
    """The posterior of Eqs. (9) and (10); made by :func:`sparse_posterior`.

    Attributes:
        support: S and the prior.
        weights: a, shape (s,).
        root: G, shape (s, s).
        axes: L^-T Q, shape (s, s).
        information: w, shape (s,); at least 0.
        coefficients: Q^T L^-1 sum_i m_i / (1 + w), shape (s,).
    """

    support: Support
    weights: Array
    root: Array
    axes: Array
    information: Array
    coefficients: Array

    def moments(self, U: Array) -> tuple[Array, Array]:
        """Return mean and variance of the noiseless values at ``U`` (n, D), each (n,)."""
        k = self.support.kernel.matrix(U, self.support.points)
        return k @ self.weights, self._variances(k @ self.root.T)

    def moments_and_gradients(self, U: Array) -> tuple[Array, Array, Array, Array]:
        """Return :meth:`moments` and their gradients, each (n, D)."""
        kernel, S = self.support.kernel, self.support.points
        k, g = kernel.matrix_and_slopes(U, S)
        half = k @ self.root.T
        slopes = kernel.gradients(U, S, g * self.weights)
        variance_slopes = kernel.gradients(U, S, -2.0 * g * (half @ self.root))
        return k @ self.weights, self._variances(half), slopes, variance_slopes

    def _variances(self, half: Array) -> Array:
        variance = self.support.kernel.variance
        left = variance - np.einsum("ij,ij->i", half, half)
        positive: Array = np.maximum(left, SMALLEST_VARIANCE * variance)
        return positive


def support(kernel: Kernel, points: Array) -> Support:
    """Return a support set, ready for summaries and posteriors.

    Args:
        kernel: the prior's covariance function.
        points: S, shape (s, D), s at least 1; points may coincide.

    Raises:
        ConfigError: if there is no point.
    """
    require(len(points) >= 1, "support set", "at least 1 point", len(points))
    covariance = kernel.matrix(points, points)
    covariance.flat[:: len(points) + 1] += JITTER * kernel.variance
    return Support(kernel, points, factorise(covariance, f"support set, {kernel}"))


def summarise(support: Support, noise_variance: float, inputs: Array, outputs: Array) -> Summary:
    """Return a client's local summary; Eqs. (6) and (7).

    Args:
        support: S and the prior.
        noise_variance: sigma^2, above 0.
        inputs: D_i, shape (n, D); n may be 0.
        outputs: y_i, centred, shape (n, c): any number of columns.

    Raises:
        RunError: if Lambda_i is not positive definite in floating point.
    """
    kernel, S = support.kernel, support.points
    cross = kernel.matrix(inputs, S)  # Sigma_DS
    half = solve_lower(support.factor, cross.T)  # L^-1 Sigma_SD
    conditional = kernel.matrix(inputs, inputs) - half.T @ half
    conditional.flat[:: len(inputs) + 1] += noise_variance
    factor = factorise(conditional, f"local summary, {kernel}, noise variance {noise_variance:g}")
    white, y = solve_lower(factor, cross), solve_lower(factor, outputs)
    return Summary(white.T @ white, white.T @ y, y.T @ y)


def sparse_posterior(support: Support, covariance: Array, mean: Array) -> SparsePosterior:
    """Return the posterior given the sum of all clients' summaries; Eqs. (8)-(10).

    Args:
        support: S and the prior.
        covariance: sum_i K_i, shape (s, s); its lower triangle is used.
        mean: sum_i m_i, shape (s,).
    """
    L = support.factor
    white = solve_lower(L, np.ascontiguousarray(solve_lower(L, covariance).T))
    w, Q = np.linalg.eigh(white)
    w = np.maximum(w, 0.0)
    axes = solve_lower(L, Q, transposed=True)
    coefficients = Q.T @ solve_lower(L, mean) / (1.0 + w)
    root = np.sqrt(w / (1.0 + w))[:, None] * axes.T
    return SparsePosterior(support, axes @ coefficients, root, axes, w, coefficients)


def best_variance(posterior: SparsePosterior, misfit: float, count: float) -> float:
    """Return the factor of kernel and noise variance at which all observations are most likely.

    It is y^T C^-1 y / n with C the PITC covariance of all outputs (Rasmussen and Williams, 2006,
    Section 5.4.1), from sums over clients: y^T C^-1 y = sum_i y_i^T Lambda_i^-1 y_i - m^T K_SS^-1 m
    by the matrix inversion lemma.

    Args:
        posterior: given the sums for ``misfit``'s outputs.
        misfit: the sum of y_i^T Lambda_i^-1 y_i.
        count: n, the number of all outputs, at least 1.

    Returns:
        At least 0.
    """
    explained = np.square(posterior.coefficients) @ (1.0 + posterior.information)
    return max(0.0, misfit - float(explained)) / count
