"""A run's progress in a few words."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from fedsim.config.model import delta_of
from fedsim.record.progress import Progress
from fedsim.results.digits import significant
from fedsim.running.jobs import Job

if TYPE_CHECKING:
    from fedsim.privacy.accountants import Accountant


class Notes:
    """Makes the notes of jobs; ε is computed once for each progress that is shown."""

    def __init__(self) -> None:
        self._accountants: dict[str, Accountant] = {}
        self._known: dict[Path, tuple[Progress, str]] = {}

    def note(self, job: Job, progress: Progress | None, everything: bool) -> str:
        """Return a job's progress in words; empty before its first round.

        Args:
            job: the job.
            progress: how far it is.
            everything: False: only what fits where there is one line per job.
        """
        if progress is None:
            return ""
        key = job.simulation.folder
        if key not in self._known or self._known[key][0] is not progress:
            self._known[key] = progress, self._epsilon(job, progress)
        epsilon = self._known[key][1]
        return progress_note(progress, epsilon) if everything else _short(progress, epsilon)

    def _epsilon(self, job: Job, progress: Progress) -> str:
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
        budget = f" of {privacy.budget:g}" if privacy.budget else ""
        return f"ε {significant(epsilon, 3)}{budget}"


def progress_note(progress: Progress, epsilon: str) -> str:
    """Return a short summary of a run: its scores, ``epsilon``, agents, speed, failures."""
    if progress.round < 0:
        return _preparing(progress)
    scores, values = progress.scores, ""
    if scores.best_observed is not None:  # else nobody has observed anything
        values = f"best observed {significant(scores.best_observed, 3)}, "
        if scores.mean_simple_regret is not None:
            values += f"mean simple regret {significant(scores.mean_simple_regret, 3)}"
        else:
            values += f"mean of agents {significant(scores.mean_best_observed, 3)}"
    alive, speed = progress.present, progress.evaluations_per_second
    counted, words = progress.agents, f"{progress.agents} agents"
    if progress.targets is not None:
        counted = len(progress.targets)
        words = f"{counted} target{'s' * (counted != 1)} of {progress.agents} agents"
    some = f"{alive} of " if alive < counted else ""
    parts = (
        values,
        epsilon,
        f"{some}{words}",
        _failures(progress),
        f"{rate(speed)} eval/s" if math.isfinite(speed) else "",
    )
    return ", ".join(filter(None, parts))


def _short(progress: Progress, epsilon: str) -> str:
    """Return the summary where there is one line per job."""
    if progress.round < 0:
        return _preparing(progress)
    best = progress.scores.best_observed
    value = "" if best is None else f"best observed {significant(best, 3)}"
    return ", ".join(filter(None, (value, epsilon, _failures(progress))))


def _preparing(progress: Progress) -> str:
    """Return what a run does before round 0, such as helpers' own queries."""
    speed = progress.evaluations_per_second
    parts = (
        f"{progress.evaluations} evaluations before round 0",
        _failures(progress),
        f"{rate(speed)} eval/s" if math.isfinite(speed) else "",
    )
    return ", ".join(filter(None, parts))


def _failures(progress: Progress) -> str:
    return f"{progress.failed} failed" if progress.failed else ""


def duration(seconds: float) -> str:
    """Return a duration as hours, minutes and seconds."""
    minutes, second = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{second:02d}"


def rate(per_second: float) -> str:
    """Return a number per second with two digits, or whole from 99.5 on."""
    return f"{per_second:.0f}" if per_second >= 99.5 else f"{per_second:.2g}"
