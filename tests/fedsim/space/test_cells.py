"""Where values lie on their coordinate: exact for every layout and size."""

import itertools

import numpy as np
import pytest

from fedsim.space.cells import Cells, Discrete, Levels, LogCells

LAYOUTS: list[Discrete] = [
    *(Levels(n) for n in (2, 3, 7, 50, 1000, 2**40)),
    *(Cells(n) for n in (1, 2, 3, 49, 1000, 2**40)),
    *(LogCells(*ends) for ends in ((1, 1), (1, 3), (1, 1024), (5, 10**6), (1, 2**40))),
]


def some(layout: Discrete) -> np.ndarray:
    """Return all values' numbers, or those near the ends and some between."""
    n = layout.count
    if n <= 1000:
        return np.arange(n)
    between = np.random.default_rng(0).integers(0, n, 500)
    return np.concatenate([np.arange(500), between, np.arange(n - 500, n)])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_value_is_found_where_it_lies(layout: Discrete) -> None:
    K = some(layout)
    U = layout.units(K)
    assert np.array_equal(layout.indices(U), K)
    assert U.min() >= 0.0
    assert U.max() <= 1.0
    assert layout.indices(np.array([[0.0], [1.0]])).tolist() == [[0], [layout.count - 1]]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_borders_ascend_with_a_value_between_any_two(layout: Discrete) -> None:
    for pieces in range(1, min(layout.count, 40) + 1):
        borders = layout.borders(pieces)
        assert (borders[0], borders[-1], len(borders)) == (0.0, 1.0, pieces + 1)
        if layout.count <= 1000:
            units = layout.units(np.arange(layout.count))
            edges = [*borders[:-1], 1.1]
            held = [((units >= a) & (units < b)).any() for a, b in itertools.pairwise(edges)]
            assert all(held)


def test_borders_are_as_even_as_whole_values_allow() -> None:
    assert Cells(6).borders(3) == [0.0, 2 / 6, 4 / 6, 1.0]
    assert Cells(5).borders(2) == [0.0, 2 / 5, 1.0]
    # 1, 2, 3 own 0.565, 0.262 and 0.173 of a log scale: an even third has room for none.
    assert LogCells(1, 3).borders(3) == pytest.approx([0.0, 0.5646, 0.8271, 1.0], abs=1e-4)
    assert LogCells(1, 1000).borders(2)[1] == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("count", [2, 3, 6, 7, 10, 49, 50, 98, 300])
def test_levels_between_two_coordinates(count: int) -> None:
    units = np.arange(count) / (count - 1)
    for pieces in range(1, 60):
        for low, high in itertools.pairwise(i / pieces for i in range(pieces + 1)):
            first, last = Levels(count).between(low, high)
            inside = np.flatnonzero((units >= low) & (units < (high if high < 1 else 2)))
            assert list(range(first, last + 1)) == inside.tolist()
