"""A process that runs jobs for another one: see :mod:`fedsim.running.processes`.

The main thread runs the jobs. A second thread listens to the parent, tells it that this process is
alive, and ends it when the parent is gone.
"""

from __future__ import annotations

import faulthandler
import os
import queue
import signal
import threading
import time
from contextlib import chdir, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from fedsim.errors import FedsimError, Interrupted, UserCodeError
from fedsim.record.progress import Progress
from fedsim.running.jobs import Job, run_job
from fedsim.signals import StopSignals
from fedsim.simulation.serial import run_serial
from fedsim.usercode.calling import user_traceback, words_of
from fedsim.workload import Scenario

PULSE_SECONDS = 1.0
"""How often the parent hears of this process, and how soon it notices that the parent is gone."""

REPORT_SECONDS = 0.2
"""How often a job's progress is sent. Its end does not wait for it."""


@dataclass(frozen=True)
class Alive:
    """The process is ready for a job, or still at it."""


@dataclass(frozen=True)
class Finished:
    """The job is done."""


@dataclass(frozen=True)
class Failed:
    """The job failed, and why."""

    error: FedsimError


Message = Alive | Progress | Finished | Failed
"""What a worker sends to its parent."""

Order = Job | None
"""What a parent sends to its worker: a job, or to stop."""


def main(connection: Connection, parent_id: int) -> None:
    """Run the jobs that arrive, one after another, until told to stop.

    Args:
        connection: to the parent.
        parent_id: the parent's process id.
    """
    os.set_inheritable(connection.fileno(), False)  # not for what objectives start
    faulthandler.enable()
    StopSignals().listen()
    parent = _Parent(connection, parent_id)
    threading.Thread(target=parent.listen, daemon=True, name="fedsim-parent").start()
    with suppress(KeyboardInterrupt):
        while (job := parent.jobs.get()) is not None:
            parent.send(_run(job, parent))


def _run(job: Job, parent: _Parent) -> Finished | Failed:
    reporter = _Reporter(parent)

    def simulate(scenario: Scenario) -> None:
        deadline, stopped = job.config.deadlines.evaluation, parent.stop.is_set
        run_serial(job.simulation, scenario, deadline, reporter.note, stopped, quiet=True)
        reporter.send()

    try:
        with chdir(Path.cwd()):  # an objective may change it
            run_job(job, "serial", simulate)
    except FedsimError as error:
        return Failed(error)
    except KeyboardInterrupt as error:
        return Failed(Interrupted(str(error) or "stopped by SIGINT"))
    except Exception as error:  # a fault of ours
        # The parent has no traceback to show, so it is sent along.
        summary = f"{job.name} failed: {words_of(error)}"
        return Failed(UserCodeError(summary, user_traceback(error)))
    return Finished()


class _Parent:
    """The parent, as this process's threads see it.

    Attributes:
        jobs: what it wants done; None at the end.
        stop: set when it wants no more.
    """

    def __init__(self, connection: Connection, process_id: int) -> None:
        self.jobs: queue.SimpleQueue[Order] = queue.SimpleQueue()
        self.stop = threading.Event()
        self._connection = connection
        self._process_id = process_id
        self._sending = threading.Lock()

    def send(self, message: Message) -> None:
        """Send a message; raises OSError if the parent is gone."""
        with self._sending:
            self._connection.send(message)

    def listen(self) -> None:
        """Take orders; when the parent is gone, end this process and those that it has started."""
        with suppress(EOFError, OSError):
            # Copies of its end of the connection, in processes that it forked, may outlive it.
            while os.getppid() == self._process_id:
                self.send(Alive())
                while self._connection.poll(PULSE_SECONDS):
                    order: Order = self._connection.recv()
                    if order is None:
                        self.stop.set()
                    self.jobs.put(order)
        os.killpg(0, signal.SIGKILL)


class _Reporter:
    """Sends a job's progress, but not more often than anyone can look."""

    def __init__(self, parent: _Parent) -> None:
        self._parent = parent
        self._last = Progress()
        self._sent = 0.0

    def note(self, progress: Progress) -> None:
        """Take the job's progress."""
        self._last = progress
        if time.monotonic() - self._sent >= REPORT_SECONDS:
            self.send()

    def send(self) -> None:
        """Send the last progress."""
        self._sent = time.monotonic()
        self._parent.send(self._last)
