"""Runs jobs in processes of their own, several at a time.

Each process is a fresh interpreter. It imports fedsim and what the configuration names, but no
script of the user's, so that scripts need no ``__main__`` guard. It leads a session of its own: a
terminal's Ctrl-C reaches only this process, which stops the others. They never outlive it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import wait

from fedsim.config.model import DeadlinesConfig
from fedsim.errors import FedsimError, Interrupted, ResourceError, RunError, UserCodeError
from fedsim.record.logs import unfinished
from fedsim.record.progress import Progress
from fedsim.running.jobs import SILENT_SECONDS, Job, Listener
from fedsim.running.worker import Failed, Finished, Message, Order
from fedsim.simulation import serial
from fedsim.systemerrors import no_process

POLL_SECONDS = 0.5
"""How often processes are checked for silence. What they send does not wait for it."""

GRACE_SECONDS = serial.GRACE_SECONDS + 5.0
"""How long a stopped process may take to end by itself."""

LAST_BYTES = 2000
"""How much of its output an error shows, if a process does not even start."""

_BOOT = (
    "import sys; from multiprocessing.connection import Connection; "
    "parent = Connection(int(sys.argv[1])); sys.path[:] = parent.recv(); "
    "from fedsim.running.worker import main; main(parent, int(sys.argv[2]))"
)


def run_in_processes(
    jobs: Sequence[Job], count: int, deadlines: DeadlinesConfig, listener: Listener
) -> None:
    """Run jobs in processes of their own.

    Args:
        jobs: what to run.
        count: how many run at a time.
        deadlines: how long to wait.
        listener: follows the run.

    Raises:
        Interrupted: if a process was stopped from outside.
        FedsimError: for the first failure; the other jobs are stopped.
    """
    waiting, workers = deque(jobs), list[_Worker]()
    try:
        for _ in range(min(count, len(jobs))):
            workers.append(_Worker(waiting.popleft(), deadlines))
        while busy := [worker for worker in workers if worker.job is not None]:
            wait([worker.connection for worker in busy], POLL_SECONDS)
            for worker in busy:
                _advance(worker, waiting, listener)
    finally:
        _end(workers)


def _advance(worker: _Worker, waiting: deque[Job], listener: Listener) -> None:
    """Take what a worker has sent; give it its next job."""
    job = worker.job
    assert job is not None
    try:
        for message in worker.messages():
            if isinstance(message, Progress):
                listener.progress(job, message)
            elif isinstance(message, Failed):
                raise message.error
            elif isinstance(message, Finished):
                worker.job = None
            elif not worker.ready:
                worker.ready = True
                listener.started(job)
                worker.send(job)
        if worker.job is not None:
            worker.check()
            worker.tell(listener)
    except Interrupted:
        raise
    except FedsimError:
        listener.failed(job)
        raise
    if worker.job is None:
        listener.finished(job)
        worker.job = waiting.popleft() if waiting else None
        if worker.job is not None:
            listener.started(worker.job)
        worker.send(worker.job)


class _Worker:
    """A process that runs jobs, one after another.

    Args:
        job: its first job.
        deadlines: how long to wait.

    Attributes:
        connection: to the process.
        process: the process.
        job: what it runs, or will run when it is ready; None when there is nothing left.
        ready: whether it can take a job.
    """

    def __init__(self, job: Job, deadlines: DeadlinesConfig) -> None:
        self.job: Job | None = job
        self.ready = False
        self._deadlines = deadlines
        self._heard = time.monotonic()
        self._told = ""
        self._killed = False
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed by kill
        self.connection, other = Pipe()
        with other:
            # -P: else a user's file could be imported instead of a module of Python's own.
            command = [sys.executable, "-P", "-c", _BOOT, str(other.fileno()), str(os.getpid())]
            try:
                self.process = subprocess.Popen(
                    command,
                    pass_fds=[other.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=self._output,
                    stderr=self._output,
                    start_new_session=True,
                )
            except BlockingIOError as error:
                raise no_process(error) from error
        self.send(sys.path)

    def send(self, thing: Order | list[str]) -> None:
        """Send Python's path, then orders; if the process has ended, that is noticed later."""
        with suppress(OSError):
            self.connection.send(thing)

    def messages(self) -> Iterator[Message]:
        """Yield what the process has sent since the last time.

        Raises:
            RunError: if it has ended.
        """
        try:
            while self.connection.poll():
                self._heard = time.monotonic()
                message: Message = self.connection.recv()
                yield message
        except (EOFError, OSError):
            raise self._death() from None

    def tell(self, listener: Listener) -> None:
        """Tell the listener if the process is silent, and when it no longer is."""
        silent = time.monotonic() - self._heard
        why = f"its process has been silent for {silent:.0f} s" if silent > SILENT_SECONDS else ""
        if self.job is not None and (why or self._told):
            self._told = why
            listener.waiting(self.job, why)

    def check(self) -> None:
        """Check that the process is alive; end it if it hangs.

        Raises:
            ResourceError: if it does not start in time.
            RunError: if it has ended, or is silent for longer than an evaluation may take.
        """
        if self.process.poll() is not None and not self.connection.poll():
            raise self._death()
        silent, deadlines = time.monotonic() - self._heard, self._deadlines
        if not self.ready and silent > deadlines.start:
            self._kill_group()
            raise ResourceError(
                f"{self._name} did not start within {deadlines.start:g} s; deadlines.start sets "
                f"the limit{self._last_output()}"
            )
        # It cannot answer while code holds the interpreter's lock.
        if silent > deadlines.evaluation + deadlines.answer:
            self._kill_group()
            raise RunError(
                f"{self._name} did not answer for {silent:.0f} s; deadlines.evaluation and "
                "deadlines.answer set the limit"
            )

    def kill(self) -> None:
        """End the process, unless it has ended by itself, and those that it has started."""
        self._kill_group()
        self.process.wait(GRACE_SECONDS)
        self.connection.close()
        self._output.close()

    def _kill_group(self) -> None:
        if not self._killed:
            self._killed = True
            with suppress(ProcessLookupError):  # all of it has ended
                os.killpg(self.process.pid, signal.SIGKILL)

    @property
    def _name(self) -> str:
        name = "a job" if self.job is None else self.job.name
        return f"the process of {name} (process id {self.process.pid})"

    def _death(self) -> RunError:
        """Return the error of a process that has ended, though its job has not."""
        self._kill_group()  # what it has forked holds the folder's lock
        code = self.process.wait(GRACE_SECONDS)
        if code >= 0:
            how = f"ended with exit code {code}; an objective that ends its process does this"
        elif -code == signal.SIGKILL:
            how = "was killed (SIGKILL): by somebody, or by the system for lack of memory"
        else:
            how = f"was ended by signal {-code} ({signal.strsignal(-code)})"
        if not self.ready:
            why = f": it {how}" if code < 0 else ""
            return RunError(f"{self._name} cannot start{why}{self._last_output()}")
        error = UserCodeError(f"{self._name} {how}")
        if self.job is not None:
            error.add_output(unfinished(self.job.folder.logs / serial.OWN_LOG))
        return error

    def _last_output(self) -> str:
        size = self._output.seek(0, os.SEEK_END)
        self._output.seek(max(0, size - LAST_BYTES))
        text = self._output.read().decode(errors="replace").strip()
        return f"; its last output:\n{text}" if text else ""


def _end(workers: Sequence[_Worker]) -> None:
    """Stop all processes, and give them time to finish writing."""
    try:
        for worker in workers:
            worker.send(None)
        deadline = time.monotonic() + GRACE_SECONDS
        for worker in workers:
            with suppress(subprocess.TimeoutExpired):
                worker.process.wait(max(0.0, deadline - time.monotonic()))
    finally:
        for worker in workers:
            worker.kill()
