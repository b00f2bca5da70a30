"""One pass over a journal: the scores after every round, and what was released.

Entries are handed on as they are read, so that a long journal is never in memory as a whole.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fedsim.errors import DiskError, RunFolderError
from fedsim.record.entries import Entry, Recorded, ReleaseEntry, StepEntry
from fedsim.record.journal import JournalReader, journal_run, journal_sha256
from fedsim.record.manifest import Facts
from fedsim.record.position import check_agents, lost_entries
from fedsim.record.remedies import REDO, RESTART, of_damaged_line
from fedsim.record.runfolder import RunFolder
from fedsim.record.tally import Scores, Tally
from fedsim.results.doubts import Doubts
from fedsim.space import Space
from fedsim.systemerrors import UNREADABLE, cannot_read


@dataclass(frozen=True, slots=True)
class RoundRow:
    """What is known after a round; where a method has targets, of them only.

    Attributes:
        round: the round.
        scores: how good the agents' points are.
        evaluations: how many succeeded so far, by all agents, before round 0 and helpers' too.
        counted: how many of them count: the targets', from round 0 on.
        mean_regret: mean regret of the round's evaluations; NaN if there are none or it is unknown.
        mean_cumulative_regret: sum over rounds of the mean regret of their queries. The initial
            design, which an agent that was absent at first makes later, is no query.
        coinciding: the share of the round's queries at exactly the point of another agent's query
            in this round; NaN if there are none.
    """

    round: int
    scores: Scores
    evaluations: int
    counted: int
    mean_regret: float
    mean_cumulative_regret: float
    coinciding: float


@dataclass
class Reading:
    """What a journal says about a run.

    Attributes:
        facts: what was known before it started.
        tally: counts over all entries.
        doubts: what its values cast doubt on.
        rows: one for each round from 0 on.
        releases: all releases, in order.
        sha256: the hash of the journal's lines.
        torn: whether the journal ends with an incomplete line.
        entries: how many entries it has.
    """

    facts: Facts
    tally: Tally = field(init=False)
    doubts: Doubts = field(init=False)
    rows: list[RoundRow] = field(default_factory=list)
    releases: list[ReleaseEntry] = field(default_factory=list)
    sha256: str = ""
    torn: bool = False
    entries: int = 0

    def __post_init__(self) -> None:
        self.tally = self.facts.tally()
        self.doubts = Doubts(self.facts)
        self._members = frozenset(range(self.facts.agents))
        self._cumulative = 0.0
        self._clear()

    def _clear(self) -> None:
        self._regrets, self._evaluated = 0.0, 0
        self._query_regrets, self._queries = 0.0, 0
        self._points: Counter[tuple[float, ...]] = Counter()

    def add(self, entry: Entry) -> None:
        """Take the next entry.

        Raises:
            RunFolderError: if it names an agent that the run does not have.
        """
        self.close(entry.t - 1)
        self.entries += 1
        if isinstance(entry, StepEntry):
            check_agents(entry.participants, self._members, entry.t)
            self.tally.add(entry)
            self.doubts.add(entry.t, entry.observations)
            if entry.t >= 0:
                counted = [one for one in entry.observations if self.facts.is_target(one.agent)]
                self._points.update(one.u for one in counted if one.step > 0)
                self._add_regrets(counted)
        elif isinstance(entry, ReleaseEntry):
            self.releases.append(entry)

    def _add_regrets(self, observations: Sequence[Recorded]) -> None:
        optima, sign = self.facts.optima, self.facts.sign
        if optima is None:
            return
        for one in observations:
            if one.noiseless is not None:
                regret = sign * (optima[one.agent] - one.noiseless)
                self._regrets += regret
                self._evaluated += 1
                if one.step > 0:
                    self._query_regrets += regret
                    self._queries += 1

    def close(self, last: int) -> None:
        """Finish the rounds up to ``last``: no entry of theirs follows."""
        while len(self.rows) <= last:
            self._cumulative += self._query_regrets / self._queries if self._queries else 0.0
            mean = self._regrets / self._evaluated if self._evaluated else math.nan
            scores, tally = self.tally.scores(), self.tally
            made, counted = tally.evaluations, tally.counted
            queries = self._points.total()
            alone = sum(1 for count in self._points.values() if count == 1)
            coinciding = (queries - alone) / queries if queries else math.nan
            row = RoundRow(
                len(self.rows), scores, made, counted, mean, self._cumulative, coinciding
            )
            self.rows.append(row)
            self._clear()


def read_run(
    folder: RunFolder, facts: Facts, observe: Callable[[StepEntry], None] = lambda entry: None
) -> Reading:
    """Read a seed's journal; its rounds end with the last one that has a step.

    Args:
        folder: the seed's folder.
        facts: what is known about it.
        observe: called with every step, in order.

    Raises:
        RunFolderError: if the journal is missing or damaged, or is not the one that a seed that
            is done ended with: what was cut off would not be missed.
    """
    if lost := lost_journal(folder):
        raise RunFolderError(f"{folder.path}: {lost}")
    reading, journal = Reading(facts), JournalReader(folder.journal)
    for entry in journal.read():
        reading.add(entry)
        if isinstance(entry, StepEntry):
            observe(entry)
    reading.close(reading.tally.round)
    reading.sha256, reading.torn = journal.sha256, journal.torn
    return reading


def lost_journal(folder: RunFolder) -> str:
    """Return why a seed's journal cannot be read, and what to do, as a sentence; empty if it can.

    It cannot if it is missing, or is not the one that a seed that is done ended with.

    Raises:
        RunFolderError: if the manifest is damaged.
    """
    done = folder.manifest().get("status") == "done"
    if not folder.journal.exists():
        lost = None if done else lost_end(folder, 0, torn=False)
        return lost or f"its journal is missing; {RESTART}"
    expected = ended_with(folder)
    try:
        if expected is None or journal_sha256(folder.journal) == expected:
            return ""
    except OSError as error:
        if error.errno in UNREADABLE:
            raise cannot_read(folder.journal, error) from error
        return f"its journal cannot be read: {error.strerror}; {RESTART}"
    return f"its journal is not the one that it ended with{_remedy(folder)}"


def _remedy(folder: RunFolder) -> str:
    """Return how a journal is not the one that its seed ended with, and what to do."""
    run, begun = folder.manifest().get("run"), journal_run(folder.journal)
    if begun and isinstance(run, str) and begun != run:
        return f", but another seed's or run's; {RESTART}"
    journal = JournalReader(folder.journal)
    try:
        for _ in journal.read():
            pass
    except RunFolderError:
        return f": line {journal.line} is damaged; {of_damaged_line(journal.line)}"
    return f"; {REDO}"


TORN = "the last line of its journal is incomplete; resume does that step again"
BEGUN = "its journal is missing; resume does the seed again from its start"
HARMLESS = (TORN, BEGUN)
"""What :func:`lost_end` may say of a seed that can be resumed."""


def lost_end(folder: RunFolder, entries: int, *, torn: bool) -> str | None:
    """Return what is missing in the record of an unfinished seed that nobody works on.

    Args:
        folder: the seed's folder.
        entries: how many entries its journal has.
        torn: whether that ends with an incomplete line.

    Returns:
        A sentence that says what to do, too; None if nothing is missing.
    """
    try:
        checkpoint = folder.load_checkpoint()
    except DiskError:
        raise
    except RunFolderError as error:
        return str(error).removeprefix(f"{folder.path}{os.sep}")
    settled = checkpoint.entries if checkpoint else 0
    if lost := lost_entries(folder.journal, entries, settled):
        return lost
    if not folder.journal.exists():
        return BEGUN
    return TORN if torn else None


def ended_with(folder: RunFolder) -> str | None:
    """Return the hash of the journal of a seed that is done, as its manifest keeps it.

    None if it is not done, or the manifest does not have it.
    """
    manifest = folder.manifest()
    outcome = manifest.get("outcome") if manifest.get("status") == "done" else None
    found = outcome.get("journal_sha256") if isinstance(outcome, dict) else None
    return found if isinstance(found, str) else None


def space_of(folder: RunFolder, facts: Facts) -> Space:
    """Return the search space of a seed.

    Raises:
        RunFolderError: if its parameters are not known, or damaged.
    """
    space = facts.space()
    if space is None:
        raise RunFolderError(
            f"{folder.path}: an earlier version of fedsim ran this and did not record its "
            "parameters; its points are in observations.parquet only"
        )
    return space
