"""Tables that fit a terminal: labels take several lines, numbers stay whole."""

from __future__ import annotations

from rich.console import Console
from rich.measure import Measurement
from rich.table import Column, Table

NARROWEST = 16
"""Columns of the terminal that a column of labels has at least, if its words are that long."""

UNLIMITED = 100_000


def print_table(console: Console, table: Table) -> None:
    """Print a table.

    Lines break between words. Where that is not enough, words break in columns that fold
    (``overflow="fold"``), but no number does: rather, the lines become longer than the terminal's.
    """
    if _excess(console, table) > 0 and table.box is not None:
        table.padding = 0  # the box itself keeps columns apart
    most = [_most(console, column) for column in table.columns]
    widths = _least_widths(console, table)
    spare = console.width - _gaps(console, table) - sum(widths)
    for index in sorted(range(len(most)), key=lambda index: most[index] - widths[index]):
        more = max(0, min(spare, most[index] - widths[index]))
        widths[index] += more
        spare -= more
    for column, width in zip(table.columns, widths, strict=True):
        column.width = width
    table.width = sum(widths) + _gaps(console, table)
    console.print(table, crop=False)


def _excess(console: Console, table: Table) -> int:
    """Return how many columns of the terminal are missing even if lines break between words."""
    least = sum(_longest_word(console, column) for column in table.columns)
    return least + _gaps(console, table) - console.width


def _least_widths(console: Console, table: Table) -> list[int]:
    """Return the columns' widths with words whole; those that fold share what is left."""
    widths = [_longest_word(console, column) for column in table.columns]
    folding = [index for index, one in enumerate(table.columns) if one.overflow == "fold"]
    excess = _excess(console, table)
    for index in sorted(folding, key=lambda index: -widths[index]):
        less = max(0, min(excess, widths[index] - NARROWEST))
        widths[index] -= less
        excess -= less
    return widths


def _longest_word(console: Console, column: Column) -> int:
    if column.no_wrap:
        return _most(console, column)
    return max(_measured(console, cell).minimum for cell in (column.header, *column.cells))


def _most(console: Console, column: Column) -> int:
    return max(_measured(console, cell).maximum for cell in (column.header, *column.cells))


def _measured(console: Console, cell: object) -> Measurement:
    return Measurement.get(console, console.options.update(width=UNLIMITED), cell)  # type: ignore[arg-type]


def _gaps(console: Console, table: Table) -> int:
    """Return what a table needs beside its cells."""
    cells = sum(
        _most(console, column) if column.width is None else column.width for column in table.columns
    )
    return _measured(console, table).maximum - cells
