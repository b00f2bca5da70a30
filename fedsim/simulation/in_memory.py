"""A federation in memory, for trying a method: no files, no processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from fedsim.config.construct import require_method
from fedsim.config.spec import RunSpec
from fedsim.payloads import as_lists, frozen
from fedsim.protocol import (
    AgentId,
    AgentProgram,
    Aggregator,
    Context,
    Method,
    Release,
    Replies,
    SecretHolder,
    ServerProgram,
    State,
)
from fedsim.record.entries import Recorded
from fedsim.record.observer import Event, Received
from fedsim.record.position import Position
from fedsim.simulation.agents import AgentGroup
from fedsim.simulation.calls import Activity, Answer, Call, Task
from fedsim.simulation.evaluation import LocalEvaluator
from fedsim.simulation.fleet import RecordingFleet
from fedsim.simulation.loop import aggregators_of
from fedsim.simulation.releases import Releases
from fedsim.space import Parameter, Space, Value
from fedsim.usercode.calling import offers, user_code
from fedsim.workload import Objective, Scenario


@dataclass(frozen=True)
class Bowl:
    """The scenario that methods are tried on: three agents look for the middle of a square."""

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
            a, b = float(point["a"]), float(point["b"])
            return -((a - 0.5) ** 2) - (b - 0.5) ** 2 + 0.01 * rng.normal()

        return bowl


@dataclass
class _Agents:
    """Carries calls to agents in memory, and logs all messages.

    Attributes:
        make_group: makes new agents, without history.
        restart: whether to rebuild the agents before every call. Agents with secrets would then
            never have any, so they lose them one at a time, less and less often.
        log: the messages.
        members: all agents.
    """

    make_group: Callable[[], AgentGroup]
    restart: bool
    log: list[Any]
    members: Sequence[AgentId]
    history: list[Recorded] = field(default_factory=list)
    calls: int = 0
    losses: int = 0

    def __post_init__(self) -> None:
        self.group = self.make_group()
        self.secret = any(_holds_secrets(self.group.program(agent)) for agent in self.members)

    def handle(self, call: Call, tasks: Sequence[Task]) -> list[Answer]:
        asked = [task.agent for task in tasks]
        self.calls += 1
        if self.restart and not self.secret:
            self.group = self.make_group()
            self._rebuild(asked)
        elif self.restart and asked and self.calls > self.losses * (self.losses + 1) // 2:
            self._rebuild([asked[self.losses % len(asked)]])
            self.losses += 1
        answers = self.group.handle(call, tasks)
        if not self.restart:
            self.group.prepare_next()
        self._note(call, answers)
        return answers

    def _note(self, call: Call, answers: Sequence[Answer]) -> None:
        self.history += [record for a in answers for record in a.observations]
        if self.secret and not call.evaluate:
            return  # how often agents are asked depends on lost keys
        message = as_lists(call.message.payload) if call.message else None
        self.log.append((call.t, "message", message))
        for a in answers:
            reply = None if self.secret else as_lists(a.payload)
            self.log.append((call.t, f"agent {a.agent}", a.observations, reply))

    def _rebuild(self, agents: Sequence[AgentId]) -> None:
        self.group.rebuild(agents, [r for r in self.history if r.agent in agents])


def _holds_secrets(program: AgentProgram) -> bool:
    return offers(program, SecretHolder) and program.holds_secrets


def run_in_memory(
    factory: Callable[[Context], Method], scenario: Scenario, context: Context, restart: bool
) -> list[Any]:
    """Run a method; return all messages between server and agents, and the evaluations.

    Replies of agents with secrets are left out: they differ from run to run. What the server
    received is included: it must not differ.

    Args:
        factory: makes the method.
        scenario: what it optimises.
        context: the federation, as the method sees it.
        restart: whether to rebuild all programs from history and state before every call.

    Raises:
        FedsimError: if a program does something wrong.
    """
    spec = RunSpec({"name": ""}, {"name": "tested"}, context.rounds, context.seed, None)
    log: list[Any] = []

    def make() -> Method:
        return require_method(factory(context), "the method")

    def make_group() -> AgentGroup:
        activity = Activity()
        evaluator = LocalEvaluator(spec, scenario, activity)
        return AgentGroup(spec, scenario, make(), evaluator, activity)

    def observe(event: Event) -> None:
        if isinstance(event, Received):
            log.append((event.t, "server", _plain(event.received)))

    members, journal = tuple(range(context.agents)), list[Any]()
    position = Position(dict.fromkeys(members, 0))
    server = make().server()
    fleet = RecordingFleet(
        _Agents(make_group, restart, log, members),
        members,
        context.seed,
        position,
        journal,
        observe,
        Releases(position, journal, context.seed, observe),
        aggregators_of(server),
    )
    fleet.round.begin(-1)
    with user_code("the server failed to start"):
        server.start(fleet)
    for t in range(context.rounds + 1):
        fleet.round.begin(t)
        with user_code(f"the server failed in round {t}"):
            if restart:
                server, fleet.aggregators = _restarted(make().server(), server, fleet, t)
            server.round(t, fleet)
            fleet.round.end()
    return log


def _restarted(
    new: ServerProgram, old: ServerProgram, fleet: RecordingFleet, t: int
) -> tuple[ServerProgram, Mapping[str, Aggregator]]:
    """Return a new server program, and its aggregators, with the states of the old ones."""
    new.restore(_copied(old.state(), f"the server's state in round {t}"))
    aggregators = aggregators_of(new)
    for name, aggregator in aggregators.items():
        before = fleet.aggregators[name].state()
        aggregator.restore(_copied(before, f"the state of aggregator {name} in round {t}"))
    return new, aggregators


def _copied(state: State, whose: str) -> State:
    """Return a state as it is read from a file: new arrays, which may be changed."""
    return {name: np.array(array) for name, array in frozen(state, whose).items()}


def _plain(received: Replies | Release) -> Any:
    if isinstance(received, Release):
        return as_lists(received.payload)
    return [(reply.agent, reply.status) for reply in received]
