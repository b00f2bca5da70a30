"""The recording fleet: what stands between a server program and whatever carries its calls.

It numbers the calls, keeps each agent's count of steps, writes the journal, charges the
privacy ledger and, after a restart, replays what the journal holds already: recorded
evaluations are handed to the agents instead of being made again, and recorded releases whose
noise nobody may draw twice are read back. A program cannot tell a replay from the first time.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fedsim.agents import Answer, Call, Task
from fedsim.errors import RunError, RunFolderError
from fedsim.journal import JournalWriter, Line, Recorded
from fedsim.privacy.budget import Budget
from fedsim.privacy.ledger import Ledger
from fedsim.protocol import (
    AgentId,
    Aggregator,
    Broadcast,
    Release,
    Replies,
    Reply,
    Request,
)
from fedsim.rng import SERVER, Keys, SystemKeys
from fedsim.runfolder import RunFolder, load_arrays, save_arrays


class Transport(Protocol):
    """Carries calls to agents and brings their answers back."""

    def handle(self, call: Call, tasks: Sequence[Task]) -> list[Answer]:
        """Return one answer per task, in task order."""
        ...


Observer = Callable[[str, int, Mapping[str, Any]], None]
"""Told (kind, round, details) of each finished call: for timings, progress and transcripts."""


@dataclass
class Position:
    """Where a run stands: zero for a new one, else from its checkpoint and journal.

    Attributes:
        steps: each agent's next step.
        ledger: what was spent.
        calls: how many fleet calls were made.
        lines: how many journal lines they left.
        replay: the journal's lines beyond these, oldest first.
    """

    steps: dict[AgentId, int]
    ledger: Ledger
    calls: int
    lines: int
    replay: deque[Line]

    def next_recorded(self, kind: str, t: int) -> Line | None:
        """Return the next recorded line if there is one.

        Raises:
            RunFolderError: if the journal says something else happened at this point.
        """
        if not self.replay:
            return None
        line = self.replay.popleft()
        if (line["kind"], line["t"]) != (kind, t):
            raise RunFolderError(
                f"journal: expected {kind!r} of round {t}, got {line['kind']!r} of round "
                f"{line['t']}; the journal belongs to another configuration or version"
            )
        self.lines += 1
        return line


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
    """

    def __init__(
        self,
        transport: Transport,
        members: tuple[AgentId, ...],
        seed: int,
        folder: RunFolder,
        journal: JournalWriter,
        *,
        system_noise: bool,
        budget: Budget | None,
        position: Position,
        observer: Observer,
    ) -> None:
        self._transport = transport
        self._members = members
        self._seed = seed
        self._folder = folder
        self._journal = journal
        self._system_noise = system_noise
        self._budget = budget
        self._observer = observer
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
        agents = self._members if to is None else tuple(sorted(to))
        settled = self.position.lines
        line = self.position.next_recorded("step", t)
        recorded: dict[AgentId, list[Recorded]] = {agent: [] for agent in agents}
        if line is not None:
            for row in line["observations"]:
                record = Recorded.from_json(row)
                recorded[record.agent].append(record)
        tasks = [Task(a, self.position.steps[a], tuple(recorded[a])) for a in agents]
        answers = self._call(Call(t, settled, True, message, then), tasks)
        if line is None:
            rows = [record.to_json() for a in answers for record in a.observations]
            self._write({"kind": "step", "t": t, "observations": rows})
        self._observer("step", t, {"records": [r for a in answers for r in a.observations]})
        for agent in agents:
            self.position.steps[agent] += 1
        return self._fold(t, answers, then, via)

    def ask(
        self,
        t: int,
        request: Request,
        *,
        to: Sequence[AgentId] | None = None,
        via: Aggregator | None = None,
    ) -> Replies | Release:
        """See :meth:`fedsim.protocol.Fleet.ask`."""
        agents = self._members if to is None else tuple(sorted(to))
        settled = self.position.lines
        line = self.position.next_recorded("ask", t)
        tasks = [Task(a, max(0, self.position.steps[a] - 1)) for a in agents]
        answers = self._call(Call(t, settled, False, None, request), tasks)
        if line is None:
            self._write({"kind": "ask", "t": t, "request": request.kind, "agents": list(agents)})
        return self._fold(t, answers, request, via)

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
        self, t: int, answers: list[Answer], then: Request | None, via: Aggregator | None
    ) -> Replies | Release:
        number = self.position.calls - 1
        replies = tuple(
            Reply(a.agent, "missing", {}) if a.payload is None else Reply(a.agent, "ok", a.payload)
            for a in (answers if then is not None else ())
        )
        if via is None:
            received: Replies | Release = replies
        else:
            release = self._release(number, t, replies, via)
            received = Release(release.payload, release.event)
        self._observer("received", t, {"received": received})
        return received

    def _release(self, number: int, t: int, replies: Replies, via: Aggregator) -> Release:
        start = time.perf_counter()
        cost = via.cost(t)
        if cost is None:
            release = via.aggregate(t, replies, self, Keys(self._seed, SERVER, t))
        elif self._budget is not None and not self._budget.allows(self.position.ledger, cost):
            release = Release(None)
        elif self._system_noise:
            release = self._kept_release(number, t, replies, via)
        else:
            release = via.aggregate(t, replies, self, Keys(self._seed, SERVER, t))
        if release.event is not None or (cost is not None and release.payload is not None):
            if release.event != cost or cost is None:
                raise RunError(
                    f"aggregator {type(via).__name__}: release {t} cost {release.event}, "
                    f"announced was {cost}; both must be the same, whatever the data"
                )
            self.position.ledger = self.position.ledger.charge(cost)
        line: dict[str, Any] = {"kind": "release", "t": t}
        if release.event is not None:
            line["event"] = release.event.record()
        if release.payload is None:
            line["refused"] = True
        if release.experimenter:
            line["experimenter"] = dict(release.experimenter)
        if self.position.next_recorded("release", t) is None:
            self._write(line)
        seconds = time.perf_counter() - start
        self._observer("release", t, {"line": line, "seconds": seconds})
        return release

    def _kept_release(self, number: int, t: int, replies: Replies, via: Aggregator) -> Release:
        """Return the release of a call, drawn once and on disk before anybody sees it."""
        path = self._folder.release_path(number)
        if path.exists():
            arrays = load_arrays(path)
            experimenter = {
                name.removeprefix("experimenter/"): float(arrays.pop(name))
                for name in [n for n in arrays if n.startswith("experimenter/")]
            }
            payload = {n.removeprefix("payload/"): a for n, a in arrays.items()}
            return Release(payload, via.cost(t), experimenter)
        release = via.aggregate(t, replies, self, SystemKeys())
        if release.payload is not None:
            kept = {f"payload/{n}": a for n, a in release.payload.items()}
            kept |= {f"experimenter/{n}": np.array(x) for n, x in release.experimenter.items()}
            save_arrays(path, kept)
        return release

    def _write(self, line: Mapping[str, Any]) -> None:
        self._journal.append(line)
        self.position.lines += 1
