"""SIGTERM and SIGHUP stop a process as Ctrl-C does, and say which of them it was.

A second Ctrl-C within a second is ignored.
"""

from __future__ import annotations

import atexit
import math
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

HANDLED = (signal.SIGTERM, signal.SIGHUP)

REPEAT_SECONDS = 1.0
"""How long after a Ctrl-C another one is ignored: it would disturb what the first one has begun,
such as recording that it stopped the run."""


def _name(number: int) -> str:
    return signal.Signals(number).name


class StopSignals:
    """Lets SIGTERM and SIGHUP raise ``KeyboardInterrupt``, with words, in the main thread.

    Only the first one does: batch systems and closing terminals send several, and what is written
    after the first must not be disturbed. A signal that was ignored before (``nohup``) stays so.

    Processes that a user's code forks get the default back: their parent ends them with SIGTERM, as
    ``multiprocessing.Pool`` does, and expects that they die. Until then the signals wait: Python
    forgets those that reach a child before it is ready.

    Attributes:
        received: the number of the first one, or None.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._interrupted = -math.inf
        self._forking = threading.local()

    @property
    def exit_code(self) -> int:
        """The exit code of a process that was stopped: 128 and the signal's number."""
        return 128 + (signal.SIGINT if self.received is None else self.received)

    @property
    def words(self) -> str:
        """What stopped the process."""
        return f"stopped by {'Ctrl-C' if self.received is None else _name(self.received)}"

    def listen(self) -> None:
        """Install the handlers; call it in the main thread."""
        for number in HANDLED:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._stop)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._interrupt)
            atexit.register(self._end)
        os.register_at_fork(
            before=self._hold, after_in_parent=self._let_go, after_in_child=self._restore_defaults
        )

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if self.received is None:
            self.received = number
            raise KeyboardInterrupt(self.words)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if now - self._interrupted > REPEAT_SECONDS:
            self._interrupted = now
            raise KeyboardInterrupt

    def _end(self) -> None:
        """Let Ctrl-C, once it has come, do nothing more: the process is ending, with its code."""
        if self._interrupted > -math.inf:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _restore_defaults(self) -> None:
        for number in HANDLED:
            if signal.getsignal(number) == self._stop:
                signal.signal(number, signal.SIG_DFL)
        if signal.getsignal(signal.SIGINT) == self._interrupt:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        self._let_go()

    def _hold(self) -> None:
        self._forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)

    def _let_go(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._forking.mask)


@contextmanager
def stops_deferred() -> Iterator[None]:
    """Let what stops this process wait until the block has ended.

    For imports of libraries that do not survive when they are broken off half-way. Only the main
    thread is ever broken off, so that elsewhere it has no effect. The handlers are replaced, since
    to block the signals is not enough: the system gives them to another thread, and Python still
    calls their handlers in the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    found = {number: signal.getsignal(number) for number in (*HANDLED, signal.SIGINT)}
    handlers = {number: one for number, one in found.items() if callable(one)}
    deferring, came = True, list[int]()

    def note(number: int, frame: FrameType | None) -> None:
        if deferring:
            came.append(number)
        else:  # it came while the handlers are being restored
            handlers[signal.Signals(number)](number, frame)

    for number in handlers:
        signal.signal(number, note)
    try:
        yield
    finally:
        deferring = False
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for first in came[:1]:
            handlers[signal.Signals(first)](first, None)


def why_stopped(error: BaseException) -> str:
    """Return what stopped this process, in words.

    Args:
        error: the ``KeyboardInterrupt`` or ``Interrupted``; without its words if it came while
            Ray waited, which raises another.
    """
    for number in HANDLED:
        listening = getattr(signal.getsignal(number), "__self__", None)
        if isinstance(listening, StopSignals) and listening.received is not None:
            return listening.words
    return str(error) or "stopped by Ctrl-C"
