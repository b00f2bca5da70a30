"""How a running run is shown: the plan, and live bars that always fit on a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fedsim.cli.consoles import print_text
from fedsim.cli.notebook import NotebookView
from fedsim.cli.notes import Notes
from fedsim.cli.pace import Overall, Pace, Track
from fedsim.record.progress import Progress
from fedsim.results.naming import shortened
from fedsim.running.jobs import Job, Listener

LOG_SECONDS = 60.0
"""How often a long run prints a line where no bar can be drawn, such as in a log file."""

BAR_WIDTH = 8
MOST_NAME = 30
"""How many columns a job's name may take, if there are several."""

OTHER_LINES = 8
"""Lines of the terminal that the live view leaves free: the plan and the folder stand there."""

LAST_FINISHED = 3
"""How many of the jobs that have finished are shown."""


class _Line(NamedTuple):
    """What stands about a job, or all of them: its name, a bar, how far, what else, the time."""

    name: Text
    bar: RenderableType
    steps: str
    note: Text
    left: Text


class LiveDisplay(Listener):
    """A listener that shows a run on a terminal or in a notebook. Use it as a context manager.

    One job has a bar with all that is known of it. Several have a bar for all of them, a line for
    each that is running, and one for each of the last that have finished.

    Args:
        console: where to print.
        clock: returns seconds; must be monotonic.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._draws = console.is_interactive or console.is_jupyter
        self._notes = Notes()
        self._tracks: dict[Path, Track] = {}
        self._names: dict[str, str] = {}
        self._finished: list[Track] = []
        self._overall = Overall(1, 0, clock())
        self._quiet_since = clock()
        self._live: Live | NotebookView = (
            NotebookView(self.drawing)
            if console.is_jupyter
            else Live(console=console, get_renderable=self.drawing, refresh_per_second=4)
        )

    def __enter__(self) -> LiveDisplay:
        """Start showing."""
        if self._draws:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop showing."""
        if self._draws:
            self._live.stop()

    def measuring(self) -> None:
        """Say what takes long."""
        words = "measuring the first evaluation, to plan the run (--backend needs no measuring)"
        self._console.print(words, markup=False, highlight=False)

    def planned(self, folder: Path, jobs: Sequence[Job], plan: str) -> None:
        """Print the plan."""
        self._console.print(f"plan    {plan}", markup=False, highlight=False)
        self._console.print(f"folder  {folder}", markup=False, highlight=False)
        self._names = shortened([job.name for job in jobs], MOST_NAME)
        rounds = sum(job.config.rounds + 1 for job in jobs)
        self._overall = Overall(len(jobs), rounds, self._clock())
        self._quiet_since = self._clock()

    def started(self, job: Job) -> None:
        """Show that a job runs."""
        self._track(job)

    def progress(self, job: Job, progress: Progress) -> None:
        """Move a job's bar; if no bar can be drawn, print a line now and then."""
        track, now = self._track(job), self._clock()
        if progress.round < 0:
            track.progress = progress if progress.evaluations else track.progress
            self._log(track)
            return
        if track.progress and track.progress.round == progress.round:
            return
        reported = (progress.round, now)
        if track.pace is None:
            track.pace = Pace(progress.rounds, reported, reported)
        track.pace.last, track.progress = reported, progress
        key = job.simulation.folder
        self._overall.done[key] = progress.round + 1
        self._overall.before.setdefault(key, progress.round + 1 if track.resumed else 0)
        self._log(track)

    def waiting(self, job: Job, why: str) -> None:
        """Show what keeps a job waiting."""
        track = self._track(job)
        track.waiting = why
        if why:
            self._log(track)

    def finished(self, job: Job) -> None:
        """Show that a job is done."""
        key = job.simulation.folder
        track = self._tracks.pop(key, None) or Track(job, resumed=True)
        track.end, track.waiting = "done", ""
        self._finished = [*self._finished[1 - LAST_FINISHED :], track]
        self._overall.finished += 1
        self._overall.done[key] = job.config.rounds + 1
        self._overall.before.setdefault(key, 0)
        if self._overall.jobs == 1:
            self._quiet_since = self._clock()

    def failed(self, job: Job) -> None:
        """Show which job failed."""
        self._track(job).end = "failed"

    def drawing(self) -> RenderableType:
        """Return what the terminal shows now."""
        now, running = self._clock(), list(self._tracks.values())
        if self._overall.jobs == 1:
            tracks = [t for t in [*running, *self._finished] if t.progress or t.waiting]
            return self._table([self._row(track, now, everything=True) for track in tracks])
        rows = [self._row(track, now, everything=False) for track in running]
        room = max(2, self._console.height - OTHER_LINES - LAST_FINISHED - 1)
        if len(rows) > room:
            hidden = f"and {len(rows) - room + 1} more"
            rows = [*rows[: room - 1], _Line(Text(hidden, style="dim"), "", "", Text(), Text())]
        rows += [self._row(track, now, everything=False) for track in self._finished]
        return self._table([self._overall_row(now), *rows])

    def _table(self, lines: Sequence[_Line]) -> Table:
        """Lay lines out; where several are, each stays one, and only names and notes are cut."""
        several = self._overall.jobs > 1
        counts = max((len(line.steps) for line in lines), default=0)
        lefts = max((len(line.left.plain) for line in lines), default=0)
        table = Table.grid(padding=(0, 1))
        table.add_column(max_width=MOST_NAME if several else None)
        table.add_column(no_wrap=True, min_width=BAR_WIDTH)
        table.add_column(no_wrap=True, min_width=counts)
        table.add_column()
        table.add_column(no_wrap=True, min_width=lefts)
        for line in lines:
            for text in (line.name, line.note):
                text.no_wrap, text.overflow = several, "ellipsis" if several else "fold"
            table.add_row(*line)
        return table

    def _row(self, track: Track, now: float, everything: bool) -> _Line:
        rounds = track.job.config.rounds
        done = max(0, track.progress.round) if track.progress else 0
        done = rounds if track.end == "done" else done
        left = track.end or (track.pace and track.pace.time_left(now)) or "-:--:--"
        note = Text(self._notes.note(track.job, track.progress, everything))
        if track.waiting:
            note = Text(track.waiting, style="yellow")
        style = "progress.elapsed" if track.end else "progress.remaining"
        return _Line(
            Text(track.job.name if self._overall.jobs == 1 else self._name(track.job)),
            ProgressBar(rounds, done, BAR_WIDTH),
            f"{done}/{rounds}",
            note,
            Text(left, style="red" if track.end == "failed" else style),
        )

    def _name(self, job: Job) -> str:
        """Return a job's short name."""
        return self._names.get(job.name) or shortened([job.name], MOST_NAME)[job.name]

    def _overall_row(self, now: float) -> _Line:
        overall = self._overall
        return _Line(
            Text(f"{overall.finished} of {overall.jobs} jobs done", style="bold"),
            ProgressBar(overall.total, overall.rounds, BAR_WIDTH),
            f"{100 * overall.rounds // max(overall.total, 1)} %",
            Text(),
            Text(overall.time_left(now) or "-:--:--", style="progress.remaining"),
        )

    def _log(self, track: Track) -> None:
        """Print a line about a job, unless a bar is drawn or there was one a moment ago."""
        if self._draws:
            return
        overall, now = self._overall, self._clock()
        since = self._quiet_since if overall.jobs > 1 else track.quiet_since
        if now - since < LOG_SECONDS:
            return
        self._quiet_since = track.quiet_since = now
        parts = [f"{track.job.name}: "]
        left = track.pace.time_left(now) if track.pace else ""
        if overall.jobs > 1:
            left = overall.time_left(now)
            parts = [f"{overall.finished} of {overall.jobs} jobs done; {track.job.name}: "]
        if track.waiting:
            parts += [track.waiting]
        elif track.progress:
            told = self._notes.note(track.job, track.progress, everything=True)
            t, rounds = track.progress.round, track.progress.rounds
            parts += [f"round {t} of {rounds}, {told}" if t >= 0 else told]
        parts += [f", {left} left" if left else ""]
        print_text(self._console, "".join(parts))

    def _track(self, job: Job) -> Track:
        key = job.simulation.folder
        if key not in self._tracks:
            resumed = job.folder.journal.exists()
            self._tracks[key] = Track(job, resumed, quiet_since=self._quiet_since)
        return self._tracks[key]
