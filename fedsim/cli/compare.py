"""``fedsim compare``: compares variants, of one run or several, paired on seeds."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedsim.cli.completion import complete_run
from fedsim.cli.consoles import make_console, print_json, print_text
from fedsim.cli.options import JsonOption
from fedsim.errors import ConfigError

if TYPE_CHECKING:  # these take long to import, and --help needs none of them
    from rich.table import Table

    from fedsim.results.comparison import Comparison, Row


def compare(
    folders: Annotated[
        list[Path],
        typer.Argument(help="Run folders; their variants compete.", autocompletion=complete_run),
    ],
    rounds: Annotated[
        str | None, typer.Option(help="Average over these, e.g. 5-20; default: all common ones.")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="The variant to compare with; default: the first.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(help="What to call a run: once for each folder.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare variants: mean score over rounds, and differences paired on seeds."""
    from fedsim.cli.tables import print_table
    from fedsim.results.analysis import load
    from fedsim.results.comparison import compare as compare_runs

    runs = [load(folder) for folder in folders]
    found = compare_runs(runs, rounds=_bounds(rounds), baseline=baseline, labels=label)
    if as_json:
        print_json(_record(found))
        return
    console = make_console()
    print_table(console, _table(found))
    for note in found.notes:
        print_text(console, f"note: {note}", "yellow")


def _record(found: Comparison) -> dict[str, Any]:
    rows = []
    for row in found.rows:
        told = asdict(row)
        if row.difference is not None:
            told["difference"]["verdict"] = row.difference.verdict
        rows.append(told)
    head = {"rounds": list(found.rounds), "baseline": found.baseline}
    return {**head, "variants": rows, "notes": list(found.notes)}


def _table(found: Comparison) -> Table:
    from rich.table import Table

    table = Table(title=found.title, box=None, pad_edge=False)
    several = len(found.rows) > 2
    table.add_column("variant", overflow="fold")
    names = ["seeds", "score", "better by", "p"]
    for name in (*names, *(["p, corrected"] if several else []), "verdict"):
        table.add_column(name, justify="right")
    for row in found.rows:
        table.add_row(*_cells(row, several))
    return table


def _cells(row: Row, several: bool) -> list[str]:
    from rich.markup import escape

    from fedsim.results.digits import with_error

    score = with_error(row.score, row.score_error)
    cells = [escape(row.variant), str(row.seeds), _glued(score)]
    one = row.difference
    if one is None:
        return [*cells, *([""] * (3 if several else 2)), "baseline"]
    cells += [_glued(with_error(one.gain, one.standard_error, "+")), _p(one.p_value)]
    return [*cells, *([_p(one.p_corrected)] if several else []), one.verdict]


def _glued(number: str) -> str:
    """Return a number whose error stays whole where a line breaks."""
    return number.replace("± ", "±")


def _p(value: float) -> str:
    from fedsim.results.digits import significant

    return "" if value != value else significant(value, 2)


def _bounds(text: str | None) -> tuple[int, int] | None:
    """Return the first and last round of a text such as 5-20 or 7."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,18})(?:-(\d{1,18}))?", text)
    if match is None:
        raise ConfigError(f"--rounds: expected e.g. 5-20, got {text!r}")
    return int(match[1]), int(match[2] or match[1])
