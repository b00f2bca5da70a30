"""Measures what one evaluation of a run takes, before the run starts."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from dataclasses import dataclass, replace

from threadpoolctl import threadpool_limits

from fedsim.config.spec import RunSpec
from fedsim.errors import FedsimError
from fedsim.record.capture import standard_kept
from fedsim.record.entries import Recorded
from fedsim.record.evaluationlog import EvaluationLog
from fedsim.running.jobs import Job, Listener
from fedsim.simulation.agents import AgentGroup
from fedsim.simulation.calls import Activity, Call, Evaluator, Proposed, Task, hung, where

LONG_SECONDS = 1.0
"""A first evaluation shorter than this is measured again: it may have loaded libraries or data."""


TELL_SECONDS = 5.0
"""How long it may take without a word to the user."""


@dataclass(frozen=True)
class FirstEvaluation:
    """The first evaluation of a run: agent 0's, of its initial design.

    Attributes:
        spec: the run.
        record: the evaluation.
        seconds: what it took, wall time.
        design: how many points the initial design has.
    """

    spec: RunSpec
    record: Recorded
    seconds: float
    design: int


class _Measurement(threading.Thread):
    """Measures in a thread of its own, so that an objective that hangs is noticed."""

    def __init__(self, spec: RunSpec, group: AgentGroup, evaluator: Evaluator) -> None:
        super().__init__(daemon=True, name="fedsim-measuring")
        self._spec = spec
        self._group = group
        self._evaluator = evaluator
        self.done = threading.Event()
        self.found: FirstEvaluation | None = None
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            with threadpool_limits(limits=1), standard_kept():
                self.found = self._measure()
        except FedsimError:
            pass  # the run meets the same error, and reports and records it
        except BaseException as error:
            self.failure = error
        finally:
            self.done.set()

    def _measure(self) -> FirstEvaluation | None:
        call = Call(0, 0, evaluate=True, message=None, then=None)
        (proposed,) = self._group.propose(call, [Task(0, 0)])
        first = replace(proposed, proposals=proposed.proposals[:1])
        seconds, record = self._timed(call, first)
        if record is not None and seconds < LONG_SECONDS:
            seconds = min(seconds, self._timed(call, first)[0])
        if record is None:
            return None
        return FirstEvaluation(self._spec, record, seconds, len(proposed.proposals))

    def _timed(self, call: Call, proposed: Proposed) -> tuple[float, Recorded | None]:
        start = time.perf_counter()
        evaluated = self._evaluator.evaluate(call, [proposed])[proposed.agent]
        seconds = time.perf_counter() - start
        return seconds, next(iter(evaluated.observations), None)


def measure(
    spec: RunSpec,
    group: AgentGroup,
    evaluator: Evaluator,
    activity: Activity,
    deadline: float,
    listener: Listener,
) -> FirstEvaluation | None:
    """Return the first evaluation of a run, or None if it fails.

    Args:
        spec: the run.
        group: its agents; agent 0 proposes as at the start of the run.
        evaluator: evaluates in this process.
        activity: the evaluator's.
        deadline: seconds that one evaluation may take.
        listener: told if it takes long.

    Raises:
        ObjectiveError: if it misses the deadline.
    """
    worker = _Measurement(spec, group, evaluator)
    worker.start()
    start, told = time.monotonic(), False
    while not worker.done.wait(0.05):
        now, evaluating = time.monotonic(), activity.evaluating
        if evaluating and now - evaluating.since > deadline:
            raise hung(where(evaluating.agent, evaluating.t, evaluating.point), deadline)
        if not told and now - start > TELL_SECONDS:
            told = True
            listener.measuring()
    if worker.failure is not None:
        raise worker.failure
    return worker.found


def keep(first: FirstEvaluation, job: Job) -> None:
    """Keep an evaluation for the job that it belongs to, so that it is not made again.

    Raises:
        RunFolderError: if it cannot be written.
    """
    folder = job.folder
    started = folder.journal.exists() or folder.evaluations.exists()
    if first.spec == job.simulation.spec and not started:
        with closing(EvaluationLog(folder.evaluations, job.simulation.run)) as log:
            log.begin(0)
            log.add(first.record)
