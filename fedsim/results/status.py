"""The status of an unfinished run, read from its folder while it runs or after it stopped.

Nothing is written to the folder. Files that the run is writing may be incomplete.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from fedsim.files import finite
from fedsim.privacy.accountants import PrivacyLoss, make_accountant, privacy_loss, unsupported
from fedsim.record.entries import StepEntry
from fedsim.record.evaluationlog import kept_evaluations
from fedsim.record.journal import JournalReader, journal_run
from fedsim.record.manifest import Facts
from fedsim.record.position import Position
from fedsim.record.progress import Progress
from fedsim.record.runfolder import RunFolder
from fedsim.record.tally import Tally
from fedsim.record.timings import timings_of
from fedsim.results.losses import INFINITE
from fedsim.results.reading import HARMLESS, lost_end
from fedsim.results.seeds import SeedRun


@dataclass(frozen=True)
class Status:
    """How far an unfinished seed of a run is.

    Attributes:
        state: ``running``; ``waiting`` for its turn or its tables; ``interrupted``; ``failed``;
            ``stopped``, if it was killed and the reason is unknown; or ``not started``.
        reason: why it failed or was interrupted, or None.
        direction: of the scenario; None if it never started.
        progress: according to its journal.
        under_way: evaluations made since its last journal entry.
        privacy: the privacy spent, by the configured accountant; None if nothing.
        seconds_left: estimated time for the remaining rounds, or None if unknown.
        lost: what is missing in its record and what to do, or None; of a run that stopped.
        lost_times: why its speed is not known, if times were lost, or None.
        resumable: whether a resume may help; if not, the reason says what to do instead.
    """

    state: str
    reason: str | None
    direction: str | None
    progress: Progress
    under_way: int
    privacy: PrivacyLoss | None
    seconds_left: float | None
    lost: str | None = None
    lost_times: str | None = None
    resumable: bool = True

    @property
    def refused(self) -> bool:
        """Whether it cannot be resumed before that is done."""
        return self.lost not in (None, *HARMLESS)

    def record(self) -> dict[str, Any]:
        """Return it as a JSON record; unknown values are None."""
        progress, privacy = self.progress, self.privacy
        epsilon: dict[str, Any] = {}
        if privacy is not None:
            epsilon = {
                "delta": privacy.delta,
                "releases": progress.spent.releases,
                "neighbouring_relation": privacy.neighbouring_relation,
                "sampling": privacy.sampling,
                privacy.accountant: finite(privacy.epsilon),
                "source": privacy.source,
                **({"infinite": INFINITE} if math.isinf(privacy.epsilon) else {}),
            }
        elif progress.spent.releases:  # of a kind that the accountant does not support
            kinds = sorted({event.kind for event, _ in progress.spent.counts})
            epsilon = {"releases": progress.spent.releases, "not_accounted": ", ".join(kinds)}
        return {
            "status": self.state,
            "reason": self.reason,
            "lost": self.lost,
            "lost_times": self.lost_times,
            "metric": progress.metric,
            "direction": self.direction,
            "round": progress.round,
            "rounds": progress.rounds,
            **asdict(progress.scores),
            "agents": progress.agents,
            **({} if progress.targets is None else {"targets": list(progress.targets)}),
            "agents_with_values": progress.scores.agents,
            "agents_present": progress.present,
            "evaluations": progress.evaluations,
            "evaluations_under_way": self.under_way,
            "evaluations_failed": progress.failed,
            "evaluations_per_second": finite(progress.evaluations_per_second),
            "epsilon": epsilon,
            "seconds_left": self.seconds_left,
        }


class StatusReader:
    """Follows an unfinished run; each reading continues where the last one ended in the journal.

    Args:
        run: the seed to follow.
    """

    def __init__(self, run: SeedRun) -> None:
        self._run = run
        self._journal = JournalReader(run.folder.journal)
        self._position = Position({})
        self._tally: Tally | None = None
        self._made = Counter[int]()  # evaluations, by round

    def read(self) -> Status:
        """Return where the run stands now.

        Raises:
            RunFolderError: if its configuration, manifest or journal is damaged.
        """
        folder, state = self._run.folder, self._run.state
        self._run.require_own()
        manifest = folder.manifest()
        stays = state in ("interrupted", "failed")  # else it is an earlier stop's reason
        reason = manifest.get("reason") if stays else None
        self._run.require_manifest()
        if "agents" not in manifest:  # it did not get as far as its first round
            progress = Progress(rounds=int(self._run.configuration()["rounds"]))
            return Status(state, reason, None, progress, 0, None, None)
        facts, timings = Facts.of(folder), timings_of(folder)
        tally = self._read_journal(facts)
        # The last round may not have ended, and rounds may have ended since the times were read.
        made = sum(self._made[t] for t in {t for t, _ in timings.round_seconds})
        lost_times = timings.lost(tally.round)
        rate = None if lost_times else timings.evaluations_per_second(made, tally.round)
        progress = Progress.of(tally, facts.rounds, self._position.ledger, rate)
        left = facts.rounds - max(0, tally.round)
        return Status(
            state=state,
            reason=reason,
            direction=facts.direction,
            progress=progress,
            under_way=self._under_way(folder),
            privacy=self._privacy(facts),
            seconds_left=None if lost_times else timings.seconds_left(left),
            lost=(
                None
                if state in ("running", "waiting")
                else lost_end(folder, self._position.entries, torn=self._journal.torn)
            ),
            lost_times=f"timings.jsonl {lost_times}" if lost_times else None,
            resumable=state != "failed" or manifest.get("resumable") is not False,
        )

    def _read_journal(self, facts: Facts) -> Tally:
        if self._tally is None:
            self._tally = facts.tally()
            self._position = Position(dict.fromkeys(range(facts.agents), 0))
        if self._run.folder.journal.exists():
            for entry in self._journal.read():
                self._position.take(entry)
                self._tally.add(entry)
                if isinstance(entry, StepEntry):
                    self._made[entry.t] += len(entry.observations)
        return self._tally

    def _under_way(self, folder: RunFolder) -> int:
        """Return how many evaluations were made since the last entry."""
        run = journal_run(folder.journal) if folder.journal.exists() else ""
        return len(kept_evaluations(folder.evaluations, run, self._position.entries) or ())

    def _privacy(self, facts: Facts) -> PrivacyLoss | None:
        """Return the privacy spent; None if nothing, or if it cannot be accounted for."""
        spent, accountant = self._position.ledger, make_accountant(facts.accountant)
        if not spent.releases or unsupported(spent, accountant):
            return None
        return privacy_loss(spent, facts.delta, accountant, facts.accounting)
