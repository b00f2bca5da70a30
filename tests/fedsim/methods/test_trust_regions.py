"""Where a federation searches."""

from __future__ import annotations

import numpy as np
import pytest

from fedsim.acquisition.candidates import sobol_points
from fedsim.errors import ConfigError
from fedsim.methods.trust_regions import RegionSettings, region_around
from fedsim.space import Choice, Parameter, Space

CUBE = Space(tuple(Parameter(name, 0.0, 1.0) for name in "abc"))


def test_widths_follow_the_schedule() -> None:
    s = RegionSettings(wide=0.4, smallest=0.01)
    widths = [s.width(t, 20) for t in range(1, 21)]
    assert widths[:8] == [1.0] * 8
    np.testing.assert_allclose(np.diff(np.log(widths[7:])), np.log(0.01) / 12)
    assert widths[-1] == pytest.approx(0.01)
    assert RegionSettings(wide=1.0).width(7, 7) == 1.0
    assert RegionSettings(wide=0.0, smallest=0.5).width(1, 1) == 0.5


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"wide": -0.1}, "method.region.wide"),
        ({"wide": float("nan")}, "method.region.wide"),
        ({"smallest": 0.0}, "method.region.smallest"),
        ({"smallest": 1e-7}, "method.region.smallest"),
        ({"smallest": 1.1}, "method.region.smallest"),
    ],
)
def test_settings_are_checked(settings: dict[str, float], key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key}: expected a"):
        RegionSettings(**settings)


def test_a_region_is_cut_at_the_borders_and_filled_evenly() -> None:
    centre = np.array([0.5, 0.0, 0.95])
    region = region_around(CUBE, centre, 0.2)
    np.testing.assert_allclose(region.box.lower, [0.4, 0.0, 0.85])
    np.testing.assert_allclose(region.box.upper, [0.6, 0.1, 1.0])
    points = region.fill(CUBE, sobol_points(3, 32, np.random.default_rng(0)))
    assert points.shape == (33, 3)
    np.testing.assert_array_equal(points[0], centre)
    assert region.box.contains(points).all()
    for d, (lower, upper) in enumerate(zip(region.box.lower, region.box.upper, strict=True)):
        cells = np.floor(32 * (points[1:, d] - lower) / (upper - lower))
        assert len(set(cells)) == 32  # a net: every 32nd of an edge has one point


def test_points_of_other_spaces_stay_inside() -> None:
    space = Space(
        (
            Choice("loss", ["hinge", "log", "square"]),
            Parameter("n", 0, 9, integer=True),
            Parameter("m", 1, 1000, "log", integer=True),
            Parameter("level", 0.0, 1.0, levels=11),
        )
    )
    centre = space.snap(np.array([[0.1, 0.55, 0.0, 1.0]]))[0]
    region = region_around(space, centre, 0.01)
    assert region.box.contains(centre[None]).all()
    points = region.fill(space, sobol_points(space.dimension, 128, np.random.default_rng(0)))
    assert points.shape == (129, 4)
    np.testing.assert_array_equal(points, space.snap(points))
    assert region.box.contains(points).all()
    found = [{space.to_point(u)[name] for u in points} for name in space.names]
    # All options, and the values next to the centre's, however small the region is.
    assert found[0] == {"hinge", "log", "square"}
    assert found[1] == {4, 5, 6}
    assert found[2] == {1, 2}
    assert sorted(found[3]) == pytest.approx([0.9, 1.0])
    wider = region_around(space, centre, 0.5).fill(
        space, sobol_points(space.dimension, 512, np.random.default_rng(0))
    )
    assert {space.to_point(u)["n"] for u in wider} == {3, 4, 5, 6, 7}


@pytest.mark.parametrize("width", [1e-6, 0.03, 0.5])
def test_a_region_holds_its_centre(width: float) -> None:
    for centre in np.random.default_rng(1).random((200, 3)):
        assert region_around(CUBE, centre, width).box.contains(centre[None]).all()
