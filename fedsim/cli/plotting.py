"""``fedsim plot``: pictures of runs, or their data."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedsim.cli.completion import complete_run
from fedsim.cli.consoles import make_console, print_json, print_text
from fedsim.cli.options import BestAgentOption, JsonOption, LabelOption
from fedsim.errors import ConfigError

if TYPE_CHECKING:  # takes long to import, and --help does not need it
    from matplotlib.figure import Figure


def plot(
    folders: Annotated[
        list[Path],
        typer.Argument(help="Run folders; their curves are overlaid.", autocompletion=complete_run),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The picture: PNG, PDF or SVG; default: fedsim.png."),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(help="simple_regret, inference_regret, best_observed, best_noiseless, ..."),
    ] = None,
    x: Annotated[str, typer.Option("--x", help="rounds, evaluations, epsilon or bytes")] = "rounds",
    best_agent: BestAgentOption = False,
    facet: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="One panel for each value, or for each agent: agent."),
    ] = None,
    agents: Annotated[
        str | None,
        typer.Option(metavar="0,1,5", help="With --facet agent: whose; default: the first 12."),
    ] = None,
    label: LabelOption = None,
    points: Annotated[
        bool, typer.Option("--points", help="The explored points in two parameters instead.")
    ] = False,
    tradeoff: Annotated[
        bool, typer.Option("--tradeoff", help="Scores against privacy losses instead.")
    ] = False,
    rounds: Annotated[
        str | None,
        typer.Option(help="With --tradeoff: average over these, e.g. 5-20; default: the last."),
    ] = None,
    parameters: Annotated[
        str | None,
        typer.Option(metavar="X,Y", help="With --points: which; default: the first two."),
    ] = None,
    per_agent: Annotated[
        bool, typer.Option("--per-agent", help="With --points: a colour for each agent.")
    ] = False,
    agent: Annotated[
        int | None, typer.Option(min=0, help="With --points: only this agent's, and its optimum.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="With --points: the seed; default: the first.")
    ] = None,
    log: Annotated[bool, typer.Option("--log", help="A logarithmic scale of values.")] = False,
    title: Annotated[str | None, typer.Option(help="The picture's title.")] = None,
    size: Annotated[str | None, typer.Option(metavar="WxH", help="Inches, e.g. 7x4.2")] = None,
    as_json: JsonOption = False,
) -> None:
    """Draw regret (or best observed value) against rounds: mean and standard error over seeds.

    With --tradeoff, draw each variant's score at its privacy loss ε, and a line through those that
    no other one beats in both. With --points, draw what was explored, the best point and the
    optimum, if known, of one seed.

    Where some variants maximise and others minimise, each direction has a panel. --json prints
    the data, and draws only with --out.
    """
    of_curves: dict[str, object] = {
        "metric": metric,
        "x": x if x != "rounds" else None,
        "facet": facet,
        "agents": agents,
    }
    of_curves |= {"best-agent": best_agent, "log": log}
    of_points: dict[str, object] = {
        "parameters": parameters,
        "per-agent": per_agent,
        "agent": agent,
        "seed": seed,
    }
    for name, value in (of_curves if points else of_points).items():
        if value is not None and value is not False:
            goes = "does not go with --points" if points else "needs --points"
            raise ConfigError(f"--{name}: {goes}")
    _check_kinds(points, tradeoff, x, facet, agents, log=log, rounds=rounds)
    if tradeoff:
        from fedsim.cli.compare import bounds
        from fedsim.dashboards.tradeoff import draw_tradeoff
        from fedsim.dashboards.tradeoff import tradeoff as losses

        of_losses: dict[str, Any] = {"metric": metric, "best_agent": best_agent}
        weighed = losses(folders, rounds=bounds(rounds), labels=label, **of_losses)
        _show(
            weighed.notes,
            weighed.record(),
            lambda: draw_tradeoff(weighed, title=title, size=_inches(size)),
            out,
            as_json=as_json,
        )
        return
    if points:
        from fedsim.dashboards.points import explored
        from fedsim.dashboards.scatter import draw_points

        names = [] if parameters is None else [one.strip() for one in parameters.split(",")]
        found = explored(folders, parameters=names, agent=agent, seed=seed, labels=label)
        _show(
            found.notes,
            found.record(),
            lambda: draw_points(found, per_agent=per_agent, title=title, size=_inches(size)),
            out,
            as_json=as_json,
        )
        return
    from fedsim.dashboards.agents import facet_chart
    from fedsim.dashboards.plots import draw

    # typer knows no literals on old versions: an unknown axis is refused by chart.
    asked: dict[str, Any] = {"metric": metric, "x": x, "best_agent": best_agent}
    drawn = facet_chart(folders, **asked, facet=facet, agents=_numbers(agents), labels=label)
    _show(
        drawn.notes,
        drawn.record(),
        lambda: draw(drawn, log=log, title=title, size=_inches(size)),
        out,
        as_json=as_json,
    )


def _check_kinds(
    points: bool,
    tradeoff: bool,
    x: str,
    facet: str | None,
    agents: str | None,
    *,
    log: bool,
    rounds: str | None,
) -> None:
    """Refuse options that do not go with a trade-off, or need one."""
    if not tradeoff and rounds is not None:
        raise ConfigError("--rounds: needs --tradeoff")
    given = {"points": points, "x": x != "rounds", "facet": facet is not None, "log": log}
    given["agents"] = agents is not None
    for name, told in given.items():
        if tradeoff and told:
            raise ConfigError(f"--{name}: does not go with --tradeoff")


def _numbers(text: str | None) -> list[int] | None:
    """Return agents that are written as ``0,1,5``."""
    if text is None:
        return None
    if not re.fullmatch(r"\d+(\s*,\s*\d+)*", text.strip()):
        raise ConfigError(f"--agents: expected agents, e.g. 0,1,5, got {text!r}")
    return [int(one) for one in text.split(",")]


def _show(
    notes: Sequence[str],
    record: Mapping[str, Any],
    draw: Callable[[], Figure],
    out: Path | None,
    *,
    as_json: bool,
) -> None:
    """Draw and save a picture, unless only its data is wanted, and print what there is."""
    from fedsim.dashboards.plots import save

    errors = make_console(stderr=True)
    for note in notes:
        print_text(errors, f"note: {note}", "yellow")
    path: Path | None = None
    if out is not None or not as_json:
        path = save(draw(), out or Path("fedsim.png"))
    if as_json:
        print_json({"picture": None if path is None else str(path), **record})
    else:
        print(path)


def _inches(text: str | None) -> tuple[float, float] | None:
    from fedsim.arguments import INCHES, LEAST_INCHES, MOST_INCHES

    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)x(\d+(?:\.\d+)?)", text)
    size = (float(match[1]), float(match[2])) if match else (0.0, 0.0)
    if not INCHES.fits(size):
        expected = f"inches from {LEAST_INCHES} to {MOST_INCHES}, e.g. 7x4.2"
        raise ConfigError(f"--size: expected {expected}, got {text!r}")
    return size
