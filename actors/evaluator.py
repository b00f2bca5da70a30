"""The server's side of evaluations as Ray tasks: sends, repairs and collects them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import (
    NodeDiedError,
    OutOfMemoryError,
    RayError,
    RayTaskError,
    WorkerCrashedError,
)

from fedsim.actors.evaluations import GRACE_SECONDS, Result, Work, evaluate_point
from fedsim.actors.nodes import free_words, reason, unforeseen
from fedsim.actors.objectives import Objectives, objectives_of
from fedsim.config.model import DeadlinesConfig
from fedsim.config.spec import RunSpec
from fedsim.errors import Interrupted, ObjectiveError, ResourceError, RunError
from fedsim.protocol import AgentId, Proposal
from fedsim.record.entries import Failed, Recorded
from fedsim.record.evaluationlog import EvaluationLog
from fedsim.record.logfolder import LogFolder
from fedsim.simulation.calls import Call, Evaluated, Proposed, where
from fedsim.space import Space

ATTEMPTS = 3
"""How often an evaluation may lose its process before that counts as its own failure."""

POLL_SECONDS = 0.5
"""How often a wait for results checks for stops and silence. Results do not wait for it."""

IN_FLIGHT_PER_CPU = 4
"""How many tasks per CPU of the cluster are submitted to Ray at a time."""

LEAST_CPUS = 4
"""Number of CPUs to submit tasks for at least: some tasks need no CPU."""


@dataclass
class _Evaluation:
    """One running evaluation.

    Attributes:
        work: what to evaluate.
        proposal: what was proposed.
        attempts: how often it was sent.
    """

    work: Work
    proposal: Proposal
    attempts: int = 0

    @property
    def place(self) -> str:
        """Agent, round and point, for errors."""
        return where(self.work.agent, self.work.t, self.work.point)


class TaskEvaluator:
    """Evaluates agents' proposals as Ray tasks, for one run.

    Args:
        spec: the run.
        space: its search space.
        agents: all agents.
        deadlines: how long to wait.
        log: keeps evaluations until the journal has them.
        logs: where tasks keep what they print.
        stopped: checked while waiting; True makes :meth:`evaluate` raise ``Interrupted``.
    """

    def __init__(
        self,
        spec: RunSpec,
        space: Space,
        agents: Sequence[AgentId],
        deadlines: DeadlinesConfig,
        log: EvaluationLog,
        logs: LogFolder,
        stopped: Callable[[], bool],
    ) -> None:
        self._spec = spec
        self._space = space
        self._agents = tuple(agents)
        self._deadlines = deadlines
        self._log = log
        self._logs = logs
        self._stopped = stopped
        self._objectives: Objectives | None = None
        self._pending: dict[Any, _Evaluation] = {}

    def evaluate(self, call: Call, proposed: Sequence[Proposed]) -> dict[AgentId, Evaluated]:
        """Return the outcome of each agent's proposals.

        Raises:
            ObjectiveError: if an evaluation failed on every try, and such failures stop the run.
            ResourceError: if there are not enough resources for the tasks.
            Interrupted: if ``stopped`` returns True.
        """
        if self._objectives is None:
            self._objectives = objectives_of(self._spec, self._agents, self._deadlines, self._logs)
        self._log.begin(call.settled)
        outcomes: dict[tuple[AgentId, int], Recorded | Failed] = {}
        seconds = dict.fromkeys((p.agent for p in proposed), 0.0)
        waiting = deque[_Evaluation]()
        for p in proposed:
            for index, proposal in enumerate(p.proposals):
                kept = self._log.find(p.agent, p.step, index, proposal)
                if kept is None:
                    waiting.append(self._evaluation(call.t, p, index))
                else:
                    outcomes[p.agent, index] = kept
        for one, result in self._results(call.t, waiting):
            seconds[one.work.agent] += result.cpu_seconds
            outcomes[one.work.agent, one.work.index] = self._outcome(one, result)
        return {
            p.agent: _evaluated(
                [outcomes[p.agent, index] for index in range(len(p.proposals))], seconds[p.agent]
            )
            for p in proposed
        }

    def _evaluation(self, t: int, proposed: Proposed, index: int) -> _Evaluation:
        proposal = proposed.proposals[index]
        work = Work(
            seed=self._spec.seed,
            retries=self._spec.retries,
            agent=proposed.agent,
            t=t,
            step=proposed.step,
            index=index,
            point=self._space.to_point(proposal.u),
            deadline=self._deadlines.evaluation,
            patience=self._deadlines.start,
            logs=self._logs,
        )
        return _Evaluation(work, proposal)

    def _results(self, t: int, waiting: deque[_Evaluation]) -> Iterator[tuple[_Evaluation, Result]]:
        """Yield results as they arrive; lost evaluations are sent again."""
        limit = IN_FLIGHT_PER_CPU * max(LEAST_CPUS, int(ray.cluster_resources().get("CPU", 0)))
        self._pending = {}
        heard = time.monotonic()
        while waiting or self._pending:
            if self._stopped():
                raise Interrupted(f"stopped in round {t}")
            while waiting and len(self._pending) < limit:
                one = waiting.popleft()
                self._pending[self._send(one)] = one
            ready, _ = ray.wait(list(self._pending), timeout=POLL_SECONDS)
            for ref in ready:
                heard = time.monotonic()
                one = self._pending.pop(ref)
                try:
                    yield one, self._received(ref)
                except RayError as error:
                    lines = self._logs.recover(one.work.name, one.work.whose, "tasks")
                    failure = _lost(one, error)
                    if failure is None:
                        waiting.append(one)
                    else:
                        failure.add_output(lines)
                        yield one, Result(None, failure, 0.0)
            self._check_silence(heard)

    def _send(self, one: _Evaluation) -> Any:
        assert self._objectives is not None
        one.attempts += 1
        needs = self._objectives.needs[one.work.agent]
        return evaluate_point.options(
            num_cpus=needs.cpus,
            num_gpus=needs.gpus,
            memory=int(needs.memory_megabytes * 1e6) or None,
            scheduling_strategy="SPREAD",
        ).remote(one.work, self._objectives.parts(one.work.agent))

    def _received(self, ref: Any) -> Result:
        """Return a task's result.

        Raises:
            RayError: if the system killed it.
            RunError: if it failed outside the objective.
        """
        try:
            result: Result = ray.get(ref, timeout=self._deadlines.answer)
        except RayTaskError as error:
            if isinstance(error.cause, RayError):  # the task could not get its objective
                raise error.cause from None
            raise unforeseen("an evaluation's task", error) from None
        self._logs.keep("tasks", result.printed)
        return result

    def _outcome(self, one: _Evaluation, result: Result) -> Recorded | Failed:
        """Return the record for the journal; errors as in :meth:`evaluate`."""
        work, error = one.work, result.error
        if error is None:
            return self._kept(one, result)
        if not self._spec.skip_failures:
            self._keep_finished()
            raise error
        return Failed.made(work.agent, work.step, work.index, one.proposal, error)

    def _kept(self, one: _Evaluation, result: Result) -> Recorded:
        assert result.value is not None
        work = one.work
        record = Recorded.made(work.agent, work.step, work.index, one.proposal, result.value)
        self._log.add(record)
        return record

    def _keep_finished(self) -> None:
        """Keep the results that have arrived, before the run stops."""
        if not self._pending:
            return
        pending = list(self._pending)
        for ref in ray.wait(pending, num_returns=len(pending), timeout=0)[0]:
            with suppress(RayError, RunError):
                result = self._received(ref)
                if result.error is None:
                    self._kept(self._pending[ref], result)

    def _check_silence(self, heard: float) -> None:
        """Refuse to wait for tasks that cannot be running.

        Raises:
            ResourceError: if nothing arrived for longer than a task may take to start and finish.
        """
        tries = self._spec.retries + 1
        longest = (self._deadlines.evaluation + GRACE_SECONDS) * tries + self._deadlines.start
        if self._pending and time.monotonic() - heard > longest:
            assert self._objectives is not None
            needs = self._objectives.needs[next(iter(self._pending.values())).work.agent]
            raise ResourceError(
                f"none of {len(self._pending)} evaluation tasks ended within {longest:g} s, "
                f"perhaps for lack of room: one needs {needs.describe()}, available: "
                f"{free_words(needs)}; deadlines.evaluation and deadlines.start set the limit"
            )


def _evaluated(outcomes: Sequence[Recorded | Failed], cpu_seconds: float) -> Evaluated:
    return Evaluated(
        tuple(one for one in outcomes if isinstance(one, Recorded)),
        tuple(one for one in outcomes if isinstance(one, Failed)),
        cpu_seconds,
    )


def _lost(one: _Evaluation, error: RayError) -> ObjectiveError | None:
    """Return the error of a task that Ray lost, or None to send it again.

    A dead node is not the objective's fault. A dead process may be; if it dies repeatedly, it is.

    Raises:
        RunError: if Ray repeatedly lost the task for another reason.
    """
    if isinstance(error, NodeDiedError) or one.attempts < ATTEMPTS:
        return None
    if not isinstance(error, (WorkerCrashedError, OutOfMemoryError)):
        raise RunError(f"Ray lost an evaluation {ATTEMPTS} times ({one.place}): {reason(error)}")
    return ObjectiveError(
        f"the process of an evaluation ended {ATTEMPTS} times ({one.place}): {reason(error)}; an "
        "objective that crashes, fills the memory or cannot be interrupted at its deadline does "
        "this",
        reason="ended its process",
    )
