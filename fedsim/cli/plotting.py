"""``fedsim plot``: pictures of runs, or their data."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from fedsim.cli.completion import complete_run
from fedsim.cli.consoles import make_console, print_json, print_text
from fedsim.cli.options import JsonOption
from fedsim.errors import ConfigError


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
    x: Annotated[str, typer.Option("--x", help="rounds, evaluations or epsilon")] = "rounds",
    best_agent: Annotated[
        bool, typer.Option("--best-agent", help="The best agent's value, not the mean of agents.")
    ] = False,
    facet: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="One panel for each value, e.g. of scenario.agents."),
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(help="What to call a run: once for each folder.")
    ] = None,
    log: Annotated[bool, typer.Option("--log", help="A logarithmic scale of values.")] = False,
    title: Annotated[str | None, typer.Option(help="The picture's title.")] = None,
    size: Annotated[str | None, typer.Option(metavar="WxH", help="Inches, e.g. 7x4.2")] = None,
    as_json: JsonOption = False,
) -> None:
    """Draw regret (or best observed value) against rounds: mean and standard error over seeds.

    Where some variants maximise and others minimise, each direction has a panel. --json prints
    the data, and draws only with --out.
    """
    from fedsim.dashboards.curves import chart
    from fedsim.dashboards.plots import Picture, draw

    # typer knows no literals on old versions: an unknown axis is refused by chart.
    asked: dict[str, Any] = {"metric": metric, "x": x, "best_agent": best_agent}
    drawn = chart(folders, **asked, facet=facet, labels=label)
    errors = make_console(stderr=True)
    for note in drawn.notes:
        print_text(errors, f"note: {note}", "yellow")
    path: Path | None = None
    if out is not None or not as_json:
        figure = draw(drawn, log=log, title=title, size=_inches(size))
        path = Picture(drawn, figure).save(out or Path("fedsim.png"))
    if as_json:
        print_json({"picture": None if path is None else str(path), **drawn.record()})
    else:
        print(path)


def _inches(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)x(\d+(?:\.\d+)?)", text)
    size = (float(match[1]), float(match[2])) if match else (0.0, 0.0)
    if not all(1.0 <= one <= 100.0 for one in size):
        raise ConfigError(f"--size: expected inches from 1 to 100, e.g. 7x4.2, got {text!r}")
    return size
