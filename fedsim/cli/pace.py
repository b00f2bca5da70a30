"""How far jobs are, and how long they will take."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from fedsim.cli.notes import duration
from fedsim.record.progress import Progress
from fedsim.running.jobs import Job


@dataclass
class Pace:
    """How far something is, and how fast; what was done before a resume does not count.

    Attributes:
        total: how many steps there are.
        first: the first step that counts, and when it was made.
        last: the last step, and when it was made.
    """

    total: int
    first: tuple[int, float]
    last: tuple[int, float]

    def time_left(self, now: float) -> str:
        """Return the estimated time to the last step, or an empty string if it is unknown."""
        (first, start), (last, end) = self.first, self.last
        if last <= first:
            return ""
        pace = (end - start) / (last - first)
        return duration(max(0.0, pace * (self.total - last) - (now - end)))


@dataclass
class Track:
    """What is known of a job.

    Attributes:
        job: the job.
        resumed: whether an earlier process began it.
        progress: what was last heard; None before its first round.
        pace: of its rounds; None before its first round.
        quiet_since: when its last line was printed, or when waiting for its first round began.
        waiting: what keeps it waiting, or an empty text.
        end: ``done`` or ``failed``; empty while it runs.
    """

    job: Job
    resumed: bool
    progress: Progress | None = None
    pace: Pace | None = None
    quiet_since: float = 0.0
    waiting: str = ""
    end: str = ""


@dataclass
class Overall:
    """All jobs together, in rounds; the initial design counts as one.

    Attributes:
        jobs: how many jobs there are.
        total: their rounds.
        start: when they began.
        done: the rounds that are done, by job.
        before: those of them that were done before a resume, by job.
        finished: how many jobs are done.
    """

    jobs: int
    total: int
    start: float
    done: dict[Path, int] = field(default_factory=dict)
    before: dict[Path, int] = field(default_factory=dict)
    finished: int = 0

    def time_left(self, now: float) -> str:
        """Return the estimated time that is left, or an empty string if it is unknown."""
        done, before = self.rounds, sum(self.before.values())
        return Pace(self.total, (before, self.start), (done, now)).time_left(now)

    @property
    def rounds(self) -> int:
        """The number of rounds that are done."""
        return sum(self.done.values())
