"""How a run is shown on a terminal: the plan, a live bar, the closing table."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.table import Column, Table
from rich.text import Text

from fedsim.config.model import delta_of
from fedsim.jobs import Job, Listener
from fedsim.record.progress import Progress as RunProgress

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
        return f"ε {epsilon:.2f}" + (f" of {privacy.budget:g}" if privacy.budget else "")

    def finished(self, job: Job) -> None:
        """Fill a job's bar."""
        key = job.simulation.folder
        if key in self._tasks:
            self._bars.update(self._tasks[key], completed=job.config.rounds)
        self._quiet_since = self._clock()


def progress_note(progress: RunProgress, epsilon: str) -> str:
    """Return a short summary of a run: best value, ``epsilon``, agents, speed, failures."""
    scores, values = progress.scores, ""
    if scores.best is not None:  # else nobody has observed anything
        values = f"best {scores.best:.3f}, mean {scores.mean_best:.3f}"
    if scores.mean_simple_regret is not None:
        values += f", regret {scores.mean_simple_regret:.3f}"
    alive, speed = progress.present, progress.evaluations_per_second
    some = f"{alive} of " if alive < progress.agents else ""
    parts = (
        values,
        epsilon,
        f"{some}{progress.agents} agents",
        f"{progress.failed} failed" if progress.failed else "",
        f"{_rate(speed)} eval/s" if math.isfinite(speed) else "",
    )
    return ", ".join(filter(None, parts))


def duration(seconds: float) -> str:
    """Return a duration as hours, minutes and seconds."""
    minutes, second = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{second:02d}"


def _rate(per_second: float) -> str:
    return f"{per_second:.0f}" if per_second >= 99.5 else f"{per_second:.2g}"


def closing_table(summaries: Sequence[dict[str, Any]]) -> Group:
    """Return the table of outcomes, and a line for each seed with failures or without values.

    The table has one row per variant, with means and standard errors over seeds.
    """
    failures = any(s.get("evaluations_failed") for s in summaries)
    private = any(s.get("epsilon") for s in summaries)
    metrics = sorted({s["metric"] for s in summaries if "metric" in s})
    table = Table(
        title=f"{' / '.join(metrics) or 'value'} after the last round",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
    )
    table.add_column("variant", overflow="fold")
    table.add_column("seeds", no_wrap=True)
    for name in ("mean of agents", "best agent"):
        table.add_column(name, justify="right")  # may wrap, the error below its mean
    names = [*(("ε", "at 1e-5") if private else ()), *(("failed",) if failures else ())]
    for name in (*names, "eval/s", "CPU s"):
        table.add_column(name, justify="right", no_wrap=True)
    for variant in dict.fromkeys(s["variant"] for s in summaries):
        own = [s for s in summaries if s["variant"] == variant]
        table.add_row(*_row(own, private, failures))
    warnings = [_failures(s) for s in summaries if s.get("evaluations_failed")]
    warnings += [_without_values(s) for s in summaries if _left_out(s)]
    return Group(table, *warnings)


def _row(seeds: Sequence[dict[str, Any]], private: bool, failures: bool) -> list[str]:
    done = [s for s in seeds if s["status"] == "done"]
    count = str(len(seeds)) if len(done) == len(seeds) else f"{len(done)} of {len(seeds)}"
    row = [escape(seeds[0]["variant"]), count]
    row += [_mean_and_error(_known(done, name)) for name in ("mean", "best")]
    if private:
        epsilon = done[0].get("epsilon", {}) if done else {}
        row += [_number(epsilon.get("pld")), _number(epsilon.get("delta_1e-5", {}).get("pld"))]
    if failures:
        row.append(str(sum(s.get("evaluations_failed", 0) for s in done)))
    rates = _known(done, "evaluations_per_second")
    row.append(_rate(mean(rates)) if rates else "")
    row.append(f"{sum(s['objective_seconds'] + s['other_seconds'] for s in done):.1f}")
    return row


def _known(summaries: Sequence[dict[str, Any]], name: str) -> list[float]:
    return [s[name] for s in summaries if s.get(name) is not None]


def _failures(summary: dict[str, Any]) -> Text:
    words = f"{summary['variant']}, seed {summary['seed']}: {summary['evaluations_failed']} "
    words += "evaluations failed and were skipped"
    first = summary["first_failure"]
    return Text(f"{words}; the first: {first}" if first else words, style="yellow")


def _left_out(summary: dict[str, Any]) -> int:
    return int(summary.get("agents", 0) - summary.get("agents_with_values", 0))


def _without_values(summary: dict[str, Any]) -> Text:
    words = f"{summary['variant']}, seed {summary['seed']}: the mean leaves out "
    words += f"{_left_out(summary)} of {summary['agents']} agents, which have no value"
    return Text(words, style="yellow")


def _mean_and_error(values: Sequence[float]) -> str:
    if not values:
        return ""
    if len(values) == 1:
        return f"{values[0]:.4f}"
    return f"{mean(values):.4f} ±{stdev(values) / math.sqrt(len(values)):.4f}"


def privacy_sentence(epsilon: dict[str, Any]) -> str:
    """Return a run's ε with its meaning, as one sentence."""
    if "not_accounted" in epsilon:
        return (
            f"privacy: {epsilon['releases']} releases, of a kind that no accountant supports "
            f"({epsilon['not_accounted']}): ε is unknown."
        )
    return (
        f"privacy: ε = {epsilon['pld']:.2f} at δ = {epsilon['delta']:.2g} (accountant pld; the "
        f"paper's moments accountant says {epsilon['moments']:.2f}) for {epsilon['releases']} "
        f"releases; neighbours: {epsilon['neighbouring_relation']} of one agent; sampling: "
        f"{epsilon['sampling']}."
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
