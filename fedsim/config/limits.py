"""How large counts may be, and the memory that they need at least.

A count with too many zeros is refused before anything is allocated: it would end in a machine that
swaps for hours, or in a process that the system kills.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedsim.errors import ConfigError
from fedsim.keys import by_key

LARGEST = {
    "scenario.agents": 1_000_000,
    "scenario.dimension": 1_000,
    "scenario.grid_size": 10_000_000,
    "method.acquisition.candidates": 1_000_000,
    "method.acquisition.near": 1_000_000,
    "method.acquisition.starts": 10_000,
    "method.message.features": 1_000_000,
    "method.subregions": 10_000,
    "method.support.size": 20_000,
    "method.support.grow_by": 20_000,
    "method.support_size": 20_000,
    "method.surrogate.candidates": 1_000_000,
    "method.surrogate.path_features": 1_000_000,
    "method.surrogate.starts": 10_000,
}
"""Limits of the counts from which fedsim's own scenarios and methods allocate memory."""

MOST_JOBS = 1_000_000
"""Variants times seeds of a run."""

AGENT_BYTES = 1_000
"""What an agent takes at least: its objects."""

_AGENTS, _DIMENSION = "agents", "parameters"
_TABLES = (
    (_AGENTS, "scenario.grid_size"),  # every agent's function
    (_AGENTS, "method.message.features"),  # the messages of a round
    (_DIMENSION, "method.message.features"),  # their frequencies
    ("method.subregions", "method.message.features"),  # the messages of the subregions
    (_DIMENSION, "method.surrogate.candidates"),
    (_DIMENSION, "method.acquisition.candidates"),
    ("method.support.size", "method.support.size"),  # the kernel between its points
    ("method.support_size", "method.support_size"),
)
"""Tables of 8 bytes per number that a run holds at some time."""


@dataclass(frozen=True)
class Need:
    """What a variant needs at least.

    Attributes:
        megabytes: memory.
        words: what for.
    """

    megabytes: float
    words: str


def check_counts(section: str, settings: Mapping[str, Any]) -> None:
    """Check the counts in a section of fedsim's own scenarios and methods.

    Args:
        section: ``scenario`` or ``method``.
        settings: the resolved section.

    Raises:
        ConfigError: if one is too large.
    """
    for key, value in by_key(settings, f"{section}.").items():
        most = LARGEST.get(key, math.inf)
        if isinstance(value, int) and value > most:
            raise ConfigError(f"{key}: expected at most {most:,}, got {_number(value)}")


def _number(value: int) -> str:
    return f"{value:,}" if value < 10**30 else f"{value.bit_length() * 0.30103:.0f} digits"


def largest_need(config: Mapping[str, Any], agents: int, dimension: int) -> Need:
    """Return the largest single thing that a variant needs memory for: it needs more in all.

    Args:
        config: ``scenario`` and ``method``, resolved.
        agents: the number of agents.
        dimension: the number of parameters.
    """
    known = {**by_key(config), _AGENTS: agents, _DIMENSION: dimension}
    needs = [Need(agents * AGENT_BYTES / 1e6, f"{agents:,} agents")]
    for table in _TABLES:
        counts = [known.get(key) for key in table]
        if all(isinstance(count, int) for count in counts):
            told = " and ".join(f"{known[key]:,} {_words(key)}" for key in dict.fromkeys(table))
            needs.append(Need(8 * math.prod(c or 0 for c in counts) / 1e6, f"a table of {told}"))
    return max(needs, key=lambda need: need.megabytes)


def _words(key: str) -> str:
    return key if "." not in key else f"({key})"
