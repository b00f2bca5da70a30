"""A Gaussian process from own data, exactly, and others' by what they say about a support set.

Papers: Snelson and Ghahramani, Local and Global Sparse Gaussian Process Approximations (AISTATS
2007), for the partially independent conditional approximation (PIC); Chen et al. (UAI 2013) for its
distributed form, in which each party adds its own data to the others' summaries. The prior mean is
zero. :mod:`fedsim.surrogates.dpitc` has the notation of support sets; further:

Symbol   Meaning                                                        Shape
b        L^-1 f_S, the support's values, whitened; a priori N(0, I)     (s,)
W_i      L^-1 K_i L^-T                                                  (s, s)
v_i      L^-1 m_i                                                       (s,)
W, v     the sums over others; W = Q diag(w) Q^T                        (s, s), (s,)
A        L^-T Q diag(sqrt(w))                                           (s, s)
X, y     one's own inputs and outputs                                   (n, E), (n,)
C        covariance of what is observed                                 (n + s, n + s)

Given the support, others' data act like an observation of diag(sqrt(w)) Q^T b with unit noise. Its
covariance with the objective's value at u is k_uS A, its own is diag(w) + I, and its value is
diag(1 / sqrt(w)) Q^T v. Together with one's own observations that is an ordinary Gaussian process:

    C = [k_XX + sigma^2 I, k_XS A; A^T k_SX, diag(w) + I].

Without own data it is the PITC posterior, without others' the exact one.

W and v, unlike K and m, are as exact as they are rounded, however ill-conditioned the support's
covariance matrix is: it is where a support set fills a small region.
"""

from __future__ import annotations

import numpy as np

from fedsim.space import Array
from fedsim.surrogates import fit
from fedsim.surrogates.cholesky import factorise, solve, solve_lower
from fedsim.surrogates.dpitc import Summary, Support
from fedsim.surrogates.marginals import Marginals

_NOTHING = 1e-9
"""Directions of which others know less than this (w, in units of the prior) do not count."""


def exact_with_summaries(
    support: Support, noise_variance: float, others: Summary | None, X: Array, y: Array
) -> Marginals:
    """Return the posterior given own data and others' whitened summaries.

    Args:
        support: S and the prior.
        noise_variance: sigma^2, above 0.
        others: the sum of :func:`~fedsim.surrogates.dpitc.white_summary` over others, with one
            column of outputs; None: there are no others.
        X: one's own inputs, shape (n, E); n may be 0.
        y: one's own outputs, centred, shape (n,).

    Raises:
        RunError: if C is not positive definite in floating point.
    """
    kernel, n = support.kernel, len(X)
    own = kernel.matrix(X, X)
    own.flat[:: n + 1] += noise_variance
    if others is None:
        axes, observed = np.empty((len(support.points), 0)), np.empty(0)
        known = observed
    else:
        w, Q = np.linalg.eigh(others.covariance)
        w, Q = w[w > _NOTHING], Q[:, w > _NOTHING]
        axes = solve_lower(support.factor, Q * np.sqrt(w), transposed=True)
        known, observed = w, (Q.T @ others.means[:, 0]) / np.sqrt(w)
    shared = kernel.matrix(X, support.points) @ axes
    covariance = np.block([[own, shared], [shared.T, np.diag(known + 1.0)]])
    factor = factorise(covariance, f"Gaussian process, {kernel}, with others' summaries")
    # What is observed is B^T f_P up to noise, for P = X and S together.
    B = np.zeros((n + len(support.points), n + len(known)))
    B[:n, :n].flat[:: n + 1] = 1.0
    B[n:, n:] = axes
    weights = B @ solve(factor, np.concatenate([y, observed]))
    root = solve_lower(factor, np.ascontiguousarray(B.T))
    return Marginals(kernel, np.concatenate([X, support.points]), weights, root)


def best_variance(total: Summary, count: float) -> float:
    """Return the best variance of all outputs; :func:`fedsim.surrogates.fit.best_variance`.

    Args:
        total: the sum of all whitened summaries, with one column of outputs.
        count: the number of all outputs, at least 1.
    """
    # As SparsePosterior.misfit, from whitened summaries.
    w, Q = np.linalg.eigh(total.covariance)
    explained = np.square(Q.T @ total.means[:, 0]) / (1.0 + np.maximum(w, 0.0))
    return fit.best_variance(float(total.misfits[0, 0] - explained.sum()), count)
