"""How well models rank a target's observations: the weights of RGPE and of TAF.

Papers: Feurer, Letham and Bakshy, "Scalable Meta-Learning for Bayesian Optimization using
Ranking-Weighted Gaussian Process Ensembles" (AutoML workshop at ICML 2018), for RGPE; Wistuba,
Schilling and Schmidt-Thieme, "Scalable Gaussian process-based transfer surrogates for
hyperparameter optimization" (Machine Learning, 2018), for TAF.

==========  ================================================================  =============
symbol      meaning                                                           shape
==========  ================================================================  =============
X, y        the target's inputs and outputs                                   (n, D), (n,)
f           a draw of a model's function at X                                 (n,)
f_-j        a draw of the target's without its j-th observation               (n,)
L(f)        sum over j and k of 1[(f(x_j) < f(x_k)) xor (y_j < y_k)]
S           the number of draws
K, eta      the target's kernel matrix, and its noise variance                (n, n)
A           (K + eta I)^-1                                                    (n, n)
==========  ================================================================  =============

For the target's own model, f(x_j) and f(x_k) are f_-j(x_j) and f_-j(x_k): it would rank what it was
made from too well. A draw without an observation follows from one with all of them: with a draw f
of the prior, and e of the noise, let a = A (f + e - y). Then f - K a is a draw of the posterior,
and f_-j = f - K a + K A_j a_j / A_jj (A_j is column j), where K A = I - eta A. All j share f and e:
the law of each f_-j is exact, only their dependence differs from that of separate draws.
"""

from __future__ import annotations

import math

import numpy as np

from fedsim.methods.own_law import OwnLaw
from fedsim.methods.preferences import concordance
from fedsim.space import Array
from fedsim.surrogates.cholesky import factorise, solve
from fedsim.surrogates.exact_gp import prior_matrix

_LEAST_RANKED = 3
"""Observations that rankings need: leaving one out of fewer leaves no two to compare."""

_JITTER = 1e-9  # repeated inputs make covariances singular


def ranking_losses(values: Array, outputs: Array) -> Array:
    """Return L of functions' values (..., n) given outputs (n,), shape (...)."""
    losses = np.zeros(values.shape[:-1])
    for j, output in enumerate(outputs):
        less = values[..., j, None] < values
        losses += (less != (output < outputs)).sum(axis=-1)
    return losses


def left_out_losses(law: OwnLaw, samples: int, generator: np.random.Generator) -> Array:
    """Return L of draws of the target's own model, each output left out in turn, shape (S,).

    Args:
        law: the target's.
        samples: S.
        generator: consumed.
    """
    gp, y, n = law.posterior, law.outputs, len(law.outputs)
    eta = gp.noise_variance
    K = prior_matrix(gp.kernel, gp.basis, gp.inputs, gp.inputs)
    prior = _draws(K, samples, generator)
    noise = math.sqrt(eta) * generator.standard_normal((samples, n))
    A = solve(gp.factor, np.eye(n))
    a = (prior + noise - y) @ A
    values = prior - a @ K
    losses = np.zeros(samples)
    for j, output in enumerate(y):
        without = values - (eta / A[j, j] * a[:, j])[:, None] * A[j]
        without[:, j] += a[:, j] / A[j, j]
        less = without[:, j, None] < without
        losses += (less != (output < y)).sum(axis=-1)
    return losses


def joint_losses(
    means: Array, covariances: Array, outputs: Array, samples: int, generator: np.random.Generator
) -> Array:
    """Return L of draws of normal laws of functions' values at X, shape (H, S).

    Args:
        means: shape (H, n).
        covariances: shape (H, n, n).
        outputs: y, shape (n,).
        samples: S.
        generator: consumed.
    """
    return np.array(
        [
            ranking_losses(mean + _draws(covariance, samples, generator), outputs)
            for mean, covariance in zip(means, covariances, strict=True)
        ]
    ).reshape(len(means), samples)


def _draws(covariance: Array, samples: int, generator: np.random.Generator) -> Array:
    """Return draws of a normal law of mean zero, shape (S, n)."""
    n = len(covariance)
    scale = float(covariance.diagonal().max(initial=0.0)) or 1.0
    factor = factorise(covariance / scale + _JITTER * np.eye(n), "covariance at a target's inputs")
    draws: Array = math.sqrt(scale) * generator.standard_normal((samples, n)) @ factor.T
    return draws


def ensemble_weights(source_losses: Array, target_losses: Array) -> Array:
    """Return RGPE's weights of H sources and, last, of the target, shape (H + 1,); their sum is 1.

    A model's weight is the share of draws in which its loss is the least, equal ones sharing. A
    source whose median loss is above the 95th percentile of the target's has none: of many poor
    sources some would be lucky in every draw.

    Args:
        source_losses: shape (H, S).
        target_losses: shape (S,).
    """
    usable = np.median(source_losses, axis=1) <= np.percentile(target_losses, 95)
    losses = np.vstack([np.where(usable[:, None], source_losses, np.inf), target_losses])
    best = losses == losses.min(axis=0)
    weights: Array = (best / best.sum(axis=0)).mean(axis=1)
    return weights


def enough_to_rank(outputs: Array) -> bool:
    """Return whether there are observations enough to leave one out."""
    return len(outputs) >= _LEAST_RANKED


def similarity_weights(means: Array, outputs: Array, bandwidth: float) -> Array:
    """Return TAF's weights of H sources and, last, of the target, shape (H + 1,).

    They are Epanechnikov's 3/4 (1 - (d / rho)^2), or 0 where d > rho, with d the share of pairs of
    the outputs that the source's mean has in the other order, ties counting half. The target's d
    is 0; so is a source's while there are no pairs.

    Args:
        means: of the sources at X, shape (H, n).
        outputs: y, shape (n,).
        bandwidth: rho, above 0.
    """
    pairs = len(outputs) > 1
    apart = [1.0 - concordance(one, outputs) if pairs else 0.0 for one in means]
    weights: Array = 0.75 * np.maximum(0.0, 1.0 - np.square(np.array([*apart, 0.0]) / bandwidth))
    return weights
