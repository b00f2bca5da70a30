"""The agents of one process: their programs, their objectives and how a call reaches them.

The serial backend has one group with all agents; on Ray every host has a group with its share.
Nothing here depends on how many agents share the group.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from fedsim.config.construct import build_method, build_scenario
from fedsim.config.spec import RunSpec
from fedsim.errors import Interrupted, ObjectiveError, RunError
from fedsim.imports import user_code
from fedsim.payloads import frozen
from fedsim.protocol import (
    AgentId,
    AgentProgram,
    Method,
    Objective,
    Observation,
    PreparingAgent,
    Proposal,
    Scenario,
)
from fedsim.record.evaluationlog import EvaluationLog
from fedsim.record.journal import Failed, Recorded
from fedsim.resources import Resources, declared_resources
from fedsim.rng import Keys
from fedsim.simulation.calls import (
    Answer,
    Call,
    Evaluated,
    Evaluating,
    Proposed,
    Task,
    completed,
    where,
    with_evaluations,
)
from fedsim.simulation.evaluation import evaluate


class AgentGroup:
    """Some of the agents of one run.

    Args:
        spec: the run.
        stopped: asked before each evaluation; True makes :meth:`handle` raise ``Interrupted``.
        built: the run's scenario and method, if they are there already.
        node: the machine, for errors; empty: not worth naming.
        log: keeps evaluations until the journal has them, or None.

    Attributes:
        busy: whose program is at work just now, or None; other threads may read it.
        evaluating: which objective runs just now, or None; likewise.
    """

    def __init__(
        self,
        spec: RunSpec,
        stopped: Callable[[], bool] = lambda: False,
        built: tuple[Scenario, Method] | None = None,
        node: str = "",
        log: EvaluationLog | None = None,
    ) -> None:
        self._spec = spec
        self._stopped = stopped
        self._node = node
        self._log = log
        self._scenario = built[0] if built else build_scenario(spec)
        self._method = built[1] if built else build_method(spec, self._scenario)
        self._sign = 1.0 if self._scenario.direction == "maximize" else -1.0
        self._programs: dict[AgentId, AgentProgram] = {}
        self._objectives: dict[AgentId, Objective] = {}
        self._next_steps: dict[AgentId, int] = {}
        self._ahead: dict[AgentId, tuple[float, BaseException | None]] = {}
        self.busy: AgentId | None = None
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

    def build(self, agent: AgentId) -> Resources | None:
        """Build one agent's program and objective now, so that a mistake shows early.

        Returns:
            What an evaluation needs, if it is to run as a task of its own.

        Raises:
            UserCodeError: with the user's traceback, if the scenario or method raises.
        """
        self._program(agent)
        return self._spec.resources or declared_resources(self._objective(agent))

    def propose(self, call: Call, tasks: Sequence[Task]) -> list[Proposed]:
        """Let agents choose points to evaluate, in the order given; errors as in :meth:`handle`."""
        return [self._propose(call, task) for task in tasks]

    def handle(self, call: Call, tasks: Sequence[Task]) -> list[Answer]:
        """Let agents do their part in a call.

        All of them propose, then all evaluate, then all observe and answer, always in the order
        given: methods find their own data in the processor's caches, and objectives theirs.

        Raises:
            ObjectiveError: if an objective raises or returns something that is not a finite
                number, and such failures stop the run; it names agent, round and point.
            UserCodeError: if a program raises.
            Interrupted: if ``stopped`` says so.
        """
        self._check_stopped(call)
        new = [task for task in tasks if call.evaluate and task.recorded is None]
        proposed = self.propose(call, new)
        evaluated = {p.agent: self._evaluate(call, p) for p in proposed}
        answers = [self._settle(call, task) for task in with_evaluations(tasks, evaluated)]
        if call.evaluate:
            self._next_steps = {task.agent: task.step + 1 for task in tasks}
        return completed(answers, proposed, evaluated)

    def prepare_next(self) -> None:
        """Let the agents that took the last step do in advance what they can of their next one.

        Nothing that they say depends on whether this is called. What fails is told when they
        propose.
        """
        for agent, step in self._next_steps.items():
            program, start, self.busy = self._program(agent), time.thread_time(), agent
            if isinstance(program, PreparingAgent):
                failure = None
                try:
                    program.prepare(step, Keys(self._spec.seed, agent, step))
                except (Exception, SystemExit) as error:
                    failure = error
                self._ahead[agent] = (time.thread_time() - start, failure)
        self._next_steps = {}

    def _propose(self, call: Call, task: Task) -> Proposed:
        start, doing, self.busy = time.thread_time(), self._doing(task, call), task.agent
        program = self._program(task.agent)
        seconds, failure = self._ahead.pop(task.agent, (0.0, None))
        with user_code(doing):
            if failure is not None:
                raise failure
            keys = Keys(self._spec.seed, task.agent, task.step)
            proposals = program.propose(task.step, call.message, keys)
        points = tuple(self._points(proposals, doing))
        return Proposed(task.agent, task.step, points, seconds + time.thread_time() - start)

    def _settle(self, call: Call, task: Task) -> Answer:
        """Let an agent observe the evaluations of its step, and answer."""
        start, doing, self.busy = time.thread_time(), self._doing(task, call), task.agent
        records, payload = task.recorded or (), None
        with user_code(doing):
            if records:
                self._observe(task.agent, records)
            if call.then is not None:
                keys = Keys(self._spec.seed, task.agent, task.step)
                reply = self._program(task.agent).reply(call.then, keys)
                payload = frozen(reply, f"{doing}: its reply")
        return Answer(task.agent, records, payload, time.thread_time() - start, 0.0)

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

    def _evaluate(self, call: Call, proposed: Proposed) -> Evaluated:
        agent, start = proposed.agent, time.thread_time()
        self.busy = agent
        objective = self._objective(agent)  # building it counts as its own time: it loads data
        seconds = time.thread_time() - start
        records, failed = list[Recorded](), list[Failed]()
        if self._log is not None:  # not in a replayed call: the log is of the one that follows
            self._log.begin(call.settled)
        for index, proposal in enumerate(proposed.proposals):
            self._check_stopped(call)
            kept = self._log and self._log.find(agent, proposed.step, index, proposal)
            if isinstance(kept, Recorded):
                records.append(kept)
                continue
            start = time.thread_time()
            try:
                records.append(self._evaluate_one(call, proposed, index, objective))
            except ObjectiveError as error:
                if not self._spec.skip_failures:
                    raise
                failed.append(Failed.made(agent, proposed.step, index, proposal, error))
            seconds += time.thread_time() - start
        return Evaluated(tuple(records), tuple(failed), seconds)

    def _evaluate_one(
        self, call: Call, proposed: Proposed, index: int, objective: Objective
    ) -> Recorded:
        agent, proposal = proposed.agent, proposed.proposals[index]
        point = self._scenario.space.to_point(proposal.u)
        place = where(agent, call.t, point, self._node)
        key = Keys(self._spec.seed, agent, proposed.step)

        @contextmanager
        def watched() -> Iterator[None]:
            self.evaluating = Evaluating(agent, call.t, str(point), time.monotonic())
            try:
                yield
            finally:
                self.evaluating = None

        value = evaluate(objective, point, key, index, place, self._spec.retries, watched)
        record = Recorded.made(agent, proposed.step, index, proposal, value)
        if self._log is not None:
            self._log.add(record)
        return record

    def _check_stopped(self, call: Call) -> None:
        if self._stopped():
            raise Interrupted(f"stopped in round {call.t}")

    def _doing(self, task: Task, call: Call) -> str:
        return f"{self._method_words}: agent {task.agent} failed in round {call.t}"

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
            if self._node and declared_resources(self._objectives[agent]) is not None:
                raise RunError(
                    f"{words}: the objective of agent {agent} declares resources, agent 0's does "
                    "not: a run's evaluations are either all tasks or none is"
                )
        return self._objectives[agent]
