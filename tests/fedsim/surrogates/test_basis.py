"""Basis functions that are joined, and their sums."""

from __future__ import annotations

import numpy as np

from fedsim.surrogates.basis import BasisSum, JoinedBasis
from fedsim.surrogates.trend import Trend

FIRST, SECOND = Trend((0,)), Trend((0, 1))
Z = np.random.default_rng(0).random((6, 2))


def test_a_joined_basis_has_the_functions_of_both() -> None:
    joined = JoinedBasis(FIRST, SECOND)
    assert joined.terms == 4 + 14
    F = np.hstack([FIRST.matrix(Z), SECOND.matrix(Z)])
    np.testing.assert_array_equal(joined.matrix(Z), F)


def test_sums_and_their_gradients() -> None:
    joined, h = JoinedBasis(FIRST, SECOND), 1e-6
    weights = np.random.default_rng(1).standard_normal(18)
    total = BasisSum(joined, weights)
    values, gradients = total.values_and_gradients(Z)
    np.testing.assert_allclose(values, joined.matrix(Z) @ weights, atol=1e-12)
    np.testing.assert_allclose(total.values(Z), values, atol=1e-12)
    rows = joined.sums_and_gradients(Z, np.tile(weights, (6, 1)))
    np.testing.assert_allclose(rows[0], values, atol=1e-12)
    np.testing.assert_allclose(rows[1], gradients, atol=1e-12)
    for d in range(2):
        step = h * np.eye(2)[d]
        differences = (total.values(Z + step) - total.values(Z - step)) / (2 * h)
        np.testing.assert_allclose(gradients[:, d], differences, atol=1e-6)
