"""SIGTERM ends a run as Ctrl-C does."""

from __future__ import annotations

import os
import signal
from types import FrameType


def interrupt_on_sigterm() -> None:
    """Let SIGTERM raise ``KeyboardInterrupt``, with words that say so, in the main thread.

    Processes that a user's code forks inherit the handler, but their parent ends them with SIGTERM
    (as ``multiprocessing.Pool`` does) and expects that they die: they get the default back.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    os.register_at_fork(after_in_child=_restore_default)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt("stopped by SIGTERM")


def _restore_default() -> None:
    if signal.getsignal(signal.SIGTERM) is _interrupt:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
