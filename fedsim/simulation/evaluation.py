"""Evaluations: a checked call of an agent's black box, and the evaluator of one process."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np

from fedsim.config.spec import RunSpec
from fedsim.errors import Interrupted, ObjectiveError, RunError
from fedsim.protocol import AgentId
from fedsim.record.entries import Failed, Recorded
from fedsim.record.evaluationlog import EvaluationLog
from fedsim.resources import Resources, declared_resources
from fedsim.rng import Keys
from fedsim.simulation.calls import Activity, Call, Evaluated, Evaluating, Proposed, where
from fedsim.space import Value
from fedsim.usercode.calling import class_of, message_of, user_code, user_traceback
from fedsim.workload import Evaluation, Objective, Scenario


class LocalEvaluator:
    """Evaluates in this process, one point after another.

    Args:
        spec: the run.
        scenario: makes the objectives.
        activity: set to what is being evaluated.
        stopped: checked before each evaluation; True makes :meth:`evaluate` raise ``Interrupted``.
        node: the name of a Ray host's machine, for errors; empty in one process. Only a host
            refuses objectives that declare resources: there they run as tasks.
        log: keeps evaluations until the journal has them, or None.
    """

    def __init__(
        self,
        spec: RunSpec,
        scenario: Scenario,
        activity: Activity,
        stopped: Callable[[], bool] = lambda: False,
        node: str = "",
        log: EvaluationLog | None = None,
    ) -> None:
        self._spec = spec
        self._scenario = scenario
        self._space = scenario.space  # read once: a scenario may build it anew on each access
        self._activity = activity
        self._stopped = stopped
        self._node = node
        self._log = log
        self._objectives: dict[AgentId, Objective] = {}

    def needs(self, agent: AgentId) -> Resources | None:
        """Build an agent's objective and return the resources that it needs as a separate task.

        Returns:
            None if it runs in its agent's process.

        Raises:
            UserCodeError: with the user's traceback, if the scenario raises.
        """
        return self._spec.resources or declared_resources(self._objective(agent))

    def evaluate(self, call: Call, proposed: Sequence[Proposed]) -> dict[AgentId, Evaluated]:
        """See :meth:`fedsim.simulation.calls.Evaluator.evaluate`."""
        return {one.agent: self._evaluate(call, one) for one in proposed}

    def _evaluate(self, call: Call, proposed: Proposed) -> Evaluated:
        agent, start = proposed.agent, time.thread_time()
        with self._activity.turn(agent, call.t):
            objective = self._objective(agent)  # building it loads data: counted as its time
        seconds = time.thread_time() - start
        records, failed = list[Recorded](), list[Failed]()
        if self._log is not None:  # not in a replayed call: the log belongs to the next one
            self._log.begin(call.settled)
        for index, proposal in enumerate(proposed.proposals):
            if self._stopped():
                raise Interrupted(f"stopped in round {call.t}")
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
        point = self._space.to_point(proposal.u)
        place = where(agent, call.t, point, self._node)
        key = Keys(self._spec.seed, agent, proposed.step)

        @contextmanager
        def watched() -> Iterator[None]:
            self._activity.evaluating = Evaluating(agent, call.t, str(point), time.monotonic())
            try:
                yield
            finally:
                self._activity.evaluating = None

        with self._activity.turn(agent, call.t):
            retries = self._spec.retries
            value = call_with_retries(objective, point, key, index, place, retries, watched)
        record = Recorded.made(agent, proposed.step, index, proposal, value)
        if self._log is not None:
            self._log.add(record)
        return record

    def _objective(self, agent: AgentId) -> Objective:
        if agent not in self._objectives:
            objective = build_objective(self._spec, self._scenario, agent)
            if self._node and declared_resources(objective) is not None:
                raise RunError(
                    f"scenario {self._spec.scenario_name!r}: the objective of agent {agent} "
                    "declares resources, agent 0's does not; either all objectives of a run must "
                    "declare resources, or none"
                )
            self._objectives[agent] = objective
        return self._objectives[agent]


def build_objective(spec: RunSpec, scenario: Scenario, agent: AgentId) -> Objective:
    """Return an agent's black box.

    Raises:
        UserCodeError: with the user's traceback, if the scenario raises.
    """
    words = f"scenario {spec.scenario_name!r}: the objective of agent {agent} cannot be built"
    with user_code(words):
        return scenario.objective(agent)


def call_with_retries(
    objective: Objective,
    point: Mapping[str, Value],
    key: Keys,
    index: int,
    where: str,
    retries: int = 0,
    watched: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Evaluation:
    """Call an objective until it succeeds.

    Args:
        objective: the black box.
        point: values by name, in the user's units.
        key: the agent's and step's key; every try has the same randomness.
        index: position among the step's proposals.
        where: agent, round and point, for errors.
        retries: how often to call it again after a failure.
        watched: makes the context in which each try runs; it may end the try at its deadline.

    Raises:
        ObjectiveError: if its last try raises, or returns anything but a finite number or an
            ``Evaluation`` of finite numbers.
    """
    for left in reversed(range(retries + 1)):
        try:
            with watched():
                return call_once(objective, point, key("objective", index), where)
        except ObjectiveError as error:
            if left:
                continue
            if not retries:
                raise
            summary = f"{error.summary} (tried {retries + 1} times)"
            raise ObjectiveError(summary, error.user_traceback, error.reason) from None
    raise AssertionError("the last try returns or raises")


def call_once(
    objective: Objective, point: Mapping[str, Value], rng: np.random.Generator, where: str
) -> Evaluation:
    """Call an objective once; errors as in :func:`call_with_retries`."""
    try:
        value = objective(point, rng)
    except Exception as error:
        words, hint = message_of(error), ""
        if "main thread" in words:  # signal handlers, as in time limits, and some libraries
            hint = "; objectives run in another thread, unless as Ray tasks (resources: {cpus: 1})"
        told = f": {words}" if words else ""
        raise ObjectiveError(
            f"the objective raised {class_of(error)} ({where}){told}{hint}",
            user_traceback(error),
            f"raised {class_of(error)}",
        ) from None
    except (SystemExit, GeneratorExit) as error:
        raise no_number(error, where) from None
    except KeyboardInterrupt as error:
        if threading.current_thread() is threading.main_thread():
            raise  # perhaps Ctrl-C
        raise no_number(error, where) from None
    found = value if isinstance(value, Evaluation) else Evaluation(value)
    noiseless = None if found.noiseless is None else _finite(found.noiseless, where)
    return Evaluation(_finite(found.y, where), noiseless)


def no_number(error: BaseException, where: str) -> ObjectiveError:
    """Return the error of an objective that raised what ends a program."""
    return ObjectiveError(
        f"the objective raised {class_of(error)} ({where}); it must return a number",
        user_traceback(error),
        f"raised {class_of(error)}",
    )


def _finite(number: object, where: str) -> float:
    if isinstance(number, (bool, np.bool_)) or not isinstance(number, (int, float, np.number)):
        raise ObjectiveError(
            f"the objective returned {class_of(number)} ({where}): expected a number "
            "or fedsim.workload.Evaluation; return float(...)",
            reason=f"returned {class_of(number)}",
        )
    if isinstance(number, int) and abs(number) > sys.float_info.max:
        number = math.inf
    if isinstance(number, np.complexfloating) or not math.isfinite(number):
        raise ObjectiveError(
            f"the objective returned {number} ({where}): expected a finite number; return "
            "the worst possible value if an evaluation fails, or set on_error: skip",
            reason=f"returned {number}",
        )
    return float(number)
