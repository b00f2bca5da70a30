"""Comparisons over problems as text: tables that fit the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from fedsim.cli.tables import print_table
from fedsim.results.digits import significant, with_error
from fedsim.results.metrics import TIMES

if TYPE_CHECKING:  # takes long to import
    from fedsim.results.judging import Overall
    from fedsim.results.problemtable import ProblemComparison

MARKS = {"win": "+", "tie": "≈", "loss": "−", "": " "}
WIDEST_NAME = 18
"""Letters of a column's name in one line; longer ones are folded."""

Column = tuple[str, list[str]]
"""A column's name and its cells."""


def print_problems(console: Console, found: ProblemComparison) -> None:
    """Print a comparison; methods that do not fit into the terminal's width have further tables."""
    console.print(Text(found.title, style="bold"))
    rows: Column = "problem", [*found.problems, "+/≈/−", "mean rank"]
    for part in _parts(rows, _columns(found), console.width):
        print_table(console, _table([rows, *part], len(found.problems)))
        console.print()
    tested = [one for one in found.overall if one.test is not None]
    if tested:
        console.print(Text(f"against {found.baseline}, over problems", style="bold"))
        print_table(console, _overall(tested))
        console.print()
    for words in _legend(found, tested):
        console.print(Text(words))


def _columns(found: ProblemComparison) -> list[Column]:
    """Return the columns of methods, each with its published numbers beside it."""
    columns: list[Column] = []
    beside, judged = found.beside, {one.method: one for one in found.overall}
    for method in dict.fromkeys((*found.methods, *(beside.methods if beside else ()))):
        if method in judged:
            one = judged[method]
            cells = [_cell(found, problem, method) for problem in found.problems]
            marks = f"{one.wins}/{one.ties}/{one.losses}  " if one.test else ""
            columns.append((method, [*cells, marks, f"{_number(one.mean_rank, 3)}  "]))
        if beside and method in beside.methods:
            numbers = [beside.values.get((problem, method)) for problem in found.problems]
            texts = [significant(number, 6) for number in numbers]
            columns.append((f"{method}, published", [*texts, "", ""]))
    return columns


def _cell(found: ProblemComparison, problem: str, method: str) -> str:
    one = found.cells.get((problem, method))
    if one is None:
        return ""
    mark = MARKS[one.duel.mark] if one.duel else " "
    return f"{with_error(one.score, one.score_error).replace('± ', '±')} {mark}"


def _parts(rows: Column, columns: Sequence[Column], width: int) -> Iterator[list[Column]]:
    """Yield as many columns at a time as fit beside the names of the rows."""
    names, part = max(map(len, [rows[0], *rows[1]])), list[Column]()
    used = min(names, width // 3)
    left = width - used
    for column in columns:
        wide = 2 + max(min(len(column[0]), WIDEST_NAME), *map(len, column[1]))
        if part and wide > left:
            yield part
            part, left = [], width - used
        part.append(column)
        left -= wide
    yield part


def _table(columns: Sequence[Column], problems: int) -> Table:
    """Return a table; rows after those of the problems are left out where they are empty."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), collapse_padding=True)
    for i, (name, _) in enumerate(columns):
        table.add_column(Text(name), justify="right" if i else "left", overflow="fold")
    for number, row in enumerate(zip(*(cells for _, cells in columns), strict=True)):
        if any(row[1:]) or number < problems:
            table.add_row(*map(Text, row))
    return table


def _overall(tested: Sequence[Overall]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("method", overflow="fold")
    for name in ("W", "p", "p, corr.", "(n+−n−)/n", "rank-bis.", "verdict"):
        table.add_column(name, justify="right")
    for one in tested:
        test = one.test
        assert test is not None
        table.add_row(
            escape(one.method),
            significant(test.statistic),
            _number(test.p_value, 2),
            _number(one.p_corrected, 2),
            _number(test.paper_effect_size, 3),
            _number(test.rank_biserial, 3),
            one.verdict,
        )
    return table


def _legend(found: ProblemComparison, tested: Sequence[Overall]) -> Iterator[str]:
    """Yield what the tables' signs mean."""
    if tested:
        yield (
            f"+ ≈ −: better than, not shown to differ from, worse than {found.baseline} on a "
            "problem (signed-rank test over seeds, p < 0.05, uncorrected)."
        )
        yield (
            "over problems: Wilcoxon's signed-rank test of the means; p corrected by Holm; "
            "(n+−n−)/n is FBO-FedGP's effect size, of problems that are better and worse; "
            "rank-bis. is the matched-pairs rank-biserial correlation. Positive is better than "
            f"{found.baseline}."
        )
    if found.beside is None:
        return
    yield f"published: {found.beside.source}."
    if found.metric.name in TIMES:
        yield (
            "published times are another machine's: compare how they grow along rows and columns."
        )
        return
    for method in found.methods:
        better, count = found.better_than_published(method)
        if count:
            yield f"{method}: better than published on {better} of {count} problems."


def _number(value: float, digits: int) -> str:
    return "" if math.isnan(value) else significant(value, digits)
