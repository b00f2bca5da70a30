"""Where a run stands, and what its journal holds beyond its checkpoint."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from fedsim.errors import RunFolderError
from fedsim.privacy.ledger import Ledger
from fedsim.protocol import AgentId
from fedsim.record.entries import (
    AskEntry,
    Entry,
    Recorded,
    ReleaseEntry,
    StepEntry,
    observations,
)
from fedsim.record.journal import read_journal
from fedsim.record.remedies import REDO, RESTART
from fedsim.record.runfolder import Checkpoint, RunFolder

AnyEntry = TypeVar("AnyEntry", StepEntry, AskEntry, ReleaseEntry)


@dataclass
class Position:
    """Where a run stands, computed from the entries so far.

    Attributes:
        steps: each agent's next step.
        requests: how often each agent was called since its last step began, including that call.
            Calls before its first step are added to the first step's.
        ledger: the privacy spent.
        calls: the number of calls of the server program.
        refused: whether a budget refused a release.
        releases_in: the number of releases by round; those before round 0 count as round 0's.
        replay: recorded entries that come next, oldest first.
    """

    steps: dict[AgentId, int]
    requests: Counter[AgentId] = field(default_factory=Counter)
    ledger: Ledger = field(default_factory=Ledger)
    calls: int = 0
    refused: bool = False
    releases_in: Counter[int] = field(default_factory=Counter)
    replay: deque[Entry] = field(default_factory=deque)

    @property
    def releases(self) -> int:
        """The number of releases."""
        return self.releases_in.total()

    @property
    def entries(self) -> int:
        """The number of entries: one for each call and each release."""
        return self.calls + self.releases

    def take(self, entry: Entry) -> None:
        """Count an entry.

        Raises:
            RunFolderError: if it names an agent that the run does not have.
        """
        if isinstance(entry, ReleaseEntry):
            self.releases_in[max(0, entry.t)] += 1
            self.refused |= entry.refused
            if entry.event is not None:
                self.ledger = self.ledger.charge(entry.event)
            return
        agents = entry.participants if isinstance(entry, StepEntry) else set(entry.agents)
        check_agents(agents, self.steps.keys(), entry.t)
        self.calls += 1
        if isinstance(entry, AskEntry):
            self.requests.update(entry.agents)
            return
        for agent in entry.participants:
            self.requests[agent] = self.request_number(agent, step=True) + 1
            self.steps[agent] += 1

    def request_number(self, agent: AgentId, *, step: bool) -> int:
        """Return the number of the agent's next call in its step.

        Args:
            agent: the agent.
            step: whether that call starts a new step.
        """
        return 0 if step and self.steps[agent] > 0 else self.requests[agent]

    def next_recorded(self, kind: type[AnyEntry], t: int) -> AnyEntry | None:
        """Remove and return the next recorded entry, if there is one.

        Raises:
            RunFolderError: if the journal has something else at this point.
        """
        if not self.replay:
            return None
        entry = self.replay.popleft()
        if not isinstance(entry, kind) or entry.t != t:
            raise RunFolderError(
                f"journal: expected a {kind.__name__} of round {t}, got a "
                f"{type(entry).__name__} of round {entry.t}; the journal belongs to another "
                "configuration or version"
            )
        return entry


def check_agents(agents: Set[AgentId], members: Set[AgentId], t: int) -> None:
    """Check that an entry's agents are those of the run.

    Raises:
        RunFolderError: if it names others.
    """
    if not agents <= members:
        raise RunFolderError(
            f"journal: expected agents 0 to {len(members) - 1} in round {t}, got "
            f"{sorted(agents - members)}; the journal belongs to another configuration or version"
        )


def recorded_by_agent(
    entry: StepEntry, agents: Sequence[AgentId]
) -> dict[AgentId, tuple[Recorded, ...]]:
    """Return a recorded step's observations, by agent.

    Raises:
        RunFolderError: if other agents took part.
    """
    if entry.participants != set(agents):
        raise RunFolderError(
            f"journal: expected a step of the agents {sorted(agents)} in round {entry.t}, got one "
            f"of {sorted(entry.participants)}; the journal belongs to another configuration or "
            "version"
        )
    found: dict[AgentId, tuple[Recorded, ...]] = dict.fromkeys(agents, ())
    for record in entry.observations:
        found[record.agent] += (record,)
    return found


def position_after(entries: Iterable[Entry], agents: Iterable[AgentId]) -> Position:
    """Return where a run of these agents stands after the given entries."""
    position = Position(dict.fromkeys(agents, 0))
    for entry in entries:
        position.take(entry)
    return position


@dataclass(frozen=True)
class Start:
    """Where a run starts or resumes.

    Attributes:
        checkpoint: the last one, or None.
        position: where the run stands.
        settled: the entries before the checkpoint.
    """

    checkpoint: Checkpoint | None
    position: Position
    settled: list[Entry]

    def history(self) -> list[Recorded]:
        """Return the evaluations before the checkpoint: those that agents are rebuilt from."""
        return [record for _, record in observations(self.settled)]


def lost_entries(journal: Path, entries: int, settled: int) -> str:
    """Return what a journal lacks, and what to do, as a sentence; empty if it lacks nothing.

    Args:
        journal: the file.
        entries: how many entries it has.
        settled: how many it had when the checkpoint was written.
    """
    if entries >= settled:
        return ""
    if not journal.exists():
        return f"its journal is missing; {RESTART}"
    return f"the end of its journal is lost: it has {entries} of {settled} entries; {REDO}"


def find_start(folder: RunFolder, agents: int) -> Start:
    """Read a run's checkpoint and journal.

    An incomplete last line of the journal is ignored here, and removed when the run resumes.

    Raises:
        RunFolderError: if one is damaged, or the journal is shorter than the checkpoint says.
    """
    checkpoint = folder.load_checkpoint()
    entries = list(read_journal(folder.journal)) if folder.journal.exists() else []
    settled = checkpoint.entries if checkpoint else 0
    if lost := lost_entries(folder.journal, len(entries), settled):
        raise RunFolderError(f"{folder.path}: {lost}")
    position = position_after(entries[:settled], range(agents))
    position.replay.extend(entries[settled:])
    return Start(checkpoint, position, entries[:settled])
