from __future__ import annotations

import numpy as np
from scipy.stats import qmc

from fedsim.acquisition import whole_cube
from fedsim.acquisition.candidates import FARTHEST, perturbed, sobol_points


def test_sobol_points_are_spread_keyed_and_nested() -> None:
    one, other = (sobol_points(4, 64, np.random.default_rng(seed)) for seed in (0, 1))
    assert not np.array_equal(one, other)
    for points in (one, other):
        assert ((points >= 0.0) & (points < 1.0)).all()
        # A net in base 2: every 64th of a coordinate's range has one point.
        for d in range(4):
            assert len(set((64 * points[:, d]).astype(int))) == 64
        uniform = np.random.default_rng(3).random((64, 4))
        assert qmc.discrepancy(points) < 0.5 * qmc.discrepancy(uniform)
    for fewer in (0, 1, 5, 63):
        first = sobol_points(4, fewer, np.random.default_rng(0))
        np.testing.assert_array_equal(first, one[:fewer])


def test_perturbed_points_lie_near_their_centres() -> None:
    centres = np.array([[0.5, 0.5], [0.0, 1.0]])
    points = perturbed(centres, 4001, np.random.default_rng(0), whole_cube(centres.shape[1]))
    assert ((points >= 0.0) & (points <= 1.0)).all()
    near, corner = points[::2] - centres[0], points[1::2] - centres[1]
    assert len(near) == 2001
    # Scales are log-uniform in [0.01, 0.3]: their mean square is 0.0132. Five standard errors; the
    # normal draws and their scales have a relative standard deviation of 3.1 together.
    for d in range(2):
        square = np.square(near[:, d]).mean()
        assert abs(square / ((0.3**2 - 0.01**2) / (2 * np.log(30))) - 1) < 5 * 3.1 / np.sqrt(2001)
    assert np.abs(near).max() < 5 * FARTHEST
    assert (corner[:, 0] >= 0.0).all()
    assert (corner[:, 1] <= 0.0).all()
