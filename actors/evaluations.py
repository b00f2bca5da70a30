"""Evaluations as Ray tasks: for objectives that declare what they need.

An agent's objective is built once, on the driver's node, where the data are, and sent to the tasks
by object reference. A task calls it, with the evaluation's deadline, on any node with free
resources. A task that the system killed is sent again with the same key, so its result is the same.
"""

from __future__ import annotations

import faulthandler
import os
import platform
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from types import FrameType
from typing import Any

import ray
from threadpoolctl import threadpool_limits

from fedsim.errors import ObjectiveError
from fedsim.protocol import AgentId
from fedsim.record.capture import captured
from fedsim.record.logfolder import LogFolder
from fedsim.record.logs import running, turn_of
from fedsim.rng import Keys
from fedsim.simulation.calls import hung, where
from fedsim.simulation.evaluation import call_with_retries, no_number
from fedsim.space import Value
from fedsim.usercode.calling import user_stack
from fedsim.usercode.importing import activate
from fedsim.workload import Evaluation

MOST_PRINTED = 100_000
"""How much of what one evaluation prints is kept, in bytes."""

GRACE_SECONDS = 10.0
"""How long an evaluation that cannot be interrupted may run past its deadline."""


@dataclass(frozen=True)
class Work:
    """One evaluation, as a task gets it.

    Attributes:
        seed: the run's seed.
        retries: how often a failed evaluation is tried again.
        agent: the objective's agent.
        t: the round.
        step: the agent's own count of steps.
        index: position among the step's proposals.
        point: the point, in the user's units.
        deadline: seconds that one try may take.
        patience: seconds to wait for the objective and its code to arrive.
        logs: where it keeps what it prints.
    """

    seed: int
    retries: int
    agent: AgentId
    t: int
    step: int
    index: int
    point: Mapping[str, Value]
    deadline: float
    patience: float
    logs: LogFolder

    @property
    def whose(self) -> str:
        """Whose output it prints."""
        return turn_of(self.agent, self.t)

    @property
    def name(self) -> str:
        """The name of its log while it is running."""
        return running(self.agent, self.step, self.index)


@dataclass(frozen=True)
class Result:
    """A task's result.

    Attributes:
        value: the evaluation, or None if it failed.
        error: why it failed, or None.
        cpu_seconds: CPU time of all tries.
        printed: what the server has to keep.
    """

    value: Evaluation | None
    error: ObjectiveError | None
    cpu_seconds: float
    printed: bytes = b""


class _Overdue(BaseException):
    """Interrupts an objective at its deadline; not caught by ``except Exception``.

    Args:
        stack: the objective's stack.
    """

    def __init__(self, stack: str) -> None:
        super().__init__(stack)
        self.stack = stack


@ray.remote(max_retries=0)
def evaluate_point(work: Work, parts: list[Any]) -> Result:
    """Call an objective at one point.

    Args:
        work: the evaluation.
        parts: references to the user's code and to the objective; in a list, so that the objective
            is read once its modules can be imported.
    """
    with captured(work.logs.open(work.name, MOST_PRINTED)) as log:
        log.turn(work.whose)
        result = _evaluate(work, *parts)
        if result.error is not None:
            result.error.add_output(log.last_lines())
        log.turn("")
        return replace(result, printed=log.drain())


def _evaluate(work: Work, code: Any, objective: Any) -> Result:
    activate(ray.get(code, timeout=work.patience))
    black_box = ray.get(objective, timeout=work.patience)
    _one_thread()
    place = where(work.agent, work.t, work.point, platform.node())
    key, retries = Keys(work.seed, work.agent, work.step), work.retries
    watched = partial(_deadline, work.deadline, place)
    value, error, start = None, None, time.process_time()
    try:
        value = call_with_retries(black_box, work.point, key, work.index, place, retries, watched)
    except ObjectiveError as failure:
        error = failure
    return Result(value, error, time.process_time() - start)


def _one_thread() -> None:
    """Limit numerical libraries to one thread, including those that are loaded later."""
    for name in ("OMP", "OPENBLAS", "MKL"):
        os.environ[f"{name}_NUM_THREADS"] = "1"
    threadpool_limits(limits=1)


@contextmanager
def _deadline(seconds: float, place: str) -> Iterator[None]:
    """Interrupt the block at its deadline, and end the process if that does not help.

    Raises:
        ObjectiveError: with the block's stack at the deadline.
    """

    def overdue(number: int, frame: FrameType | None) -> None:
        raise _Overdue("" if frame is None else f"It hung here:\n{user_stack(frame)}")

    before = signal.signal(signal.SIGALRM, overdue)
    faulthandler.dump_traceback_later(seconds + GRACE_SECONDS, exit=True)
    try:
        # Repeatedly, in case the objective swallows the first.
        signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
        yield
        signal.setitimer(signal.ITIMER_REAL, 0)
    except _Overdue as error:
        raise hung(place, seconds, error.stack) from None
    except KeyboardInterrupt as error:  # the objective's: Ctrl-C does not reach this process
        raise no_number(error, place) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)
