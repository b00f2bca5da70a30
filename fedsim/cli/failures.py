"""What the command line says about a failure: words on stderr, and JSON on stdout if asked."""

from __future__ import annotations

import os
import shlex
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import typer

from fedsim.cli.consoles import make_console, print_json, print_text
from fedsim.cli.session import Session
from fedsim.errors import KEPT, FedsimError, Interrupted, ResourceError, UserCodeError
from fedsim.systemerrors import UNREADABLE, lacking, remedy
from fedsim.usercode.calling import shortened, whole_traceback, words_of

# typer brings its own copy of click or uses the installed one; this is the one in use.
_ClickException: Any = typer.BadParameter.__mro__[2]

INTERNAL = 1
"""The exit code of a fault of fedsim's own."""
USAGE = 2

MOST_CHARACTERS = 4_000
"""Of a message."""


@dataclass(frozen=True)
class Failure:
    """Why a command failed.

    Attributes:
        kind: the error's class, such as ``ConfigError``, or ``UsageError``.
        message: what happened, and what to do.
        exit_code: the command's exit code.
        folder: the run folder, if one was made.
        traceback: of the user's own code, or an empty string.
        resumable: whether the run may be continued.
    """

    kind: str
    message: str
    exit_code: int
    folder: str | None = None
    traceback: str = ""
    resumable: bool = True


def explain(error: BaseException, stopped: int = Interrupted.exit_code) -> Failure:
    """Return why a command failed.

    Args:
        error: what ended it.
        stopped: the exit code if it was stopped from outside.
    """
    if isinstance(error, (KeyboardInterrupt, typer.Abort)):
        return Failure("Interrupted", str(error) or "stopped by Ctrl-C", stopped)
    if isinstance(error, _ClickException):
        return Failure("UsageError", error.format_message(), USAGE)
    if isinstance(error, FedsimError):
        told = error.user_traceback if isinstance(error, UserCodeError) else ""
        return Failure(
            type(error).__name__,
            shortened(error.of_command_line, MOST_CHARACTERS) or type(error).__name__,
            stopped if isinstance(error, Interrupted) else error.exit_code,
            None if error.folder is None else str(error.folder),
            told,
            error.resumable,
        )
    if isinstance(error, FileNotFoundError) and not _current_folder_exists():
        return Failure("UsageError", "the current folder was removed; change to another", USAGE)
    if remedy(error) and getattr(error, "errno", None) in (None, *UNREADABLE):
        words = f"{lacking(error)}; {remedy(error)}, then try again"
        return Failure(ResourceError.__name__, words, ResourceError.exit_code)
    if isinstance(error, OSError):
        words = f"{error.filename}: cannot be read or written: {error.strerror}"
        return Failure("OSError", words, FedsimError.exit_code)
    return Failure(type(error).__name__, _internal(error), INTERNAL)


def report(failure: Failure, error: BaseException, session: Session) -> None:
    """Tell the user: in words on stderr, and as JSON on stdout if this was asked for."""
    console = make_console(stderr=True)
    if failure.traceback:
        print_text(console, failure.traceback.rstrip())
    if isinstance(error, _ClickException):
        error.show()
    else:
        start = "" if failure.kind == "Interrupted" else "error: "
        told = f"{start}{failure.message}"
        print_text(console, told, "bold red")
    if again := _how_to_go_on(failure):
        print_text(console, again)
    if session.verbose:
        print_text(console, whole_traceback(error))
    if session.as_json:
        print_json({"error": {**asdict(failure), "traceback": failure.traceback or None}})


def _how_to_go_on(failure: Failure) -> str:
    """Return how a run that failed is continued, if that is not said already."""
    known = failure.exit_code == USAGE or "fedsim resume" in failure.message
    if failure.folder is None or known:
        return ""
    if not failure.resumable:
        return f"{KEPT} in {failure.folder}"
    again = f"continue with: fedsim resume {shlex.quote(failure.folder)}"
    return again if KEPT in failure.message else f"{KEPT}; {again}"


def _internal(error: BaseException) -> str:
    """Return a fault of fedsim in words; the place helps to find out whether it is known."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    words = shortened(words_of(error), MOST_CHARACTERS)
    return (
        f"a fault in fedsim: {words}{place}. Please report it, with what `fedsim -v ...` prints "
        "for the same command"
    )


def _current_folder_exists() -> bool:
    try:
        os.getcwd()  # noqa: PTH109 - Path.cwd() does the same
    except FileNotFoundError:
        return False
    return True
