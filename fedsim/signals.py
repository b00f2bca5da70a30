"""SIGTERM ends a run as Ctrl-C does."""

from __future__ import annotations

import os
import signal
from types import FrameType


def interrupt_on_sigterm() -> None:
    """Let SIGTERM raise ``KeyboardInterrupt``, with words that say so, in the main thread.

    Processes that a user's code forks inherit the handler, but whoever ends them with SIGTERM (as
    ``multiprocessing.Pool`` does) expects that they die: they get the default back. One that comes
    in the middle of the fork waits until they have.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_restore_default)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt("stopped by SIGTERM")


def _hold() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _release() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def _restore_default() -> None:
    if signal.getsignal(signal.SIGTERM) is _interrupt:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _release()
