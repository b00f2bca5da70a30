"""Lists the runs under a folder.

Of what is done, only configurations and manifests are read; of unfinished seeds that nobody works
on also the journals, to tell what is damaged as ``fedsim show`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from fedsim.errors import FedsimError, RunFolderError
from fedsim.files import read_yaml, user_path
from fedsim.record.layout import obstacle
from fedsim.record.locking import is_locked
from fedsim.record.origin import Origin
from fedsim.results.analysis import Run, load
from fedsim.results.outcome import is_outcome
from fedsim.results.places import is_run, require_plan
from fedsim.results.seeds import SeedRun, not_yet_said
from fedsim.results.status import StatusReader

Part = TypeVar("Part")

LEVELS = 3
"""How many levels below the given folder a run may be."""


@dataclass(frozen=True)
class RunSummary:
    """What is known about a run without opening its tables.

    Attributes:
        folder: the run folder.
        name: the name in its configuration.
        status: ``running``; ``done``, if every seed is; ``failed``; ``interrupted``; ``stopped``,
            if it was killed or some seed's folder is missing; ``not started``; or ``damaged``, if
            some of its files cannot be read or belong to another run.
        reason: why it failed, was interrupted, lacks something or is damaged, or None.
        scenario: the scenario's name.
        variants: the variants' labels; the method's name if there is only one.
        rounds: queries per agent of the longest variant.
        jobs: the number of seeds of all variants.
        done: how many of them are done.
        started: when it was first started, in UTC; None if it was not.
        ended: when its last job ended, in UTC; None if one is running or never ended.
    """

    folder: Path
    name: str
    status: str
    reason: str | None = None
    scenario: str = ""
    variants: tuple[str, ...] = ()
    rounds: int = 0
    jobs: int = 0
    done: int = 0
    started: datetime | None = None
    ended: datetime | None = None

    def record(self) -> dict[str, Any]:
        """Return it as a JSON record; times are ISO 8601."""
        times = {"started": self.started, "ended": self.ended}
        told = {name: None if time is None else time.isoformat() for name, time in times.items()}
        return {**asdict(self), **told, "folder": str(self.folder), "variants": [*self.variants]}


def list_runs(folder: str | Path = "runs") -> list[RunSummary]:
    """Return the runs under a folder, the latest first; those that never started come last.

    Args:
        folder: a folder with run folders, at most three levels down, or one run folder.

    Raises:
        RunFolderError: if it is not a folder.
    """
    path = user_path(folder)
    if not path.is_dir():
        found = "a file" if path.exists() else "no such folder"
        raise RunFolderError(f"{path}: expected a folder with runs, found {found}")
    runs = sorted((_summary(run) for run in _run_folders(path, LEVELS)), key=lambda r: r.folder)
    return sorted(runs, key=_age)


def _age(run: RunSummary) -> float:
    return 0.0 if run.started is None else -run.started.timestamp()


def _run_folders(folder: Path, levels: int) -> Iterator[Path]:
    """Yield the run folders at or below a folder; none contains another."""
    if is_run(folder):
        yield folder
        return
    if levels == 0:
        return
    try:
        inside = [p for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".")]
    except OSError:  # a folder that may not be read holds no run of this user
        return
    for one in inside:
        yield from _run_folders(one, levels - 1)


def _summary(folder: Path) -> RunSummary:
    wrong: list[str] = []

    def tried(read: Callable[[], Part], otherwise: Part) -> Part:
        try:
            return read()
        except (FedsimError, OSError, LookupError, TypeError, ValueError) as error:
            wrong.append(str(error) if isinstance(error, FedsimError) else repr(error))
            return otherwise

    config = tried(lambda: _config(folder), _Config())
    tried(lambda: Origin.read(folder), None)
    run = tried(lambda: load(folder), Run(folder, ()))
    seeds = [seed for one in run.runs if (seed := tried(partial(_seed, one), None))]
    manifests = [seed.manifest for seed in seeds]
    status = _status(folder, manifests)
    troubles = [seed.trouble for seed in seeds if seed.trouble]
    troubles += [] if status == "running" else _missing(run)
    return RunSummary(
        folder=folder,
        name=config.name or folder.name,
        status="damaged" if wrong else status,
        reason=next(iter([*wrong, *troubles]), None),
        scenario=config.scenario,
        variants=tuple(dict.fromkeys(one.variant for one in run.runs)) or config.method,
        rounds=max((seed.rounds for seed in seeds), default=0) or config.rounds,
        jobs=len(run.runs),
        done=sum(m.get("status") == "done" for m in manifests),
        started=min((seed.started for seed in seeds if seed.started), default=None),
        ended=_ended(seeds),
    )


@dataclass(frozen=True)
class _Config:
    """What is told of a run's configuration; empty if that is damaged."""

    name: str = ""
    scenario: str = ""
    method: tuple[str, ...] = ()
    rounds: int = 0


def _config(folder: Path) -> _Config:
    require_plan(folder)
    config = read_yaml(folder / "config.yaml", kept=True)
    scenario, method = (str(config[key]["name"]) for key in ("scenario", "method"))
    return _Config(str(config["name"]), scenario, (method,), int(config["rounds"]))


@dataclass(frozen=True)
class _Seed:
    """What is told of a seed.

    Attributes:
        manifest: its manifest.
        rounds: the rounds that it will have; 0 if it has not started.
        started: when it was first started; None if it was not.
        ended: when it ended last; None if it never did.
        trouble: why it ended, and what its record lacks; empty if nothing is wrong.
    """

    manifest: Mapping[str, Any]
    rounds: int
    started: datetime | None
    ended: datetime | None
    trouble: str


def _seed(one: SeedRun) -> _Seed:
    """Return what is told of a seed.

    Raises:
        RunFolderError: if it is damaged, or its folder holds another seed.
        LookupError, TypeError, ValueError: if its manifest is damaged.
    """
    one.require_own()
    one.require_manifest()
    manifest = one.folder.manifest()
    done = manifest.get("status") == "done"
    if done and "agents" in manifest and not is_outcome(manifest.get("outcome")):
        one.summary()  # makes it again, if it can
    lost = None
    if not done and "agents" in manifest and one.state not in ("running", "waiting"):
        lost = StatusReader(one).read().lost
    reason = str(manifest["reason"]) if _ended_badly(manifest) else ""
    lost = not_yet_said(lost, reason)
    trouble = ": ".join(filter(None, (reason, f"{one.name}: {lost}" if lost else "")))
    started, ended = (_time(manifest, name) for name in ("started", "ended"))
    return _Seed(manifest, int(manifest.get("rounds", 0)), started, ended, trouble)


def _missing(run: Run) -> list[str]:
    """Return a sentence on each seed whose folder is missing, though others have theirs."""
    gone = [one.folder.path for one in run.runs if not one.folder.path.is_dir()]
    told = [obstacle(one) or f"{one}: its folder is missing" for one in gone]
    return told if len(gone) < len(run.runs) or any(map(obstacle, gone)) else []


def _status(folder: Path, manifests: Sequence[Mapping[str, Any]]) -> str:
    states = {str(m.get("status", "not started")) for m in manifests}
    held = is_locked(folder)
    if held or (held is None and "running" in states):
        return "running"
    if states == {"done"}:
        return "done"
    for state in ("failed", "interrupted"):
        if state in states:
            return state
    return "stopped" if states & {"running", "done"} else "not started"


def _ended_badly(manifest: Mapping[str, Any]) -> bool:
    return manifest.get("status") in ("failed", "interrupted") and "reason" in manifest


def _ended(seeds: Sequence[_Seed]) -> datetime | None:
    if any(one.manifest.get("status") == "running" for one in seeds):
        return None  # what a resumed one holds is when it was stopped before
    return max((one.ended for one in seeds if one.ended), default=None)


def _time(manifest: Mapping[str, Any], name: str) -> datetime | None:
    if name not in manifest:
        return None
    return datetime.fromisoformat(manifest[name]).astimezone(UTC)
