"""``fedsim compare``: compares the variants of a run, paired on seeds."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedsim.cli.consoles import make_console, print_json
from fedsim.cli.options import JsonOption
from fedsim.errors import ConfigError, nearest

if TYPE_CHECKING:  # takes long to import, and --help does not need it
    from rich.table import Table


def compare(
    folder: Annotated[Path, typer.Argument(help="The folder of a run with variants.")],
    rounds: Annotated[
        str | None, typer.Option(help="Average the score over these, e.g. 5-20; default: all.")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="The variant to compare with; default: the first.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare a run's variants: mean score over rounds, and differences paired on seeds."""
    from fedsim.results.analysis import load
    from fedsim.results.comparison import difference, scores, standard_error

    run = load(folder)
    first, last = _bounds(rounds, int(run.rounds["round"].max()))
    table = scores(run, first, last)
    variants = [str(name) for name in table.columns]
    against = baseline if baseline is not None else variants[0]
    if against not in variants:
        raise ConfigError(f"--baseline: unknown variant {against!r}{nearest(against, variants)}")
    found = []
    for variant in variants:
        column = table[variant].dropna()
        gain = difference(run, table, variant, against)
        mean = float(column.mean()) if len(column) else math.nan
        own = {"mean": mean, "mean_error": standard_error(column.to_numpy())}
        found.append({"variant": variant, **own, **asdict(gain)})
    if as_json:
        print_json({"rounds": [first, last], "baseline": against, "variants": found})
        return
    metric = str(run.runs[0].summary()["metric"]).replace("_", " ")
    make_console().print(_table(f"{metric}, mean of rounds {first} to {last}", against, found))


def _table(title: str, baseline: str, found: list[dict[str, Any]]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    from fedsim.results.digits import with_error

    table = Table(title=title, box=None, pad_edge=False)
    for name in ("variant", "seeds", "mean"):
        table.add_column(name, justify="left" if name == "variant" else "right")
    table.add_column(f"better than {escape(baseline)} by", justify="right")
    table.add_column("p", justify="right")
    for row in found:
        mean = with_error(row["mean"], row["mean_error"])
        gain, p = "", ""
        if row["variant"] != baseline:
            gain = with_error(row["gain"], row["standard_error"], "+")
            p = f"{row['p_value']:.2g}" if math.isfinite(row["p_value"]) else ""
        table.add_row(escape(row["variant"]), str(row["seeds"]), mean, gain, p)
    return table


def _bounds(text: str | None, last: int) -> tuple[int, int]:
    """Return the first and last round of a text such as 5-20 or 7."""
    if text is None:
        return 1, last
    low, _, high = text.partition("-")
    if not low.isdigit() or not (high or low).isdigit():
        raise ConfigError(f"--rounds: expected e.g. 5-20, got {text!r}")
    return int(low), int(high or low)
