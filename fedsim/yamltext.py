"""YAML texts, by the words of version 1.2: ``no`` and ``1:30`` are text, ``1e-3`` is a number.

PyYAML follows YAML 1.1. Here only ``true`` and ``false`` are booleans, and only JSON's numbers, hex
and octal ones are numbers. A repeated key, and a value that holds itself, are errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from functools import lru_cache
from typing import Any

import yaml

_WORDS = {
    "null": ("~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": ("true|True|TRUE|false|False|FALSE", list("tTfF")),
    "int": ("[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    "float": (
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
        r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
    "merge": ("<<", ["<"]),
}
"""By tag: what plain text is read as that, and the characters it may start with. First come first:
a whole number is an ``int``."""


class _Loader(yaml.SafeLoader):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.deep_construct = True  # refuses what holds itself

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = dict[Any, str]()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                value = self.construct_object(key)
                if value in seen:  # also 1, 1.0 and true
                    also = f", as {seen[value]!r} before" if seen[value] != key.value else ""
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key.value!r} appears twice{also}", key.start_mark
                    )
                seen[value] = key.value
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return found

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if node in self.recursive_objects:
            raise yaml.constructor.ConstructorError(
                None,
                None,
                "a value contains itself: an alias (*name) inside its anchor (&name)",
                node.start_mark,
            )
        return super().construct_object(node, deep)

    def whole_number(self, node: yaml.ScalarNode) -> int:
        digits = node.value
        try:
            return int(digits, {"0x": 16, "0o": 8}.get(digits[:2], 10))
        except ValueError:  # Python reads no longer ones
            raise yaml.constructor.ConstructorError(
                None, None, f"a whole number of {len(digits)} digits is too long", node.start_mark
            ) from None


class _Dumper(yaml.SafeDumper):
    """Quotes strings that any version of YAML would read as something else."""


_Loader.yaml_implicit_resolvers = {}  # PyYAML's are those of version 1.1
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.whole_number)
for _tag, (_pattern, _first) in _WORDS.items():
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(
            f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), _first
        )


def parse_yaml(text: str) -> Any:
    """Return the value of a YAML text.

    Raises:
        yaml.YAMLError: if it is not valid, repeats a key, holds itself or is nested too deeply.
    """
    try:
        return deepcopy(_parsed(text))
    except RecursionError:
        raise yaml.YAMLError("nested too deeply") from None


@lru_cache(maxsize=256)
def _parsed(text: str) -> Any:
    """The files of a run are read again and again; a copy takes much less time than the text."""
    return yaml.load(text, _Loader)


def format_yaml(value: Mapping[str, Any]) -> str:
    """Return the YAML text of a mapping, its keys in order."""
    return yaml.dump(dict(value), Dumper=_Dumper, sort_keys=False)
