import itertools
import math
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.errors import ConfigError
from fedsim.space import Array, Box, Choice, Parameter, Space, uniform_design
from fedsim.space.cells import Levels

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


OPTIONS = st.one_of(st.text(max_size=5), st.integers(-9, 9), st.floats(-9, 9), st.booleans())


@st.composite
def choices(draw: st.DrawFn, name: str = "p") -> Choice:
    return Choice(name, draw(st.lists(OPTIONS, min_size=2, max_size=7, unique=True)))


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    count = draw(st.integers(1, 4))
    kinds = [st.one_of(parameters(f"p{i}"), choices(f"p{i}")) for i in range(count)]
    return Space(tuple(draw(kind) for kind in kinds))


def units(p: Parameter | Choice) -> Array:
    assert p.cells is not None
    return p.cells.units(np.arange(p.cells.count))


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
        exact = [p.cells is not None for p in space.parameters]
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
        if p.cells:
            assert snapped in units(p)
        else:
            assert snapped == u

    @given(st.integers(2, 300), UNIT)
    def test_levels_snap_to_the_nearest(self, levels: int, u: float) -> None:
        p = Parameter("x", 0, 1, levels=levels)
        distance = np.abs(units(p) - u)
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
        assert [p.to_value(u) for u in units(p)] == units(p).tolist()


class TestValuesAreWhatWasWritten:
    @pytest.mark.parametrize(
        ("p", "values"),
        [
            (Parameter("x", 1e-4, 1, "log", levels=5), [1e-4, 1e-3, 1e-2, 1e-1, 1.0]),
            (Parameter("x", 0.1, 1e3, "log", levels=5), [0.1, 1.0, 10.0, 100.0, 1000.0]),
            (Parameter("x", 0, 0.5, levels=6), [0, 0.1, 0.2, 0.3, 0.4, 0.5]),
            (Parameter("x", -1.1, 2.2, levels=4), [-1.1, 0.0, 1.1, 2.2]),
            (Parameter("x", 16, 256, "log", integer=True, levels=5), [16, 32, 64, 128, 256]),
            (Parameter("x", 10, 40, integer=True, levels=4), [10, 20, 30, 40]),
        ],
    )
    def test_levels(self, p: Parameter, values: list[float]) -> None:
        found = [p.to_value(u) for u in units(p)]
        assert found == values
        assert {type(v) for v in found} == {int if p.integer else float}

    @given(st.floats(1e-300, 1e300), st.floats(1e-300, 1e300))
    def test_bounds_of_a_log_scale(self, a: float, b: float) -> None:
        if a != b:
            p = Parameter("x", min(a, b), max(a, b), "log")
            assert (p.to_value(0.0), p.to_value(1.0)) == (p.lower, p.upper)

    @given(points())
    def test_a_point_of_the_space_is_kept(self, case: tuple[Space, np.ndarray]) -> None:
        space, u = case
        point = space.to_point(u)
        assert space.checked(point) == point
        assert {n: type(v) for n, v in space.checked(point).items()} == {
            n: type(v) for n, v in point.items()
        }


class TestIntegersAndChoices:
    @pytest.mark.parametrize(
        "p", [Parameter("n", 0, 2, integer=True), Choice("n", ["a", "b", "c"])]
    )
    def test_each_of_three_values_owns_a_third(self, p: Parameter | Choice) -> None:
        values = [p.to_value(u) for u in (0.0, 0.333, 0.334, 0.666, 0.667, 1.0)]
        first, second, third = values[0], values[2], values[4]
        assert values == [first, first, second, second, third, third]
        assert units(p) == pytest.approx([1 / 6, 1 / 2, 5 / 6])
        # Binomial(9000, 1/3): standard deviation 44.7; 4 of them.
        U = uniform_design(Space((p,)), Box((0.0,), (1.0,)), 9000, np.random.default_rng(0))
        counts = np.unique(U, return_counts=True)[1]
        assert np.abs(counts - 3000).max() < 179

    def test_a_log_scale_gives_a_number_its_half_open_range(self) -> None:
        # 1 .. 7: the scale runs from 1/2 to 15/2, and v owns [v - 1/2, v + 1/2).
        p = Parameter("n", 1, 7, "log", integer=True)
        edges = [math.log((v - 0.5) / 0.5) / math.log(15) for v in range(1, 9)]
        for v, (low, high) in enumerate(itertools.pairwise(edges), start=1):
            assert p.to_value(low + 1e-9) == v
            assert p.to_value(high - 1e-9) == v
            assert p.to_unit(v) == pytest.approx(math.log(v / 0.5) / math.log(15))

    def test_embedded_options_are_one_apart(self) -> None:
        space = Space(
            (Parameter("x", 0, 1), Choice("c", ["a", "b", "d"]), Parameter("n", 0, 1, integer=True))
        )
        assert space.embedded_widths == (1, 3, 1)
        U = np.array([space.to_unit([0.3, option, 1]) for option in ("a", "b", "d")])
        Z = space.embed(U)
        assert Z[:, 0].tolist() == [0.3] * 3
        assert Z[:, 4].tolist() == [0.75] * 3
        distances = np.linalg.norm(Z[:, None] - Z[None], axis=2)
        assert distances == pytest.approx(1 - np.eye(3))
        plain = Space((Parameter("x", 0, 1), Parameter("n", 0, 1, integer=True)))
        assert plain.embed(U[:, :2]) is not None
        assert np.shares_memory(plain.embed(U), U)

    @given(points())
    def test_only_options_are_embedded(self, case: tuple[Space, np.ndarray]) -> None:
        space, u = case
        snapped = space.snap(u)
        Z = space.embed(snapped[None])[0]
        for p, x, z in zip(
            space.parameters,
            snapped,
            np.split(Z, np.cumsum(space.embedded_widths)[:-1]),
            strict=True,
        ):
            if isinstance(p, Choice):
                chosen = [p.to_value(x) == option for option in p.options]
                assert z.tolist() == [math.sqrt(0.5) if one else 0.0 for one in chosen]
            else:
                assert z.tolist() == [x]


class TestGrid:
    def test_all_points_in_order(self) -> None:
        space = Space((Parameter("a", 0, 1, levels=2), Parameter("b", 5, 9, levels=3)))
        assert space.grid is not None
        assert space.grid.tolist() == [[0, 0], [0, 0.5], [0, 1], [1, 0], [1, 0.5], [1, 1]]
        assert not space.grid.flags.writeable

    def test_every_finite_parameter_makes_a_grid(self) -> None:
        space = Space((Choice("a", ["x", "z"]), Parameter("b", 0, 2, integer=True)))
        assert space.grid is not None
        points = [tuple(space.to_point(u).values()) for u in space.grid]
        assert points == [("x", 0), ("x", 1), ("x", 2), ("z", 0), ("z", 1), ("z", 2)]
        assert space.grid_indices(space.grid).tolist() == [0, 1, 2, 3, 4, 5]

    @pytest.mark.parametrize(
        "other",
        [
            Parameter("b", 0, 1),
            Parameter("b", 0, 2**40, integer=True),
            Parameter("b", 0, 1, levels=2**40),
            Parameter("b", 0, 1, levels=2**13 + 1),
        ],
    )
    def test_no_grid_of_infinitely_or_too_many_points(self, other: Parameter) -> None:
        assert Space((Parameter("a", 0, 1, levels=2), other)).grid is None

    def test_huge_grids_take_no_memory(self) -> None:
        # 2^80 points: everything that a method asks of a space is as quick as with four.
        space = Space((Parameter("a", 0, 1, levels=2**40), Parameter("b", 1, 2**40, integer=True)))
        for box in space.subregions(6):
            U = uniform_design(space, box, 20, np.random.default_rng(0))
            assert box.contains(U).all()
            assert np.array_equal(space.snap(U), U)


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
        for count in range(1, min(levels, 59) + 1):
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

    @given(spaces(), st.integers(1, 40), st.integers(0, 99))
    def test_no_option_and_no_integer_is_divided(self, space: Space, count: int, seed: int) -> None:
        if all(p.cells for p in space.parameters):
            count = min(count, max(p.cells.count for p in space.parameters if p.cells))
        boxes = space.subregions(count)
        assert len(boxes) == count
        rng = np.random.default_rng(seed)
        U = rng.random((20, space.dimension))
        whole = [not (p.cells is None or isinstance(p.cells, Levels)) for p in space.parameters]
        moved = np.where(whole, space.snap(U), U)
        owner = np.stack([box.contains(U) for box in boxes])
        assert owner.sum(axis=0).tolist() == [1] * 20
        assert np.array_equal(np.stack([box.contains(moved) for box in boxes]), owner)
        for box in boxes:  # none is empty, and all that is drawn lies inside
            U = uniform_design(space, box, 5, rng)
            assert box.contains(U).all()
            assert np.array_equal(space.snap(U), U)

    @pytest.mark.parametrize("p", [Choice("c", list("abcde")), Parameter("c", 1, 5, integer=True)])
    def test_values_are_divided_as_evenly_as_they_can(self, p: Parameter | Choice) -> None:
        space = Space((p,))
        assert space.grid is not None
        for count, sizes in ((2, [2, 3]), (3, [2, 1, 2]), (5, [1] * 5)):
            held = [box.contains(space.grid).sum() for box in space.subregions(count)]
            assert held == sizes

    def test_a_dimension_with_too_few_values_is_passed_over(self) -> None:
        space = Space((Choice("c", ["a", "b"]), Parameter("x", 0, 1)))
        assert {box.lower[0] for box in space.subregions(3)} == {0.0}
        assert len({box.lower[1] for box in space.subregions(3)}) == 3

    def test_too_few_values_for_all_parts(self) -> None:
        space = Space((Choice("c", ["a", "b"]), Parameter("n", 1, 4, integer=True)))
        assert len(space.subregions(6)) == 6
        message = r"sub-regions: 5 parts do not fit .*\(c 2, n 4\).*another number of sub-regions"
        with pytest.raises(ConfigError, match=message):
            space.subregions(5)

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


class TestRefusals:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"lower": math.nan}, "finite bounds"),
            ({"upper": math.inf}, "finite bounds"),
            ({"lower": -1e308, "upper": 1e308}, "finite bounds"),
            ({"lower": 10**400, "upper": 10**401}, "finite bounds"),
            (
                {"lower": "0", "upper": "1"},
                r"parameter 'p': expected numbers as bounds, got \['0', '1'\]",
            ),
            ({"upper": None}, r"numbers as bounds, got \[0.0, null\]"),
            ({"upper": np.ones(2)}, r"numbers as bounds, got \[0.0, \[1.0, 1.0\]\]"),
            ({"lower": 1.0}, "lower < upper"),
            ({"lower": 0.0, "scale": "log"}, "lower > 0"),
            ({"scale": "cubic"}, "'linear' or 'log'"),
            ({"levels": 1}, "at least 2 levels"),
            ({"levels": 2.5}, "at least 2 levels, got 2.5"),
            ({"levels": "3"}, "at least 2 levels, got '3'"),
            ({"levels": math.nan}, "at least 2 levels, got nan"),
            ({"levels": math.inf}, "at least 2 levels, got inf"),
            ({"levels": 2**41}, r"at most 2\^40 levels"),
            ({"levels": 3, "integer": True}, "whole numbers, got 0.5 among 3 levels"),
            ({"upper": 10.0, "lower": 1.0, "scale": "log", "levels": 3, "integer": True}, "3.16"),
            ({"upper": 1e15, "integer": True}, r"at most 2\^40"),
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
        wrong: Any = ("a", 0, 1)
        with pytest.raises(ConfigError, match=r"expected Parameter or Choice, got 'a'"):
            Space(wrong)
        for wrong in (Parameter("a", 0, 1), {"a": (0, 1)}, "a", None):
            with pytest.raises(
                ConfigError, match=r"^space: expected a tuple of parameters, such as"
            ):
                Space(wrong)

    def test_numpys_numbers_are_pythons(self) -> None:
        given: Any = {"lower": np.int64(0), "upper": np.float32(4), "levels": np.int32(3)}
        found = Parameter("p", **given)
        assert found == Parameter("p", 0, 4.0, levels=3)
        assert {type(one) for one in (found.lower, found.upper, found.levels)} == {int, float}
        options: Any = np.array(["a", "b"])
        assert Choice("c", options).options == ("a", "b")
        assert Space([Parameter("a", 0, 1)]) == Space((Parameter("a", 0, 1),))  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("point", "message"),
        [
            ({"alhpa": 0.5, "beta": 2}, "unknown parameter 'alhpa'; did you mean 'alpha'"),
            ({"alpha": 0.5}, "missing parameter beta"),
            ({"alpha": 1.5, "beta": 2}, r"alpha: expected a value in \[0, 1\], got 1.5"),
            ({"alpha": math.nan, "beta": 2}, "alpha: expected a value in"),
            ({"alpha": "0.5", "beta": 2}, "alpha: expected a number, got '0.5'"),
            ({"alpha": 0.5, "beta": True}, "beta: expected a number, got true"),
            ({"alpha": 0.5, "beta": 2.4}, "beta: expected a whole number, got 2.4"),
            ([0.5], r"expected 2 values \(alpha, beta\), got 1"),
        ],
    )
    def test_points(self, point: Any, message: str) -> None:
        space = Space((Parameter("alpha", 0, 1), Parameter("beta", 1, 3, integer=True)))
        for check in (space.to_unit, space.checked):
            with pytest.raises(ConfigError, match=message):
                check(point)

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            ("hing", "loss: unknown option 'hing'; did you mean 'hinge'"),
            ("x", "loss: unknown option 'x'; valid names: 0.5, True, hinge"),
            (1, "loss: unknown option 1"),
            ("0.5", "loss: unknown option '0.5'"),
            (None, "loss: unknown option None"),
        ],
    )
    def test_options(self, value: Any, message: str) -> None:
        space = Space((Choice("loss", ["hinge", 0.5, True]),))
        with pytest.raises(ConfigError, match=message):
            space.to_unit([value])

    def test_a_number_between_levels_is_not_rounded(self) -> None:
        space = Space((Parameter("x", 0, 0.5, levels=6), Parameter("y", 1, 1e4, "log", levels=5)))
        assert space.checked([0.30000000000000004, 99.99999999999999]) == {"x": 0.3, "y": 100.0}
        with pytest.raises(ConfigError, match=r"one of its 6 levels, got 0.33; the nearest is 0.3"):
            space.checked([0.33, 1])
        with pytest.raises(ConfigError, match=r"one of its 5 levels, got 90; the nearest is 100.0"):
            space.checked([0.3, 90])

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["a"], "at least 2 options"),
            (["a", "b", "a"], r"options that differ, got \['a', 'b', 'a'\]"),
            ([1, 2, 1], r"options that differ, got \["),
            ([1, True], r"options that differ \(1, 1.0 and True are equal\), got"),
            ([2.0, 2], r"options that differ \(1, 1.0 and True are equal\), got"),
            (["a", None], "texts, numbers or booleans, got None"),
            ([1.0, math.nan], "texts, numbers or booleans, got nan"),
            ("ab", "a list of options, got 'ab'"),
        ],
    )
    def test_choices(self, options: Any, message: str) -> None:
        with pytest.raises(ConfigError, match=f"parameter 'loss'.*{message}"):
            Choice("loss", options)

    def test_points_by_position(self) -> None:
        space = Space((Parameter("alpha", 0, 4), Parameter("beta", 1, 3, integer=True)))
        assert space.to_unit([1.0, 2]).tolist() == [0.25, 0.5]
        assert space.checked([1, 2.0]) == {"alpha": 1.0, "beta": 2}


def cube(dimension: int) -> Space:
    return Space(tuple(Parameter(f"x{i}", 0, 1) for i in range(dimension)))


@pytest.mark.parametrize("name", ["", " ", 3, None])
def test_a_parameters_name_is_a_text(name: Any) -> None:
    with pytest.raises(ConfigError, match="space: expected a text as a parameter's name, got"):
        Space((Parameter(name, 0.0, 1.0),))
