"""Vectors of what histories say about scales, and what follows from their sum."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.space import Array, Choice, Parameter, Space
from fedsim.surrogates.kernels import Family, Kernel
from fedsim.surrogates.rff import draw_features
from fedsim.surrogates.scaling import standardised
from fedsim.surrogates.shared_scales import SHARED_STRENGTHS, ScaleVectors, SharedScales
from fedsim.surrogates.warping import STRENGTHS, Warp, WarpCosts, choose_warp, doubt_of, identity

FAMILY: Family = "squared_exponential"


def cube(dimension: int) -> Space:
    return Space(tuple(Parameter(f"x{d}", 0.0, 1.0) for d in range(dimension)))


PLANE = cube(2)
NODES = list(itertools.product(SHARED_STRENGTHS, repeat=2))


def vectors_of(
    monkeypatch: pytest.MonkeyPatch, dimension: int, T: Callable[[tuple[float, ...]], float]
) -> Array:
    """Return the vector of a log likelihood T(strengths)."""
    monkeypatch.setattr(WarpCosts, "rough_misfit", lambda _, warp: -T(warp.strengths))
    return ScaleVectors(cube(dimension)).vector(
        FAMILY, False, np.zeros((2, dimension)), np.array([1.0, -1.0])
    )


@given(st.lists(st.floats(-9, 9), min_size=6, max_size=6))
def test_quadratic_log_likelihoods_are_kept_exactly(c: list[float]) -> None:
    # And a constant is not: c[0] changes nothing.
    def likelihood(a: tuple[float, ...]) -> float:
        x, y = a
        return c[0] + c[1] * x + c[2] * y + c[3] * x * x + c[4] * x * y + c[5] * y * y

    with pytest.MonkeyPatch.context() as monkeypatch:
        v = vectors_of(monkeypatch, 2, likelihood)
    assert v.shape == (5,)
    values = np.array([likelihood(node) for node in NODES])
    found = ScaleVectors(PLANE).scales(v, 0.0, 1)
    gains = [found.gain(Warp(node)) for node in NODES]
    np.testing.assert_allclose(gains, values - values[0], atol=1e-9)
    # The norm is the root mean square over the nodes.
    assert np.linalg.norm(v) == pytest.approx(values.std(), abs=1e-9)


def test_in_more_dimensions_each_axis_is_warped_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    slopes, asked = np.array([3.0, -1.0, 0.5, 2.0]), set[tuple[float, ...]]()

    def likelihood(a: tuple[float, ...]) -> float:
        asked.add(a)
        return float(7.0 + slopes @ a + np.square(a).sum())

    v = vectors_of(monkeypatch, 4, likelihood)
    assert v.shape == (8,)
    assert max(np.count_nonzero(a) for a in asked) == 1
    found = ScaleVectors(cube(4)).scales(v, 0.0, 1)
    for a in ((1.0, 0.25, 0.0, 0.5), (0.0,) * 4, (1.0,) * 4):
        assert found.gain(Warp(a)) == pytest.approx(likelihood(a) - 7.0)
    # exp(-2 a) is each axis' prior: 3 + a and 2 + a beat it, -1 + a and 0.5 + a do not.
    assert found.common() == Warp((1.0, 0.0, 0.0, 1.0))


@pytest.mark.parametrize(
    ("space", "size"),
    [
        (cube(1), 2),
        (PLANE, 5),
        (cube(3), 6),
        (
            Space(
                (Choice("c", ["a", "b"]), Parameter("x", 0, 1), Parameter("n", 1, 9, integer=True))
            ),
            5,
        ),
        (Space((Choice("c", ["a", "b"]),)), 0),
    ],
)
def test_sizes(space: Space, size: int) -> None:
    assert ScaleVectors(space).size == size


def test_choices_are_never_warped() -> None:
    space = Space((Choice("c", ["a", "b", "c"]), *cube(1).parameters))
    vectors = ScaleVectors(space)
    found = vectors.scales(np.array([40.0, 0.0]), 0.0, 1)
    assert found.groups == ((1,),)
    assert found.common() == Warp((0.0, 1.0))


def test_what_may_be_noise_is_taken_off() -> None:
    vectors = ScaleVectors(PLANE)
    m = np.array([6.0, -2.0, 1.0, 0.5, -0.3])
    plain = [vectors.scales(m, 0.0, 9).gain(Warp(node)) for node in NODES]
    draws = np.random.default_rng(0).standard_normal((4000, 5))
    noisy = np.array(
        [[vectors.scales(x, 0.0, 9).gain(Warp(node)) for node in NODES] for x in draws[:400]]
    )
    deviations = [
        max(plain) - vectors.scales(m, s, 9).gain(Warp(NODES[int(np.argmax(plain))]))
        for s in (0.0, 0.5, 1.0)
    ]
    assert deviations[0] == 0.0
    assert deviations[2] == pytest.approx(2.0 * deviations[1])
    # Statistical: it is the deviation of the gain; of 400 draws within 20 % (6 standard errors).
    best = int(np.argmax(plain))
    assert deviations[2] == pytest.approx(noisy[:, best].std(), rel=0.2)
    for gain, node in zip(plain, NODES, strict=True):
        shrunk = vectors.scales(m, 1.5, 9).gain(Warp(node))
        assert shrunk == gain if gain <= 0.0 else 0.0 <= shrunk < gain


def test_noise_alone_is_more_often_ignored_than_followed() -> None:
    # Statistical: 0.41 of 1000 draws had a warp, and 0.83 where nothing was taken off; the standard
    # error of 300 is 0.03.
    vectors = ScaleVectors(PLANE)
    draws = 5.0 * np.random.default_rng(1).standard_normal((300, 5))
    assert np.mean([not vectors.scales(m, 5.0, 9).common().is_identity for m in draws]) < 0.5
    assert np.mean([not vectors.scales(m, 0.0, 9).common().is_identity for m in draws]) > 0.7


def scales_of(gain: float) -> SharedScales:
    """Scales on which every warp of the first axis gains the same."""
    gains = tuple(gain if a else 0.0 for a, _ in NODES)
    return SharedScales(2, ((0, 1),), (gains,), agents=10)


def test_the_prior_of_an_own_warp() -> None:
    doubt = scales_of(30.0).doubt(4.0)
    assert doubt(Warp((0.5, 0.0))) == doubt_of(Warp((0.5, 0.0))) - 4.0 * 30.0 / 10
    assert doubt(identity(2)) == 0.0
    # What speaks against a warp is not held against an own history that shows it.
    assert scales_of(-30.0).doubt(4.0)(Warp((0.5, 0.0))) == doubt_of(Warp((0.5, 0.0)))
    # Nothing is known of the upper end.
    assert doubt(Warp((-1.0, 0.0))) == doubt_of(Warp((-1.0, 0.0)))
    assert all(scales_of(30.0).doubt(0.0)(Warp(a)) == doubt_of(Warp(a)) for a in NODES)


def observations(warp: Warp, count: int, seed: int) -> tuple[Array, Array]:
    """Return uniform points and outputs of a function that is smooth in warped coordinates."""
    rng, D = np.random.default_rng(seed), len(warp.strengths)
    features = draw_features(Kernel(FAMILY, (0.3,), 1.0), D, 300, rng, normalised=False)
    U = rng.random((count, D))
    y = features.matrix(warp.forward(U)) @ rng.standard_normal(300)
    return U, standardised(y + 0.02 * rng.standard_normal(count))


def alone_and_together(true: Warp, seed: int, agents: int = 15) -> tuple[Array, Warp]:
    """Return the mean strengths that single agents choose from 10 observations, and all's."""
    vectors, alone, total = ScaleVectors(PLANE), [], np.zeros(5)
    for agent in range(agents):
        U, y = observations(true, 10, 1000 * seed + agent)
        total += vectors.vector(FAMILY, False, U, y)
        if agent < 4:
            alone.append(choose_warp(PLANE, FAMILY, False, U, y).strengths)
    return np.mean(alone, axis=0), vectors.scales(total, 0.0, agents).common()


def test_together_they_find_a_scale_that_none_finds_alone() -> None:
    # Statistical: in 8 trials (and 8 with 30 agents) all chose (0.75, 0.75) together; alone, the
    # mean strength of 24 agents was 0.33.
    trials = [alone_and_together(Warp((1.0, 1.0)), seed) for seed in range(3)]
    assert all(min(common.strengths) >= 0.5 for _, common in trials)
    assert np.mean([alone for alone, _ in trials]) < 0.6


def test_without_a_scale_there_is_none_together() -> None:
    # Statistical: in 16 trials as above, none was found.
    commons = [alone_and_together(identity(2), seed)[1] for seed in range(2)]
    assert [common.is_identity for common in commons] == [True, True]


def test_a_prior_from_others_decides_where_ones_own_history_does_not() -> None:
    U, y = observations(identity(2), 10, 3)
    assert choose_warp(PLANE, FAMILY, False, U, y).is_identity
    others = scales_of(400.0)
    chosen = choose_warp(PLANE, FAMILY, False, U, y, doubt=others.doubt(4.0))
    assert chosen.strengths[0] > 0.0
    assert choose_warp(PLANE, FAMILY, False, U, y, doubt=others.doubt(0.0)).is_identity


def test_equal_outputs_say_nothing() -> None:
    U = np.random.default_rng(0).random((6, 2))
    np.testing.assert_array_equal(
        ScaleVectors(PLANE).vector(FAMILY, False, U, np.zeros(6)), np.zeros(5)
    )


def test_in_other_units_the_vector_is_the_same() -> None:
    U, y = observations(Warp((1.0, 0.5)), 12, 3)
    vectors = ScaleVectors(PLANE)
    v = vectors.vector(FAMILY, False, U, y)
    np.testing.assert_array_equal(vectors.vector(FAMILY, False, U, 2.0**300 * y), v)
    assert np.isfinite(v).all()
    assert v.any()


def test_nodes_are_strengths_that_can_be_chosen() -> None:
    assert SHARED_STRENGTHS == (0.0, 0.25, 0.5, 0.75, 1.0)
    assert set(SHARED_STRENGTHS) <= set(STRENGTHS)
