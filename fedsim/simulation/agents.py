"""The agents of one process: their programs, their objectives and how calls reach them.

The serial backend has one group with all agents; on Ray every host has a group with its share.
Nothing here depends on how many agents share the group.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from fedsim.config.spec import RunSpec
from fedsim.errors import Interrupted, LostKeysError, RunError
from fedsim.payloads import frozen
from fedsim.protocol import AgentId, AgentProgram, Method, Observation, PreparingAgent, Proposal
from fedsim.record.entries import Recorded
from fedsim.rng import Keys
from fedsim.simulation.calls import (
    Activity,
    Answer,
    Call,
    Evaluator,
    Proposed,
    Task,
    completed,
    with_evaluations,
)
from fedsim.usercode.calling import expect, offers, user_code
from fedsim.workload import Scenario

ROUNDING = 1e-9
"""How far a proposal's coordinates may be outside [0, 1]; it is moved inside."""


class AgentGroup:
    """Some of the agents of one run; in one process, also the fleet's transport to all of them.

    Args:
        spec: the run.
        scenario: makes the objectives.
        method: makes the agents' programs.
        evaluator: evaluates the agents' proposals.
        activity: set to the agent that is working.
        stopped: checked before each call; True makes :meth:`handle` raise ``Interrupted``.
    """

    def __init__(
        self,
        spec: RunSpec,
        scenario: Scenario,
        method: Method,
        evaluator: Evaluator,
        activity: Activity,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._spec = spec
        self._method = method
        self._evaluator = evaluator
        self._activity = activity
        self._stopped = stopped
        self._space = scenario.space  # read once: a scenario may build it anew on each access
        self._sign = 1.0 if scenario.direction == "maximize" else -1.0
        self._programs: dict[AgentId, AgentProgram] = {}
        self._next_steps: dict[AgentId, int] = {}
        self._round = 0
        # What preparing the next step took, in CPU seconds, and how it failed.
        self._ahead: dict[AgentId, tuple[float, BaseException | None]] = {}

    def rebuild(self, agents: Iterable[AgentId], history: Iterable[Recorded]) -> None:
        """Rebuild agents from their recorded evaluations, given in journal order."""
        steps: dict[AgentId, list[list[Recorded]]] = {agent: [] for agent in agents}
        for record in history:
            groups = steps[record.agent]
            if not groups or groups[-1][0].step != record.step:
                groups.append([])
            groups[-1].append(record)
        for agent, groups in steps.items():
            self._programs.pop(agent, None)
            self._ahead.pop(agent, None)
            with user_code(f"{self._method_words}: agent {agent} cannot be rebuilt"):
                for group in groups:
                    self._observe(agent, group)

    def program(self, agent: AgentId) -> AgentProgram:
        """Return an agent's program; built on first use.

        Raises:
            UserCodeError: with the user's traceback, if the method raises.
        """
        if agent not in self._programs:
            words = f"{self._method_words}: agent {agent} cannot be built"
            with user_code(words):
                program = self._method.agent(agent)
                members = "an object with propose, observe and reply"
                expect(offers(program, AgentProgram), f"{words}: agent()", members, program)
                self._programs[agent] = program
        return self._programs[agent]

    def propose(self, call: Call, tasks: Sequence[Task]) -> list[Proposed]:
        """Let agents choose points to evaluate, in the order given; errors as in :meth:`handle`."""
        return [self._propose(call, task) for task in tasks]

    def handle(self, call: Call, tasks: Sequence[Task]) -> list[Answer]:
        """Let agents do their part in a call.

        First all agents propose, then all evaluate, then all observe and answer, always in the
        order given. So methods and objectives each find their data in the processor's caches.

        Raises:
            ObjectiveError: if an objective raises or returns something that is not a finite
                number, and such failures stop the run; it names agent, round and point.
            UserCodeError: if a program raises.
            Interrupted: if ``stopped`` returns True.
        """
        if self._stopped():
            raise Interrupted(f"stopped in round {call.t}")
        new = [task for task in tasks if call.evaluate and task.recorded is None]
        proposed = self.propose(call, new)
        evaluated = self._evaluator.evaluate(call, proposed) if proposed else {}
        answers = [self._settle(call, task) for task in with_evaluations(tasks, evaluated)]
        self._activity.rest()
        if call.evaluate:
            self._next_steps = {task.agent: task.step + 1 for task in tasks}
            self._round = call.t
        return completed(answers, proposed, evaluated)

    def prepare_next(self) -> None:
        """Let the agents that took the last step prepare their next one.

        Their proposals and replies do not depend on whether this is called. Errors are raised when
        they propose.
        """
        for agent, step in self._next_steps.items():
            program, start = self.program(agent), time.thread_time()
            if offers(program, PreparingAgent):
                failure = None
                with self._activity.turn(agent, self._round):
                    try:
                        program.prepare(step, Keys(self._spec.seed, agent, step))
                    except (Exception, SystemExit) as error:
                        failure = error
                self._ahead[agent] = (time.thread_time() - start, failure)
        self._next_steps = {}
        self._activity.rest()

    def _propose(self, call: Call, task: Task) -> Proposed:
        start, doing = time.thread_time(), self._doing(task, call)
        with self._activity.turn(task.agent, call.t), user_code(doing):
            program = self.program(task.agent)
            seconds, failure = self._ahead.pop(task.agent, (0.0, None))
            if failure is not None:
                raise failure
            keys = Keys(self._spec.seed, task.agent, task.step)
            proposals = program.propose(task.step, call.message, keys)
            points = self._points(task.step, proposals, doing)
        return Proposed(task.agent, task.step, points, seconds + time.thread_time() - start)

    def _settle(self, call: Call, task: Task) -> Answer:
        """Let an agent observe the evaluations of its step, and answer."""
        start, doing = time.thread_time(), self._doing(task, call)
        records, payload, lost_keys = task.recorded or (), None, False
        with self._activity.turn(task.agent, call.t), user_code(doing):
            if records:
                self._observe(task.agent, records)
            if call.then is not None:
                keys = Keys(self._spec.seed, task.agent, task.step, task.call, task.scope)
                try:
                    reply = self.program(task.agent).reply(call.then, keys)
                    payload = frozen(reply, f"{doing}: its reply")
                except LostKeysError:
                    lost_keys = True
        seconds = time.thread_time() - start
        return Answer(task.agent, records, payload, seconds, lost_keys=lost_keys)

    def _observe(self, agent: AgentId, records: Sequence[Recorded]) -> None:
        self.program(agent).observe(
            [
                Observation(r.step, r.index, np.array(r.u), self._sign * r.y, r.source)
                for r in records
            ]
        )

    def _points(self, step: int, proposals: Iterable[Proposal], doing: str) -> tuple[Proposal, ...]:
        """Return checked proposals, moved to the space's grid levels and whole numbers.

        Raises:
            RunError: if there are none, or several after step 0, or one is not a point of the cube.
        """
        space, what = self._space, f"{doing}: propose()"
        expect(isinstance(proposals, Iterable), what, "a list of Proposal", proposals)
        checked = []
        for proposal in proposals:
            expect(isinstance(proposal, Proposal), what, "a list of Proposal", proposal)
            expect(isinstance(proposal.source, str), what, "a text as source", proposal.source)
            u = np.asarray(proposal.u)
            if (
                u.shape != (space.dimension,)
                or u.dtype.kind not in "fiu"
                or not np.isfinite(u).all()
            ):
                raise RunError(
                    f"{doing}: expected proposals of {space.dimension} finite unit coordinates, "
                    f"got {u}"
                )
            if (u < -ROUNDING).any() or (u > 1 + ROUNDING).any():
                raise RunError(
                    f"{what}: expected coordinates from 0 to 1, got {u}; a proposal is a point of "
                    "the unit cube: clip it, or map values in the user's units with space.to_unit"
                )
            checked.append(Proposal(space.snap(u), proposal.source))
        if not checked or (len(checked) > 1 and step > 0):
            expected = "one proposal after the initial design" if step else "at least one proposal"
            raise RunError(
                f"{what}: expected {expected}, got {len(checked) or 'none'}; a round has one query "
                "per agent, and the server says who takes part (fleet.step(..., to=...))"
            )
        return tuple(checked)

    def _doing(self, task: Task, call: Call) -> str:
        return f"{self._method_words}: agent {task.agent} failed in round {call.t}"

    @property
    def _method_words(self) -> str:
        return f"method {self._spec.method_name!r}"
