"""Acquisition functions of a Gaussian process posterior, with gradients, to be maximised.

Papers: Srinivas et al., Gaussian Process Optimization in the Bandit Setting (ICML 2010), for the
upper confidence bound; Jones, Schonlau and Welch, Efficient Global Optimization of Expensive
Black-Box Functions (1998), for the expected improvement; Ament et al., Unexpected Improvements to
Expected Improvement for Bayesian Optimization (NeurIPS 2023), Eqs. (8) and (9), for its logarithm,
which has slopes where the improvement itself is zero in floating point; Kushner (1964) for the
probability of improvement, also by its logarithm. Thompson sampling maximises a sample of the
posterior instead: :mod:`fedsim.surrogates.paths`.

Symbol       Meaning                                             Shape
mu, sd       posterior mean and standard deviation               (n,), (n,)
z            (mu - best) / sd                                    (n,)
phi, Phi     density and distribution of a standard normal
h(z)         phi(z) + z Phi(z): the improvement is sd h(z)       (n,)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import erfcx, log_ndtr

from fedsim.space import Array

_LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_FAR = -1e4  # below, h is phi(z) / z^2 up to a relative error of 1e-7, and erfcx loses its digits


class Posterior(Protocol):
    """A normal law at every point, with a variance above 0."""

    def moments(self, U: Array) -> tuple[Array, Array]:
        """Return mean and variance at the rows of ``U`` (n, D), each (n,)."""
        ...

    def moments_and_gradients(self, U: Array) -> tuple[Array, Array, Array, Array]:
        """Return mean and variance, each (n,), and their gradients, each (n, D)."""
        ...


class Rule(Protocol):
    """What an acquisition function makes of the posterior's moments at a point."""

    def values(self, mean: Array, variance: Array) -> Array:
        """Return the function at given moments, shape (n,)."""
        ...

    def values_and_slopes(self, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        """Return values and their derivatives by mean and by variance, each (n,)."""
        ...


@dataclass(frozen=True, slots=True)
class OfPosterior:
    """An acquisition function.

    Attributes:
        posterior: of the objective.
        rule: what it makes of its moments.
    """

    posterior: Posterior
    rule: Rule

    def values(self, U: Array) -> Array:
        """Return the function at the rows of ``U`` (n, D), shape (n,)."""
        return self.rule.values(*self.posterior.moments(U))

    def values_and_gradients(self, U: Array) -> tuple[Array, Array]:
        """Return values, shape (n,), and gradients, shape (n, D)."""
        mean, variance, slopes, variance_slopes = self.posterior.moments_and_gradients(U)
        values, by_mean, by_variance = self.rule.values_and_slopes(mean, variance)
        return values, by_mean[:, None] * slopes + by_variance[:, None] * variance_slopes


@dataclass(frozen=True, slots=True)
class UpperConfidenceBound:
    """mu + beta sd.

    Attributes:
        beta: multiplies the standard deviation (in GP-UCB, the root of beta_t); at least 0.
    """

    beta: float

    def values(self, mean: Array, variance: Array) -> Array:
        """See :class:`Rule`."""
        return mean + self.beta * np.sqrt(variance)

    def values_and_slopes(self, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        """See :class:`Rule`."""
        sd = np.sqrt(variance)
        return mean + self.beta * sd, np.ones_like(mean), 0.5 * self.beta / sd


@dataclass(frozen=True, slots=True)
class LogExpectedImprovement:
    """log(sd h(z)).

    Attributes:
        best: what is to be improved on.
    """

    best: float

    def values(self, mean: Array, variance: Array) -> Array:
        """See :class:`Rule`."""
        sd = np.sqrt(variance)
        return log_improvement((mean - self.best) / sd) + np.log(sd)

    def values_and_slopes(self, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        """See :class:`Rule`; the improvement's own slopes are Phi(z) by mu and phi(z) by sd."""
        sd = np.sqrt(variance)
        z = (mean - self.best) / sd
        log_h = log_improvement(z)
        by_mean = np.exp(log_ndtr(z) - log_h) / sd
        by_variance = np.exp(_log_density(z) - log_h) / (2.0 * variance)
        return log_h + np.log(sd), by_mean, by_variance


@dataclass(frozen=True, slots=True)
class LogProbabilityOfImprovement:
    """log Phi(z).

    Attributes:
        best: what is to be improved on.
    """

    best: float

    def values(self, mean: Array, variance: Array) -> Array:
        """See :class:`Rule`."""
        values: Array = log_ndtr((mean - self.best) / np.sqrt(variance))
        return values

    def values_and_slopes(self, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        """See :class:`Rule`."""
        sd = np.sqrt(variance)
        z = (mean - self.best) / sd
        values: Array = log_ndtr(z)
        by_mean = np.exp(_log_density(z) - values) / sd
        return values, by_mean, -0.5 * by_mean * z / sd


def log_improvement(z: Array) -> Array:
    """Return log h(z), shape (n,), exact to about ten digits for any finite z.

    For z below -1, h(z) = phi(z) (1 - |z| Phi(z) / phi(z)), and Phi(z) / phi(z) is
    sqrt(pi / 2) erfcx(|z| / sqrt(2)). Far below, h is phi(z) / z^2.
    """
    log_h = np.empty_like(z)
    near, far = z > -1.0, z < _FAR
    x = z[near]
    log_h[near] = np.log(np.exp(_log_density(x)) + x * np.exp(log_ndtr(x)))
    x = z[~near & ~far]
    ratio = math.sqrt(0.5 * math.pi) * erfcx(-x / math.sqrt(2.0))
    log_h[~near & ~far] = _log_density(x) + np.log1p(x * ratio)
    x = z[far]
    log_h[far] = _log_density(x) - 2.0 * np.log(-x)
    return log_h


def _log_density(z: Array) -> Array:
    return -0.5 * np.square(z) - _LOG_ROOT_TWO_PI
