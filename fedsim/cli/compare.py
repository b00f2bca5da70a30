"""``fedsim compare``: compares variants, of one run or several, or methods over problems."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedsim.cli.completion import complete_run
from fedsim.cli.consoles import make_console, print_json, print_text
from fedsim.cli.options import BestAgentOption, JsonOption, LabelOption
from fedsim.errors import ConfigError

if TYPE_CHECKING:  # these take long to import, and --help needs none of them
    from rich.table import Table

    from fedsim.results.differences import Comparison, Row
    from fedsim.results.entrants import Entrant
    from fedsim.results.problemtable import ProblemComparison

NO_PROBLEMS = "none"
"""What --problem says for variants that are to be compared one by one."""


def compare(
    folders: Annotated[
        list[Path],
        typer.Argument(help="Run folders; their variants compete.", autocompletion=complete_run),
    ],
    rounds: Annotated[
        str | None,
        typer.Option(
            help="Average over these, e.g. 5-20; default: all common ones; over problems: the last."
        ),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="The variant to compare with; default: the first.")
    ] = None,
    label: LabelOption = None,
    metric: Annotated[
        str | None,
        typer.Option(help="simple_regret, best_observed, best_noiseless, ..., cpu_seconds"),
    ] = None,
    best_agent: BestAgentOption = False,
    problem: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY",
            help="What tells problems apart, e.g. scenario.function; none: no problems; default: "
            "what changes in the scenario.",
        ),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY",
            help="What tells methods apart, e.g. method.name; default: what changes in a problem.",
        ),
    ] = None,
    published: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help="Show published numbers beside ours: e.g. fbo-fedgp-table-2, or a YAML file.",
        ),
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print a CSV table.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print LaTeX tables.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare variants: mean score over rounds, and differences paired on seeds.

    Methods that meet on several problems are compared over these: means, ranks, wins, ties and
    losses against the baseline, and Wilcoxon's tests.
    """
    from fedsim.results.analysis import load
    from fedsim.results.comparison import compare_variants
    from fedsim.results.entrants import entrants

    if csv + latex + as_json > 1:
        raise ConfigError("--csv, --latex, --json: expected at most one of them")
    if problem == [NO_PROBLEMS] and (method or published):
        raise ConfigError("--problem none: expected neither --method nor --published beside it")
    variants, missing = entrants([load(folder) for folder in folders], label)
    asked: dict[str, Any] = {"metric": metric, "best_agent": best_agent}
    asked |= {"rounds": bounds(rounds), "baseline": baseline}
    given, named = bool(problem or method or published), label is not None
    if problem == [NO_PROBLEMS] or not (given or _meet(variants, baseline, named=named)):
        _show_variants(compare_variants(variants, missing, **asked), csv, latex, as_json)
        return
    from fedsim.results.problems import compare_methods

    asked |= {"problem": problem or (), "method": method or (), "published": published}
    _show_problems(compare_methods(variants, missing, **asked, named=named), csv, latex, as_json)


def _meet(variants: Sequence[Entrant], baseline: str | None, *, named: bool) -> bool:
    """Return whether variants are methods that meet on problems; a baseline names one of either."""
    from fedsim.results.problems import over_problems

    design = over_problems(variants, named=named)
    if design is None:
        return False
    return baseline not in {one.label for one in variants} - {*design.methods}


def _show_variants(found: Comparison, csv: bool, latex: bool, as_json: bool) -> None:
    from fedsim.cli.tables import print_table
    from fedsim.results.latex import comparison_latex

    if as_json:
        print_json(_record(found))
        return
    if csv:
        sys.stdout.write(found.csv())
    elif latex:
        print(comparison_latex(found))
    else:
        print_table(make_console(), _table(found))
    _print_notes(found.notes, stderr=csv or latex)


def _show_problems(found: ProblemComparison, csv: bool, latex: bool, as_json: bool) -> None:
    from fedsim.cli.problemtables import print_problems
    from fedsim.results.latex import problems_latex

    if as_json:
        print_json(_problems_record(found))
        return
    if csv:
        sys.stdout.write(found.csv())
    elif latex:
        print(problems_latex(found))
    else:
        print_problems(make_console(), found)
    _print_notes(found.notes, stderr=csv or latex)


def _print_notes(notes: Sequence[str], *, stderr: bool) -> None:
    console = make_console(stderr=stderr)
    for note in notes:
        print_text(console, f"note: {note}", "yellow")


def _problems_record(found: ProblemComparison) -> dict[str, Any]:
    from fedsim.results.metrics import TIMES

    published = found.beside.values if found.beside else {}
    cells = [
        {
            **asdict(replace(one, duel=None)),
            "better": _better(found.metric.column, one.direction),
            "duel": {**asdict(one.duel), "mark": one.duel.mark} if one.duel else None,
            **({"published": published.get(place)} if found.beside else {}),
        }
        for place, one in found.cells.items()
    ]
    overall = []
    for one in found.overall:
        told = {**asdict(one), "verdict": one.verdict}
        if one.test is not None:
            told["test"]["paper_effect_size"] = one.test.paper_effect_size
        if found.beside and found.metric.name not in TIMES:  # those of another machine
            better, count = found.better_than_published(one.method)
            told |= {"better_than_published": better, "published": count}
        overall.append(told)
    beside = found.beside and {
        "source": found.beside.source,
        "values": [
            {"problem": p, "method": m, "value": v} for (p, m), v in found.beside.values.items()
        ],
    }
    return {
        "title": found.title,
        "metric": found.metric.column,
        "rounds": None if found.rounds is None else list(found.rounds),
        "baseline": found.baseline,
        "problem_keys": list(found.keys),
        "problems": list(found.problems),
        "cells": cells,
        "methods": overall,
        "published": beside,
        "notes": list(found.notes),
    }


def _record(found: Comparison) -> dict[str, Any]:
    rows = []
    for row in found.rows:
        told = {**asdict(row), "better": _better(row.metric, row.direction)}
        if row.difference is not None:
            told["difference"]["verdict"] = row.difference.verdict
        rows.append(told)
    head = {"rounds": list(found.rounds), "baseline": found.baseline}
    return {**head, "variants": rows, "notes": list(found.notes)}


def _better(metric: str, direction: str) -> str:
    """Return whether larger or smaller scores are better in a scenario of this direction."""
    from fedsim.results.metrics import sign_of

    return "larger" if sign_of(metric, direction) > 0 else "smaller"


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


def bounds(text: str | None) -> tuple[int, int] | None:
    """Return the first and last round of a text such as 5-20 or 7."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,18})(?:-(\d{1,18}))?", text)
    if match is None:
        raise ConfigError(f"--rounds: expected e.g. 5-20, got {text!r}")
    return int(match[1]), int(match[2] or match[1])
