"""Classes and objects that a run is given in Python, where a configuration has names.

A class of a module that any process can import stands for its name. Anything else (a class of a
script, a notebook or a function, or an object) keeps its name, too, and travels to other processes
by cloudpickle: with the modules' functions and classes that it uses, unless every process can
import those as they are here. Nothing of it is ever read back from a run folder.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import shlex
import sys
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from fedsim.arguments import as_plain
from fedsim.errors import ConfigError
from fedsim.usercode.calling import class_of, message_of
from fedsim.usercode.importing import is_current
from fedsim.usercode.packing import Packed, pack
from fedsim.usercode.sources import UserCode, is_users_file, texts_in
from fedsim.usercode.texts import source_of

PLAIN = (str, int, float, bool, type(None), Path)


class Given:
    """A class or an object that a run was given.

    Args:
        name: what it is called in configurations.
        thing: the class, or an instance.
        by_value: the loaded modules whose functions and classes travel with it.

    Attributes:
        name: as above.
        kind: ``class`` or ``object``.
        source: the text of its class, and of what that uses from the same place; may be empty.
        state: a hash of an object's attributes; empty for a class, or if they cannot be hashed.
    """

    def __init__(self, name: str, thing: object, by_value: Iterable[str] = ()) -> None:
        self.name = name
        self.kind = "class" if inspect.isclass(thing) else "object"
        kind = thing if inspect.isclass(thing) else type(thing)
        self._by_value = tuple(by_value)
        self._thing: object = thing
        self._packed: Packed | None = None
        self.source = source_of(kind, {"__main__", *self._by_value})
        self.state = "" if self.is_class else _hash_of(thing)

    @property
    def is_class(self) -> bool:
        """Whether it is a class."""
        return self.kind == "class"

    @property
    def digest(self) -> str:
        """The SHA-256 of its source; empty if that is not known."""
        return hashlib.sha256(self.source.encode()).hexdigest() if self.source else ""

    def record(self) -> dict[str, Any]:
        """Return what a run folder says of it, which is enough to know it again."""
        return {"kind": self.kind, "source": self.digest, "state": self.state}

    @property
    def lines(self) -> Mapping[str, str]:
        """In another process: the texts that its code is from, by file."""
        return {} if self._packed is None else self._packed.lines

    def load(self) -> Any:
        """Return the class, or a copy of the object: what a run does to it, it does to a copy.

        Raises:
            ConfigError: if it cannot be copied.
        """
        if self._thing is None:
            thing = self.pack().load()
            if self.is_class:
                self._thing = thing
            return thing
        if self.is_class:
            return self._thing
        try:
            return copy.deepcopy(self._thing)
        except Exception as error:
            raise ConfigError(self._cannot("be copied", error)) from None

    def pack(self) -> Packed:
        """Return it as another process can load it.

        Raises:
            ConfigError: if it cannot be sent.
        """
        if self._packed is None:
            try:
                self._packed = pack(self._thing, self._by_value)
            except Exception as error:
                raise ConfigError(self._cannot("be sent to other processes", error)) from None
        return self._packed

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_packed": self.pack(), "_thing": None}

    def _cannot(self, what: str, error: Exception) -> str:
        words = message_of(error) or class_of(error)
        return (
            f"{self.name} cannot {what}: {words}; make what cannot in objective(), put "
            "the class into a module, or stay in this process (backend: serial, and jobs=1)"
        )


def named(raw: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, object]]:
    """Return a configuration with names in place of classes and objects, and those by name.

    Numpy's numbers and arrays, tuples and ranges become numbers and lists, as a file has them.

    Args:
        raw: the configuration; it is copied.

    Raises:
        ConfigError: if two different ones have one name.
    """
    things: dict[str, object] = {}
    return _replaced(raw, things), things


def code_of(raw: Any, folders: Iterable[str | Path], things: Mapping[str, object]) -> UserCode:
    """Return the user's code of a configuration.

    Args:
        raw: the configuration, with names only.
        folders: where ``module:Class`` names are looked for.
        things: the classes and objects that some of the names stand for. Classes of the running
            script or notebook need not be among them.
    """
    places = list(folders)
    mine = [name for name in texts_in(raw) if name.startswith("__main__:")]
    things = {**{n: _in_main(n) for n in mine if inspect.isclass(_in_main(n))}, **things}
    modules = {name: _modules_of(thing) for name, thing in things.items()}
    wanted = [f"{module}:X" for used in modules.values() for module in used]
    current = {
        source.name
        for source in UserCode.named_in([raw, wanted], places).sources
        if source.name in sys.modules and is_current(sys.modules[source.name], source)
    }
    objects = {
        name: Given(name, thing, [m for m in modules[name] if m not in current])
        for name, thing in things.items()
        if not _is_importable(thing, current)
    }
    shared = [f"{m}:X" for name in objects for m in modules[name] if m in current]
    return replace(UserCode.named_in([raw, shared], places), objects=objects)


def name_of(thing: object) -> str:
    """Return what a class or an object is called in configurations."""
    kind = thing if inspect.isclass(thing) else type(thing)
    return f"{kind.__module__}:{kind.__qualname__}"


def is_found_by_name(name: str, kind: str) -> bool:
    """Return whether another process may find a class or an object by its name alone."""
    return kind == "class" and not name.startswith("__main__:") and "<" not in name


def how_to_resume(folder: Path, kinds: Mapping[str, str], *, as_subject: bool = False) -> str:
    """Return what to do to resume a run; the command line may not find what it was given.

    Args:
        folder: the run folder.
        kinds: what the run was given in Python, by name: ``class`` or ``object``.
        as_subject: for the beginning of a sentence.
    """
    here = [name for name, kind in kinds.items() if not is_found_by_name(name, kind)]
    command = f"fedsim resume {shlex.quote(str(folder))}"
    call = f"fedsim.resume({str(folder)!r})" if here else command
    where = f", in Python, where {', '.join(here)} is known" if here else ""
    if as_subject:
        return f"`{call}`{where}," if here else f"`{call}`"
    return call + where


def _add(thing: object, things: dict[str, object]) -> str:
    name = name_of(thing)
    if things.setdefault(name, thing) is not thing:
        raise ConfigError(
            f"{name}: two different classes or objects of this name; give the class, and settings "
            "in the configuration, or write two classes"
        )
    return name


def _replaced(value: Any, things: dict[str, object], key: str = "") -> Any:
    value = as_plain(value)
    if isinstance(value, Mapping):
        return {as_plain(k): _replaced(inner, things, str(k)) for k, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replaced(inner, things, key) for inner in value]
    names_one = key.rpartition(".")[2] in ("scenario", "method", "name")
    if inspect.isclass(value) or (names_one and not isinstance(value, PLAIN)):
        return _add(value, things)
    return value


def _in_main(name: str) -> object:
    return getattr(sys.modules["__main__"], name.partition(":")[2], None)


def _is_importable(thing: object, current: set[str]) -> bool:
    """Return whether any process can import a class by its name, as it is here."""
    if not inspect.isclass(thing) or thing.__module__ == "__main__":
        return False
    module = sys.modules.get(thing.__module__)
    if module is None or getattr(module, thing.__qualname__, None) is not thing:
        return False
    return thing.__module__ in current or not _is_users(module)


def _modules_of(thing: object) -> list[str]:
    """Return the loaded modules of the user's that a class or an object may use."""
    kind = thing if inspect.isclass(thing) else type(thing)
    found: dict[str, ModuleType] = {}
    waiting = deque([kind.__module__])
    while waiting:
        name = waiting.popleft()
        module = sys.modules.get(name)
        if name in found or module is None or not (name == "__main__" or _is_users(module)):
            continue
        found[name] = module
        for value in list(vars(module).values()):
            inner = value.__name__ if isinstance(value, ModuleType) else None
            waiting.append(inner or str(getattr(value, "__module__", None)))
    return [name for name in found if name != "__main__"]


def _is_users(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and is_users_file(module.__name__, file)


def _hash_of(thing: object) -> str:
    """Return a hash of an object's attributes that is the same in every process, or nothing."""
    import joblib

    try:
        return str(joblib.hash(vars(thing)))
    except Exception:  # whatever its attributes raise when they are pickled
        return ""
