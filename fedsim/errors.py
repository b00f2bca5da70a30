"""The errors that fedsim raises, and the command line's exit code for each.

An error's message is written for the person who can act on it: which setting, what was expected,
what was got, what to do. Each class passes all of its arguments to ``Exception``, so it survives a
pickle round trip between processes.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

Error = TypeVar("Error", bound="FedsimError")

KEPT = "what was recorded is kept"
"""Of a run that ended early; how it is continued follows."""

ENDINGS = (Exception, SystemExit, GeneratorExit)
"""What a user's code may raise without being stopped from outside."""

LAST_OUTPUT = "What it printed last (`fedsim logs RUN` shows all):"
"""The heading of output in errors."""


class FedsimError(Exception):
    """Base class of fedsim's errors.

    Attributes:
        exit_code: the command line's exit code.
        folder: the folder of the run that it ended, or None if there is none.
        option: the command line's option for the argument that its message begins with, if any.
        resumable: whether the run that it ended may be continued; if not, its message says what to
            do instead.
    """

    exit_code = 3
    resumable = True
    folder: Path | None = None
    option: str | None = None

    @property
    def of_command_line(self) -> str:
        """The message for who wrote the option, not the argument."""
        return f"{self.option}:{str(self).partition(':')[2]}" if self.option else str(self)

    def _render_traceback_(self) -> list[str]:
        """Return what IPython is to show: as ever, with the notes that old versions leave out."""
        from IPython import get_ipython

        render = get_ipython().InteractiveTB.structured_traceback
        lines: list[str] = render(type(self), self, self.__traceback__)
        text, notes = "\n".join(lines), getattr(self, "__notes__", ())
        return [*lines, *(note for note in notes if note.strip() not in text)]


def of_option(option: str, error: Error) -> Error:
    """Return an error that the command line tells with its option in place of the argument.

    Args:
        option: the option.
        error: its message begins with the argument's name and a colon.
    """
    error.option = option
    return error


class ConfigError(FedsimError):
    """A setting, an argument or an input file is wrong."""

    exit_code = 2


class MissingDataError(FedsimError):
    """A scenario needs a data set that cannot be found."""

    exit_code = 2


class DownloadError(FedsimError):
    """A file cannot be downloaded, or is not the expected one."""


class RunFolderError(FedsimError):
    """A run folder cannot be created, read, locked or continued."""

    exit_code = 2


class DiskError(RunFolderError):
    """The disk is full or fails, or the system opens no more files, during a run.

    Args:
        what: the file, and what is wrong.
        advice: what to do.
    """

    exit_code = 3

    def __init__(self, what: str, advice: str) -> None:
        super().__init__(what, advice)
        self.what = what
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.what}; {self.advice}"


class LostRecordError(RunFolderError):
    """A run is done, but not all of its record is left."""

    exit_code = 3


class ResourceError(FedsimError):
    """Memory, CPUs, threads or the cluster are missing; before a run has begun, also disk space."""

    exit_code = 4


class RunError(FedsimError):
    """The run itself failed."""


class SettingError(RunError):
    """A setting turned out to be wrong during a run: only a new run can have another value."""

    resumable = False


class ProtocolError(RunError):
    """A server program or an aggregator used its fleet wrongly, or returned what it must not."""


class UserCodeError(RunError):
    """A user's scenario, objective, method or aggregator raised.

    Args:
        summary: one sentence with the class and what was being done.
        user_traceback: the traceback of the user's own code, or an empty string.
    """

    def __init__(self, summary: str, user_traceback: str = "") -> None:
        super().__init__(summary, user_traceback)
        self.summary = summary
        self.user_traceback = user_traceback

    def __str__(self) -> str:
        return self.summary

    def add_output(self, lines: str) -> None:
        """Show with the traceback what the user's code printed last, unless something is shown."""
        if lines and LAST_OUTPUT not in self.user_traceback:
            self.user_traceback += f"\n{LAST_OUTPUT}\n{lines}"


class ObjectiveError(UserCodeError):
    """An agent's objective raised, returned a non-finite value, hung or ended its process.

    Args:
        summary: names the agent, round and point.
        user_traceback: the traceback of the user's own code, or an empty string.
        reason: what happened; the text does not depend on where or when.
    """

    def __init__(self, summary: str, user_traceback: str = "", reason: str = "failed") -> None:
        super().__init__(summary, user_traceback)
        self.reason = reason


class LostKeysError(RunError):
    """An agent's program was rebuilt and has lost its secret keys.

    Its ``reply`` raises this; the aggregator that asked gets the status ``lost_keys``.
    """


class Interrupted(FedsimError):  # noqa: N818 - not a fault, a request
    """The run was stopped from outside; what was recorded is kept."""

    exit_code = 130


@contextmanager
def of_run(folder: Path) -> Iterator[None]:
    """Let the errors of the block know the run folder."""
    try:
        yield
    except FedsimError as error:
        error.folder = folder
        raise


def require(valid: bool, name: str, expected: str, got: object) -> None:
    """Check one setting.

    Args:
        valid: whether it is valid; write ranges so that NaN fails, e.g. ``0 < x < 1``.
        name: the setting; its full path if it comes from a configuration.
        expected: the valid values, in words.
        got: the given value.

    Raises:
        ConfigError: if it is not valid.
    """
    if not valid:
        told = plain(got) if isinstance(got, bool) or got is None else got
        raise ConfigError(f"{name}: expected {expected}, got {told}")


def plain(value: object) -> str:
    """Return a value as text for an error: booleans and None as YAML has them."""
    if value is None or isinstance(value, bool):
        return {True: "true", False: "false", None: "null"}[value]
    return safe_repr(value)


def safe_repr(value: object) -> str:
    """Return a value's ``repr``, or Python's own if a user's fails."""
    try:
        return repr(value)
    except ENDINGS:
        return object.__repr__(value)


def nearest(name: str, valid: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the closest valid name, or all of them; ignores case.

    Args:
        name: the given name.
        valid: the valid names.
    """
    names = sorted(valid)
    if meant := closest(name, names):
        return f"; did you mean {meant!r}?"
    return f"; valid names: {listed(names)}" if names else ""


def closest(name: str, valid: Iterable[str]) -> str | None:
    """Return the valid name that may be meant: a slip away, or the given one is its start.

    Args:
        name: the given name; upper and lower case are the same.
        valid: the valid names.
    """
    folded, given = {one.casefold(): one for one in sorted(valid)}, name.casefold()
    # One wrong letter in four; in shorter names, one.
    close = difflib.get_close_matches(given, folded, n=1, cutoff=0.75 if len(given) > 3 else 0.66)
    if not close and len(given) >= 3:
        close = sorted((one for one in folded if one.startswith(given)), key=len)
    return folded[close[0]] if close else None


def listed(names: Iterable[str]) -> str:
    """Return names with commas between them; in quotes, if some name itself holds a comma."""
    chosen = list(names)
    return ", ".join(map(repr, chosen) if any("," in name for name in chosen) else chosen)
