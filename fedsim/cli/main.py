"""``fedsim``: the process of the command line: its signals, its streams and its exit codes.

Its top imports next to nothing: whoever sends a signal while the rest is loaded gets an answer.
"""

from __future__ import annotations

import errno
import faulthandler
import os
import signal
import sys
from collections.abc import Sequence

from fedsim.cli.session import Session
from fedsim.cli.streams import discard_output, forget_impossible_size, make_usable
from fedsim.errors import Interrupted
from fedsim.signals import StopSignals
from fedsim.streams import streams_kept

PROGRAM = "fedsim"

_NOT_OF_STREAM = (errno.ENOENT, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors that writing to an open stream does not have."""


def main() -> None:
    """Run the command line and exit with its exit code."""
    stops = StopSignals()
    try:
        stops.listen()
        if sys.__stderr__ is not None:
            faulthandler.enable(sys.__stderr__)  # a crash in C code says where
        make_usable()
        forget_impossible_size(os.environ)
        with streams_kept():
            code = run_command(sys.argv[1:], stops)
        sys.stdout.flush()
    except KeyboardInterrupt as error:  # before or after the command's own answer to it
        print(str(error) or stops.words, file=sys.stderr)
        code = stops.exit_code
    except OSError as error:
        code = _output_failed(error)
    sys.exit(code)


def run_command(arguments: Sequence[str], stops: StopSignals | None = None) -> int:
    """Run one command and return its exit code.

    Exit codes: 0 done, 1 a fault of fedsim, 2 usage, 3 failed, 4 resources missing; stopped by
    Ctrl-C 130, by SIGTERM 143, by SIGHUP 129; 141 if the reader of the output has gone (as in
    ``fedsim list | head -1``).

    Args:
        arguments: the arguments after ``fedsim``.
        stops: knows which signal has come; by default, none but Ctrl-C can.
    """
    session, stops = Session(as_json="--json" in arguments), stops or StopSignals()
    try:
        from fedsim.cli.app import app

        code = app(list(arguments), prog_name=PROGRAM, standalone_mode=False, obj=session)
        if code == Interrupted.exit_code:  # typer keeps what comes while it reads the arguments
            raise KeyboardInterrupt(stops.words)
    except SystemExit as error:  # completion has printed, or click or rich met a broken pipe
        return _output_failed(BrokenPipeError()) if error.code else 0
    except (Exception, KeyboardInterrupt) as error:
        # Files have names, and the current folder that is gone and open files have own errors.
        of_stream = isinstance(error, OSError) and error.errno not in _NOT_OF_STREAM
        if of_stream and getattr(error, "filename", None) is None:
            return _output_failed(error)
        from fedsim.cli.failures import explain, report

        failure = explain(error, stops.exit_code)
        report(failure, error, session)
        return failure.exit_code
    return code if isinstance(code, int) else 0


def _output_failed(error: BaseException) -> int:
    """Give up on stdout; return the exit code."""
    discard_output()
    if isinstance(error, BrokenPipeError):
        return 128 + signal.SIGPIPE
    print(f"error: the output cannot be written: {error}", file=sys.stderr)
    return 3
