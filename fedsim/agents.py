"""The agents of one process: their programs, their objectives and how a call reaches them.

The serial backend has one group with all agents; on Ray every host has a group with its share.
Nothing here depends on how many agents share the group.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fedsim.build import RunSpec, build_method, build_scenario
from fedsim.errors import Interrupted, ObjectiveError, RunError
from fedsim.imports import user_code
from fedsim.journal import Recorded
from fedsim.objective import evaluate
from fedsim.payloads import frozen
from fedsim.protocol import (
    AgentId,
    AgentProgram,
    Broadcast,
    Method,
    Objective,
    Observation,
    Payload,
    Proposal,
    Request,
    Scenario,
)
from fedsim.rng import Keys


@dataclass(frozen=True, slots=True)
class Call:
    """One fleet call, the same for all agents.

    Attributes:
        t: the round.
        settled: journal lines that were written before: the history that agents must have.
        evaluate: whether the agents take a step, or only answer.
        message: the server's broadcast.
        then: what to answer, or None.
    """

    t: int
    settled: int
    evaluate: bool
    message: Broadcast | None
    then: Request | None


@dataclass(frozen=True)  # frozen with slots is slow to pickle
class Task:
    """One agent's part in a call.

    Attributes:
        agent: who.
        step: the agent's own count: of this step, or of its last one when it only answers.
        recorded: observations of this step that the journal holds already; they are taken
            instead of proposing and evaluating again.
    """

    agent: AgentId
    step: int
    recorded: tuple[Recorded, ...] = ()


@dataclass(frozen=True)  # frozen with slots is slow to pickle
class Answer:
    """What comes back from one agent.

    Attributes:
        agent: who.
        observations: this step's evaluations, in the scenario's sign.
        payload: the answer to the request, or None if nothing was asked.
        cpu_seconds: CPU time spent on the agent, its objective included.
        objective_cpu_seconds: CPU time spent in the objective alone.
    """

    agent: AgentId
    observations: tuple[Recorded, ...]
    payload: Payload | None
    cpu_seconds: float
    objective_cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Evaluating:
    """What a group is doing just now, for the watch that enforces the deadline.

    Attributes:
        agent: whose objective runs.
        t: the round.
        point: the point in the user's units, as text.
        since: ``time.monotonic()`` when it began.
    """

    agent: AgentId
    t: int
    point: str
    since: float


def hung(evaluating: Evaluating, deadline: float, stack: str = "") -> ObjectiveError:
    """Return the error of an objective that missed its deadline."""
    return ObjectiveError(
        f"the objective did not return within {deadline:g} s (agent {evaluating.agent}, round "
        f"{evaluating.t}, point {evaluating.point}); deadlines.evaluation sets the limit",
        stack,
    )


class AgentGroup:
    """Some of the agents of one run.

    Args:
        spec: the run.
        stopped: asked before each evaluation; True makes :meth:`handle` raise ``Interrupted``.
        built: the run's scenario and method, if they are there already.

    Attributes:
        evaluating: what runs just now, or None; other threads may read it.
    """

    def __init__(
        self,
        spec: RunSpec,
        stopped: Callable[[], bool] = lambda: False,
        built: tuple[Scenario, Method] | None = None,
    ) -> None:
        self._spec = spec
        self._stopped = stopped
        self._scenario = built[0] if built else build_scenario(spec)
        self._method = built[1] if built else build_method(spec, self._scenario)
        self._sign = 1.0 if self._scenario.direction == "maximize" else -1.0
        self._programs: dict[AgentId, AgentProgram] = {}
        self._objectives: dict[AgentId, Objective] = {}
        self.evaluating: Evaluating | None = None

    def rebuild(self, agents: Iterable[AgentId], history: Iterable[Recorded]) -> None:
        """Make agents anew from their recorded evaluations, in journal order."""
        steps: dict[AgentId, list[list[Recorded]]] = {agent: [] for agent in agents}
        for record in history:
            groups = steps[record.agent]
            if not groups or groups[-1][0].step != record.step:
                groups.append([])
            groups[-1].append(record)
        self._programs = {}
        for agent, groups in steps.items():
            with user_code(f"{self._method_words}: agent {agent} cannot be rebuilt"):
                for group in groups:
                    self._observe(agent, group)

    def prepare(self, agent: AgentId) -> None:
        """Build one agent's program and objective now, so that a mistake shows early.

        Raises:
            UserCodeError: with the user's traceback, if the scenario or method raises.
        """
        self._program(agent)
        self._objective(agent)

    def handle(self, call: Call, tasks: Sequence[Task]) -> list[Answer]:
        """Let agents do their part in a call, in the order given.

        Raises:
            ObjectiveError: if an objective raises or returns something that is not a finite
                number; it names agent, round and point.
            UserCodeError: if a program raises.
            Interrupted: if ``stopped`` says so.
        """
        return [self._handle_one(call, task) for task in tasks]

    def _handle_one(self, call: Call, task: Task) -> Answer:
        self._check_stopped(call)
        start = time.thread_time()
        keys = Keys(self._spec.seed, task.agent, task.step)
        doing = f"{self._method_words}: agent {task.agent} failed in round {call.t}"
        records, seconds = task.recorded, 0.0
        program = self._program(task.agent)
        if call.evaluate and not records:
            with user_code(doing):
                proposals = program.propose(task.step, call.message, keys)
            points = self._points(proposals, doing)
            records, seconds = self._evaluate(call, task, points, keys)
        payload = None
        with user_code(doing):
            if records:
                self._observe(task.agent, records)
            if call.then is not None:
                payload = frozen(program.reply(call.then, keys), f"{doing}: its reply")
        return Answer(task.agent, records, payload, time.thread_time() - start, seconds)

    def _observe(self, agent: AgentId, records: Sequence[Recorded]) -> None:
        self._program(agent).observe(
            [
                Observation(r.step, r.index, np.array(r.u), self._sign * r.y, r.source)
                for r in records
            ]
        )

    def _points(self, proposals: Sequence[Proposal], doing: str) -> list[Proposal]:
        """Return checked proposals, moved to the space's grid levels and whole numbers.

        Raises:
            RunError: if there are none, or one is not a finite point of the space.
        """
        dimension = self._scenario.space.dimension
        checked = []
        for proposal in proposals:
            u = np.asarray(proposal.u)
            if u.shape != (dimension,) or u.dtype.kind not in "fiu" or not np.isfinite(u).all():
                raise RunError(
                    f"{doing}: expected proposals of {dimension} finite unit coordinates, got {u}"
                )
            checked.append(Proposal(self._scenario.space.snap(u), proposal.source))
        if not checked:
            raise RunError(f"{doing}: expected at least one proposal, got none")
        return checked

    def _evaluate(
        self, call: Call, task: Task, points: Sequence[Proposal], keys: Keys
    ) -> tuple[tuple[Recorded, ...], float]:
        objective = self._objective(task.agent)
        records, seconds = [], 0.0
        for index, proposal in enumerate(points):
            self._check_stopped(call)
            point = self._scenario.space.to_point(proposal.u)
            self.evaluating = Evaluating(task.agent, call.t, str(point), time.monotonic())
            where = f"agent {task.agent}, round {call.t}, point {point}"
            rng = keys("objective", index)
            start = time.thread_time()
            try:
                value = evaluate(objective, point, rng, where)
            finally:
                self.evaluating = None
            seconds += time.thread_time() - start
            u = tuple(proposal.u.tolist())
            record = Recorded(
                task.agent, task.step, index, u, value.y, value.noiseless, proposal.source
            )
            records.append(record)
        return tuple(records), seconds

    def _check_stopped(self, call: Call) -> None:
        if self._stopped():
            raise Interrupted(f"stopped in round {call.t}")

    @property
    def _method_words(self) -> str:
        return f"method {self._spec.method_name!r}"

    def _program(self, agent: AgentId) -> AgentProgram:
        if agent not in self._programs:
            with user_code(f"{self._method_words}: agent {agent} cannot be built"):
                self._programs[agent] = self._method.agent(agent)
        return self._programs[agent]

    def _objective(self, agent: AgentId) -> Objective:
        if agent not in self._objectives:
            words = f"scenario {self._spec.scenario_name!r}"
            with user_code(f"{words}: the objective of agent {agent} cannot be built"):
                self._objectives[agent] = self._scenario.objective(agent)
        return self._objectives[agent]
