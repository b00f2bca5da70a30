"""Imports of a user's modules as a run read them, whatever this process imported before.

Python keeps one module per name for as long as a process lives: of two folders with an ``obj.py``,
it would use the first one's for both, and an edited module as it was. Here other modules of these
names make way, and are put back when the run ends (:func:`imports_kept`).
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import FrameType, ModuleType

from fedsim.errors import ConfigError
from fedsim.usercode.packing import show_lines
from fedsim.usercode.sources import Source, UserCode

_IMPORTING: ContextVar[str] = ContextVar("_IMPORTING", default="")
"""The module that fedsim is importing in this thread."""


def activate(code: UserCode) -> None:
    """Let this process import a run's modules; the equal ones that it has stay.

    Raises:
        ConfigError: if one of them is being imported right now, or another run in this process
            uses another module of the same name.
    """
    finder = _finder()
    with finder.lock:
        finder.serve(code)
    for given in code.objects.values():
        show_lines(given.lines)


@contextmanager
def imports_kept() -> Iterator[None]:
    """Put back, at the end of the block, the modules and the path that this process had before."""
    finder = _finder()
    with finder.lock:
        finder.enter()
    try:
        yield
    finally:
        with finder.lock:
            finder.leave()


@contextmanager
def importing(name: str) -> Iterator[None]:
    """Mark the block as the import of a user's module; see :func:`refuse_while_importing`."""
    token = _IMPORTING.set(name)
    try:
        yield
    finally:
        _IMPORTING.reset(token)


def refuse_while_importing() -> None:
    """Refuse to start a run in a module that is being imported for a run.

    Such a run would start itself again, or wait for itself.

    Raises:
        ConfigError: says where the call is to be put.
    """
    name = _IMPORTING.get()
    if not name:
        for frame in _callers():
            if frame.f_code.co_name == "<module>" and frame.f_globals["__name__"] == "__mp_main__":
                name = frame.f_code.co_filename  # multiprocessing runs the script again
    if name:
        raise ConfigError(_unguarded(name))


class _Loader(importlib.abc.ExecutionLoader):
    """Loads a module from what was read."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def get_source(self, fullname: str) -> str:
        return importlib.util.decode_source(self.source.text)

    def get_filename(self, fullname: str) -> str:
        return self.source.file

    def is_package(self, fullname: str) -> bool:
        return bool(self.source.places)


class _Finder(importlib.abc.MetaPathFinder):
    """What this process imports as users' modules; it stands in ``sys.meta_path``."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._sources: dict[str, Source] = {}
        self._folders: tuple[str, ...] = ()
        self._users = 0
        self._path: list[str] = []
        self._displaced: dict[str, ModuleType] = {}
        self._resting: dict[str, ModuleType] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        source = self._sources.get(fullname)
        if source is None:
            return None
        places = list(source.places) or None
        if source.file:
            return importlib.util.spec_from_file_location(
                fullname, source.file, loader=_Loader(source), submodule_search_locations=places
            )
        spec = ModuleSpec(fullname, _Loader(source), is_package=True)
        spec.submodule_search_locations = places
        return spec

    def serve(self, code: UserCode) -> None:
        """See :func:`activate`."""
        new = {source.name: source for source in code.sources}
        known = {name: sys.modules[name] for name in new if name in sys.modules}
        for name, module in known.items():
            if _imports_here(module):
                raise ConfigError(_unguarded(new[name].file or name))
        if any(not is_current(module, new[name]) for name, module in known.items()):
            if self._users > 1:
                raise ConfigError(
                    f"another run in this process uses other modules of the names "
                    f"{', '.join(new)}: run them one after another, or each in its own process"
                )
            self._displaced = {**self._pop(new), **self._displaced}
        self._wake(new)
        self._sources = {**self._sources, **new} if self._users > 1 else new
        self._folders = tuple(dict.fromkeys((*code.folders, *self._folders)))
        sys.path[:] = dict.fromkeys((*code.folders, *sys.path))

    def enter(self) -> None:
        """Start a run in this process."""
        if not self._users:
            self._path = list(sys.path)
        self._users += 1

    def leave(self) -> None:
        """End a run: put back what was there before the first one."""
        self._users -= 1
        if self._users:
            return
        used = self._pop(self._sources)
        self._resting = {
            name: module for name, module in used.items() if isinstance(_loader_of(module), _Loader)
        }
        sys.modules.update({n: m for n, m in used.items() if n not in self._resting})
        sys.modules.update(self._displaced)
        ours, before = set(self._folders), self._path
        sys.path[:] = [*before, *(p for p in sys.path if p not in ours and p not in before)]
        self._sources, self._folders, self._displaced = {}, (), {}

    def _wake(self, new: Mapping[str, Source]) -> None:
        """Let an earlier run's modules stand in for equal ones, so that none is run twice."""
        resting, self._resting = self._resting, {}
        if not resting.keys() <= new.keys() - sys.modules.keys():
            return
        if all(is_current(module, new[name]) for name, module in resting.items()):
            sys.modules.update(resting)

    def _pop(self, names: Iterable[str]) -> dict[str, ModuleType]:
        """Remove and return all modules of some top-level names."""
        tops = {name.partition(".")[0] for name in names}
        found = [name for name in sys.modules if name.partition(".")[0] in tops]
        return {name: sys.modules.pop(name) for name in found}


def _finder() -> _Finder:
    for finder in sys.meta_path:
        if isinstance(finder, _Finder):
            return finder
    new = _Finder()
    sys.meta_path.insert(0, new)
    return new


def _unguarded(name: str) -> str:
    return (
        f"{name} starts a run while it is being imported for a run: put the call under "
        '`if __name__ == "__main__":`'
    )


def _imports_here(module: ModuleType) -> bool:
    """Return whether this thread is importing a module right now."""
    return any(
        frame.f_code.co_name == "<module>" and frame.f_globals is vars(module)
        for frame in _callers()
    )


def _callers() -> Iterator[FrameType]:
    frame = sys._getframe().f_back
    while frame is not None:
        yield frame
        frame = frame.f_back


def _loader_of(module: ModuleType) -> object:
    return getattr(getattr(module, "__spec__", None), "loader", None)


def is_current(module: ModuleType, source: Source) -> bool:
    """Return whether a loaded module is certainly what was read."""
    loader = _loader_of(module)
    if isinstance(loader, _Loader):
        return loader.source == source
    if not source.file:
        return tuple(getattr(module, "__path__", ())) == source.places
    file = getattr(module, "__file__", None)
    if file is None or Path(file).resolve() != Path(source.file).resolve():
        return False
    try:
        status = Path(source.file).stat()
    except OSError:
        return False
    return max(status.st_mtime, status.st_ctime) < _process_start()


def _process_start() -> float:
    """Return when this process started, in seconds since 1970; minus infinity if it is unknown."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        uptime = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return float("-inf")
    age = uptime - ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - age - 0.1  # the clocks of disks are coarse
