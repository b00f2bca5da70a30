"""Sends what this process prints to a log.

Standard output and error are redirected as files, which keeps what C code and the processes that an
objective starts print, too.
"""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from fedsim.record.logs import Log, flush

CHECK_SECONDS = 1.0
"""How often a log's size is checked during a turn."""


@contextmanager
def captured(log: Log) -> Iterator[Log]:
    """Send all that this process and those that it starts print to a log; close it at the end."""
    flush()
    before = sys.stdout, sys.stderr
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(CHECK_SECONDS):
            log.check_size()

    watcher = threading.Thread(target=watch, daemon=True, name="fedsim-log")
    try:
        with standard_kept() as kept:
            for number in kept:
                os.dup2(log.descriptor, number)
            # A new stream for each: the old ones may go elsewhere, as in a notebook.
            sys.stdout, sys.stderr = _stream(1), _stream(2)
            log.hidden = True
            log.standard = dict.fromkeys(kept, log.descriptor)
            watcher.start()
            yield log
    finally:
        log.standard = {}
        sys.stdout, sys.stderr = before
        ended.set()
        watcher.join()
        log.close()


def _stream(descriptor: int) -> TextIO:
    binary = io.BufferedWriter(io.FileIO(descriptor, "w", closefd=False))
    return _Unclosable(binary, "utf-8", errors="replace", line_buffering=True)


class _Unclosable(io.TextIOWrapper):
    """A stream that stays open for the turns after the one that closes it."""

    def close(self) -> None:
        if not self.closed:
            self.flush()


class _Copying:
    """A stream that copies to a log what one thread writes."""

    def __init__(self, stream: Any, log: Log, thread: int) -> None:
        self._stream = stream
        self._log = log
        self._thread = thread

    def write(self, text: str) -> Any:
        """Write text, as the stream does."""
        if threading.get_ident() == self._thread:
            self._log.write(text)
        return self._stream.write(text)

    def close(self) -> None:
        """Stay open, for the turns after the one that closes it, and for whoever waits for it."""
        self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def copied(log: Log) -> Iterator[Log]:
    """Copy what this thread prints from Python to a log, and close it at the end.

    Standard output and error then are what they were before, unless they were replaced since: by
    a user's code, or, once a run that hangs was given up, by whoever goes on.
    """
    before = sys.stdout, sys.stderr
    copying = tuple(_Copying(stream, log, threading.get_ident()) for stream in before)
    sys.stdout, sys.stderr = copying
    try:
        with standard_kept() as log.standard:
            yield log
    finally:
        log.standard = {}
        for name, mine, old in zip(("stdout", "stderr"), copying, before, strict=True):
            if getattr(sys, name, None) is mine:
                setattr(sys, name, old)
        log.close()


@contextmanager
def standard_kept() -> Iterator[Mapping[int, int]]:
    """Let standard output and error go where they did before, though the block closes them.

    Yields:
        A duplicate of each that is open, by its number.
    """
    kept: dict[int, int] = {}
    for number in (1, 2):
        with suppress(OSError):
            kept[number] = os.dup(number)
    try:
        yield kept
    finally:
        flush()
        for number, old in kept.items():
            os.dup2(old, number)
            os.close(old)
