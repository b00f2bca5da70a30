"""Importing a user's classes, and showing a user's own tracebacks."""

from __future__ import annotations

import importlib
import inspect
import traceback
from pathlib import Path

from fedsim.errors import ConfigError, UserCodeError, nearest


def user_traceback(error: BaseException) -> str:
    """Return an exception's traceback without fedsim's own outer frames."""
    here = str(Path(__file__).parent)
    frames = traceback.extract_tb(error.__traceback__)
    start = next((i for i, f in enumerate(frames) if not f.filename.startswith(here)), 0)
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames[start:])]
    return "".join([*lines, *traceback.format_exception_only(error)])


def load_class(path: str) -> type:
    """Return the class named ``package.module:Class``.

    Raises:
        ConfigError: if the module or the class does not exist.
        UserCodeError: if importing the module raises.
    """
    module_name, _, class_name = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name.split(".")[0]:
            raise UserCodeError(f"{module_name}: {error}", user_traceback(error)) from None
        raise ConfigError(
            f"{path}: no module {module_name!r} in the current folder or the environment"
        ) from None
    except Exception as error:
        raise UserCodeError(
            f"{module_name} cannot be imported: {type(error).__name__}: {error}",
            user_traceback(error),
        ) from None
    found = getattr(module, class_name, None)
    if not inspect.isclass(found):
        classes = [n for n, c in vars(module).items() if inspect.isclass(c)]
        raise ConfigError(
            f"{path}: {module_name} has no class {class_name!r}{nearest(class_name, classes)}"
        )
    return found
