"""Packs classes and objects of scripts and notebooks for other processes, with their source lines.

cloudpickle does the work. Tracebacks in other processes show the lines of a notebook's cells, too,
which are in no file: code keeps the name of its file, and the lines travel with it.
"""

from __future__ import annotations

import io
import linecache
import sys
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any


@dataclass(frozen=True)
class Packed:
    """A packed class or object.

    Attributes:
        data: cloudpickle's bytes.
        lines: the texts of the files and cells that its code is from, by name.
    """

    data: bytes
    lines: Mapping[str, str]

    def load(self) -> Any:
        """Return the class, or a new object."""
        import cloudpickle

        show_lines(self.lines)
        return cloudpickle.loads(self.data)


def pack(thing: object, by_value: Iterable[str]) -> Packed:
    """Pack a class or an object.

    Args:
        thing: the class or the object; those of the running script or notebook, or of a function,
            are packed as a whole.
        by_value: names of further modules whose functions and classes are packed as a whole.

    Raises:
        Exception: whatever something that cannot be pickled raises.
    """
    import cloudpickle

    files: set[str] = set()

    table = ChainMap({CodeType: _keeping(files)}, cloudpickle.Pickler.dispatch_table)
    kind = type("Pickler", (cloudpickle.Pickler,), {"dispatch_table": table})

    modules = [sys.modules[name] for name in by_value if name in sys.modules]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    buffer = io.BytesIO()
    try:
        kind(buffer).dump(thing)
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
    texts = {file: "".join(linecache.getlines(file)) for file in sorted(files)}
    return Packed(buffer.getvalue(), {file: text for file, text in texts.items() if text})


def show_lines(lines: Mapping[str, str]) -> None:
    """Let this process's tracebacks show lines of files that it may not have."""
    for name, text in lines.items():
        if name not in linecache.cache:
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)


def _keeping(files: set[str]) -> Callable[[CodeType], Any]:
    """Return what pickles code with the name of its file, which it adds to ``files``."""
    import cloudpickle

    plain = cloudpickle.Pickler.dispatch_table[CodeType]

    def reduce(code: CodeType) -> Any:
        files.add(code.co_filename)
        make, arguments, *_ = plain(code)
        return _code_of, (code.co_filename, make, arguments)

    return reduce


def _code_of(file: str, make: Callable[..., CodeType], arguments: tuple[Any, ...]) -> CodeType:
    return make(*arguments).replace(co_filename=file)
