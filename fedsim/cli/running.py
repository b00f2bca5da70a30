"""``fedsim run`` and ``fedsim resume``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console

from fedsim.analysis import Run
from fedsim.cli.display import LiveDisplay, closing_table, privacy_sentence
from fedsim.config import delta_of
from fedsim.runner import Prepared, choose_backend, prepare
from fedsim.runner import resume as resume_run
from fedsim.runner import run as start_run

JsonOption = Annotated[bool, typer.Option("--json", help="End with one JSON line on stdout.")]


def run(
    source: Annotated[
        str | None, typer.Argument(metavar="[FILE|NAME]", help="A file or a ready configuration.")
    ] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="e.g. method.beta=2")
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="e.g. 3, 0-9 or 1,4,7-9")] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; must not exist.")] = None,
    backend: Annotated[str | None, typer.Option(help="auto, serial or ray")] = None,
    agents_per_actor: Annotated[
        str | None, typer.Option(help="How many agents share a Ray actor, or auto.")
    ] = None,
    address: Annotated[str | None, typer.Option(help="An existing Ray cluster.")] = None,
    data: Annotated[Path | None, typer.Option(help="Where data sets lie.")] = None,
    noise_control: Annotated[
        bool, typer.Option("--noise-control", help="Run each private variant on noise alone, too.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would run.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a simulation: without arguments, the synthetic DP-FTS-DE scenario."""
    given = {
        "seeds": seeds,
        "backend": backend,
        "agents_per_actor": agents_per_actor,
        "address": address,
    }
    overrides = [f"{key}={value}" for key, value in given.items() if value is not None]
    overrides += ["noise_control=true"] if noise_control else []
    prepared = prepare(source, [*overrides, *(assignments or [])], data)
    if dry_run:
        _dry_run(prepared, as_json)
        return
    console = Console(stderr=as_json)
    with LiveDisplay(console) as display:
        finished = start_run(prepared, out=out, listener=display)
    _close(finished, console, as_json)


def resume(
    folder: Annotated[Path, typer.Argument(help="The run folder.")], as_json: JsonOption = False
) -> None:
    """Go on with an unfinished run, from its last recorded evaluation."""
    console = Console(stderr=as_json)
    with LiveDisplay(console) as display:
        finished = resume_run(folder, listener=display)
    _close(finished, console, as_json)


def _close(run: Run, console: Console, as_json: bool) -> None:
    """Print the outcome, draw the picture, end with JSON if asked."""
    from fedsim.analysis import control_verdicts
    from fedsim.dashboards.plots import plot_runs

    summaries = run.summaries()
    console.print(closing_table(summaries))
    if summaries[0].get("epsilon"):
        console.print(privacy_sentence(summaries[0]["epsilon"]), highlight=False, soft_wrap=True)
    for warning in sorted({w for s in run.runs for w in s.folder.manifest().get("warnings", [])}):
        console.print(f"warning: {warning}", style="yellow", markup=False, soft_wrap=True)
    for verdict in control_verdicts(run):
        console.print(verdict, markup=False, highlight=False, soft_wrap=True)
    picture = plot_runs([run], run.folder / "progress.png")
    console.print(
        f"folder  {run.folder}\npicture {picture}", markup=False, highlight=False, soft_wrap=True
    )
    if as_json:
        result: dict[str, Any] = {"folder": str(run.folder), "picture": str(picture)}
        if len(summaries) == 1:
            result |= {k: v for k, v in summaries[0].items() if k != "folder"}
        result["status"] = "done"
        result["runs"] = summaries
        print(json.dumps(result))


def _dry_run(prepared: Prepared, as_json: bool) -> None:
    """Print the resolved configuration, the resource plan and the privacy loss to come."""
    backend, plan = choose_backend(prepared)
    config = prepared.config.model_dump(mode="json")
    planned = {label: _planned_epsilon(prepared, label) for label in prepared.curves}
    if as_json:
        print(json.dumps({"config": config, "backend": backend, "plan": plan, "epsilon": planned}))
        return
    print(yaml.safe_dump(config, sort_keys=False), end="")
    print(f"# backend: {backend}\n# plan: {plan}")
    for label, epsilon in planned.items():
        print(
            f"# {label}: " + (privacy_sentence(epsilon) if epsilon else "no privacy loss to tell")
        )


def _planned_epsilon(prepared: Prepared, label: str) -> dict[str, Any]:
    from fedsim.analysis import epsilons
    from fedsim.build import build_method, build_scenario
    from fedsim.config import run_spec

    curve = prepared.curves[label]
    spec = run_spec(curve, curve.seeds[0], prepared.data_dir, prepared.import_from)
    scenario = build_scenario(spec)
    method = build_method(spec, scenario)
    if not hasattr(method, "planned_costs"):
        return {}
    return epsilons(method.planned_costs(), delta_of(curve, scenario.agents))
