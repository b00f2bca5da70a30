"""``fedsim best``: the best points of a run, in the user's units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedsim.cli.consoles import make_console, print_json, print_text
from fedsim.cli.options import AnyRunFolderArgument, JsonOption
from fedsim.errors import ConfigError

if TYPE_CHECKING:  # these take long to import, and --help needs none of them
    from rich.table import Table

    from fedsim.results.best import BestPoint

DIGITS = 6
"""Significant digits of a parameter's value on a terminal; --json has all of them."""


def best(
    folder: AnyRunFolderArgument,
    agent: Annotated[
        str | None, typer.Option("--agent", "-i", help="An agent's number, or all.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the best points: those with the best observed values, in your units.

    One for each variant and seed: the best agent's, or with --agent that of one agent or of all.
    """
    from fedsim.cli.tables import print_table
    from fedsim.results.analysis import load
    from fedsim.results.best import best_of
    from fedsim.results.seeds import warnings_of

    run = load(folder)
    points, missing = run.read_best()
    wanted = _number(agent)
    chosen = [one for one in points if wanted in (None, one.agent)]
    if not chosen:
        agents = sorted({one.agent for one in points})
        some = f"0 to {agents[-1]}" if agents == [*range(len(agents))] else f"one of {agents}"
        raise ConfigError(f"--agent: expected {some}, which have values, got {agent}")
    by_seed: dict[tuple[str, int], list[BestPoint]] = {}
    for one in chosen:
        by_seed.setdefault((one.variant, one.seed), []).append(one)
    winners = {key: best_of(own) for key, own in by_seed.items()}
    of_all = best_of(winners.values()) if len({one.direction for one in chosen}) == 1 else None
    seeds = {(one.variant, one.seed): one for one in run.runs if (one.variant, one.seed) in by_seed}
    if as_json:
        runs = [
            {"variant": variant, "seed": seed, "best": asdict(winners[variant, seed])}
            | {"agents": [asdict(one) for one in own]}
            | ({"warnings": list(told)} if (told := seeds[variant, seed].warnings) else {})
            for (variant, seed), own in by_seed.items()
        ]
        overall = asdict(of_all) if of_all else None
        print_json({"folder": str(run.folder), "best": overall, "runs": runs, "missing": missing})
        return
    console = make_console()
    shown = chosen if agent == "all" else list(winners.values())
    print_table(console, _table(shown))
    if of_all is not None and len(shown) > 1:
        print_text(console, f"best of all: {_named(of_all)}")
    errors = make_console(stderr=True)
    for sentence in missing:
        print_text(errors, f"incomplete: {sentence}", "yellow")
    for sentence in warnings_of({one.name: one for one in seeds.values()}):
        print_text(errors, f"warning: {sentence}", "yellow")


def _number(agent: str | None) -> int | None:
    if agent in (None, "all"):
        return None
    if agent is None or not agent.isdecimal():
        raise ConfigError(f"--agent: expected an agent's number or all, got {agent!r}")
    return int(agent)


def _table(points: Sequence[BestPoint]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    from fedsim.results.digits import significant

    noiseless = any(one.noiseless is not None for one in points)
    regret = any(one.inference_regret is not None for one in points)
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("variant", overflow="fold")
    table.add_column("point", overflow="fold")
    names = ["seed", "agent", "round", "best observed"]
    names += [*(["noiseless"] if noiseless else []), *(["inference regret"] if regret else [])]
    for name in names:
        table.add_column(name, justify="right")
    for one in points:
        row = [str(one.seed), str(one.agent), str(one.round), significant(one.observed)]
        row += [significant(one.noiseless)] if noiseless else []
        row += [significant(one.inference_regret)] if regret else []
        table.add_row(escape(one.variant), escape(_words(one.point)), *row)
    return table


def _named(one: BestPoint) -> str:
    from fedsim.results.digits import significant

    whose = f"agent {one.agent} of {one.variant}, seed {one.seed}"
    return f"{whose}, observed {significant(one.observed)} at {_words(one.point)}"


def _words(point: Any) -> str:
    return ", ".join(f"{name} = {_value(value)}" for name, value in point.items())


def _value(value: Any) -> str:
    from fedsim.results.digits import significant

    return significant(value, DIGITS) if isinstance(value, float) else str(value)
