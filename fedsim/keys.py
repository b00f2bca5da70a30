"""Dotted keys of configurations, such as ``method.surrogate.beta``, and their values as text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


def by_key(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a configuration's values by their dotted keys."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        name = f"{prefix}{key}"
        found |= by_key(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return found


def short_names(keys: Sequence[str]) -> dict[str, str]:
    """Return the shortest ends of dotted keys that differ; of ``method.name``, the start."""
    plain = {key: key.removesuffix(".name") for key in keys}
    found = {}
    for key, whole in plain.items():
        others = [f".{other}" for one, other in plain.items() if one != key]
        found[key] = next(
            (end for end in ends(whole) if not any(o.endswith(f".{end}") for o in others)), key
        )
    return found


def ends(key: str) -> list[str]:
    """Return the ends of a dotted key, the shortest first, itself last."""
    parts = key.split(".")
    return [".".join(parts[-size:]) for size in range(1, len(parts) + 1)]


def value_text(value: Any) -> str:
    """Return a value as a label shows it: as YAML and JSON write it, names without quotes."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
