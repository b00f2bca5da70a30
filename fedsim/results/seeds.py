"""One seed of a run: its state, its tables, its outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedsim.errors import RunFolderError
from fedsim.protocol import AgentId
from fedsim.record.layout import is_seed, number_of, obstacle, run_folder_of
from fedsim.record.locking import is_locked
from fedsim.record.logs import Printed, read_logs
from fedsim.record.manifest import Facts
from fedsim.record.remedies import REMAKE
from fedsim.record.runfolder import RunFolder
from fedsim.results.identity import found_configuration, require_own
from fedsim.results.places import resuming
from fedsim.results.reading import ended_with, lost_end, lost_journal, read_run

if TYPE_CHECKING:  # takes long to import, and only tables need it
    import pandas as pd


@dataclass(frozen=True)
class SeedRun:
    """One finished or unfinished seed of one variant.

    Attributes:
        variant: the variant's label; the method's name if the run has only one.
        folder: its folder.
        settings_fingerprint: that of its variant's settings, as its run has it; empty if it is not
            known.
    """

    variant: str
    folder: RunFolder
    settings_fingerprint: str = ""

    @property
    def name(self) -> str:
        """What it is called in sentences."""
        return f"{self.variant}, seed {self.seed}"

    @property
    def seed(self) -> int:
        """The seed, from the folder's name."""
        return number_of(self.folder.path)

    @property
    def status(self) -> str:
        """What was recorded last: as ``state``, but ``running`` also if it was killed."""
        if not is_seed(self.folder.path):
            return "missing"
        return str(self.folder.manifest().get("status", "not started"))

    @property
    def state(self) -> str:
        """The status now, since a kill leaves no trace in the record.

        ``done``, ``failed``, ``interrupted`` or ``not started``; ``running`` if a process works on
        it; ``waiting``, if one works on another seed of its run; ``stopped``, if it was killed;
        ``missing``, if its folder is.
        """
        status = self.status
        if status == "done":
            return status
        held = is_locked(self.folder.path)
        if held is None:  # the file system has no locks: the record is all there is
            return status
        if held:
            return "running"
        if is_locked(run_folder_of(self.folder.path)):
            return "waiting"
        return "stopped" if status == "running" else status

    @property
    def observations(self) -> pd.DataFrame:
        """One row per evaluation so far; errors as in :meth:`table`."""
        return self.table("observations")

    @property
    def rounds(self) -> pd.DataFrame:
        """One row per round so far; errors as in :meth:`table`."""
        return self.table("rounds")

    def printed(self, agent: AgentId | None = None) -> list[Printed]:
        """Return what its objectives and programs printed, turn after turn.

        Args:
            agent: only what was printed in this agent's turns.
        """
        return [p for p in read_logs(self.folder.logs) if agent is None or p.is_of(agent)]

    def require_own(self) -> None:
        """Check that its folder is this seed's, and not a copy of another's.

        Raises:
            RunFolderError: if not, or its manifest is damaged.
        """
        require_own(self.folder.path, self.folder.manifest(), self.settings_fingerprint)

    def configuration(self) -> dict[str, Any]:
        """Return its configuration; if its own file is lost, as its run holds it elsewhere.

        Raises:
            RunFolderError: if it is lost.
        """
        return found_configuration(self.folder, self.settings_fingerprint)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What its record warns of, each once, such as a resume with other code; its doubts, too.

        Empty if its manifest is damaged.
        """
        try:
            told = self.folder.manifest().get("warnings", [])
        except RunFolderError:
            return ()
        known = map(str, told) if isinstance(told, list) else ()
        return tuple(dict.fromkeys((*known, *self.doubts)))

    @property
    def doubts(self) -> tuple[str, ...]:
        """What its values so far cast doubt on, such as a declared optimum that they beat.

        Empty if they cannot be read.
        """
        try:
            if self.status != "done":
                return tuple(read_run(self.folder, self.facts()).doubts.sentences())
            outcome = self.folder.manifest().get("outcome")
        except RunFolderError:
            return ()
        told = outcome.get("doubts") if isinstance(outcome, dict) else None
        return tuple(map(str, told)) if isinstance(told, list) else ()

    def table(self, name: str) -> pd.DataFrame:
        """Return ``observations`` or ``rounds`` so far.

        Raises:
            RunFolderError: if there is nothing yet, or a file is damaged.
        """
        from fedsim.results.tables import made_table, stored_table

        self.require_own()
        done = self.status == "done"
        stored = stored_table(self.folder, name, ended_with(self.folder)) if done else None
        if stored is not None:
            return stored
        try:
            return made_table(self.folder, self.facts(), name)
        except RunFolderError:
            # Earlier versions did not say in a table which journal it was made from.
            earlier = stored_table(self.folder, name, None) if done else None
            if earlier is None:
                raise
            return earlier

    def facts(self) -> Facts:
        """Return what is known about the seed, once it has started.

        Raises:
            RunFolderError: if it has not, or its manifest is damaged or another seed's.
        """
        manifest = self.folder.manifest()
        require_own(self.folder.path, manifest, self.settings_fingerprint)
        if "agents" not in manifest:
            self.require_manifest()
            path = self.folder.path / "manifest.json"
            if self.status == "done" or self.folder.journal.exists():
                raise RunFolderError(f"{path}: damaged: agents is missing; {REMAKE}")
            again = self._resuming
            why = f": {manifest['reason']}" if manifest.get("reason") else ""
            if self.state == "missing":
                if told := obstacle(self.folder.path):
                    raise RunFolderError(f"{told}; then {again} runs the seed again")
                gone = f"{self.folder.path}: its folder is missing"
                raise RunFolderError(f"{gone}; {again} runs it again")
            raise RunFolderError(
                f"{self.folder.path}: nothing is recorded yet (status: {self.state}{why}); "
                f"{again} starts it"
            )
        return Facts.of(self.folder)

    def require_manifest(self) -> None:
        """Check that a seed that has a journal has a manifest, too.

        Raises:
            RunFolderError: if not, or its manifest is damaged.
        """
        if not self.folder.manifest() and self.folder.journal.exists():
            raise RunFolderError(
                f"{self.folder.path / 'manifest.json'}: is missing; {self._resuming} makes it "
                "again from the journal"
            )

    @property
    def _resuming(self) -> str:
        return resuming(run_folder_of(self.folder.path))

    def so_far(self) -> str | None:
        """Return how far an unfinished seed is, as a sentence; None if it is done.

        Raises:
            RunFolderError: as in :meth:`facts`, or if its journal is damaged.
        """
        state = self.state
        if state == "done":
            return None
        facts = self.facts()
        reading, idle = read_run(self.folder, facts), state not in ("running", "waiting")
        lost = lost_end(self.folder, reading.entries, torn=reading.torn) if idle else None
        reason = (
            self.folder.manifest().get("reason") if state in ("failed", "interrupted") else None
        )
        last = max(0, reading.tally.round)
        words = f"{self.name}: {state}, {last} of {facts.rounds} rounds"
        lost = not_yet_said(lost, reason)
        return ": ".join(str(one) for one in (words, reason, lost) if one)

    def summary(self) -> dict[str, Any]:
        """Return its identity and status, and if it is done, its outcome: ``fedsim run --json``.

        What is ``lost`` of the journal of a seed that is done is said, too, and its ``warnings``,
        if there are some.

        Raises:
            RunFolderError: if its manifest is damaged, and its journal cannot replace it; or if
                its folder is another seed's.
        """
        from fedsim.results.outcome import is_baseline, is_outcome

        self.require_own()
        manifest, status = self.folder.manifest(), self.status
        found: dict[str, Any] = {
            "variant": self.variant,
            "seed": self.seed,
            "folder": str(self.folder.path),
            "status": status,
            **({"warnings": list(told)} if (told := self.warnings) else {}),
        }
        if status != "done":
            return found
        outcome: dict[str, Any] = manifest.get("outcome", {})
        if not is_outcome(outcome):  # damaged, or of an earlier version
            from fedsim.results.tables import outcome_of

            outcome = outcome_of(self.folder, self.facts())
        if is_baseline(manifest.get("baseline")):
            found["baseline"] = manifest["baseline"]
        lost = self.lost_journal()
        return {**found, **outcome, **({"lost": lost} if lost else {})}

    def lost_journal(self) -> str | None:
        """Return what is wrong with the journal of a seed that is done, and what to do.

        Raises:
            RunFolderError: if its manifest is damaged.
        """
        if self.folder.manifest().get("status") != "done":
            return None
        lost = lost_journal(self.folder)
        return f"only its tables and its outcome are left: {lost}" if lost else None


def not_yet_said(lost: str | None, reason: object) -> str | None:
    """Return what a record lacks, unless that is why the last resume failed, which is told."""
    return None if lost and lost in str(reason) else lost


def warnings_of(seeds: Mapping[str, SeedRun]) -> list[str]:
    """Return what the records of some seeds warn of: each once, with the seeds that it is about.

    Args:
        seeds: the seeds, by what they are called.
    """
    return _with_seeds({name: seed.warnings for name, seed in seeds.items()})


def doubts_of(seeds: Mapping[str, SeedRun]) -> list[str]:
    """Return what the values of some seeds cast doubt on, as in :func:`warnings_of`."""
    return _with_seeds({name: seed.doubts for name, seed in seeds.items()})


def _with_seeds(said: Mapping[str, Sequence[str]]) -> list[str]:
    about: dict[str, list[str]] = {}
    for name, texts in said.items():
        for text in texts:
            about.setdefault(text, []).append(name)
    return [f"{_some(names)}: {text}" for text, names in about.items()]


def _some(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]}, and {len(names) - 1} more"
