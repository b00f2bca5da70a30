import math
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.errors import ConfigError
from fedsim.space import Box, Parameter, Space, uniform_design

UNIT = st.floats(0, 1)
WIDTH = st.floats(1e-2, 1e3)
SCALES: list[Literal["linear", "log"]] = ["linear", "log"]


@st.composite
def parameters(draw: st.DrawFn, name: str = "p") -> Parameter:
    scale = draw(st.sampled_from(SCALES))
    lower = draw(st.floats(1e-6, 1e3) if scale == "log" else st.floats(-1e3, 1e3))
    upper = lower * draw(st.floats(1.1, 1e6)) if scale == "log" else lower + draw(WIDTH)
    kind = draw(st.sampled_from(["real", "integer", "levels"]))
    if kind == "integer":
        whole = max(1, round(lower)) if scale == "log" else round(lower)
        return Parameter(name, whole, whole + draw(st.integers(1, 500)), scale, integer=True)
    levels = draw(st.integers(2, 300)) if kind == "levels" else None
    return Parameter(name, lower, upper, scale, levels=levels)


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    count = draw(st.integers(1, 4))
    return Space(tuple(draw(parameters(f"p{i}")) for i in range(count)))


@st.composite
def points(draw: st.DrawFn) -> tuple[Space, np.ndarray]:
    space = draw(spaces())
    return space, np.array([draw(UNIT) for _ in range(space.dimension)])


class TestRoundTrips:
    @given(parameters(), UNIT)
    def test_value_and_back(self, p: Parameter, u: float) -> None:
        value = p.to_value(u)
        assert p.lower <= value <= p.upper
        assert isinstance(value, int) == p.integer
        snapped = Space((p,)).snap(np.array([u]))[0]
        assert p.to_unit(value) == pytest.approx(snapped, abs=1e-9)

    @given(points())
    def test_point_and_back(self, case: tuple[Space, np.ndarray]) -> None:
        space, u = case
        snapped = space.snap(u)
        back = space.to_unit(space.to_point(u))
        assert back == pytest.approx(snapped, abs=1e-9)
        exact = [p.finite for p in space.parameters]
        assert np.array_equal(back[exact], snapped[exact])

    @given(points())
    def test_snapping_keeps_the_values_and_is_done_once(
        self, case: tuple[Space, np.ndarray]
    ) -> None:
        space, u = case
        before = u.copy()
        snapped = space.snap(u)
        assert np.array_equal(u, before)
        assert np.array_equal(space.snap(snapped), snapped)
        assert space.to_point(snapped) == space.to_point(u)

    @given(parameters(), UNIT)
    def test_snapping_lands_on_a_value(self, p: Parameter, u: float) -> None:
        snapped = Space((p,)).snap(np.array([u]))[0]
        if p.finite:
            assert snapped in p.values()
        else:
            assert snapped == u

    @given(st.integers(2, 300), UNIT)
    def test_levels_snap_to_the_nearest(self, levels: int, u: float) -> None:
        p = Parameter("x", 0, 1, levels=levels)
        distance = np.abs(p.values() - u)
        snapped = Space((p,)).snap(np.array([u]))[0]
        assert abs(snapped - u) == pytest.approx(distance.min(), abs=1e-15)

    def test_values_of_each_scale(self) -> None:
        assert Parameter("x", -2, 6).to_value(0.25) == 0.0
        assert Parameter("x", 1e-4, 1, "log").to_value(0.5) == pytest.approx(1e-2)
        assert Parameter("x", 1, 9, integer=True).to_value(0.45) == 5
        assert Parameter("x", 0, 1, levels=5).to_value(0.3) == 0.25
        assert Parameter("x", 1, 100, "log", levels=3).to_value(0.6) == pytest.approx(10)

    def test_outside_the_cube_is_moved_to_its_border(self) -> None:
        p = Parameter("x", 2, 4)
        assert (p.to_value(-0.5), p.to_value(1.5)) == (2.0, 4.0)
        assert Space((p,)).snap(np.array([1.5])).tolist() == [1.0]

    def test_a_unit_grid_is_its_own_coordinates(self) -> None:
        p = Parameter("x", 0.0, 1.0, levels=1000)
        assert [p.to_value(u) for u in p.values()] == p.values().tolist()


class TestGrid:
    def test_all_points_in_order(self) -> None:
        space = Space((Parameter("a", 0, 1, levels=2), Parameter("b", 5, 9, levels=3)))
        assert space.grid is not None
        assert space.grid.tolist() == [[0, 0], [0, 0.5], [0, 1], [1, 0], [1, 0.5], [1, 1]]
        assert not space.grid.flags.writeable

    def test_no_grid_unless_every_parameter_has_levels(self) -> None:
        levels = Parameter("a", 0, 1, levels=2)
        assert Space((levels, Parameter("b", 0, 1))).grid is None
        assert Space((levels, Parameter("b", 0, 1, integer=True))).grid is None


class TestSubregions:
    @given(st.integers(1, 60), st.integers(1, 4))
    def test_equal_volumes_that_fill_the_cube(self, count: int, dimension: int) -> None:
        boxes = cube(dimension).subregions(count)
        assert len(boxes) == count
        volumes = [math.prod(np.subtract(box.upper, box.lower)) for box in boxes]
        assert volumes == pytest.approx([1 / count] * count)

    @given(st.integers(1, 30), st.integers(1, 3), st.data())
    def test_every_point_is_in_exactly_one_box(
        self, count: int, dimension: int, data: st.DataObject
    ) -> None:
        boxes = cube(dimension).subregions(count)
        borders = sorted({b for box in boxes for b in (*box.lower, *box.upper)})
        coordinate = st.one_of(UNIT, st.sampled_from(borders))
        U = np.array([[data.draw(coordinate) for _ in range(dimension)] for _ in range(5)])
        assert np.sum([box.contains(U) for box in boxes], axis=0).tolist() == [1] * 5

    @pytest.mark.parametrize("levels", [2, 6, 7, 10, 12, 49, 50, 98, 300, 1000])
    def test_every_level_is_in_exactly_one_box(self, levels: int) -> None:
        space = Space((Parameter("x", 0, 1, levels=levels),))
        assert space.grid is not None
        for count in range(1, 60):
            inside = np.sum([b.contains(space.grid) for b in space.subregions(count)], axis=0)
            assert inside.tolist() == [1] * levels

    @pytest.mark.parametrize(
        ("count", "dimension", "cuts"),
        [(2, 1, (2,)), (3, 2, (3, 1)), (4, 2, (2, 2)), (4, 3, (2, 2, 1)), (12, 2, (6, 2))],
    )
    def test_how_the_cube_is_cut(self, count: int, dimension: int, cuts: tuple[int, ...]) -> None:
        boxes = cube(dimension).subregions(count)
        distinct = tuple(len({box.lower[i] for box in boxes}) for i in range(dimension))
        assert distinct == cuts

    def test_the_papers_quarters(self) -> None:
        # DP-FTS-DE, App. B.2.1: X_1 .. X_4 for D = 2.
        assert cube(2).subregions(4) == (
            Box((0, 0), (0.5, 0.5)),
            Box((0, 0.5), (0.5, 1)),
            Box((0.5, 0), (1, 0.5)),
            Box((0.5, 0.5), (1, 1)),
        )

    def test_no_subregions_is_an_error(self) -> None:
        with pytest.raises(ConfigError, match="expected at least 1, got 0"):
            cube(2).subregions(0)

    @given(st.integers(1, 12), st.lists(st.floats(-1, 2), min_size=2, max_size=2))
    def test_clipping_moves_into_the_box(self, count: int, u: list[float]) -> None:
        U = np.array([u])
        for box in cube(2).subregions(count):
            clipped = box.clip(U)
            assert box.contains(clipped).all()
            if box.contains(U).all():
                assert np.array_equal(clipped, U)


class TestUniformDesign:
    @given(st.integers(1, 9), st.integers(0, 99))
    def test_inside_its_box_and_on_the_levels(self, regions: int, seed: int) -> None:
        space = Space((Parameter("a", 0, 1, levels=50), Parameter("b", 1, 9, "log")))
        for box in space.subregions(regions):
            U = uniform_design(space, box, 20, np.random.default_rng(seed))
            assert U.shape == (20, 2)
            assert box.contains(U).all()
            assert np.isin(U[:, 0], space.parameters[0].values()).all()

    @given(st.integers(0, 99))
    def test_boxes_are_paired(self, seed: int) -> None:
        designs = [
            uniform_design(cube(2), box, 10, np.random.default_rng(seed)) - box.lower
            for box in cube(2).subregions(4)
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
        box = cube(1).subregions(4)[1]
        U = uniform_design(cube(1), box, 4000, np.random.default_rng(1))
        assert U.mean() == pytest.approx(0.375, abs=4 * 0.25 / math.sqrt(12 * 4000))
        assert U.var() == pytest.approx(0.25**2 / 12, rel=0.06)

    def test_a_box_without_levels_is_an_error(self) -> None:
        space = Space((Parameter("x", 0, 1, levels=3),))
        with pytest.raises(ConfigError, match=r"none of the 3 levels of 'x'.*fewer sub-regions"):
            uniform_design(space, space.subregions(8)[1], 2, np.random.default_rng(0))


class TestRefusals:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"lower": math.nan}, "finite bounds"),
            ({"upper": math.inf}, "finite bounds"),
            ({"lower": -1e308, "upper": 1e308}, "finite bounds"),
            ({"lower": 1.0}, "lower < upper"),
            ({"lower": 0.0, "scale": "log"}, "lower > 0"),
            ({"scale": "cubic"}, "'linear' or 'log'"),
            ({"levels": 1}, "at least 2 levels"),
            ({"levels": 3, "integer": True}, "either integer or levels"),
            ({"lower": 0.5, "upper": 3.0, "integer": True}, "whole bounds"),
        ],
    )
    def test_parameters(self, settings: dict[str, Any], message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            Parameter("p", **{"lower": 0.0, "upper": 1.0, **settings})

    def test_spaces(self) -> None:
        with pytest.raises(ConfigError, match="at least one parameter"):
            Space(())
        with pytest.raises(ConfigError, match="different parameter names"):
            Space((Parameter("a", 0, 1), Parameter("a", 0, 2)))

    @pytest.mark.parametrize(
        ("point", "message"),
        [
            ({"alhpa": 0.5, "beta": 2}, "unknown parameter 'alhpa'; did you mean 'alpha'"),
            ({"alpha": 0.5}, "missing parameter beta"),
            ({"alpha": 1.5, "beta": 2}, r"alpha: expected a value in \[0, 1\], got 1.5"),
            ({"alpha": math.nan, "beta": 2}, "alpha: expected a value in"),
            ({"alpha": "0.5", "beta": 2}, "alpha: expected a number, got '0.5'"),
            ({"alpha": 0.5, "beta": True}, "beta: expected a number, got True"),
            ([0.5], r"expected 2 values \(alpha, beta\), got 1"),
        ],
    )
    def test_points(self, point: Any, message: str) -> None:
        space = Space((Parameter("alpha", 0, 1), Parameter("beta", 1, 3, integer=True)))
        with pytest.raises(ConfigError, match=message):
            space.to_unit(point)

    def test_points_by_position(self) -> None:
        space = Space((Parameter("alpha", 0, 4), Parameter("beta", 1, 3, integer=True)))
        assert space.to_unit([1.0, 2]).tolist() == [0.25, 0.5]


def cube(dimension: int) -> Space:
    return Space(tuple(Parameter(f"x{i}", 0, 1) for i in range(dimension)))
