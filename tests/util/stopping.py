"""A listener that ends a run."""

from __future__ import annotations

from fedsim.errors import Interrupted
from fedsim.record.progress import Progress
from fedsim.running.jobs import Job, Listener


class Stop(Listener):
    """Interrupts the run after a round of a seed."""

    def __init__(self, after: int) -> None:
        self.after = after

    def progress(self, job: Job, progress: Progress) -> None:
        if progress.round == self.after:
            raise Interrupted("enough")
