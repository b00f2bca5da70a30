"""How a running run is shown on a terminal: the plan and a live bar."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.table import Column
from rich.text import Text

from fedsim.config.model import delta_of
from fedsim.jobs import Job, Listener
from fedsim.record.progress import Progress as RunProgress
from fedsim.results.digits import significant

if TYPE_CHECKING:
    from fedsim.privacy.accountants import Accountant

LOG_SECONDS = 60.0
"""How often a long job prints a line where no bar can be drawn, such as in a log file."""


@dataclass
class _Track:
    """How far a job is, and its pace; rounds before a resume do not count.

    Attributes:
        rounds: the number of rounds after the initial design.
        first: the first round that was reported, and when.
        last: the last round that was reported, and when.
        quiet_since: when its last line was printed, or when waiting for its first round began.
    """

    rounds: int
    first: tuple[int, float]
    last: tuple[int, float]
    quiet_since: float

    def time_left(self, now: float) -> str:
        """Return the estimated time to the last round, or an empty string if it is unknown."""
        (first, start), (last, end) = self.first, self.last
        if last == first:
            return ""
        pace = (end - start) / (last - first)
        return duration(max(0.0, pace * (self.rounds - last) - (now - end)))


class _TimeLeft(ProgressColumn):
    """Shows the time left; it also counts down between two rounds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(Column(no_wrap=True))
        self._clock = clock

    def render(self, task: Task) -> Text:
        """Return a job's time left."""
        if task.finished:
            return Text("done", style="progress.elapsed")
        left = task.fields["track"].time_left(self._clock()) or "-:--:--"
        return Text(left, style="progress.remaining")


class LiveDisplay(Listener):
    """A listener that shows a run on a terminal. Use it as a context manager.

    Args:
        console: where to print.
        clock: returns seconds; must be monotonic.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._bars = Progress(
            TextColumn("{task.description}", markup=False, table_column=Column()),
            BarColumn(bar_width=8, table_column=Column(no_wrap=True)),
            TextColumn("{task.completed}/{task.total}"),
            TextColumn("{task.fields[note]}", markup=False, table_column=Column()),  # may wrap
            _TimeLeft(clock),
            console=console,
            refresh_per_second=4,
        )
        self._accountants: dict[str, Accountant] = {}
        self._tracks: dict[Path, _Track] = {}
        self._tasks: dict[Path, TaskID] = {}
        self._quiet_since = clock()

    def __enter__(self) -> LiveDisplay:
        """Start showing."""
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop showing."""
        self._bars.stop()

    def planned(self, folder: Path, jobs: Sequence[Job], plan: str) -> None:
        """Print the plan."""
        self._console.print(f"plan    {plan}", markup=False, highlight=False)
        self._console.print(f"folder  {folder}", markup=False, highlight=False)
        self._quiet_since = self._clock()

    def progress(self, job: Job, progress: RunProgress) -> None:
        """Move a job's bar; if no bar can be drawn, print a line now and then."""
        key, now = job.simulation.folder, self._clock()
        track = self._tracks.get(key)
        if progress.round < 0 or (track is not None and track.last[0] == progress.round):
            return
        name = f"{job.label}, seed {job.simulation.spec.seed}"
        reported = (progress.round, now)
        if track is None:
            track = _Track(progress.rounds, reported, reported, self._quiet_since)
            self._tracks[key] = track
            told: dict[str, Any] = {"note": "", "track": track}
            self._tasks[key] = self._bars.add_task(name, total=progress.rounds, **told)
        track.last = reported
        note = progress_note(progress, self._epsilon(job, progress))
        self._bars.update(self._tasks[key], completed=progress.round, note=note)
        if not self._draws and now - track.quiet_since >= LOG_SECONDS:
            track.quiet_since = now
            left = track.time_left(now)
            line = f"{name}: round {progress.round} of {progress.rounds}, {note}"
            line += f", {left} left" if left else ""
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    @property
    def _draws(self) -> bool:
        return self._console.is_terminal and not self._console.is_dumb_terminal

    def _epsilon(self, job: Job, progress: RunProgress) -> str:
        if not progress.spent.releases:
            return ""
        # Imported here: scipy's optimisers take long to load, and --help needs none.
        from fedsim.privacy.accountants import make_accountant, privacy_loss, unsupported

        privacy, spent = job.config.privacy, progress.spent
        if privacy.accountant not in self._accountants:
            self._accountants[privacy.accountant] = make_accountant(privacy.accountant)
        accountant = self._accountants[privacy.accountant]
        if unsupported(spent, accountant):
            return "ε unknown"
        delta = delta_of(job.config, progress.agents)
        epsilon = privacy_loss(spent, delta, accountant, privacy.accounting).epsilon
        return f"ε {significant(epsilon, 3)}" + (
            f" of {privacy.budget:g}" if privacy.budget else ""
        )

    def finished(self, job: Job) -> None:
        """Fill a job's bar."""
        key = job.simulation.folder
        if key in self._tasks:
            self._bars.update(self._tasks[key], completed=job.config.rounds)
        self._quiet_since = self._clock()


def progress_note(progress: RunProgress, epsilon: str) -> str:
    """Return a short summary of a run: its scores, ``epsilon``, agents, speed, failures."""
    scores, values = progress.scores, ""
    if scores.best_observed is not None:  # else nobody has observed anything
        values = f"best observed {significant(scores.best_observed, 3)}, "
        if scores.mean_simple_regret is not None:
            values += f"mean simple regret {significant(scores.mean_simple_regret, 3)}"
        else:
            values += f"mean of agents {significant(scores.mean_best_observed, 3)}"
    alive, speed = progress.present, progress.evaluations_per_second
    some = f"{alive} of " if alive < progress.agents else ""
    parts = (
        values,
        epsilon,
        f"{some}{progress.agents} agents",
        f"{progress.failed} failed" if progress.failed else "",
        f"{rate(speed)} eval/s" if math.isfinite(speed) else "",
    )
    return ", ".join(filter(None, parts))


def duration(seconds: float) -> str:
    """Return a duration as hours, minutes and seconds."""
    minutes, second = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{second:02d}"


def rate(per_second: float) -> str:
    """Return a number per second with two digits, or whole from 99.5 on."""
    return f"{per_second:.0f}" if per_second >= 99.5 else f"{per_second:.2g}"
