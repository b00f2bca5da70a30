"""A strict reader of JSON: no NaN, no infinity, no repeated keys."""

from __future__ import annotations

import json
from typing import Any


def strict_json(text: str | bytes) -> Any:
    """Return the value of a JSON text as the standard defines it; ValueError if it is not."""
    return json.loads(text, parse_constant=_refuse, object_pairs_hook=_unique)


def _refuse(constant: str) -> None:
    raise ValueError(f"not JSON: {constant}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"repeated keys: {[key for key, _ in pairs]}")
    return found
