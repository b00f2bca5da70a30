"""Data exchanged by fleet and agents: calls, tasks, proposals, evaluations, answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from fedsim.errors import ObjectiveError, UserCodeError
from fedsim.protocol import AgentId, Broadcast, Payload, Proposal, Request
from fedsim.record.entries import Failed, Recorded
from fedsim.record.logs import Log


@dataclass(frozen=True, slots=True)
class Call:
    """One fleet call, the same for all agents.

    Attributes:
        t: the round.
        settled: number of journal entries before the call: the history that agents must have.
        evaluate: whether the agents take a step, or only answer.
        message: the server's broadcast.
        then: the request to answer, or None.
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
        agent: the agent.
        step: the agent's own count: of this step, or of its last one when it only answers.
        call: which request in this step it answers; part of the key of its randomness.
        scope: the aggregator's request, for the same key; empty for the server program's.
        recorded: this step's observations if they exist, used instead of proposing and
            evaluating; None if not.
    """

    agent: AgentId
    step: int
    call: int = 0
    scope: str = ""
    recorded: tuple[Recorded, ...] | None = None


@dataclass(frozen=True)
class Proposed:
    """What one agent wants evaluated.

    Attributes:
        agent: the agent.
        step: the agent's own count of steps.
        proposals: checked points of the space.
        cpu_seconds: CPU time spent on them.
    """

    agent: AgentId
    step: int
    proposals: tuple[Proposal, ...]
    cpu_seconds: float


@dataclass(frozen=True)
class Evaluated:
    """The outcome of one agent's proposals.

    Attributes:
        observations: the evaluations that succeeded, in the scenario's sign.
        failed: those that failed and are skipped.
        cpu_seconds: CPU time spent in the objective.
    """

    observations: tuple[Recorded, ...]
    failed: tuple[Failed, ...]
    cpu_seconds: float


@dataclass(frozen=True)
class Answer:
    """One agent's answer to a call.

    Attributes:
        agent: the agent.
        observations: this step's evaluations, in the scenario's sign.
        payload: the answer to the request, or None if nothing was asked.
        cpu_seconds: CPU time spent on the agent, including its objective.
        objective_cpu_seconds: CPU time spent in the objective alone.
        failed: this step's evaluations that failed and were skipped.
        lost_keys: whether there is no payload because the agent lost its secrets.
    """

    agent: AgentId
    observations: tuple[Recorded, ...]
    payload: Payload | None
    cpu_seconds: float
    objective_cpu_seconds: float = 0.0
    failed: tuple[Failed, ...] = ()
    lost_keys: bool = False


@dataclass(frozen=True, slots=True)
class Evaluating:
    """A running objective, as seen by the code that enforces the deadline.

    Attributes:
        agent: the objective's agent.
        t: the round.
        point: the point in the user's units, as text.
        since: ``time.monotonic()`` when it started.
    """

    agent: AgentId
    t: int
    point: str
    since: float


@dataclass
class Activity:
    """What a process is doing right now; other threads may read it.

    Attributes:
        busy: the agent whose program or objective is running, or None.
        evaluating: the running objective, or None.
        log: what the process prints, or None if nothing keeps it.
    """

    busy: AgentId | None = None
    evaluating: Evaluating | None = None
    log: Log | None = None

    @contextmanager
    def turn(self, agent: AgentId, t: int) -> Iterator[None]:
        """Run an agent's code in round ``t``; its errors show its last output, if nothing else did.

        The turn lasts until the next one, or until :meth:`rest`.
        """
        self.busy, log = agent, self.log
        if log is not None:
            log.turn((agent, t))
        try:
            yield
        except UserCodeError as error:
            self.show_output(error)
            raise
        finally:
            if log is not None:
                log.reopen()

    def show_output(self, error: UserCodeError) -> None:
        """Add what was printed last in this turn to an error, if nobody has seen it."""
        if self.log is not None:
            self.log.explain(error)

    def rest(self) -> None:
        """End the last agent's turn."""
        self.busy = None
        if self.log is not None:
            self.log.turn("")


class Evaluator(Protocol):
    """Evaluates what agents propose: in this process, as Ray tasks, or anywhere else."""

    def evaluate(self, call: Call, proposed: Sequence[Proposed]) -> dict[AgentId, Evaluated]:
        """Return the outcome of each agent's proposals.

        Raises:
            ObjectiveError: if an evaluation failed on every try, and such failures stop the run.
            Interrupted: if the run was asked to stop.
        """
        ...


def with_evaluations(tasks: Sequence[Task], evaluated: Mapping[AgentId, Evaluated]) -> list[Task]:
    """Return the tasks with their new evaluations; tasks without any are unchanged."""
    return [
        replace(task, recorded=evaluated[task.agent].observations)
        if task.agent in evaluated
        else task
        for task in tasks
    ]


def completed(
    answers: Sequence[Answer],
    proposed: Sequence[Proposed],
    evaluated: Mapping[AgentId, Evaluated],
) -> list[Answer]:
    """Return the answers, with failures and CPU times of proposals and evaluations added."""
    proposing = {p.agent: p.cpu_seconds for p in proposed}
    nothing = Evaluated((), (), 0.0)
    whole = []
    for answer in answers:
        done = evaluated.get(answer.agent, nothing)
        seconds = answer.cpu_seconds + proposing.get(answer.agent, 0.0) + done.cpu_seconds
        whole.append(
            replace(
                answer,
                cpu_seconds=seconds,
                objective_cpu_seconds=done.cpu_seconds,
                failed=done.failed,
            )
        )
    return whole


def where(agent: AgentId, t: int, point: object, node: str = "") -> str:
    """Return the text that identifies an evaluation in errors."""
    return f"agent {agent}, round {t}, point {point}" + (f", node {node}" if node else "")


def hung(place: str, deadline: float, stack: str = "") -> ObjectiveError:
    """Return the error of an objective that missed its deadline.

    Args:
        place: from :func:`where`.
        deadline: the limit, in seconds.
        stack: where it hangs, or an empty string.
    """
    return ObjectiveError(
        f"the objective did not return within {deadline:g} s ({place}); deadlines.evaluation "
        "sets the limit",
        stack,
        "missed its deadline",
    )
