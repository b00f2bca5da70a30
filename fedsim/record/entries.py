"""The entries of a journal: one frozen class per kind, written and read only here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedsim.errors import ObjectiveError
from fedsim.privacy.events import event_from_record
from fedsim.protocol import AgentId, Cost, PrivacyEvent, Proposal, Uncharged
from fedsim.workload import Evaluation


@dataclass(frozen=True)  # frozen with slots is slow to pickle
class Recorded:
    """One evaluation in the scenario's own sign and units.

    Attributes:
        agent: the agent that evaluated.
        step: the agent's own count of steps.
        index: position among the step's proposals.
        u: the point, in unit-cube coordinates.
        y: the observed value.
        noiseless: the value without noise, if the objective returns it.
        source: how the point was chosen.
    """

    agent: AgentId
    step: int
    index: int
    u: tuple[float, ...]
    y: float
    noiseless: float | None
    source: str

    @classmethod
    def made(
        cls, agent: AgentId, step: int, index: int, proposal: Proposal, value: Evaluation
    ) -> Recorded:
        """Return the record of a proposal and its value."""
        u = tuple(np.asarray(proposal.u).tolist())
        return cls(agent, step, index, u, value.y, value.noiseless, proposal.source)

    def to_json(self) -> list[Any]:
        """Return the compact form used in a journal line."""
        return [
            self.agent,
            self.step,
            self.index,
            list(self.u),
            self.y,
            self.noiseless,
            self.source,
        ]

    @classmethod
    def from_json(cls, row: Sequence[Any]) -> Recorded:
        """Return the evaluation that :meth:`to_json` wrote."""
        agent, step, index, u, y, noiseless, source = row
        return cls(agent, step, index, tuple(u), y, noiseless, source)


@dataclass(frozen=True)
class Failed:
    """One evaluation that failed and was skipped.

    Attributes:
        agent: the agent.
        step: the agent's own count of steps.
        index: position among the step's proposals.
        u: the point, in unit-cube coordinates.
        source: how the point was chosen.
        reason: what happened; the text does not depend on where it ran.
        summary: the full message; not in the journal.
        traceback: the user's own traceback, or an empty string; not in the journal.
    """

    agent: AgentId
    step: int
    index: int
    u: tuple[float, ...]
    source: str
    reason: str
    summary: str = ""
    traceback: str = ""

    @classmethod
    def made(
        cls, agent: AgentId, step: int, index: int, proposal: Proposal, error: ObjectiveError
    ) -> Failed:
        """Return the record of a proposal whose evaluation failed."""
        u = tuple(np.asarray(proposal.u).tolist())
        told = error.reason, error.summary, error.user_traceback
        return cls(agent, step, index, u, proposal.source, *told)

    def to_json(self) -> list[Any]:
        """Return the compact form used in a journal line."""
        return [self.agent, self.step, self.index, list(self.u), self.source, self.reason]

    @classmethod
    def from_json(cls, row: Sequence[Any]) -> Failed:
        """Return the failure that :meth:`to_json` wrote."""
        agent, step, index, u, source, reason = row
        return cls(agent, step, index, tuple(u), source, reason)


Line = dict[str, Any]
"""An entry as JSON."""


@dataclass(frozen=True)
class StepEntry:
    """Agents took a step.

    Attributes:
        t: the round.
        observations: all evaluations that succeeded, in agent order.
        failed: those that failed and were skipped.
        absent: agents that should have taken part but were absent.
    """

    t: int
    observations: tuple[Recorded, ...]
    failed: tuple[Failed, ...] = ()
    absent: tuple[AgentId, ...] = ()

    @property
    def participants(self) -> frozenset[AgentId]:
        """The agents that took the step; each of them proposed at least one point."""
        agents = {record.agent for record in self.observations}
        return frozenset(agents | {failure.agent for failure in self.failed})

    def to_json(self) -> Line:
        """Return the entry's line."""
        line: Line = {"kind": "step", "t": self.t}
        line["observations"] = [record.to_json() for record in self.observations]
        if self.failed:
            line["failed"] = [failure.to_json() for failure in self.failed]
        return {**line, **_absent(self.absent)}


@dataclass(frozen=True)
class AskEntry:
    """Agents answered a request without taking a step.

    Attributes:
        t: the round.
        request: its kind.
        agents: the agents that were asked.
        absent: agents that should have been asked but were absent.
    """

    t: int
    request: str
    agents: tuple[AgentId, ...]
    absent: tuple[AgentId, ...] = ()

    def to_json(self) -> Line:
        """Return the entry's line."""
        asked = {"kind": "ask", "t": self.t, "request": self.request, "agents": list(self.agents)}
        return {**asked, **_absent(self.absent)}


@dataclass(frozen=True)
class ReleaseEntry:
    """An aggregator made a release.

    Attributes:
        t: the round.
        cost: what was charged for it.
        refused: whether a budget refused it; then nothing was charged.
        empty: whether the aggregator could not make it.
        experimenter: diagnostics that depend on private values.
    """

    t: int
    cost: Cost = Uncharged.NOT_PRIVATE
    refused: bool = False
    empty: bool = False
    experimenter: Mapping[str, float] = field(default_factory=dict)

    @property
    def event(self) -> PrivacyEvent | None:
        """What was charged, if anything."""
        return None if isinstance(self.cost, Uncharged) else self.cost

    def to_json(self) -> Line:
        """Return the entry's line."""
        line: Line = {"kind": "release", "t": self.t}
        if not isinstance(self.cost, Uncharged):
            line["event"] = dict(self.cost.record())
        elif self.cost is Uncharged.ALREADY_PAID:
            line["paid"] = True
        line |= {name: True for name in ("refused", "empty") if getattr(self, name)}
        if self.experimenter:
            line["experimenter"] = dict(self.experimenter)
        return line


Entry = StepEntry | AskEntry | ReleaseEntry


def entry_from_json(line: Mapping[str, Any]) -> Entry:
    """Return the entry of a journal line.

    Raises:
        KeyError, TypeError, ValueError: if it is damaged.
        RunFolderError: if its privacy event is damaged.
    """
    absent = tuple(line.get("absent", ()))
    if line["kind"] == "step":
        observed = tuple(map(Recorded.from_json, line["observations"]))
        failed = tuple(map(Failed.from_json, line.get("failed", ())))
        return StepEntry(line["t"], observed, failed, absent)
    if line["kind"] == "ask":
        return AskEntry(line["t"], line["request"], tuple(line["agents"]), absent)
    if line["kind"] != "release":
        raise ValueError(f"unknown kind {line['kind']!r}")
    paid = Uncharged.ALREADY_PAID if line.get("paid") else Uncharged.NOT_PRIVATE
    cost = event_from_record(line["event"]) if "event" in line else paid
    flags = {name: bool(line.get(name)) for name in ("refused", "empty")}
    return ReleaseEntry(line["t"], cost, experimenter=line.get("experimenter", {}), **flags)


def _absent(agents: Sequence[AgentId]) -> Line:
    return {"absent": list(agents)} if agents else {}


def observations(entries: Iterable[Entry]) -> Iterator[tuple[int, Recorded]]:
    """Yield (round, evaluation) for every evaluation in a journal's entries."""
    for entry in entries:
        if isinstance(entry, StepEntry):
            for record in entry.observations:
                yield entry.t, record
