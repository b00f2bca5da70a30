"""The user's code of a run: which modules it names, what they import, and what the files hold.

A run reads its modules once; :mod:`fedsim.usercode.importing` lets every process import what was
read.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import os
import re
import sys
import sysconfig
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedsim.usercode.given import Given

_NEVER = {*sys.stdlib_module_names, "fedsim", "__main__"}
"""Top-level names that are never a user's modules."""


@dataclass(frozen=True)
class Source:
    """A user's module, as it was read.

    Attributes:
        name: its name, with dots.
        file: its path; empty for a folder without ``__init__.py``.
        text: what the file holds.
        places: the folders of a package's modules; none for a plain module.
    """

    name: str
    file: str
    text: bytes
    places: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """The text's SHA-256."""
        return hashlib.sha256(self.text).hexdigest()


@dataclass(frozen=True)
class UserCode:
    """The user's code of a run: what a process needs to import it.

    Attributes:
        folders: where ``module:Class`` names are looked for, in this order.
        sources: the modules that the run names, and what they import from their folders.
        objects: classes and objects that the run was given in Python, by name.
    """

    folders: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    objects: Mapping[str, Given] = field(default_factory=dict)

    @classmethod
    def named_in(cls, value: Any, folders: Iterable[str | Path]) -> UserCode:
        """Read the modules of all ``module:Class`` texts in nested mappings and sequences.

        Args:
            value: a configuration, say.
            folders: where to look, before the environment.
        """
        places = tuple(dict.fromkeys(str(folder) for folder in folders))
        names = dict.fromkeys(_modules_named(value))
        return cls(places, _read_all(names, places) if names else ())


NO_CODE = UserCode()
"""No modules of the user's: all are the environment's."""


def texts_in(value: Any) -> Iterator[str]:
    """Yield all texts in nested mappings and sequences, in their order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from texts_in(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from texts_in(inner)


def _modules_named(value: Any) -> Iterator[str]:
    for text in texts_in(value):
        module, colon, name = text.partition(":")
        parts = [*module.split("."), *name.split(".")]
        if colon and all(part.isidentifier() for part in parts):
            yield module


def _read_all(names: Iterable[str], folders: Sequence[str]) -> tuple[Source, ...]:
    """Return modules, their packages, and what they import from the same places."""
    importlib.invalidate_caches()  # files may be newer than Python's list of them
    places, found = list(folders), dict[str, Source]()
    waiting = deque(names)
    for name in waiting:
        top = name.partition(".")[0]
        if _read(top, places) is None:
            places += _place_in_environment(top)
    while waiting:
        parts = waiting.popleft().split(".")
        for depth in range(1, len(parts) + 1):
            name = ".".join(parts[:depth])
            if name in found:
                continue
            inside = found[".".join(parts[: depth - 1])].places if depth > 1 else places
            source = _read(name, inside)
            if source is None:
                break
            found[name] = source
            waiting += _imported(source)
    return tuple(found[name] for name in sorted(found))


def _read(name: str, places: Sequence[str]) -> Source | None:
    """Return a module found in one of the places, if it is a user's."""
    top = name.partition(".")[0]
    if top in _NEVER or not places:
        return None
    spec = PathFinder.find_spec(name, list(places))
    if spec is None:
        return None
    inside = tuple(spec.submodule_search_locations or ())
    if spec.origin is None and inside:  # a folder without __init__.py: anything else comes first
        other = PathFinder.find_spec(name) if name == top else None
        hidden = other is not None and other.origin is not None
        return None if hidden else Source(name, "", b"", inside)
    if not isinstance(spec.loader, SourceFileLoader) or _is_installed(spec.loader.path):
        return None
    file = os.path.abspath(spec.loader.path)  # noqa: PTH100 - as importlib writes it
    try:
        return Source(name, file, Path(file).read_bytes(), inside)
    except OSError:
        return None  # importing it says why


def _place_in_environment(top: str) -> list[str]:
    """Return the folder of a user's package that is on Python's path, or installed as editable."""
    finders = [one for one in sys.meta_path if isinstance(one, type)]  # Python's and setuptools'
    for finder in filter(lambda one: hasattr(one, "find_spec"), finders):
        spec = finder.find_spec(top, None)
        if spec is None:
            continue
        if isinstance(spec.loader, SourceFileLoader) and not _is_installed(spec.loader.path):
            file = Path(spec.loader.path).absolute()
            return [str(file.parents[1 if spec.submodule_search_locations else 0])]
        break
    return []


def is_users_file(name: str, file: str) -> bool:
    """Return whether a module is the user's: neither fedsim's, nor Python's, nor installed."""
    top = name.partition(".")[0]
    return top not in _NEVER and file.endswith(".py") and not _is_installed(file)


def _is_installed(file: str) -> bool:
    """Return whether a file belongs to Python or to a package that was installed."""
    path = Path(file).absolute()
    homes = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return bool({"site-packages", "dist-packages"} & set(path.parts)) or any(
        path.is_relative_to(home) for home in homes
    )


def _imported(source: Source) -> set[str]:
    """Return the names of modules that a module may import, anywhere in it."""
    try:
        tree = ast.parse(source.text)
    except (SyntaxError, ValueError):
        return set()  # importing it says why
    package = source.name if source.places else source.name.rpartition(".")[0]
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: 1 - node.level or None] if node.level else []
            origin = ".".join(filter(None, [*parents, node.module]))
            names |= {origin, *(f"{origin}.{alias.name}" for alias in node.names)}
    return {name for name in names if re.fullmatch(r"\w+(\.\w+)*", name)}
