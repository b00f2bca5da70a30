"""The agents of one process: their programs, their objectives and how a call reaches them.

The serial backend has one group with all agents; on Ray every host has a group with its share.
Nothing here depends on how many agents share the group.
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fedsim.build import RunSpec, build_method, build_scenario
from fedsim.errors import FedsimError, Interrupted, ObjectiveError, UserCodeError
from fedsim.imports import user_traceback
from fedsim.journal import Recorded
from fedsim.protocol import (
    AgentId,
    AgentProgram,
    Broadcast,
    Evaluation,
    Objective,
    Observation,
    Payload,
    Proposal,
    Request,
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


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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


class AgentGroup:
    """Some of the agents of one run.

    Args:
        spec: the run.
        stopped: asked before each agent; True makes :meth:`handle` raise ``Interrupted``.

    Attributes:
        evaluating: what runs just now, or None; other threads may read it.
    """

    def __init__(self, spec: RunSpec, stopped: Callable[[], bool] = lambda: False) -> None:
        self._spec = spec
        self._stopped = stopped
        self._scenario = build_scenario(spec)
        self._method = build_method(spec, self._scenario)
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
        for agent, groups in steps.items():
            self._programs[agent] = self._method.agent(agent)
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
        """
        return [self._handle_one(call, task) for task in tasks]

    def _handle_one(self, call: Call, task: Task) -> Answer:
        if self._stopped():
            raise Interrupted(f"stopped in round {call.t}")
        start = time.thread_time()
        program = self._program(task.agent)
        keys = Keys(self._spec.seed, task.agent, task.step)
        seconds = 0.0
        records: tuple[Recorded, ...] = ()
        try:
            if task.recorded:
                records = task.recorded
                self._observe(task.agent, records)
            elif call.evaluate:
                proposals = program.propose(task.step, call.message, keys)
                records, seconds = self._evaluate(call, task, proposals)
                self._observe(task.agent, records)
            payload = None if call.then is None else program.reply(call.then, keys)
        except FedsimError:
            raise
        except Exception as error:
            raise UserCodeError(
                f"method {self._spec.method_name!r}: agent {task.agent} failed in round "
                f"{call.t}: {type(error).__name__}: {error}",
                traceback.format_exc(),
            ) from None
        return Answer(task.agent, records, payload, time.thread_time() - start, seconds)

    def _observe(self, agent: AgentId, records: Sequence[Recorded]) -> None:
        self._program(agent).observe(
            [
                Observation(r.step, r.index, np.array(r.u), self._sign * r.y, r.source)
                for r in records
            ]
        )

    def _evaluate(
        self, call: Call, task: Task, proposals: Sequence[Proposal]
    ) -> tuple[tuple[Recorded, ...], float]:
        objective = self._objective(task.agent)
        space = self._scenario.space
        keys = Keys(self._spec.seed, task.agent, task.step)
        records, start = [], time.thread_time()
        for index, proposal in enumerate(proposals):
            u = space.snap(proposal.u)
            point = space.to_point(u)
            where = f"agent {task.agent}, round {call.t}, point {point}"
            self.evaluating = Evaluating(task.agent, call.t, str(point), time.monotonic())
            try:
                value = objective(point, keys("objective", index))
            except Exception as error:
                raise ObjectiveError(
                    f"the objective raised {type(error).__name__} ({where}): {error}",
                    user_traceback(error),
                ) from None
            finally:
                self.evaluating = None
            y, noiseless = _checked(value, where)
            records.append(
                Recorded(
                    task.agent, task.step, index, tuple(u.tolist()), y, noiseless, proposal.source
                )
            )
        return tuple(records), time.thread_time() - start

    def _program(self, agent: AgentId) -> AgentProgram:
        if agent not in self._programs:
            self._programs[agent] = self._method.agent(agent)
        return self._programs[agent]

    def _objective(self, agent: AgentId) -> Objective:
        if agent not in self._objectives:
            try:
                self._objectives[agent] = self._scenario.objective(agent)
            except FedsimError:
                raise
            except Exception as error:
                raise UserCodeError(
                    f"scenario {self._spec.scenario_name!r}: the objective of agent {agent} "
                    f"cannot be built: {type(error).__name__}: {error}",
                    user_traceback(error),
                ) from None
        return self._objectives[agent]


def _checked(value: object, where: str) -> tuple[float, float | None]:
    """Return (y, noiseless) of what an objective returned.

    Raises:
        ObjectiveError: unless it is a finite number, or an Evaluation of finite numbers.
    """
    if isinstance(value, Evaluation):
        y, noiseless = value.y, value.noiseless
    else:
        y, noiseless = value, None  # type: ignore[assignment]
    for number in (y,) if noiseless is None else (y, noiseless):
        if isinstance(number, bool) or not isinstance(number, (int, float, np.number)):
            raise ObjectiveError(
                f"the objective returned {type(number).__name__} ({where}): expected a number "
                "or fedsim.protocol.Evaluation; return float(...)"
            )
        if not math.isfinite(number):
            raise ObjectiveError(
                f"the objective returned {number} ({where}): expected a finite number; return "
                "the worst value it can have where it fails"
            )
    return float(y), None if noiseless is None else float(noiseless)
