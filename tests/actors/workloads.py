"""Scenarios for the engine's tests, named ``workloads:Class`` in configurations."""

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import numpy as np

from fedsim.methods.common import SilentServer
from fedsim.methods.random_search import RandomSearch
from fedsim.protocol import AgentProgram, Context, Fleet, RoundInfo, ServerProgram
from fedsim.resources import Resources
from fedsim.rng import Keys
from fedsim.space import Parameter, Space
from fedsim.workload import Evaluation


class Bowl:
    """A noisy bowl per agent, to be minimised; an evaluation takes ``pause`` seconds.

    With ``trouble``, agent 1's objective misbehaves: always or, with a ``marker`` file, only while
    that file does not exist (the objective creates it). With ``cpus``, objectives declare that they
    need them. With a ``diary`` file, every objective built and every evaluation adds a line to it.
    """

    direction: Literal["minimize"] = "minimize"

    def __init__(
        self,
        *,
        agents: int = 6,
        pause: float = 0.0,
        trouble: Literal[
            "none", "raise", "hang", "exit", "segfault", "memory", "interrupt"
        ] = "none",
        marker: str = "",
        cpus: float | None = None,
        diary: str = "",
    ) -> None:
        self.agents = agents
        self.space = Space((Parameter("x", -1.0, 1.0), Parameter("y", 0.1, 10.0, scale="log")))
        self._pause = pause
        self._trouble = trouble
        self._marker = Path(marker) if marker else None
        self._resources = None if cpus is None else Resources(cpus)
        self._diary = Path(diary) if diary else None

    def objective(self, agent: int) -> Callable[..., Evaluation]:
        """Return the agent's bowl."""
        self._note(f"build {agent}")

        def evaluate(point: Mapping[str, float], rng: np.random.Generator) -> Evaluation:
            self._note(f"evaluate {agent}")
            time.sleep(self._pause)
            if agent == 1:
                self._misbehave()
            value = (point["x"] - 0.1 * agent) ** 2 + np.log(point["y"]) ** 2
            return Evaluation(value + 0.1 * rng.standard_normal(), value)

        evaluate.resources = self._resources  # type: ignore[attr-defined]
        return evaluate

    def _note(self, event: str) -> None:
        if self._diary is not None:
            with self._diary.open("a") as file:
                file.write(f"{event} {os.getpid()}\n")

    def _misbehave(self) -> None:
        if self._marker is not None:
            if self._marker.exists():
                return
            self._marker.touch()
        if self._trouble == "raise":
            raise ZeroDivisionError("the bowl is broken")
        if self._trouble == "interrupt":
            raise KeyboardInterrupt
        if self._trouble == "hang":
            time.sleep(3600)
        if self._trouble == "exit":
            os._exit(1)
        if self._trouble == "segfault":
            signal.raise_signal(signal.SIGSEGV)  # in this thread, as a bad pointer does
        if self._trouble == "memory":
            held = []
            while True:
                held.append(np.ones(2_000_000))
                time.sleep(0.005)


class Unsendable(Bowl):
    """Its objectives declare resources, but cannot be pickled."""

    def objective(self, agent: int) -> Callable[..., Evaluation]:
        """Return an objective with a lock."""
        inner, lock = super().objective(agent), threading.Lock()

        def locked(point: Mapping[str, float], rng: np.random.Generator) -> Evaluation:
            with lock:
                return inner(point, rng)

        locked.resources = Resources(0.5)  # type: ignore[attr-defined]
        return locked


class Mixed(Bowl):
    """Only the later agents' objectives declare resources."""

    def objective(self, agent: int) -> Callable[..., Evaluation]:
        """Return an agent's bowl."""
        inner = super().objective(agent)
        inner.resources = Resources(0.5) if agent else None  # type: ignore[attr-defined]
        return inner


class Foresight(RandomSearch):
    """Random search whose agents log in a ``diary`` which steps they are asked to prepare."""

    def __init__(self, context: Context, *, diary: str) -> None:
        super().__init__(context, initial_points=1)
        self._diary = Path(diary)

    def agent(self, agent: int) -> AgentProgram:
        """Return a program that prepares nothing, but logs the call."""
        program = super().agent(agent)

        def prepare(step: int, rng: Keys) -> None:
            with self._diary.open("a") as file:
                file.write(f"{agent} {step} {rng.step}\n")

        program.prepare = prepare  # type: ignore[attr-defined]
        return program


class Talking(Bowl):
    """Its objectives print, from Python and as C code would; then they may misbehave."""

    def objective(self, agent: int) -> Callable[..., Evaluation]:
        """Return an objective that prints."""
        inner = super().objective(agent)
        print("built")

        def talk(point: Mapping[str, float], rng: np.random.Generator) -> Evaluation:
            print(f"{agent} works")
            os.write(2, b"as C does\n")
            return inner(point, rng)

        talk.resources = self._resources  # type: ignore[attr-defined]
        return talk


class Far(Talking):
    """Its hosts do not find the token of the run folder: they seem to be on another machine."""

    def __init__(self, *, folder: str, agents: int = 6, cpus: float | None = None) -> None:
        super().__init__(agents=agents, cpus=cpus)
        token = Path(folder) / "state" / "token"
        if token.exists():
            token.write_text("another", "utf-8")


class Speaker(RandomSearch):
    """Random search whose server prints in every round, and may fail in round 2."""

    def __init__(self, context: Context, *, fails: bool = False) -> None:
        super().__init__(context, initial_points=1)
        self._fails = fails

    def server(self) -> ServerProgram:
        """Return a server that prints."""
        return SpeakingServer(self._fails)


class SpeakingServer(SilentServer):
    """Prints before and after its agents' step."""

    def __init__(self, fails: bool) -> None:
        super().__init__()
        self._fails = fails

    def round(self, t: int, fleet: Fleet) -> RoundInfo:
        """Let all agents take a step."""
        print("before", t)
        super().round(t, fleet)
        print("after", t)
        if self._fails and t == 2:
            raise ZeroDivisionError("the server is broken")
        return {}
