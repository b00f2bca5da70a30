"""How the command line prints."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from rich.console import Console


def make_console(*, stderr: bool = False) -> Console:
    """Return a console that shows users' text as it is: no colours for numbers, no emoji."""
    return Console(stderr=stderr, highlight=False, emoji=False)


def print_json(record: Mapping[str, Any]) -> None:
    """Print a record as one line of JSON; NaN and infinity, which JSON lacks, become null."""
    print(json.dumps(_finite(record), allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return value
