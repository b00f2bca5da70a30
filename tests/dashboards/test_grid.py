"""How a figure's panels are laid out."""

from __future__ import annotations

import pytest

from fedsim.dashboards.grid import COLUMNS, FACET, SINGLE, panel_grid


@pytest.mark.parametrize("count", [1, 2, COLUMNS, COLUMNS + 1, 2 * COLUMNS])
def test_there_are_as_many_panels_as_asked_for(count: int) -> None:
    figure, axes = panel_grid(count, beside=1.5, title=None, size=None)
    assert [one for one in figure.axes if one.get_visible()] == axes
    assert len(axes) == count
    columns, rows = min(count, COLUMNS), -(-count // COLUMNS)
    width, height = SINGLE if count == 1 else (FACET[0] * columns, FACET[1] * rows)
    assert tuple(figure.get_size_inches()) == pytest.approx((width + 1.5, height))


def test_axes_may_be_shared_and_the_size_given() -> None:
    figure, axes = panel_grid(2, beside=1.5, title="$a", size=(3.0, 2.0), share_y=True)
    axes[0].set_xlim(0, 5)
    axes[0].set_ylim(0, 7)
    assert (axes[1].get_xlim(), axes[1].get_ylim()) == ((0.0, 1.0), (0.0, 7.0))
    assert tuple(figure.get_size_inches()) == (3.0, 2.0)
    assert figure.get_suptitle() == "$a"
