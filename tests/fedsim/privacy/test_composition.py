from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
import pytest

from fedsim.privacy import placement
from fedsim.privacy.composition import Composition
from fedsim.privacy.ledger import Component
from fedsim.privacy.losses import DIRECTIONS, Direction

COMPOSITION = Composition()  # shared: its caches must not matter


def epsilon(
    q: float, z: float, releases: int, delta: float, direction: Direction = "remove"
) -> float:
    found = COMPOSITION.epsilon([Component(q, z, releases)], delta, direction)
    assert found is not None
    return found


@pytest.mark.parametrize("direction", [*DIRECTIONS, "replace"])
@pytest.mark.parametrize(("z", "releases"), [(1.0, 1), (2.0, 10), (0.01, 3), (1e6, 500)])
@pytest.mark.parametrize("delta", [0.01, 1e-5, 1e-15, 1e-100, 1e-290])
def test_gaussians_agree_with_the_closed_form(
    direction: Direction, z: float, releases: int, delta: float
) -> None:
    # delta = Phi(m/2 - e/m) - exp(e) Phi(-m/2 - e/m) with m = sqrt(releases) / z; in logarithms.
    from scipy.optimize import brentq
    from scipy.special import log_ndtr

    m = math.sqrt(releases) / z

    def excess(e: float) -> float:
        upper, lower = float(log_ndtr(m / 2 - e / m)), float(log_ndtr(-m / 2 - e / m))
        return upper + math.log1p(-math.exp(e + lower - upper)) - math.log(delta)

    exact = 0.0
    if excess(1e-9 * m) > 0:
        exact = float(brentq(excess, 1e-9 * m, m * m / 2 + 40 * m, rtol=1e-14))
    found = epsilon(1.0, z, releases, delta, direction)
    assert found >= exact * (1 - 1e-9)
    assert found <= exact * (1 + 1e-4) + 1e-12


def simulated(q: float, z: float, releases: int, at: float, tilt: float) -> tuple[float, float]:
    """Return an estimate of ln delta at an epsilon, and delta's relative standard error.

    Importance sampling, which has nothing in common with the composition: losses are drawn from
    their tilted law by inverting its distribution function on a fine lattice of releases.
    """
    x = np.linspace(-12 * z, 1 + tilt + 14 * z, 40_001)
    loss = np.logaddexp(math.log1p(-q), math.log(q) + (2 * x - 1) / (2 * z**2))
    log_density = loss - x**2 / (2 * z**2)  # with the agent, up to a constant
    tilted = np.exp(log_density + tilt * loss - (log_density + tilt * loss).max())
    cumulative = np.concatenate([[0.0], np.cumsum((tilted[1:] + tilted[:-1]) / 2)])
    plain = np.exp(log_density - log_density.max())
    moment = math.log(tilted.sum() / plain.sum())
    moment += (log_density + tilt * loss).max() - log_density.max()
    random = np.random.default_rng(5)
    uniform = random.random((3000, releases)) * cumulative[-1]
    sums = np.interp(uniform, cumulative, loss).sum(axis=1)
    log_weights = releases * moment - tilt * sums
    terms = np.where(sums > at, -np.expm1(np.minimum(at - sums, 0.0)), 0.0)
    terms *= np.exp(log_weights + tilt * at - releases * moment)
    mean = float(terms.mean())
    error = float(terms.std() / math.sqrt(len(terms)) / mean)
    return math.log(mean) + releases * moment - tilt * at, error


@pytest.mark.parametrize(
    ("q", "z", "releases", "delta", "known", "tilt"),
    [
        (0.2, 1.0, 1023, 1e-13, 90.87, 0.8),
        (0.3, 0.5, 100, 1e-15, 140.0, 0.5),
        (0.01, 0.2, 100, 1e-5, 75.1, 0.15),
        (0.01, 0.3, 1000, 1e-5, 69.8, 0.25),
    ],
)
def test_far_tails_agree_with_a_simulation(
    q: float, z: float, releases: int, delta: float, known: float, tilt: float
) -> None:
    found = epsilon(q, z, releases, delta)
    assert found == pytest.approx(known, abs=0.05)
    log_delta, error = simulated(q, z, releases, found, tilt)
    assert error < 0.1
    # 5 standard errors. The Renyi bound of the first is 3 larger: there delta is e^-2.5 of it.
    assert log_delta == pytest.approx(math.log(delta), abs=5 * error)


@pytest.mark.parametrize(
    ("q", "z", "releases", "delta"),
    [
        (0.25, 1.0, 40, 200**-1.1),
        (0.1, 2.0, 7, 1e-6),
        (0.5, 1.5, 3, 1e-4),
        (0.9, 5.0, 50, 1e-3),
        (0.02, 0.6, 200, 1e-6),
        (0.3, 4.0, 1, 1e-3),
    ],
)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_epsilon_is_between_the_bounds_of_dp_accounting(
    direction: Direction, q: float, z: float, releases: int, delta: float
) -> None:
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    found = epsilon(q, z, releases, delta, direction)
    bounds = []
    for pessimistic in (False, True):
        loss: Any = from_gaussian_mechanism(
            z,
            sampling_prob=q,
            value_discretization_interval=1e-3,
            pessimistic_estimate=pessimistic,
            use_connect_dots=pessimistic,
        )
        pmf = loss._pmf_remove if direction == "remove" else loss._pmf_add
        bounds.append(pmf.self_compose(releases).get_epsilon_for_delta(delta))
    low, high = bounds
    assert low <= found <= high * (1 + 2e-5)
    assert found == pytest.approx(high, rel=2e-4)  # its own grid is coarser


def test_parts_in_any_order_and_number_cost_the_same() -> None:
    a, b = Component(0.2, 1.0, 7), Component(0.4, 3.0, 12)
    whole = COMPOSITION.epsilon([a, b], 1e-5, "remove")
    assert whole is not None
    for parts in ([b, a], [a._replace(releases=3), b, a._replace(releases=4)]):
        found = COMPOSITION.epsilon(parts, 1e-5, "remove")
        assert found == pytest.approx(whole, rel=1e-8)
        assert found == Composition().epsilon(parts, 1e-5, "remove")  # without caches
    more = COMPOSITION.epsilon([a, b, Component(0.1, 1.0, 1)], 1e-5, "remove")
    assert more is not None
    assert more > whole


def test_it_may_be_asked_in_several_threads() -> None:
    composition, found = Composition(), []

    def ask(first: int) -> None:
        for n in range(first, first + 12):
            parts = [Component(0.2, 1 + k / 10, 1) for k in range(n % 4)]
            parts.append(Component(0.2, 2.0, n))
            found.append((n, composition.epsilon(parts, 1e-3, "remove")))

    threads = [threading.Thread(target=ask, args=(first,)) for first in (1, 5, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(found) == 36
    assert len(set(found)) == len({n for n, _ in found})


@pytest.mark.parametrize(
    ("q", "z", "releases", "delta"),
    [
        (1e-6, 0.5, 1000, 1e-5),
        (0.001, 20.0, 1000, 1e-5),
        (0.2, 1.0, 2**20, 1e-6),
        (0.5, 1e-3, 40, 1e-3),
        (0.6, 0.01, 2000, 1e-4),
        (0.01, 1e-6, 10, 1e-5),
        (0.01, 0.3, 500, 1e-150),
    ],
)
def test_grids_are_bounded_and_finer_ones_change_little(
    monkeypatch: pytest.MonkeyPatch, q: float, z: float, releases: int, delta: float
) -> None:
    sizes: list[int] = []
    frame = placement.Window.frame

    def kept(self: placement.Window, *arguments: Any) -> placement.Frame:
        made = frame(self, *arguments)
        sizes.append(made.size)
        return made

    monkeypatch.setattr(placement.Window, "frame", kept)
    found = epsilon(q, z, releases, delta)
    assert max(sizes) <= placement.LARGEST_GRID
    bound = COMPOSITION.renyi_bound([Component(q, z, releases)], delta, "remove")
    assert 0 < found <= bound
    monkeypatch.setattr(placement, "LARGEST_GRID", 2**18)
    monkeypatch.setattr(placement, "_SMALLEST_GRID", 2**11)
    monkeypatch.setattr(placement, "_ROUNDED", 1e-3)
    coarse = Composition().epsilon([Component(q, z, releases)], delta, "remove")
    assert coarse is not None
    assert found * (1 - 1e-5) <= coarse <= found * 1.1


def test_the_steps_do_not_show() -> None:
    # Grids change with the number of releases; epsilon rises smoothly.
    found = np.array([epsilon(0.25, 1.0, n, 1e-3) for n in range(1, 40)])
    rises = np.diff(found)
    assert (rises > 0).all()
    assert (np.diff(rises)[3:] < 1e-3 * found[5:]).all()
    for before, after in ((480, 485), (1000, 1001)):
        low, high = (epsilon(0.01, 0.3, n, 1e-5) for n in (before, after))
        assert low < high < low * (after / before)


@pytest.mark.parametrize(
    ("q", "z", "delta"),
    [(0.3, 1.0, 1e-3), (0.1, 0.5, 1e-5), (0.9, 3.0, 1e-2), (1.0, 2.0, 1e-5), (0.01, 0.05, 1e-4)],
)
def test_one_replacement_is_amplified_in_closed_form(q: float, z: float, delta: float) -> None:
    import dp_accounting as dp

    exact = math.log1p(q * math.expm1(dp.get_epsilon_gaussian(z, delta / q)))
    found = epsilon(q, z, 1, delta, "replace")
    assert exact * (1 - 1e-9) <= found <= exact * (1 + 1e-5)


@pytest.mark.parametrize(
    ("q", "z", "releases", "delta"),
    [(10 / 29, 1.0, 60, 29**-1.1), (0.05, 0.7, 200, 1e-6), (0.8, 4.0, 20, 1e-4)],
)
def test_replacements_agree_with_dp_accountings_composition(
    q: float, z: float, releases: int, delta: float
) -> None:
    # The curve delta(epsilon) of C_q, on dp-accounting's grid and by its "connect the dots".
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution
    from scipy.stats import norm

    def g0(a: Any) -> Any:
        low, high = norm.cdf(0.5 / z - np.log(a) * z), norm.cdf(-0.5 / z - np.log(a) * z)
        return low - a * high

    def g(a: Any) -> Any:
        up = np.maximum(a, 1 / a)
        amplified = q * g0(1 + (up - 1) / q)
        return np.where(a >= 1, amplified, 1 - a + a * amplified)

    h = 1e-3
    end = math.ceil(math.log1p(q * math.expm1(0.5 / z**2 + 12 / z)) / h) + 1
    k = np.arange(-end, end + 1)
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(h, k, g(np.exp(k * h)))
    loss: Any = privacy_loss_distribution.PrivacyLossDistribution(pmf)
    other = loss.self_compose(releases).get_epsilon_for_delta(delta)
    assert epsilon(q, z, releases, delta, "replace") == pytest.approx(other, rel=2e-4)
