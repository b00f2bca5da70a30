"""Calling a user's code; its tracebacks show the user's own frames, not fedsim's."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TypeGuard, TypeVar

from fedsim.errors import (
    ENDINGS,
    FedsimError,
    ProtocolError,
    RunError,
    UserCodeError,
    safe_repr,
)

Ability = TypeVar("Ability")
Frames = list[traceback.FrameSummary]

LONGEST_MESSAGE = 2_000
"""The most characters that are kept of a user's error message, or of a line of its traceback."""

LONGEST_TRACEBACK = 20_000
"""The most characters that are kept of a user's traceback."""

_TRACEBACK = BaseException.__dict__["__traceback__"]
_OURS = f"{Path(__file__).parents[1]}{os.sep}"
_NOT_THE_USERS = (_OURS, f"{Path(importlib.__file__).parent}{os.sep}", "<frozen ")


@contextmanager
def user_code(doing: str) -> Iterator[None]:
    """Turn any error of the block into a :class:`UserCodeError`; fedsim's own errors pass through.

    Except for a :class:`ProtocolError`: it is the user's code that has broken a rule.

    ``SystemExit`` in the user's code is an error, too: it must not end fedsim silently.

    Args:
        doing: what failed, as the start of the message, e.g. ``the method cannot be built``.
    """
    try:
        yield
    except ProtocolError as error:
        words = message_of(error) or class_of(error)
        raise UserCodeError(f"{doing}: {words}", _users_frames(error)) from None
    except (Exception, SystemExit) as error:
        # isinstance would ask the error itself.
        if issubclass(type(error), FedsimError) and _text_of(error) is not None:
            raise
        raise UserCodeError(f"{doing}: {words_of(error)}", user_traceback(error)) from None


def message_of(error: BaseException) -> str:
    """Return a user's error message, shortened if it is very long; empty if it has none.

    Like :func:`words_of` and :func:`user_traceback` it never raises, whatever the error's own
    methods and attributes do.
    """
    text = _text_of(error)
    return "(its message cannot be shown)" if text is None else shortened(text, LONGEST_MESSAGE)


def words_of(error: BaseException) -> str:
    """Return a user's error as Python shows it: its class, and its message if it has one."""
    return ": ".join(filter(None, (class_of(error), message_of(error))))


def class_of(thing: object) -> str:
    """Return the name of an object's class, whatever its metaclass says."""
    return str(type.__dict__["__name__"].__get__(type(thing)))


def _text_of(error: BaseException) -> str | None:
    """Return an error's message, or None if it has a ``__str__`` that fails."""
    try:
        return str.strip(str(error))  # of a class of text, it may be, with methods of its own
    except ENDINGS:
        return None


def user_traceback(error: BaseException) -> str:
    """Return an exception's traceback, with its causes, without fedsim's own outer frames."""
    lines = (shortened(line, LONGEST_MESSAGE) for line in _formatted(error, _own))
    return shortened("".join(lines), LONGEST_TRACEBACK)


def whole_traceback(error: BaseException) -> str:
    """Return an exception's traceback with all frames, whatever it or its causes do."""
    return "".join(_formatted(error, list))


def _formatted(error: BaseException, chosen: Callable[[Frames], Frames]) -> list[str]:
    """Return the lines of a traceback, with only the chosen frames if there are any."""
    try:
        summary = traceback.TracebackException.from_exception(error)
        own = chosen(summary.stack)
        if own or isinstance(error, SyntaxError):  # raised in none of the user's frames
            summary.stack = traceback.StackSummary.from_list(own)
        return list(summary.format())
    except ENDINGS:  # its notes or its causes cannot be read, or are not what they must be
        frames = traceback.extract_tb(_TRACEBACK.__get__(error))
        lines = traceback.format_list(chosen(frames) or frames)
        return ["Traceback (most recent call last):\n", *lines, f"{words_of(error)}\n"]


def _own(frames: Frames) -> Frames:
    """Return frames without fedsim's outer ones."""
    return list(itertools.dropwhile(lambda f: f.filename.startswith(_NOT_THE_USERS), frames))


def shortened(text: str, most: int) -> str:
    """Return a text, or its start and its end if it has more than ``most`` characters."""
    if len(text) <= most:
        return text
    left_out = f" [... {len(text) - most:,} characters left out ...] "
    return text[: most // 2] + left_out + text[len(text) - most // 2 :]


def _users_frames(error: BaseException) -> str:
    """Return where the user's code called ours, without our frames; empty if it did not."""
    frames = traceback.extract_tb(_TRACEBACK.__get__(error))
    ours = (*_NOT_THE_USERS, contextlib.__file__)
    own = [f for f in frames if not f.filename.startswith(ours)]
    return "".join(
        ["Your code, most recent call last:\n", *traceback.format_list(own)] if own else ()
    )


def user_stack(frame: FrameType) -> str:
    """Return a running thread's stack, inside the code that fedsim called."""
    frames = traceback.extract_stack(frame)
    ours = [i for i, f in enumerate(frames) if f.filename.startswith(_OURS)]
    start = ours[-1] + 1 if ours and ours[-1] + 1 < len(frames) else len(frames) - 1
    return "".join(traceback.format_list(frames[start:]))


def offers(thing: object, ability: type[Ability]) -> TypeGuard[Ability]:
    """Return whether an object has everything that an optional protocol asks for.

    Unlike ``isinstance``, it does the same in all versions of Python: what a wrapper delegates
    counts, and an ``AttributeError`` of the user's own property is not taken for its absence.

    Args:
        thing: a user's object.
        ability: a protocol.
    """
    names = [name for base in ability.__mro__ for name in vars(base) if not name.startswith("_")]
    for name in names:
        try:
            getattr(thing, name)
        except AttributeError:
            if hasattr(type(thing), name):
                raise
            return False
    return True


def expect(valid: bool, what: str, expected: str, got: object) -> None:
    """Check what a user's program returned or passed.

    Args:
        valid: whether it is right.
        what: its name, e.g. ``agent 0: its reply``.
        expected: what would be right.
        got: what it is.

    Raises:
        RunError: if it is not valid.
    """
    if not valid:
        text = safe_repr(got)
        text = text if len(text) <= 80 else f"{text[:77]}..."
        raise RunError(f"{what}: expected {expected}, got {text}")
