"""Uniform designs, and designs that begin with corners."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.errors import ConfigError
from fedsim.space import Array, Box, Choice, Parameter, Space, corner_design, uniform_design

LINE = Space((Parameter("x", 0.0, 1.0),))
PLANE = Space((Parameter("a", 0.0, 1.0), Parameter("b", 0.0, 1.0)))
CUBE = Box((0.0, 0.0), (1.0, 1.0))


class TestUniformDesign:
    @given(st.integers(1, 9), st.integers(0, 99))
    def test_inside_its_box_and_on_the_levels(self, regions: int, seed: int) -> None:
        space = Space((Parameter("a", 0, 1, levels=50), Parameter("b", 1, 9, "log")))
        for box in space.subregions(regions):
            U = uniform_design(space, box, 20, np.random.default_rng(seed))
            assert U.shape == (20, 2)
            assert box.contains(U).all()
            assert np.isin(U[:, 0], np.arange(50) / 49).all()

    @given(st.integers(0, 99))
    def test_boxes_are_paired(self, seed: int) -> None:
        designs = [
            uniform_design(PLANE, box, 10, np.random.default_rng(seed)) - box.lower
            for box in PLANE.subregions(4)
        ]
        for design in designs[1:]:
            assert design == pytest.approx(designs[0], abs=1e-12)

    def test_grid_boxes_are_paired(self) -> None:
        space = Space((Parameter("x", 0, 1, levels=1000),))
        low, high = (
            uniform_design(space, box, 50, np.random.default_rng(0)) for box in space.subregions(2)
        )
        assert np.rint(999 * (high - low)).tolist() == [[500.0]] * 50

    def test_every_level_of_the_box_is_as_likely(self) -> None:
        space = Space((Parameter("x", 0, 1, levels=10),))
        box = space.subregions(2)[1]
        U = uniform_design(space, box, 5000, np.random.default_rng(0))
        levels, counts = np.unique(U, return_counts=True)
        assert levels.tolist() == [k / 9 for k in range(5, 10)]
        # Binomial(5000, 1/5): standard deviation 28.3; 4 of them.
        assert np.abs(counts - 1000).max() < 114

    def test_uniform_in_a_continuous_box(self) -> None:
        box = LINE.subregions(4)[1]
        U = uniform_design(LINE, box, 4000, np.random.default_rng(1))
        assert U.mean() == pytest.approx(0.375, abs=4 * 0.25 / math.sqrt(12 * 4000))
        assert U.var() == pytest.approx(0.25**2 / 12, rel=0.06)

    def test_a_box_without_levels_is_an_error(self) -> None:
        space = Space((Parameter("x", 0, 1, levels=3),))
        with pytest.raises(ConfigError, match=r"none of the 3 levels of 'x'.*fewer sub-regions"):
            uniform_design(space, Box((0.125,), (0.25,)), 2, np.random.default_rng(0))


def corners_of(space: Space, box: Box, count: int, seed: int = 0) -> Array:
    generator, choosing = np.random.default_rng(seed), np.random.default_rng(seed + 1000)
    return corner_design(space, box, count, generator, choosing)


class TestCornerDesign:
    def test_all_corners_come_first_where_they_are_at_most_half(self) -> None:
        U = corners_of(PLANE, CUBE, 8)
        assert U[:4].tolist() == [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
        uniform = uniform_design(PLANE, CUBE, 8, np.random.default_rng(0))
        assert np.array_equal(U[4:], uniform[4:])

    @given(st.integers(1, 70), st.integers(1, 40), st.integers(0, 9))
    def test_else_half_are_different_corners(self, dimension: int, count: int, seed: int) -> None:
        space = Space(tuple(Parameter(f"x{d}", 0.0, 1.0) for d in range(dimension)))
        box = Box((0.0,) * dimension, (1.0,) * dimension)
        U = corners_of(space, box, count, seed)
        at_corner = np.isin(U, (0.0, 1.0)).all(axis=1)
        expected = min(2**dimension, count // 2)
        assert at_corner.tolist() == [i < expected for i in range(count)]
        assert len({tuple(u) for u in U[:expected].tolist()}) == expected

    def test_which_corners_depends_on_the_key(self) -> None:
        space = Space(tuple(Parameter(f"x{d}", 0.0, 1.0) for d in range(6)))
        box = Box((0.0,) * 6, (1.0,) * 6)
        assert not np.array_equal(
            corners_of(space, box, 10, 0)[:5], corners_of(space, box, 10, 1)[:5]
        )

    def test_corners_of_a_part_lie_in_it(self) -> None:
        for box in PLANE.subregions(4):
            U = corners_of(PLANE, box, 8)
            assert box.contains(U).all()
            ends = [(box.lower[d], box.highest[d]) for d in range(2)]
            assert U[:4].tolist() == [[a, b] for a in ends[0] for b in ends[1]]

    def test_ends_are_values_of_the_parameters(self) -> None:
        space = Space((Parameter("n", 1, 9, "log", integer=True), Parameter("v", 0, 1, levels=7)))
        points = [space.to_point(u) for u in corners_of(space, CUBE, 8)[:4]]
        assert [tuple(p.values()) for p in points] == [(1, 0.0), (1, 1.0), (9, 0.0), (9, 1.0)]
        for part in space.subregions(2):
            U = corners_of(space, part, 8)[:4]
            assert part.contains(U).all()
            assert np.array_equal(space.snap(U), U)
            assert len({tuple(u) for u in U.tolist()}) == 4
            assert set(U[:, 1].tolist()) == {0.0, 1.0}

    @given(st.integers(1, 60), st.integers(2, 60), st.sampled_from(["linear", "log"]))
    def test_ends_lie_in_every_part(self, parts: int, values: int, scale: Any) -> None:
        # Borders of parts are borders of cells, where rounding decides which cell a number is in.
        space = Space((Parameter("n", 1, values, scale, integer=True), Parameter("x", 0, 1)))
        assert space.parameters[0].cells is not None
        cells = space.parameters[0].cells
        for box in space.subregions(min(parts, values)):
            U = corners_of(space, box, 8)[:4]
            assert box.contains(U[:2]).all()
            inside = [u for u in cells.units(np.arange(values)) if box.lower[0] <= u < box.upper[0]]
            expected = {inside[0], inside[-1]} if len(inside) > 1 else {inside[0]}
            assert set(U[: 2 * len(expected), 0].tolist()) == expected

    def test_choices_vary_as_in_the_uniform_design(self) -> None:
        space = Space((Choice("c", ["a", "b", "c"]), Parameter("x", 0.0, 1.0)))
        U = corners_of(space, CUBE, 9)
        uniform = uniform_design(space, CUBE, 9, np.random.default_rng(0))
        assert np.array_equal(U[:, 0], uniform[:, 0])
        assert U[:2, 1].tolist() == [0.0, 1.0]
        assert np.array_equal(U[2:], uniform[2:])
        nothing = Space((Choice("c", ["a", "b", "c"]),))
        box = Box((0.0,), (1.0,))
        uniform = uniform_design(nothing, box, 9, np.random.default_rng(0))
        assert np.array_equal(corners_of(nothing, box, 9), uniform)

    def test_an_axis_with_one_value_in_the_box_has_no_ends(self) -> None:
        space = Space((Parameter("n", 1, 2, integer=True), Parameter("x", 0.0, 1.0)))
        U = corners_of(space, space.subregions(2)[0], 8)
        assert U[:2].tolist() == [[0.25, 0.0], [0.25, 1.0]]
        assert len({tuple(u) for u in U.tolist()}) == 8
