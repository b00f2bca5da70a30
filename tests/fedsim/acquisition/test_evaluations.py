"""Values and gradients that are computed once."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import fmin_l_bfgs_b

from fedsim.acquisition.evaluations import Evaluations
from fedsim.acquisition.refinement import quasi_newton
from fedsim.space import Array, Box
from fedsim.surrogates import fit as fits


def test_each_point_is_evaluated_once() -> None:
    asked: list[float] = []

    def square(u: Array) -> tuple[float, Array]:
        asked.append(float(u[0]))
        return float(u @ u), 2.0 * u

    known = Evaluations(square)
    for u in (1.0, 2.0, 1.0):
        assert known.value(np.array([u])) == u * u
        np.testing.assert_array_equal(known.gradient(np.array([u])), [2.0 * u])
    assert asked == [1.0, 2.0]


class Counted:
    """A bowl with ripples that keeps the points it was evaluated at."""

    def __init__(self) -> None:
        self.points: list[bytes] = []

    def values(self, U: Array) -> Array:
        return self.values_and_gradients(U)[0]

    def values_and_gradients(self, U: Array) -> tuple[Array, Array]:
        self.points += [u.tobytes() for u in U]
        V = U - np.linspace(0.3, 0.7, U.shape[1])
        values = -np.square(V).sum(axis=1) + 0.05 * np.cos(9.0 * V).sum(axis=1)
        return values, -2.0 * V - 0.45 * np.sin(9.0 * V)


def test_a_climb_evaluates_no_point_twice_and_ends_where_plain_calls_end() -> None:
    box, starts = Box((0.0,) * 4, (1.0,) * 4), np.random.default_rng(0).random((3, 4))
    counted = Counted()
    ends, values = quasi_newton(counted, box, starts, 1.0)
    assert len(set(counted.points)) == len(counted.points)
    bounds = list(zip(box.lower, box.highest, strict=True))
    for start, end, value in zip(starts, ends, values, strict=True):

        def descent(u: Array) -> tuple[float, Array]:
            found, gradients = Counted().values_and_gradients(u[None])
            return -float(found[0]), -gradients[0]

        _, reached, _ = fmin_l_bfgs_b(descent, start, bounds=bounds, factr=0.0, pgtol=1e-8)
        assert abs(-reached - value) < 1e-6
        np.testing.assert_array_equal(np.clip(end, 0.0, 1.0), end)


def test_a_fit_evaluates_no_parameters_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    X = rng.random((12, 3))
    asked: list[bytes] = []
    y = np.sin(4.0 * X[:, 0]) + 0.1 * rng.standard_normal(12)
    original = fits.negative_log_likelihood

    def counted(theta: Array, *rest: object) -> tuple[float, Array]:
        asked.append(theta.tobytes())
        return original(theta, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(fits, "negative_log_likelihood", counted)
    fits.fit("matern52", False, X, y - y.mean())
    assert len(set(asked)) == len(asked) > 4
