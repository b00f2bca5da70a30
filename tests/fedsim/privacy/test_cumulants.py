from __future__ import annotations

import math

import numpy as np
import pytest

from fedsim.privacy.cumulants import TILTS, cumulants
from fedsim.privacy.losses import DIRECTIONS, Direction
from fedsim.privacy.renyi import MOMENT_ORDERS, renyi_divergences


@pytest.mark.parametrize("direction", [*DIRECTIONS, "replace"])
def test_an_unsampled_release_has_normal_cumulants(direction: Direction) -> None:
    z = 1.7
    found = cumulants(1.0, z, math.log(1e-30), direction)
    usual = (TILTS > 1e-6) & (TILTS < 5)
    tilt = TILTS[usual]
    expected = tilt * (tilt + 1) / (2 * z**2)
    np.testing.assert_allclose(found.log_moments[usual], expected, rtol=1e-3)
    assert (found.log_moments[usual] >= expected * (1 - 1e-9)).all()  # a bound
    np.testing.assert_allclose(found.means[usual], 1 / (2 * z**2) + tilt / z**2, rtol=1e-3)
    np.testing.assert_allclose(found.variances[usual], 1 / z**2, rtol=2e-3)
    assert found.log_moments[0] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(("q", "z"), [(0.25, 1.0), (0.01, 0.3), (1e-4, 2.0), (0.9, 5.0)])
def test_moments_bound_the_renyi_divergences(q: float, z: float) -> None:
    found = cumulants(q, z, math.log(1e-280), "remove")
    for order in (2, 3, 5, 9):
        index = TILTS.tolist().index(order - 1)  # powers of two are among them
        exact = (order - 1) * renyi_divergences(q, z)[MOMENT_ORDERS.index(float(order))]
        assert exact <= found.log_moments[index] * (1 + 1e-9)
        assert found.log_moments[index] == pytest.approx(exact, rel=2e-3)


@pytest.mark.parametrize(
    ("q", "z"), [(0.5, 1e-3), (0.999, 1e-6), (1e-6, 1e9), (1.0, 1e9), (1e-12, 0.01)]
)
@pytest.mark.parametrize("direction", [*DIRECTIONS, "replace"])
def test_extreme_noise_gives_finite_numbers(q: float, z: float, direction: Direction) -> None:
    found = cumulants(q, z, math.log(1e-20), direction)
    for values in (found.log_moments, found.means, found.variances, found.losses):
        assert np.isfinite(values).all()
    assert (found.variances >= 0).all()
    assert (np.diff(found.losses) > 0).all()
