from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from fedsim.privacy.losses import DIRECTIONS, bulk, discretise, loss_at, release_with

rates = st.sampled_from([1e-6, 0.01, 0.3, 0.9, 1.0])
multipliers = st.sampled_from([0.05, 0.3, 1.0, 5.0, 100.0])


def exact_delta(epsilon: float, q: float, z: float, direction: str) -> float:
    """Return delta of one release: P(loss > epsilon) - exp(epsilon) Q(loss > epsilon)."""
    if direction == "replace":  # C_q of the Gaussian mechanism's
        if epsilon < 0:
            mirrored = exact_delta(-epsilon, q, z, "replace")
            return 1 - math.exp(epsilon) + math.exp(epsilon) * mirrored
        e = math.log1p(math.expm1(epsilon) / q)
        gaussian = norm.cdf(0.5 / z - e * z) - math.exp(e) * norm.cdf(-0.5 / z - e * z)
        return q * float(gaussian)
    sign = 1.0 if direction == "remove" else -1.0
    x = float(release_with(np.array([sign * epsilon]), q, z)[0])
    tail: Any = norm.sf if sign > 0 else norm.cdf
    without = float(tail(x, scale=z))
    mixture = (1 - q) * without + q * float(tail(x, 1.0, z))
    p, other = (mixture, without) if sign > 0 else (without, mixture)
    return p - math.exp(epsilon) * other


def delta_of(losses: Any, log_masses: Any, log_infinite: float, epsilon: float) -> float:
    beyond = losses > epsilon
    finite = np.exp(log_masses[beyond]) * -np.expm1(epsilon - losses[beyond])
    return float(finite.sum()) + math.exp(log_infinite)


@given(q=rates, z=multipliers, x=st.floats(-8, 9))
def test_a_loss_gives_back_its_release(q: float, z: float, x: float) -> None:
    at = x * z + (0.5 if x > 4 else 0.0)
    loss = loss_at(np.array([at]), q, z)
    ratio = norm.logpdf(at, 1.0, z) - norm.logpdf(at, 0.0, z)
    expected = ratio if q == 1 else np.logaddexp(math.log1p(-q), math.log(q) + ratio)
    assert loss[0] == pytest.approx(expected, rel=1e-9, abs=1e-12)
    again = loss_at(release_with(loss, q, z), q, z)
    assert again[0] == pytest.approx(loss[0], rel=1e-9, abs=1e-15)


def test_losses_have_no_release_below_the_smallest_one() -> None:
    assert release_with(np.array([math.log(0.7) - 1e-9]), 0.3, 1.0)[0] == -math.inf
    assert release_with(np.array([1000.0]), 0.3, 1.0)[0] == pytest.approx(
        1000 + 0.5 - math.log(0.3)
    )


@pytest.mark.parametrize("log_tail", [math.log(1e-3), math.log(1e-12), -900.0])
@given(q=rates, z=multipliers)
@settings(max_examples=25)
def test_little_probability_is_outside_the_bulk(log_tail: float, q: float, z: float) -> None:
    low, high = bulk(q, z, log_tail)
    assert low < high
    slack = 1e-9
    assert norm.logcdf(low / z) <= log_tail + slack
    upper = [norm.logsf((high - 1) / z) + math.log(q)]
    if q < 1:
        upper.append(norm.logsf(high / z) + math.log1p(-q))
    assert np.logaddexp.reduce(upper) <= log_tail + slack


@pytest.mark.parametrize("direction", [*DIRECTIONS, "replace"])
@given(q=rates, z=multipliers, step=st.sampled_from([0.01, 0.3, 2.0]))
@settings(max_examples=30)
def test_dots_are_exact_and_the_lines_between_them_are_above(
    direction: Any, q: float, z: float, step: float
) -> None:
    nodes = np.asarray(np.arange(-40, 41) * step, dtype=float)
    loss = discretise(nodes, q, z, direction)
    parts = (loss.losses, loss.log_masses, loss.log_infinite)
    total = np.exp(loss.log_masses).sum() + math.exp(loss.log_infinite)
    assert total == pytest.approx(1.0, rel=1e-12)
    for epsilon in (*nodes[1:-1:7], *(nodes[1:-1:7] + 0.37 * step)):
        exact, found = exact_delta(epsilon, q, z, direction), delta_of(*parts, epsilon)
        assert found >= exact - 1e-13
        if epsilon in nodes:  # the difference of two probabilities has a rounding error, too
            assert found == pytest.approx(exact, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("nodes", [[-3.0, -1.0, -0.2], [0.5, 0.7, 4.0], [-1.0, 0.3], [0.0, 0.1]])
@given(q=rates, z=multipliers)
@settings(max_examples=20)
def test_a_replacements_loss_is_bounded_wherever_the_nodes_are(
    nodes: list[float], q: float, z: float
) -> None:
    loss = discretise(np.array(nodes), q, z, "replace")
    total = np.exp(loss.log_masses).sum() + math.exp(loss.log_infinite)
    assert total == pytest.approx(1.0, rel=1e-12)
    for epsilon in (-1.0, 0.0, 0.6, 2.0):
        found = delta_of(loss.losses, loss.log_masses, loss.log_infinite, epsilon)
        assert found >= exact_delta(epsilon, q, z, "replace") - 1e-13


def test_tiny_probabilities_keep_their_digits() -> None:
    # One Gaussian release, far out: delta is 1e-120 and less, without cancellation.
    z, epsilon = 1.0, 22.0
    nodes = np.asarray(np.linspace(-60, 60, 24_001), dtype=float)
    loss = discretise(nodes, 1.0, z, "remove")
    found = delta_of(loss.losses, loss.log_masses, loss.log_infinite, epsilon)
    high, low = norm.logsf(epsilon * z - 1 / (2 * z)), norm.logsf(epsilon * z + 1 / (2 * z))
    exact = math.exp(high) * -math.expm1(epsilon + low - high)
    assert 0 < exact < 1e-100
    assert found == pytest.approx(exact, rel=1e-4)
    assert found >= exact * (1 - 1e-9)


def test_moments_are_those_of_the_losses() -> None:
    loss = discretise(np.linspace(-30, 30, 6001), 1.0, 2.0, "add")  # normal: mean 1/8, variance 1/4
    assert loss.log_moment(0.0) == pytest.approx(0.0, abs=1e-12)
    assert loss.log_moment(3.0) == pytest.approx(3 / 8 + 9 / 8, rel=1e-4)
