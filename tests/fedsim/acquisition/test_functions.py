"""Acquisition functions of a posterior, and their gradients."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from fedsim.acquisition.functions import (
    LogExpectedImprovement,
    LogProbabilityOfImprovement,
    OfPosterior,
    Rule,
    UpperConfidenceBound,
    log_improvement,
)
from fedsim.surrogates.dpitc import SparsePosterior, sparse_posterior, summarise, support
from fedsim.surrogates.exact_gp import ExactGP, condition
from fedsim.surrogates.kernels import Kernel

KERNEL = Kernel("matern52", (0.4, 0.6), 1.3)


def posterior_of(sparse: bool) -> ExactGP | SparsePosterior:
    rng = np.random.default_rng(0)
    X, y = rng.random((8, 2)), rng.standard_normal(8)
    if not sparse:
        return condition(KERNEL, 0.01, X, y)
    base = support(KERNEL, rng.random((6, 2)))
    summary = summarise(base, 0.01, X, y[:, None])
    return sparse_posterior(base, summary.covariance, summary.means[:, 0])


def functions(posterior: ExactGP | SparsePosterior) -> list[OfPosterior]:
    rules: list[Rule] = [
        UpperConfidenceBound(1.7),
        UpperConfidenceBound(0.0),
        LogExpectedImprovement(0.4),
        LogExpectedImprovement(25.0),
        LogProbabilityOfImprovement(0.4),
        LogProbabilityOfImprovement(25.0),
    ]
    return [OfPosterior(posterior, rule) for rule in rules]


@pytest.mark.parametrize("sparse", [False, True])
def test_values_by_the_definitions(sparse: bool) -> None:
    posterior = posterior_of(sparse)
    U = np.random.default_rng(1).random((7, 2))
    mean, variance = posterior.moments(U)
    sd = np.sqrt(variance)
    bound, plain, ei, _, pi, _ = (f.values(U) for f in functions(posterior))
    np.testing.assert_allclose(bound, mean + 1.7 * sd)
    np.testing.assert_allclose(plain, mean)
    for i in range(7):
        improvement = quad(
            lambda y, i=i: (y - 0.4) * norm.pdf(y, mean[i], sd[i]), 0.4, mean[i] + 12 * sd[i]
        )[0]
        assert math.exp(ei[i]) == pytest.approx(improvement, rel=1e-6, abs=1e-12)
    np.testing.assert_allclose(np.exp(pi), norm.sf(0.4, mean, sd))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("index", range(6))
def test_gradients(sparse: bool, index: int) -> None:
    function = functions(posterior_of(sparse))[index]
    U = np.random.default_rng(2).random((5, 2))
    values, gradients = function.values_and_gradients(U)
    np.testing.assert_allclose(values, function.values(U), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        values, function.rule.values(*function.posterior.moments(U)), rtol=1e-9, atol=1e-9
    )
    for d in range(2):
        step = 1e-6 * np.eye(2)[d]
        slopes = (function.values(U + step) - function.values(U - step)) / 2e-6
        scale = 1.0 + np.abs(slopes).max()
        np.testing.assert_allclose(gradients[:, d], slopes, rtol=1e-5, atol=1e-6 * scale)


def test_improvement_against_its_integral() -> None:
    # h(z) = phi(z) * integral over t > 0 of t exp(z t - t^2 / 2)
    for z in (5.0, 1.0, 0.0, -0.99, -1.01, -3.0, -8.0, -30.0):
        end = 12.0 if z > 0 else 40.0 / (1.0 - z)  # beyond, less than 1e-12 of the integral
        integral = quad(lambda t, z=z: t * math.exp(z * t - t * t / 2), 0.0, max(end, z + 12.0))[0]
        expected = norm.logpdf(z) + math.log(integral)
        assert log_improvement(np.array([z]))[0] == pytest.approx(expected, rel=1e-8)


def test_improvement_far_below_by_its_series() -> None:
    # h(z) = phi(z) / z^2 (1 - 3 / z^2 + 15 / z^4 - 105 / z^6 ...)
    z = np.array([-30.0, -100.0, -1e3, -9e3, -1.1e4, -1e6, -1e50])
    series = 1 - 3 / z**2 + 15 / z**4 - 105 / z**6
    expected = -0.5 * z**2 - 0.5 * math.log(2 * math.pi) - 2 * np.log(-z) + np.log(series)
    np.testing.assert_allclose(log_improvement(z), expected, rtol=1e-12, atol=1e-6)


def test_improvement_has_slopes_where_it_is_zero_in_floating_point() -> None:
    function = OfPosterior(posterior_of(sparse=True), LogExpectedImprovement(1e4))
    values, gradients = function.values_and_gradients(np.random.default_rng(3).random((20, 2)))
    assert np.isfinite(values).all()
    assert np.isfinite(gradients).all()
    assert (np.exp(values) == 0.0).all()
    assert (np.abs(gradients).max(axis=1) > 0.0).all()
