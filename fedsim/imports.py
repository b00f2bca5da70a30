"""Calling a user's code: importing it, and showing its own tracebacks instead of ours."""

from __future__ import annotations

import importlib
import inspect
import itertools
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType

from fedsim.errors import ConfigError, FedsimError, UserCodeError, nearest

_OURS = f"{Path(__file__).parent}{os.sep}"
_NOT_THE_USERS = (_OURS, f"{Path(importlib.__file__).parent}{os.sep}", "<frozen ")


@contextmanager
def user_code(doing: str) -> Iterator[None]:
    """Turn whatever the block raises into a :class:`UserCodeError`; fedsim's errors pass.

    A ``SystemExit`` of the user's code is an error, too: it must not end fedsim silently.

    Args:
        doing: what failed, as the beginning of a sentence, e.g. ``the method cannot be built``.
    """
    try:
        yield
    except FedsimError:
        raise
    except (Exception, SystemExit) as error:
        raise UserCodeError(
            f"{doing}: {type(error).__name__}: {error}", user_traceback(error)
        ) from None


def user_traceback(error: BaseException) -> str:
    """Return an exception's traceback, with its causes, without fedsim's own outer frames."""
    summary = traceback.TracebackException.from_exception(error)
    own = list(itertools.dropwhile(lambda f: f.filename.startswith(_NOT_THE_USERS), summary.stack))
    if own or isinstance(error, SyntaxError):  # which happens in no frame of the user's
        summary.stack = traceback.StackSummary.from_list(own)
    return "".join(summary.format())


def user_stack(frame: FrameType) -> str:
    """Return where a running thread is: its frames inside what fedsim called."""
    frames = traceback.extract_stack(frame)
    ours = [i for i, f in enumerate(frames) if f.filename.startswith(_OURS)]
    start = ours[-1] + 1 if ours and ours[-1] + 1 < len(frames) else len(frames) - 1
    return "".join(traceback.format_list(frames[start:]))


def load_class(path: str) -> type:
    """Return the class named ``package.module:Class``.

    Raises:
        ConfigError: if the module or the class does not exist.
        UserCodeError: if importing the module raises.
    """
    module_name, _, class_name = path.partition(":")
    if not all(part.isidentifier() for part in module_name.split(".")):
        raise ConfigError(f"{path}: expected package.module:Class")
    module = _import_module(module_name, path)
    found = getattr(module, class_name, None)
    if not inspect.isclass(found):
        own = [n for n, c in vars(module).items() if inspect.isclass(c)]
        raise ConfigError(
            f"{path}: {module_name} has no class {class_name!r}{nearest(class_name, own)}"
        )
    return found


def _import_module(name: str, path: str) -> ModuleType:
    with user_code(f"{name} cannot be imported"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise  # something that the module itself imports
            raise ConfigError(
                f"{path}: no module {error.name!r} in the current folder or the environment"
            ) from None


def importable_from(folder: str) -> None:
    """Let this process import a user's modules from a folder."""
    if folder not in sys.path:
        sys.path.insert(0, folder)
