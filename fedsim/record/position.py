"""Where a run stands, and what its journal holds beyond its checkpoint."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from fedsim.errors import RunFolderError
from fedsim.privacy.ledger import Ledger
from fedsim.protocol import AgentId
from fedsim.record.journal import Line, Recorded, last_steps, observations, read_journal
from fedsim.record.runfolder import Checkpoint, RunFolder


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


def recorded_by_agent(line: Line, agents: Sequence[AgentId]) -> dict[AgentId, tuple[Recorded, ...]]:
    """Return a recorded step's observations of each agent that took part.

    Raises:
        RunFolderError: if somebody else did.
    """
    found: dict[AgentId, tuple[Recorded, ...]] = dict.fromkeys(agents, ())
    for record in map(Recorded.from_json, line["observations"]):
        if record.agent not in found:
            raise RunFolderError(f"journal: agent {record.agent} took no part in round {line['t']}")
        found[record.agent] += (record,)
    return found


def find_position(
    folder: RunFolder, checkpoint: Checkpoint | None, agents: int
) -> tuple[Position, list[Recorded]]:
    """Return where a run stands, and the evaluations before its checkpoint.

    A torn last line of the journal is left out here, and cut when the journal is opened to go on.

    Raises:
        RunFolderError: if the journal is damaged, or shorter than the checkpoint says.
    """
    lines = list(read_journal(folder.journal)) if folder.journal.exists() else []
    settled, calls = (checkpoint.lines, checkpoint.calls) if checkpoint else (0, 0)
    if len(lines) < settled:
        raise RunFolderError(
            f"{folder.journal}: expected at least {settled} lines, as state/checkpoint.npz says, "
            f"got {len(lines)}: its end is lost; to go on from what is left, remove "
            f"{folder.path / 'state' / 'checkpoint.npz'} and resume"
        )
    records = [record for _, record in observations(lines[:settled])]
    steps = dict.fromkeys(range(agents), 0)
    steps |= {agent: step + 1 for agent, step in last_steps(lines[:settled]).items()}
    ledger = Ledger.from_events(line["event"] for line in lines[:settled] if "event" in line)
    return Position(steps, ledger, calls, settled, deque(lines[settled:])), records
