"""``fedsim show``: a run's results, or how far it is."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedsim.cli.consoles import make_console, only_json_on_stdout, print_json, print_text
from fedsim.cli.options import AnyRunFolderArgument, JsonOption
from fedsim.errors import RunFolderError

if TYPE_CHECKING:  # these take long to import, and --help needs none of them
    from fedsim.results.seeds import SeedRun
    from fedsim.results.status import Status


def show(folder: AnyRunFolderArgument, as_json: JsonOption = False) -> None:
    """Show a run's results, or how far it is; a running run is not disturbed."""
    from fedsim.cli.summary import print_outcome, privacy_lines
    from fedsim.results.analysis import load
    from fedsim.results.places import given_to
    from fedsim.results.seeds import warnings_of
    from fedsim.usercode.given import how_to_resume

    with only_json_on_stdout(as_json):
        run = load(folder)
        seeds = [_shown(one) for one in run.runs]
    if as_json:
        lost = {"lost": run.lost_plan()} if run.lost_plan() else {}
        print_json({"folder": str(run.folder), **lost, "runs": [seed.record for seed in seeds]})
        return
    console = make_console()
    records = [seed.record for seed in seeds]
    states = {seed.record["status"] for seed in seeds}
    if "done" in states:
        print_outcome(console, records)
    sentences = filter(None, (run.lost_plan(), *(seed.sentence for seed in seeds)))
    for line in (*sentences, *privacy_lines(records)):
        print_text(console, line)
    for line in warnings_of({one.name: one for one in run.runs}):
        print_text(console, f"warning: {line}", "yellow")
    if any(_has_points(record) for record in records):
        told = shlex.quote(str(run.folder))
        print_text(console, f"best points: fedsim best {told}")
    resumable = all(seed.resumable for seed in seeds)
    if states - {"done"} and resumable and not states & {"running", "waiting"}:
        refused = run.lost_plan() or any(seed.refused for seed in seeds)
        how = "repair what is damaged, then continue with" if refused else "continue with"
        print_text(console, f"{how}: {how_to_resume(run.whole, given_to(run.whole))}")
    if states == {"damaged"}:
        raise RunFolderError(f"{run.folder}: every seed is damaged")


def _has_points(record: dict[str, Any]) -> bool:
    """Return whether a seed has evaluated something since round 0."""
    begun = record["status"] == "done" or record.get("round", -1) >= 0
    return bool(begun and record.get("evaluations"))


@dataclass(frozen=True)
class _Shown:
    """What is shown of a seed: its record, a sentence unless it is done, whether it is refused.

    A resume refuses what has to be repaired first; what is not ``resumable`` would fail again.
    """

    record: dict[str, Any]
    sentence: str = ""
    refused: bool = False
    resumable: bool = True


def _shown(one: SeedRun) -> _Shown:
    from fedsim.results.status import StatusReader

    try:
        summary = one.summary()
        if summary["status"] == "done":
            return _Shown(summary)
        if summary["status"] == "missing":
            return _missing(one, summary)
        status = StatusReader(one).read()
    except RunFolderError as error:
        named = {"variant": one.variant, "seed": one.seed, "folder": str(one.folder.path)}
        damaged = {**named, "status": "damaged", "reason": str(error)}
        return _Shown(damaged, f"{one.name}: damaged: {error}", refused=True)
    told = {**summary, **status.record()}
    return _Shown(told, _sentence(one, status), status.refused, status.resumable)


def _missing(one: SeedRun, summary: dict[str, Any]) -> _Shown:
    from fedsim.record.layout import obstacle

    state = one.state  # waiting, if the run is just making the folders
    told = obstacle(one.folder.path)
    reason = (told or "its folder is missing") if state == "missing" else None
    record = {**summary, "status": state, "reason": reason}
    return _Shown(record, f"{one.name}: {reason or state}", refused=bool(told))


def _sentence(one: SeedRun, status: Status) -> str:
    """Return the status of an unfinished run as a sentence."""
    from fedsim.cli.notes import duration, progress_note
    from fedsim.results.digits import significant
    from fedsim.results.seeds import not_yet_said

    progress, privacy, left = status.progress, status.privacy, status.seconds_left
    told = ""
    if privacy is not None:
        told = (
            f"ε {significant(privacy.epsilon, 3)} ({privacy.accountant}, δ = {privacy.delta:.2g})"
        )
    parts = (
        f"{one.name}: {status.state}",
        f"{max(0, progress.round)} of {progress.rounds} rounds",
        progress_note(progress, told) if progress.round >= 0 or progress.evaluations else "",
        f"speed unknown ({status.lost_times})" if status.lost_times else "",
        f"{progress.evaluations} evaluations" if progress.round >= 0 else "",
        f"{status.under_way} more done in the next step" if status.under_way else "",
        f"about {duration(left)} left" if left is not None and status.state == "running" else "",
    )
    text = ", ".join(filter(None, parts))
    lost = not_yet_said(status.lost, status.reason)
    return ": ".join(filter(None, (text, status.reason, lost)))
