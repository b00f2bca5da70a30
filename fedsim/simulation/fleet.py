"""The recording fleet: what stands between a server program and whatever carries its calls.

It numbers the calls, keeps each agent's count of steps, writes the journal, charges the
privacy ledger and, after a restart, replays what the journal holds already: recorded
evaluations are handed to the agents instead of being made again, and recorded releases whose
noise nobody may draw twice are read back. A program cannot tell a replay from the first time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from fedsim.config.spec import Availability
from fedsim.errors import RunError, RunFolderError
from fedsim.files import load_arrays, save_arrays
from fedsim.payloads import frozen
from fedsim.privacy.budget import Budget
from fedsim.privacy.events import SubsampledGaussian
from fedsim.protocol import (
    AgentId,
    Aggregator,
    Broadcast,
    Release,
    Replies,
    Reply,
    Request,
)
from fedsim.record.journal import LineWriter, absent_entry, step_line
from fedsim.record.position import Position, recorded_by_agent
from fedsim.record.runfolder import RunFolder
from fedsim.rng import SERVER, Keys, Randomness, SystemKeys
from fedsim.simulation.availability import present
from fedsim.simulation.calls import Answer, Call, Task
from fedsim.space import Array


class Transport(Protocol):
    """Carries calls to agents and brings their answers back."""

    def handle(self, call: Call, tasks: Sequence[Task]) -> list[Answer]:
        """Return one answer per task, in task order."""
        ...


Observer = Callable[[str, int, Mapping[str, Any]], None]
"""Told (kind, round, details) of each finished call: for timings, progress and transcripts."""


class RecordingFleet:
    """The fleet of one run.

    Args:
        transport: carries the calls.
        members: all agents, ascending.
        seed: the run's seed.
        folder: where releases with system noise are kept.
        journal: every call is appended to it.
        system_noise: whether privacy noise comes from the operating system.
        budget: refuses releases that would exceed it, or None.
        position: where the run stands; kept up to date.
        observer: told of every call.
        availability: the probability that an agent takes part in a round.
    """

    def __init__(
        self,
        transport: Transport,
        members: tuple[AgentId, ...],
        seed: int,
        folder: RunFolder,
        journal: LineWriter,
        *,
        system_noise: bool,
        budget: Budget | None,
        position: Position,
        observer: Observer,
        availability: Availability = 1.0,
    ) -> None:
        self._transport = transport
        self._members = members
        self._seed = seed
        self._folder = folder
        self._journal = journal
        self._system_noise = system_noise
        self._budget = budget
        self._observer = observer
        self._availability = availability
        self._aggregating = False
        self.position = position

    @property
    def members(self) -> tuple[AgentId, ...]:
        """All agents, ascending."""
        return self._members

    def step(
        self,
        t: int,
        message: Broadcast | None,
        *,
        to: Sequence[AgentId] | None = None,
        then: Request | None = None,
        via: Aggregator | None = None,
    ) -> Replies | Release:
        """See :meth:`fedsim.protocol.Fleet.step`."""
        if self._aggregating:
            raise RunError("an aggregator may ask the agents, but not let them take a step")
        chosen, settled = self._chosen(to), self.position.lines
        agents = self._present(t, chosen)
        line = self.position.next_recorded("step", t)
        recorded = None if line is None else recorded_by_agent(line, agents)
        if message is not None:
            message = Broadcast(frozen(message.payload, "the server's message"))
        call = Call(t, settled, True, message, _frozen_request(then))
        tasks = [
            Task(a, self.position.steps[a], None if recorded is None else recorded[a])
            for a in agents
        ]
        answers = self._call(call, tasks)
        records = [record for a in answers for record in a.observations]
        failed = [failure for a in answers for failure in a.failed]
        if line is None:
            self._write(step_line(t, records, failed, _others(chosen, agents)))
        details = {
            "records": records,
            "failed": failed,
            "agents": len(agents),
            "replayed": line is not None,
        }
        self._observer("step", t, details)
        for agent in agents:
            self.position.steps[agent] += 1
        return self._fold(t, chosen, answers, then, via)

    def ask(
        self,
        t: int,
        request: Request,
        *,
        to: Sequence[AgentId] | None = None,
        via: Aggregator | None = None,
    ) -> Replies | Release:
        """See :meth:`fedsim.protocol.Fleet.ask`."""
        if self._aggregating and via is not None:
            raise RunError("an aggregator may ask the agents, but not through an aggregator")
        chosen, settled = self._chosen(to), self.position.lines
        agents = self._present(t, chosen)
        line = self.position.next_recorded("ask", t)
        tasks = [Task(a, max(0, self.position.steps[a] - 1)) for a in agents]
        answers = self._call(Call(t, settled, False, None, _frozen_request(request)), tasks)
        if line is None:
            asked = {"kind": "ask", "t": t, "request": request.kind, "agents": list(agents)}
            self._write({**asked, **absent_entry(_others(chosen, agents))})
        return self._fold(t, chosen, answers, request, via)

    def _chosen(self, to: Sequence[AgentId] | None) -> tuple[AgentId, ...]:
        if to is None:
            return self._members
        chosen = tuple(sorted(set(to)))
        unknown = set(chosen) - self.position.steps.keys()
        if unknown:
            raise RunError(
                f"to: expected agents 0 to {len(self._members) - 1}, got {sorted(unknown)}"
            )
        return chosen

    def _present(self, t: int, chosen: tuple[AgentId, ...]) -> tuple[AgentId, ...]:
        return present(self._seed, t, chosen, self._availability)

    def _call(self, call: Call, tasks: Sequence[Task]) -> list[Answer]:
        start = time.perf_counter()
        number = self.position.calls
        self.position.calls += 1
        answers = self._transport.handle(call, tasks)
        self._observer(
            "call",
            call.t,
            {
                "call": number,
                "agents": len(tasks),
                "seconds": time.perf_counter() - start,
                "agent_cpu_seconds": sum(a.cpu_seconds for a in answers),
                "objective_cpu_seconds": sum(a.objective_cpu_seconds for a in answers),
            },
        )
        return answers

    def _fold(
        self,
        t: int,
        chosen: tuple[AgentId, ...],
        answers: list[Answer],
        then: Request | None,
        via: Aggregator | None,
    ) -> Replies | Release:
        number = self.position.calls - 1
        payloads = {a.agent: a.payload for a in answers if a.payload is not None}
        replies = tuple(
            Reply(agent, "ok", payloads[agent])
            if agent in payloads
            else Reply(agent, "missing", {})
            for agent in (chosen if then is not None else ())
        )
        received: Replies | Release = replies
        if via is not None:
            release = self._release(number, t, replies, via)
            received = Release(release.payload, release.event)
        if not self._aggregating:  # what an aggregator asks for is not the program's to see
            self._observer("received", t, {"call": number, "received": received})
        return received

    def _release(self, number: int, t: int, replies: Replies, via: Aggregator) -> Release:
        start = time.perf_counter()
        cost = via.cost(t)
        if cost is not None and not self._affordable(cost):
            release = Release(None)
        elif cost is not None and self._system_noise:
            release = self._kept_release(number, t, replies, via)
        else:
            release = self._aggregate(t, replies, via, Keys(self._seed, SERVER, t))
        line: dict[str, Any] = {"kind": "release", "t": t}
        if release.event is not None:
            self.position.ledger = self.position.ledger.charge(release.event)
            line["event"] = release.event.record()
        if release.payload is None:
            line["refused"] = True
        if release.experimenter:
            line["experimenter"] = dict(release.experimenter)
        if self.position.next_recorded("release", t) is None:
            self._write(line)
        seconds = time.perf_counter() - start
        self._observer("release", t, {"seconds": seconds})
        return release

    def _affordable(self, cost: SubsampledGaussian) -> bool:
        return self._budget is None or self._budget.allows(self.position.ledger, cost)

    def _aggregate(self, t: int, replies: Replies, via: Aggregator, rng: Randomness) -> Release:
        """Return an aggregator's release, checked.

        Raises:
            RunError: if it does not cost what was announced.
        """
        cost = via.cost(t)
        self._aggregating = True
        try:
            release = via.aggregate(t, replies, self, rng)
        finally:
            self._aggregating = False
        if release.event != cost:
            raise RunError(
                f"aggregator {type(via).__name__}: release {t} cost {release.event}, "
                f"announced was {cost}; both must be the same, whatever the data"
            )
        payload = release.payload
        return Release(
            None if payload is None else frozen(payload, f"aggregator {type(via).__name__}"),
            release.event,
            {n: float(x) for n, x in release.experimenter.items() if math.isfinite(x)},
        )

    def _kept_release(self, number: int, t: int, replies: Replies, via: Aggregator) -> Release:
        """Return the release of a call, drawn once and on disk before anybody sees it.

        Raises:
            RunFolderError: if the journal says that it was drawn, but it is not on disk.
        """
        path = self._folder.release_path(number)
        if path.exists():
            arrays = load_arrays(path)
            for _ in range(int(arrays["asked"])):  # what the aggregator asked for, then
                self.position.next_recorded("ask", t)
                self.position.calls += 1
            payload, experimenter = _under("payload/", arrays), _under("experimenter/", arrays)
            numbers = {name: float(x) for name, x in experimenter.items()}
            return Release(frozen(payload, str(path)), via.cost(t), numbers)
        recorded = next((x for x in self.position.replay if x["kind"] == "release"), {})
        if "event" in recorded:
            raise RunFolderError(
                f"{path}: missing: it held the release of round {t}, whose noise nobody can draw "
                "again, and a second release would cost twice; restore the file, or start anew"
            )
        before = self.position.calls
        release = self._aggregate(t, replies, via, SystemKeys())
        if release.payload is not None:
            kept = {f"payload/{n}": a for n, a in release.payload.items()}
            kept |= {f"experimenter/{n}": np.array(x) for n, x in release.experimenter.items()}
            save_arrays(path, {**kept, "asked": np.array(self.position.calls - before)})
        return release

    def _write(self, line: Mapping[str, Any]) -> None:
        self._journal.append(line)
        self.position.lines += 1


def _others(chosen: Sequence[AgentId], agents: Sequence[AgentId]) -> list[AgentId]:
    return sorted(set(chosen) - set(agents))


def _frozen_request(request: Request | None) -> Request | None:
    if request is None:
        return None
    return Request(request.kind, frozen(request.payload, f"the request {request.kind!r}"))


def _under(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
