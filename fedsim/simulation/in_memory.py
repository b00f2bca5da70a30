"""A federation in memory, to try a method in: no files, no processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np

from fedsim.config.construct import require_method
from fedsim.config.spec import RunSpec
from fedsim.payloads import as_lists, frozen
from fedsim.privacy.ledger import Ledger
from fedsim.protocol import AgentId, Context, Method, Objective, Scenario
from fedsim.record.journal import Recorded
from fedsim.record.position import Position
from fedsim.record.runfolder import RunFolder
from fedsim.simulation.agents import AgentGroup
from fedsim.simulation.calls import Answer, Call, Task
from fedsim.simulation.fleet import RecordingFleet
from fedsim.space import Parameter, Space, Value


@dataclass(frozen=True)
class Bowl:
    """Three agents that look for the middle of a square: what methods are tried on."""

    agents: int = 3

    @property
    def space(self) -> Space:
        """The unit square."""
        return Space((Parameter("a", 0, 1), Parameter("b", 0, 1)))

    @property
    def direction(self) -> Literal["maximize"]:
        """Larger is better."""
        return "maximize"

    def objective(self, agent: AgentId) -> Objective:
        """Return an agent's objective."""

        def bowl(point: Mapping[str, Value], rng: np.random.Generator) -> float:
            return -((point["a"] - 0.5) ** 2) - (point["b"] - 0.5) ** 2 + 0.01 * rng.normal()

        return bowl


@dataclass
class _Agents:
    """Carries calls to agents in memory, and remembers everything that they were told and said."""

    make_group: Callable[[], AgentGroup]
    restart: bool
    log: list[Any] = field(default_factory=list)
    history: list[Recorded] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.group = self.make_group()

    def handle(self, call: Call, tasks: Sequence[Task]) -> list[Answer]:
        if self.restart:
            asked = [task.agent for task in tasks]
            self.group = self.make_group()
            self.group.rebuild(asked, [r for r in self.history if r.agent in asked])
        answers = self.group.handle(call, tasks)
        if not self.restart:
            self.group.prepare_next()
        self.log.append(
            (call.t, "message", as_lists(call.message.payload) if call.message else None)
        )
        for a in answers:
            self.history += a.observations
            told = None if a.payload is None else as_lists(a.payload)
            self.log.append((call.t, f"agent {a.agent}", a.observations, told))
        return answers


def run_in_memory(
    factory: Callable[[Context], Method], scenario: Scenario, context: Context, restart: bool
) -> list[Any]:
    """Return everything that the server and the agents told one another, and the evaluations.

    Args:
        factory: makes the method.
        scenario: what it optimises.
        context: the same, as the method sees it.
        restart: whether all programs are made anew, from history and state, before every call.

    Raises:
        FedsimError: if a program does something wrong.
    """
    spec = RunSpec({"name": ""}, {"name": "tested"}, context.rounds, context.seed, None, "")

    def make() -> Method:
        return require_method(factory(context), "the method")

    agents = _Agents(lambda: AgentGroup(spec, built=(scenario, make())), restart)
    members = tuple(range(context.agents))
    nowhere: Any = SimpleNamespace(append=lambda line: None)
    fleet = RecordingFleet(
        agents,
        members,
        context.seed,
        RunFolder(Path()),
        nowhere,
        system_noise=False,
        budget=None,
        position=Position(dict.fromkeys(members, 0), Ledger(), 0, 0, deque()),
        observer=lambda kind, t, details: None,
    )
    server = make().server()
    server.start(fleet)
    for t in range(context.rounds + 1):
        if restart:
            state = frozen(server.state(), f"the server's state in round {t}")
            server = make().server()
            server.restore(state)
        server.round(t, fleet)
    return agents.log
