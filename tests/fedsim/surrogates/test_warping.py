"""Warps of the unit cube, and which one is chosen."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.space import Array, Choice, Parameter, Space
from fedsim.surrogates import warping
from fedsim.surrogates.fit import most_likely
from fedsim.surrogates.kernels import Kernel
from fedsim.surrogates.rff import draw_features
from fedsim.surrogates.scaling import standardised
from fedsim.surrogates.warping import STRENGTHS, Warp, choice_size, choose_warp, identity

UNIT = st.floats(0, 1)
PLANE = Space((Parameter("a", 0.0, 1.0), Parameter("b", 0.0, 1.0)))


def test_the_definition() -> None:
    U = np.array([[0.0, 0.0], [1e-3, 1e-3], [0.3, 0.3], [1.0, 1.0]])
    c = 10.0**2.5 - 1.0
    expected = np.log(1.0 + c * U[:, 0]) / np.log(1.0 + c)
    V = Warp((0.5, -0.5)).forward(U)
    np.testing.assert_allclose(V[:, 0], expected, rtol=1e-14)
    mirrored = np.log(1.0 + c * (1.0 - U[:, 1])) / np.log(1.0 + c)
    np.testing.assert_allclose(V[:, 1], 1.0 - mirrored, rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(V[[0, 3]], U[[0, 3]])
    # Five decades: the middle of the warped axis is at about 10^-2.5.
    assert Warp((1.0,)).inverse(np.array([[0.5]]))[0, 0] == pytest.approx(10**-2.5, rel=0.01)


def test_an_identity_returns_its_argument() -> None:
    U = np.random.default_rng(0).random((3, 2))
    assert identity(2).is_identity
    assert identity(2).forward(U) is U
    assert identity(2).inverse(U) is U
    assert not Warp((0.0, -0.25)).is_identity


STRENGTH = st.floats(-1, 1).map(lambda a: round(a, 6))


@given(st.lists(STRENGTH, min_size=2, max_size=2), st.lists(UNIT, min_size=2, max_size=2))
def test_there_and_back_inside_the_cube(strengths: list[float], u: list[float]) -> None:
    warp, U = Warp(tuple(strengths)), np.array([u])
    for there, back in ((warp.forward, warp.inverse), (warp.inverse, warp.forward)):
        V = there(U)
        assert ((V >= 0.0) & (V <= 1.0)).all()
        # Rounding is up to 1e-16 where the slope is up to 1e4.
        np.testing.assert_allclose(back(V), U, atol=1e-11)


@pytest.mark.parametrize("a", [-1.0, -0.3, 0.0, 0.25, 1.0])
def test_slopes_are_derivatives(a: float) -> None:
    warp, U = Warp((a,)), np.linspace(0.01, 0.99, 25)[:, None]
    assert (np.diff(warp.forward(U)[:, 0]) > 0.0).all()
    h = 1e-6
    differences = (warp.forward(U + h) - warp.forward(U - h)) / (2 * h)
    np.testing.assert_allclose(warp.slopes(U), differences, rtol=1e-5)


def test_public_sizes() -> None:
    sizes = sorted({choice_size(n) for n in range(140)})
    assert sizes == [0, 10, 15, 20, 30, 40, 55, 75, 100, 135]
    assert [choice_size(n) for n in (9, 10, 14, 15, 54, 55)] == [0, 10, 10, 15, 40, 55]


def observations(
    warp: Warp, count: int, seed: int, scale: float = 0.3, noise: float = 0.02
) -> tuple[Array, Array]:
    """Return uniform points and outputs of a function that is smooth in warped coordinates."""
    rng, D = np.random.default_rng(seed), len(warp.strengths)
    kernel = Kernel("squared_exponential", (scale,), 1.0)
    features = draw_features(kernel, D, 300, rng, normalised=False)
    U = rng.random((count, D))
    y = features.matrix(warp.forward(U)) @ rng.standard_normal(300)
    return U, standardised(y + noise * rng.standard_normal(count))


def doubt(warp: Warp) -> float:
    """Minus the log of the prior density, but for a constant."""
    return sum(2.0 * a if a > 0.0 else 8.0 * abs(a) for a in warp.strengths)


def costs(warps: list[Warp], U: Array, y: Array) -> list[float]:
    return [most_likely("squared_exponential", False, w.forward(U), y)[1] + doubt(w) for w in warps]


@pytest.mark.parametrize("true", [identity(2), Warp((1.0, 0.25))])
def test_the_choice_is_about_the_best_of_all(true: Warp) -> None:
    # In 24 histories, the best log densities differed by 0.06 at most. Without the prior, the worst
    # of these six choices is more than 2 below the best.
    warps = [Warp(each) for each in itertools.product(STRENGTHS, repeat=2)]
    for seed in range(3):
        U, y = observations(true, 10, seed)
        chosen = choose_warp(PLANE, "squared_exponential", False, U, y)
        assert costs([chosen], U, y)[0] <= min(costs(warps, U, y)) + 0.5


def chosen_where(true: Warp, ard: bool, seeds: int, count: int = 40) -> Array:
    """Return the strengths that are chosen for functions with a scale, shape (seeds, D)."""
    D = len(true.strengths)
    space = Space(tuple(Parameter(f"x{d}", 0.0, 1.0) for d in range(D)))
    found = []
    for seed in range(seeds):
        U, y = observations(true, count, seed, scale=0.3 * math.sqrt(D))
        found.append(choose_warp(space, "matern52", ard, U, y).strengths)
    return np.array(found)


@pytest.mark.parametrize("dimension", [1, 2, 4])
@pytest.mark.parametrize("ard", [False, True])
def test_a_scale_of_its_own_is_found(dimension: int, ard: bool) -> None:
    # Statistical: the mean of the first axis was 0.44 to 0.94, and of any other at most 0.13, in
    # four such fours for each case.
    means = chosen_where(Warp((1.0,) + (0.0,) * (dimension - 1)), ard, 4).mean(axis=0)
    assert means[0] >= 0.25
    assert (np.abs(means[1:]) <= 0.3).all()


@pytest.mark.parametrize("dimension", [1, 2])
def test_a_scale_of_the_upper_end_is_found(dimension: int) -> None:
    # Statistical: the mean of the first axis was -0.88 to -0.25 in four such fours for each case.
    means = chosen_where(Warp((-1.0,) + (0.0,) * (dimension - 1)), False, 4).mean(axis=0)
    assert means[0] <= -0.1
    assert (np.abs(means[1:]) <= 0.3).all()


def test_a_function_without_a_scale_is_seldom_warped() -> None:
    # Statistical: the mean strength was 0 to 0.06 in six such eights.
    assert np.abs(chosen_where(identity(2), False, 8, count=15)).mean() <= 0.15


def test_in_other_units_the_choice_is_the_same() -> None:
    U, y = observations(Warp((1.0, 0.5)), 20, 3)
    chosen = choose_warp(PLANE, "matern52", False, U, y)
    assert choose_warp(PLANE, "matern52", False, U, 2.0**300 * y) == chosen
    assert choose_warp(PLANE, "matern52", False, U, 2.0**-300 * y) == chosen


def test_choices_have_no_scale() -> None:
    space = Space(
        (Choice("c", ["a", "b", "c"]), Parameter("x", 0, 1), Parameter("n", 1, 9, integer=True))
    )
    U, y = observations(Warp((0.0, 1.0, 0.0)), 30, 0)
    warp = choose_warp(space, "matern52", False, space.snap(U), y)
    assert warp.strengths[0] == 0.0
    assert warp.strengths[1] > 0.0
    only = Space((Choice("c", ["a", "b"]),))
    U = np.array([[0.25], [0.75]])
    assert choose_warp(only, "matern52", False, U, np.array([1.0, -1.0])).is_identity


def test_without_evidence_nothing_is_warped() -> None:
    # The outputs do not depend on the second parameter's only value.
    U, y = observations(Warp((1.0, 0.0)), 20, 1)
    U[:, 1] = 0.0
    assert choose_warp(PLANE, "matern52", False, U, y).strengths[1] == 0.0
    assert STRENGTHS[0] == 0.0
    assert warping.FIRST_CHOICE == 10
