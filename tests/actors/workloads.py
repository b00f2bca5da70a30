"""Scenarios for the engine's tests, named ``workloads:Class`` in configurations."""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import numpy as np

from fedsim.protocol import Evaluation
from fedsim.space import Parameter, Space


class Bowl:
    """A noisy bowl per agent, to be minimised; an evaluation takes ``pause`` seconds.

    With ``trouble``, agent 1's objective misbehaves: always, or where a ``marker`` file is named,
    only while that file is absent (it is made on the way).
    """

    direction: Literal["minimize"] = "minimize"

    def __init__(
        self,
        *,
        agents: int = 6,
        pause: float = 0.0,
        trouble: Literal["none", "raise", "hang", "exit"] = "none",
        marker: str = "",
    ) -> None:
        self.agents = agents
        self.space = Space((Parameter("x", -1.0, 1.0), Parameter("y", 0.1, 10.0, scale="log")))
        self._pause = pause
        self._trouble = trouble
        self._marker = Path(marker) if marker else None

    def objective(self, agent: int) -> Callable[..., Evaluation]:
        """Return the agent's bowl."""

        def evaluate(point: Mapping[str, float], rng: np.random.Generator) -> Evaluation:
            time.sleep(self._pause)
            if agent == 1:
                self._misbehave()
            value = (point["x"] - 0.1 * agent) ** 2 + np.log(point["y"]) ** 2
            return Evaluation(value + 0.1 * rng.standard_normal(), value)

        return evaluate

    def _misbehave(self) -> None:
        if self._marker is not None:
            if self._marker.exists():
                return
            self._marker.touch()
        if self._trouble == "raise":
            raise ZeroDivisionError("the bowl is broken")
        if self._trouble == "hang":
            time.sleep(3600)
        if self._trouble == "exit":
            os._exit(1)
