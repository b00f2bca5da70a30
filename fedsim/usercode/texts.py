"""The source text of a class that was defined in a script, a notebook or a function."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections import deque
from collections.abc import Collection, Iterator
from types import CodeType, FunctionType


def source_of(kind: type, modules: Collection[str]) -> str:
    """Return the text of a class, and of the classes and functions of some modules that it uses.

    Args:
        kind: the class.
        modules: names of modules; other modules' classes and functions are left out.

    Returns:
        The texts, the class first; empty if its own is not known.
    """
    texts: dict[type | FunctionType, str] = {}
    waiting = deque[type | FunctionType]([kind])
    while waiting:
        part = waiting.popleft()
        if part in texts:
            continue
        texts[part] = _class_text(part) if isinstance(part, type) else _function_text(part)
        waiting += [used for used in _used(part) if used.__module__ in modules]
    return "\n\n".join(filter(None, texts.values())) if texts[kind] else ""


def _used(part: type | FunctionType) -> Iterator[type | FunctionType]:
    """Yield the bases of a class, and the classes and functions that its methods name."""
    functions = list(_functions(part)) if isinstance(part, type) else [part]
    if isinstance(part, type):
        yield from part.__mro__[1:]
    for function in functions:
        for name in sorted(_names(function.__code__)):
            value = function.__globals__.get(name)
            if isinstance(value, (type, FunctionType)):
                yield value


def _functions(kind: type) -> Iterator[FunctionType]:
    """Yield the functions in a class's body."""
    for value in vars(kind).values():
        inner = getattr(value, "fget", None) or getattr(value, "__func__", None) or value
        if isinstance(inner := inspect.unwrap(inner), FunctionType):
            yield inner


def _names(code: CodeType) -> set[str]:
    inner = [_names(one) for one in code.co_consts if isinstance(one, CodeType)]
    return set(code.co_names).union(*inner)


def _function_text(function: FunctionType) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return ""


def _class_text(kind: type) -> str:
    """Return a class's text, found by its methods: a notebook's cells are no module's file."""
    for function in _functions(kind):
        code = function.__code__
        text = "".join(linecache.getlines(code.co_filename, function.__globals__))
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):  # ValueError: it holds null bytes
            continue
        for node in ast.walk(tree):
            if not isinstance(node, ast.ClassDef) or node.name != kind.__name__:
                continue
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            last = node.end_lineno or node.lineno
            if first <= code.co_firstlineno <= last:
                return "".join(text.splitlines(keepends=True)[first - 1 : last])
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):
        return ""
