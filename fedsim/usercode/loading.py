"""Classes of a user's by their names."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from fedsim.errors import ConfigError, nearest
from fedsim.usercode.calling import user_code
from fedsim.usercode.importing import activate, importing
from fedsim.usercode.sources import UserCode


def load_class(path: str, code: UserCode | None = None) -> type:
    """Return the class named ``package.module:Class``.

    Args:
        path: its name.
        code: the run's code, which may hold the module; None: it is the environment's.

    Raises:
        ConfigError: if the module or the class does not exist.
        UserCodeError: if importing the module raises.
    """
    module_name, _, class_name = path.partition(":")
    names = (*module_name.split("."), *class_name.split("."))
    if not all(name.isidentifier() for name in names):
        meant = class_path(path)
        hint = f"; did you mean {meant!r}?" if meant else ""
        raise ConfigError(f"{path!r}: expected package.module:Class{hint}")
    if code is not None:
        activate(code)
    module = _import_module(module_name, path, code.folders if code else ())
    found = getattr(module, class_name, None)
    if not inspect.isclass(found):
        own = [n for n, c in vars(module).items() if inspect.isclass(c)]
        raise ConfigError(
            f"{path}: {module_name} has no class {class_name!r}{nearest(class_name, own)}"
        )
    return found


def class_path(text: str) -> str:
    """Return the ``module:Class`` that a file's path or a name with dots stands for, or nothing."""
    file, _, name = text.partition(":")
    if "/" in file or file.endswith(".py"):
        outside = file.startswith(("/", "~", ".."))
        path = Path(file).with_suffix("")
        return f"{path.name if outside else '.'.join(path.parts)}:{name or 'Class'}"
    module, _, last = file.rpartition(".")
    return f"{module}:{last}" if module and not name else ""


def _import_module(name: str, path: str, folders: Sequence[str]) -> ModuleType:
    with user_code(f"{name} cannot be imported"), importing(name):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise  # the module itself imports a missing one
            places = " or ".join((*folders, "the environment"))
            meant = class_path(path) if name.endswith(".py") else ""
            hint = f"; did you mean {meant!r}?" if meant else ""
            raise ConfigError(f"{path}: no module {error.name!r} in {places}{hint}") from None
