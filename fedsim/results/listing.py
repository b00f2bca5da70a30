"""Lists the runs under a folder, from their configurations and manifests only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedsim.errors import FedsimError, RunFolderError
from fedsim.files import read_yaml, user_path
from fedsim.record.layout import seed_folders
from fedsim.record.locking import is_locked
from fedsim.record.runfolder import RunFolder
from fedsim.results.identity import require_own
from fedsim.results.places import (
    in_order,
    is_run,
    label_of,
    planned_seeds,
    variants_of,
)

LEVELS = 3
"""How many levels below the given folder a run may be."""


@dataclass(frozen=True)
class RunSummary:
    """What is known about a run without opening its tables or journals.

    Attributes:
        folder: the run folder.
        name: the name in its configuration.
        status: ``running``; ``done``, if every seed is; ``failed``; ``interrupted``; ``stopped``,
            if it was killed or some seed's folder is missing; ``not started``; or ``damaged``, if
            its files cannot be read.
        reason: why it failed, was interrupted, has a seed missing or cannot be read, or None.
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
    try:
        config = read_yaml(folder / "config.yaml", kept=True)
        seeds = seed_folders(folder)
        manifests = list(_manifests(folder, seeds))
        status = _status(folder, manifests)
        return RunSummary(
            folder=folder,
            name=str(config["name"]),
            status=status,
            reason=next(
                (m["reason"] for m in manifests if _ended_badly(m)),
                None if status == "running" else _missing(folder, seeds),
            ),
            scenario=str(config["scenario"]["name"]),
            variants=_labels(folder, seeds) or (str(config["method"]["name"]),),
            rounds=max((int(m["rounds"]) for m in manifests if "rounds" in m), default=0)
            or int(config["rounds"]),
            jobs=len(manifests),
            done=sum(m.get("status") == "done" for m in manifests),
            started=min(_times(manifests, "started"), default=None),
            ended=_ended(manifests),
        )
    except (FedsimError, OSError, LookupError, TypeError, ValueError) as error:
        why = str(error) if isinstance(error, FedsimError) else repr(error)
        jobs, done = _counts(folder)
        return RunSummary(folder, folder.name, "damaged", why, jobs=jobs, done=done)


def _manifests(folder: Path, seeds: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """Yield the manifests of a run's seeds.

    Raises:
        RunFolderError: if one is damaged, or is in a copy of another seed's folder.
    """
    known = variants_of(folder)
    settings = {place: known.get(label_of(place), "") for place in {s.parent for s in seeds}}
    for seed in _with_planned(folder, seeds):
        manifest = RunFolder(seed).manifest()
        require_own(seed, manifest, settings.get(seed.parent, ""))
        yield manifest


def _with_planned(folder: Path, seeds: Sequence[Path]) -> list[Path]:
    """Return the seeds that have a folder, and those that the configuration has besides."""
    return list(dict.fromkeys([*seeds, *(seed for _, seed in planned_seeds(folder))]))


def _missing(folder: Path, seeds: Sequence[Path]) -> str | None:
    """Return a sentence on a seed whose folder is missing, though others have theirs."""
    gone = [seed for seed in _with_planned(folder, seeds) if not seed.exists()]
    return f"{gone[0]}: its folder is missing" if seeds and gone else None


def _counts(folder: Path) -> tuple[int, int]:
    """Return how many seeds a damaged run has, and how many are done, as far as can be read."""
    try:
        seeds = _with_planned(folder, seed_folders(folder))
    except RunFolderError:
        return 0, 0
    done = 0
    for seed in seeds:
        with suppress(RunFolderError):
            manifest = RunFolder(seed).manifest()
            require_own(seed, manifest, "")
            done += manifest.get("status") == "done"
    return len(seeds), done


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


def _labels(folder: Path, seeds: Sequence[Path]) -> tuple[str, ...]:
    """Return the labels of the variants that have a folder, in order."""
    own = {seed.parent for seed in seeds} - {folder}
    return tuple(in_order([label_of(one) for one in own], folder))


def _ended(manifests: Sequence[Mapping[str, Any]]) -> datetime | None:
    if any(m.get("status") == "running" for m in manifests):
        return None  # what a resumed one holds is when it was stopped before
    return max(_times(manifests, "ended"), default=None)


def _times(manifests: Sequence[Mapping[str, Any]], name: str) -> list[datetime]:
    return [datetime.fromisoformat(m[name]).astimezone(UTC) for m in manifests if name in m]
