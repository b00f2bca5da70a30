"""``fedsim reproduce``: runs a paper's figure, draws it, and judges its claims."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedsim.cli.completion import complete_run
from fedsim.cli.consoles import make_console, only_json_on_stdout, print_json, print_text
from fedsim.cli.options import JobsOption, JsonOption, QuietOption, SetOption, VerboseOption
from fedsim.errors import ConfigError

if TYPE_CHECKING:  # these take long to import, and --help needs none of them
    from fedsim.results.claims import Judged
    from fedsim.results.figures import Figure


def reproduce(
    context: typer.Context,
    paper: Annotated[str | None, typer.Argument(help="dp-fts-de, fts or fbo-fedgp")] = None,
    figure: Annotated[str | None, typer.Argument(help="e.g. 2b")] = None,
    full: Annotated[
        bool, typer.Option("--full/--quick", help="As for a verdict, or under three minutes.")
    ] = False,
    seeds: Annotated[str | None, typer.Option(help="e.g. 3, 0-9 or 1,4,7-9")] = None,
    assignments: SetOption = None,
    run: Annotated[
        Path | None,
        typer.Option(help="Judge this run; run nothing.", autocompletion=complete_run),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; must not exist.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of the data sets.")] = None,
    jobs: JobsOption = "auto",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would run.")] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Reproduce a figure of a paper: run it, draw it, and judge its claims by paired tests.

    Without arguments, list papers and figures.
    """
    from fedsim.results.figures import find_figure

    if paper is None or figure is None:
        _list(paper, as_json)
        return
    found = find_figure(paper, figure)
    head = {
        "paper": paper,
        "figure": figure,
        **found.model_dump(include={"title", "claim", "note"}),
    }
    for option, value in (("--seeds", seeds), ("--set", assignments), ("--out", out)):
        if value and (run is not None or found.losses):
            raise ConfigError(f"{option}: nothing is run; leave it out")
    if found.waits_for or found.by_hand:
        raise ConfigError(
            f"FIGURE: {paper} {figure} is not run here ({found.title}): {found.state}"
        )
    if found.losses:
        _show_losses(head, found, as_json)
        return
    with only_json_on_stdout(as_json):
        if dry_run:
            result = _plan(found, full, seeds, assignments, data, jobs, quiet=as_json)
        else:
            folder = run or _run(context, found, full, seeds, assignments, data, out, jobs)
            judged, result = _judged(head, found, folder, quick=run is None and not full)
            if not as_json:
                _print_result(judged, result, found)
    if as_json:
        print_json(result)


def _experiment(
    found: Figure, full: bool, seeds: str | None, more: list[str] | None, data: Path | None
) -> Any:
    from fedsim.config.experiment import prepare

    setting = found.full if full else found.quick
    asked = [*setting.set, f"seeds={json.dumps(seeds or setting.seeds)}", *(more or [])]
    return prepare(found.configuration, asked, data)


def _plan(
    found: Figure,
    full: bool,
    seeds: str | None,
    more: list[str] | None,
    data: Path | None,
    jobs: str,
    *,
    quiet: bool,
) -> dict[str, Any]:
    from fedsim.cli.planning import planned, print_plan

    plan = planned(_experiment(found, full, seeds, more, data), jobs)
    if not quiet:
        print_plan(plan)
    return plan


def _run(
    context: typer.Context,
    found: Figure,
    full: bool,
    seeds: str | None,
    more: list[str] | None,
    data: Path | None,
    out: Path | None,
    jobs: str,
) -> Path:
    from fedsim.cli.running import followed
    from fedsim.runner import run as start

    experiment = _experiment(found, full, seeds, more, data)
    with followed(context) as listener:
        return start(experiment, out=out, jobs=jobs, listener=listener)


def _judged(
    head: dict[str, Any], found: Figure, folder: Path, *, quick: bool
) -> tuple[list[Judged], dict[str, Any]]:
    """Draw and judge a run; return the claims, and a record of all that is told about it."""
    from fedsim.dashboards.plots import save
    from fedsim.dashboards.reproduced import draw_figure
    from fedsim.results.analysis import load
    from fedsim.results.claims import judge
    from fedsim.results.entrants import entrants

    loaded = load(folder)
    variants, missing = entrants([loaded], None)
    judged, rounds, notes = judge(found, variants)
    title = f"{head['paper']}, {head['figure']}: {found.title}"
    name = f"{head['paper']}-{head['figure']}.png"
    picture = save(draw_figure(found, loaded, rounds, title), Path(folder) / name)
    if quick:
        missing = ["a quick run, smaller than the paper's: --full is for a verdict", *missing]
    return judged, {
        **head,
        "folder": str(folder),
        "picture": str(picture),
        "rounds": list(rounds),
        "metric": _metric(judged),
        "claims": [_record(one) for one in judged],
        "published": found.published and found.published.source,
        "notes": [*filter(None, [found.note]), *missing, *notes],
    }


def _metric(judged: list[Judged]) -> str:
    """Return the metric of the claims that name none of their own, if there are such."""
    shared = [one.difference.metric for one in judged if one.claimed.metric is None]
    return (shared or [judged[0].difference.metric])[0]


def _record(one: Judged) -> dict[str, Any]:
    return {
        "better": one.claimed.better,
        "worse": one.claimed.worse,
        "alike": one.claimed.alike,
        "metric": one.difference.metric,
        "scores": [one.score[0], one.other_score[0]],
        "standard_errors": [one.score[1], one.other_score[1]],
        "difference": asdict(one.difference),
        "verdict": one.verdict,
    }


def _print_result(judged: list[Judged], result: dict[str, Any], found: Figure) -> None:
    from fedsim.cli.claimtables import claims_table
    from fedsim.cli.tables import print_table

    console = make_console()
    print_text(console, f"claim: {found.claim}")
    print_table(console, claims_table(judged, result["metric"], tuple(result["rounds"])))
    if found.published is not None:
        print_text(console, f"published values in the picture: {found.published.source}")
    for note in result["notes"]:
        print_text(console, f"note: {note}", "yellow")
    print_text(console, f"folder  {result['folder']}\npicture {result['picture']}")


def _show_losses(head: dict[str, Any], found: Figure, as_json: bool) -> None:
    from rich.table import Table

    from fedsim.cli.tables import print_table
    from fedsim.results.digits import significant
    from fedsim.results.figure_losses import compared_losses

    rows = compared_losses(found.losses)
    smaller = sum(one["fixed size, rdp"] < one["Poisson, moments"] for one in rows)
    verdict = "holds" if smaller == len(rows) else "does not hold"
    told = f"{verdict}: smaller in {smaller} of {len(rows)} settings"
    if as_json:
        print_json({**head, "losses": rows, "verdict": told})
        return
    table = Table(title="privacy losses ε at δ = N^-1.1", box=None, pad_edge=False)
    for name in rows[0]:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*(significant(value) for value in row.values()))
    console = make_console()
    print_text(console, f"claim: {found.claim}")
    print_table(console, table)
    print_text(console, told)


def _list(paper: str | None, as_json: bool) -> None:
    from rich.markup import escape
    from rich.table import Table

    from fedsim.errors import nearest
    from fedsim.results.figures import papers

    known = papers()
    if paper is not None and paper not in known:
        raise ConfigError(f"PAPER: unknown paper {paper!r}{nearest(paper, known)}")
    shown = {name: own for name, own in known.items() if paper in (None, name)}
    if as_json:
        print_json(
            {
                name: {key: {"title": one.title, "state": one.state} for key, one in own.items()}
                for name, own in shown.items()
            }
        )
        return
    for name, own in shown.items():
        table = Table(title=name, title_justify="left", show_header=False, box=None)
        for key, one in own.items():
            table.add_row(key, escape(one.title), escape(one.state))
        make_console().print(table)
