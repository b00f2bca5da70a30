"""Objectives that take a known time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np

from fedsim.space import Parameter, Space

AGENTS = 24


class Busy:
    """Every evaluation keeps one CPU busy for ``seconds`` of its own time."""

    direction: Literal["maximize"] = "maximize"
    agents = AGENTS

    def __init__(self, *, seconds: float = 0.01) -> None:
        self.space = Space((Parameter("x", 0.0, 1.0),))
        self._seconds = seconds

    def objective(self, agent: int) -> Callable[[Mapping[str, float], np.random.Generator], float]:
        """Return an agent's black box."""

        def busy(point: Mapping[str, float], rng: np.random.Generator) -> float:
            end = time.thread_time() + self._seconds
            while time.thread_time() < end:
                pass
            return point["x"]

        return busy
