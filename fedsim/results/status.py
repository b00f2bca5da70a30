"""Where an unfinished run stands, read from its folder: while it runs, or after it was stopped.

Nothing is written there, and what the run is writing at the moment may be half-written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedsim.config.model import Config, delta_of
from fedsim.config.schema import validate
from fedsim.privacy.accountants import PrivacyLoss, make_accountant, privacy_loss
from fedsim.privacy.ledger import Ledger
from fedsim.protocol import AgentId
from fedsim.record.evaluationlog import kept_evaluations
from fedsim.record.journal import Line, journal_run, read_journal
from fedsim.record.progress import Progress
from fedsim.record.runfolder import RunFolder, is_locked, run_folder_of
from fedsim.record.timings import read_timings
from fedsim.results.analysis import SeedRun


@dataclass(frozen=True)
class Standing:
    """Where an unfinished seed of a run stands.

    Attributes:
        state: ``running``; ``waiting``, if its turn or its tables come next; ``interrupted`` or
            ``failed``; ``stopped``, if it was killed, so that nothing says why; or ``not started``.
        reason: why it failed or was interrupted, or None.
        direction: of the scenario; None if it never started: nothing is ``best`` then.
        progress: as its journal tells.
        under_way: evaluations made since its last journal line.
        privacy: what was spent, by the accountant of the configuration; None if nothing.
        seconds_left: how long its other rounds will take, or None if nothing is known.
    """

    state: str
    reason: str | None
    direction: str | None
    progress: Progress
    under_way: int
    privacy: PrivacyLoss | None
    seconds_left: float | None

    def record(self) -> dict[str, Any]:
        """Return it as JSON has it; what is not known is None."""
        progress, privacy = self.progress, self.privacy
        epsilon: dict[str, Any] = {}
        if privacy is not None:
            epsilon = {
                "delta": privacy.delta,
                "releases": progress.spent.releases,
                "neighbouring_relation": privacy.neighbouring_relation,
                "sampling": privacy.sampling,
                privacy.accountant: _finite(privacy.epsilon),
            }
        return {
            "status": self.state,
            "reason": self.reason,
            "metric": "best value",
            "direction": self.direction,
            "round": progress.round,
            "rounds": progress.rounds,
            "best": _finite(progress.best),
            "mean": _finite(progress.mean_best),
            "agents": progress.agents,
            "agents_present": progress.present,
            "evaluations": progress.evaluations,
            "evaluations_under_way": self.under_way,
            "evaluations_failed": progress.failed,
            "evaluations_per_second": _finite(progress.evaluations_per_second),
            "epsilon": epsilon,
            "seconds_left": self.seconds_left,
        }


def standings(runs: Sequence[SeedRun]) -> list[Standing]:
    """Return where unfinished runs stand.

    Raises:
        RunFolderError: if a configuration or a journal is damaged.
    """
    return [_standing(run) for run in runs]


def _standing(run: SeedRun) -> Standing:
    folder, manifest = run.folder, run.folder.manifest()
    config = validate(Config, folder.config(), "")
    direction = manifest.get("direction")
    tally = _Tally(min if direction == "minimize" else max)
    if folder.journal.exists():
        for line in read_journal(folder.journal):
            tally.add(line)
    timings = read_timings(folder.timings)
    values = list(tally.best.values()) if direction and tally.best else [math.nan]
    rate = timings.evaluations_per_second(tally.evaluations)
    progress = Progress(
        round=tally.round,
        rounds=config.rounds,
        mean_best=sum(values) / len(values),
        best=tally.better(values),
        spent=Ledger.from_events(tally.events),
        agents=manifest.get("agents", len(tally.seen)),
        present=len(tally.present),
        evaluations=tally.evaluations,
        failed=tally.failed,
        evaluations_per_second=math.nan if rate is None else rate,
    )
    state = _state(run)
    stays = state in ("interrupted", "failed")  # else the reason is that of an earlier stop
    return Standing(
        state=state,
        reason=manifest.get("reason") if stays else None,
        direction=direction,
        progress=progress,
        under_way=len(kept_evaluations(folder.evaluations, _run(folder), tally.lines) or ()),
        privacy=_privacy(progress, config),
        seconds_left=timings.seconds_left(config.rounds - max(0, tally.round)),
    )


@dataclass
class _Tally:
    """What the journal's lines add up to, one after another."""

    better: Callable[[Iterable[float]], float]
    lines: int = 0
    round: int = -1
    evaluations: int = 0
    failed: int = 0
    best: dict[AgentId, float] = field(default_factory=dict)
    seen: set[AgentId] = field(default_factory=set)
    present: set[AgentId] = field(default_factory=set)
    events: list[dict[str, float]] = field(default_factory=list)

    def add(self, line: Line) -> None:
        self.lines += 1
        if "event" in line:
            self.events.append(line["event"])
        if line["kind"] != "step":
            return
        if line["t"] != self.round:
            self.round, self.present = line["t"], set()
        observed, failed = line["observations"], line.get("failed", ())
        for agent, _, _, _, y, *_ in observed:
            self.best[agent] = self.better((self.best.get(agent, y), y))
        self.evaluations += len(observed)
        self.failed += len(failed)
        self.present.update(row[0] for row in (*observed, *failed))
        self.seen.update(self.present, line.get("absent", ()))


def _state(run: SeedRun) -> str:
    """Say who works on a run: its manifest alone cannot, as it is not told of a kill."""
    if is_locked(run.folder.path):
        return "running"
    if is_locked(run_folder_of(run.folder.path)):
        return "waiting"
    return "stopped" if run.status == "running" else run.status


def _run(folder: RunFolder) -> str:
    """Return the fingerprint that the journal's header has, or an empty text."""
    return journal_run(folder.journal) if folder.journal.exists() else ""


def _privacy(progress: Progress, config: Config) -> PrivacyLoss | None:
    """Return what was spent; None if nothing, or if δ rests on a number of agents not known."""
    if not progress.spent.releases or (config.privacy.delta is None and progress.agents < 2):
        return None
    delta = delta_of(config, progress.agents)
    accountant = make_accountant(config.privacy.accountant)
    return privacy_loss(progress.spent, delta, accountant, config.privacy.accounting)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
