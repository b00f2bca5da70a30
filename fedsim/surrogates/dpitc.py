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

Deviation: Lambda_i includes the observation noise, without which Eqs. (6)-(10) are not the PITC
posterior, nor is Lambda_i invertible where inputs repeat; the paper does not say so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedsim.errors import require
from fedsim.space import Array
from fedsim.surrogates.cholesky import factorise, solve_lower
from fedsim.surrogates.kernels import Kernel
from fedsim.surrogates.marginals import Marginals

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
        marginals: mean and variance at every point.
        axes: L^-T Q, shape (s, s).
        information: w, shape (s,); at least 0.
        coefficients: Q^T L^-1 sum_i m_i / (1 + w), shape (s,).
    """

    support: Support
    marginals: Marginals
    axes: Array
    information: Array
    coefficients: Array

    def moments(self, U: Array) -> tuple[Array, Array]:
        """Return mean and variance of the noiseless values at ``U`` (n, D), each (n,)."""
        return self.marginals.moments(U)

    def moments_and_gradients(self, U: Array) -> tuple[Array, Array, Array, Array]:
        """Return :meth:`moments` and their gradients, each (n, D)."""
        return self.marginals.moments_and_gradients(U)

    def in_units_of(self, deviation: float) -> SparsePosterior:
        """Return the posterior of the same outputs in units of ``deviation``, above 0."""
        return replace(
            self,
            marginals=self.marginals.in_units_of(deviation),
            coefficients=self.coefficients / deviation,
        )

    def misfit(self, given_support: float) -> float:
        """Return y^T C^-1 y of all outputs y, with C their PITC covariance.

        It is sum_i y_i^T Lambda_i^-1 y_i - m^T K_SS^-1 m, by the matrix inversion lemma.

        Args:
            given_support: sum_i y_i^T Lambda_i^-1 y_i.
        """
        explained = np.square(self.coefficients) @ (1.0 + self.information)
        return given_support - float(explained)


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
    cross, _, factor = _conditional(support, noise_variance, inputs)
    white, y = solve_lower(factor, cross), solve_lower(factor, outputs)
    return Summary(white.T @ white, white.T @ y, y.T @ y)


def white_summary(
    support: Support, noise_variance: float, inputs: Array, outputs: Array
) -> Summary:
    """Return L^-1 K_i L^-T and L^-1 m_i in place of K_i and m_i; else as :func:`summarise`.

    Both are bounded by n / sigma^2 for outputs within [-1, 1], and sums of them that are rounded
    are as exact as the rounding, which L^-1 would magnify otherwise.
    """
    _, half, factor = _conditional(support, noise_variance, inputs)
    white = solve_lower(factor, np.ascontiguousarray(half.T))
    y = solve_lower(factor, outputs)
    return Summary(white.T @ white, white.T @ y, y.T @ y)


def _conditional(
    support: Support, noise_variance: float, inputs: Array
) -> tuple[Array, Array, Array]:
    """Return Sigma_DS, L^-1 Sigma_SD and the lower Cholesky factor of Lambda_i."""
    kernel = support.kernel
    cross = kernel.matrix(inputs, support.points)
    half = solve_lower(support.factor, cross.T)
    conditional = kernel.matrix(inputs, inputs) - half.T @ half
    conditional.flat[:: len(inputs) + 1] += noise_variance
    where = f"local summary, {kernel}, noise variance {noise_variance:g}"
    return cross, half, factorise(conditional, where)


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
    marginals = Marginals(support.kernel, support.points, axes @ coefficients, root)
    return SparsePosterior(support, marginals, axes, w, coefficients)
