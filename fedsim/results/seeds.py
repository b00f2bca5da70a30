"""One seed of a run: its state, its tables, its outcome."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsim.errors import RunFolderError
from fedsim.files import NOISE_CONTROL, RESTORE, read_yaml, slugify
from fedsim.protocol import AgentId
from fedsim.record.locking import is_locked
from fedsim.record.logs import Printed, read_logs
from fedsim.record.manifest import Facts
from fedsim.record.origin import Origin
from fedsim.record.runfolder import REDO, REMAKE, RunFolder, run_folder_of
from fedsim.results.reading import read_run

if TYPE_CHECKING:  # takes long to import, and only tables need it
    import pandas as pd


_SEED = re.compile(r"seed-\d{1,18}")


def is_seed(folder: Path) -> bool:
    """Return whether a folder is that of a seed; copies such as ``seed-0.bak`` are not."""
    return _SEED.fullmatch(folder.name) is not None and (folder / "config.yaml").exists()


def is_run(folder: Path) -> bool:
    """Return whether a folder is that of a whole run."""
    return (folder / "origin.yaml").exists()


def seed_folders(folder: Path) -> list[Path]:
    """Return the folders of the seeds of a run or a variant, by their paths.

    Raises:
        RunFolderError: if the folder cannot be read.
    """
    inside = subfolders(folder)
    own = [one for one in inside if is_seed(one)]
    return own or [
        seed for one in inside if not is_run(one) for seed in subfolders(one) if is_seed(seed)
    ]


def planned_seeds(folder: Path) -> list[tuple[str, Path]]:
    """Return the variant's label and the folder of every seed that a run's configuration has.

    Args:
        folder: the folder of a run or of one of its variants.

    Returns:
        One for each seed, whether its folder exists or not; none if the configuration is damaged.
    """
    whole = folder if is_run(folder) else folder.absolute().parent
    try:
        labels, config = Origin.read(whole).variants, read_yaml(whole / "config.yaml", kept=True)
        if config.get("variants") or config.get("noise_control"):
            places = [(label, whole / slugify(label)) for label in labels]
        else:
            places = [(str(config["method"]["name"]), whole)]
        seeds = [int(seed) for seed in config["seeds"]]
    except (RunFolderError, LookupError, TypeError, ValueError):
        return []
    if whole != folder:
        name = folder.absolute().name
        places = [
            (label, folder) for label, place in places if place != whole and place.name == name
        ]
    return [(label, place / f"seed-{seed}") for label, place in places for seed in seeds]


def label_of(folder: Path) -> str:
    """Return the label of a variant, or of a run that has no variants: its method's name.

    Args:
        folder: the folder whose ``seed-*`` folders are its seeds.

    Raises:
        RunFolderError: if it is not known: ``variant.txt`` and what the run knows are both lost.
    """
    marker = folder / "variant.txt"
    with suppress(OSError, UnicodeDecodeError):
        if told := marker.read_text("utf-8").strip():
            return told
    planned = {label for label, _ in planned_seeds(folder)}
    if len(planned) == 1:
        return planned.pop()
    if marker.exists() or is_run(folder.absolute().parent):
        raise RunFolderError(
            f"{marker}: missing or damaged: expected the variant's label; {RESTORE}"
        )
    config = next(one for one in subfolders(folder) if is_seed(one)) / "config.yaml"
    method = read_yaml(config, kept=True).get("method")
    if not isinstance(method, dict) or "name" not in method:
        raise RunFolderError(f"{config}: damaged: method.name is missing; {RESTORE}")
    return str(method["name"])


def subfolders(folder: Path) -> list[Path]:
    """Return the folders directly in a folder, by name; none if it does not exist.

    Raises:
        RunFolderError: if the folder cannot be read.
    """
    try:
        return sorted(one for one in folder.iterdir() if one.is_dir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunFolderError(f"{folder}: cannot be read: {error.strerror}") from error


def in_order(labels: Iterable[str], folder: Path) -> list[str]:
    """Return labels of a run's variants in the order of its configuration.

    A noise-only control follows its variant; labels whose place is not known come first.

    Args:
        labels: the labels.
        folder: the run folder, or a part of it, where no order is known.
    """
    try:
        order: tuple[str, ...] = Origin.read(folder).variants if is_run(folder) else ()
    except RunFolderError:  # damaged; resuming says so
        order = ()
    place = {label: number for number, label in enumerate(order)}
    return sorted(
        set(labels), key=lambda label: (place.get(label.removesuffix(NOISE_CONTROL), -1), label)
    )


@dataclass(frozen=True)
class SeedRun:
    """One finished or unfinished seed of one variant.

    Attributes:
        variant: the variant's label; the method's name if the run has only one.
        folder: its folder.
    """

    variant: str
    folder: RunFolder

    @property
    def name(self) -> str:
        """What it is called in sentences."""
        return f"{self.variant}, seed {self.seed}"

    @property
    def seed(self) -> int:
        """The seed, from the folder's name."""
        return int(self.folder.path.name.removeprefix("seed-"))

    @property
    def status(self) -> str:
        """What was recorded last: as ``state``, but ``running`` also if it was killed."""
        if not self.folder.path.exists():
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

    def table(self, name: str) -> pd.DataFrame:
        """Return ``observations`` or ``rounds`` so far.

        Raises:
            RunFolderError: if there is nothing yet, or a file is damaged.
        """
        from fedsim.results.tables import made_table, stored_table

        if self.status == "done":
            stored = stored_table(self.folder, name)
            if stored is not None:
                return stored
        return made_table(self.folder, self.facts(), name)

    def facts(self) -> Facts:
        """Return what is known about the seed, once it has started.

        Raises:
            RunFolderError: if it has not, or its manifest is damaged.
        """
        manifest = self.folder.manifest()
        if "agents" not in manifest:
            if self.status == "done" or self.folder.journal.exists():
                raise RunFolderError(
                    f"{self.folder.path / 'manifest.json'}: damaged: agents is missing; {REMAKE}"
                )
            why = f": {manifest['reason']}" if manifest.get("reason") else ""
            run = shlex.quote(str(run_folder_of(self.folder.path)))
            if self.state == "missing":
                gone = f"{self.folder.path}: its folder is missing"
                raise RunFolderError(f"{gone}; `fedsim resume {run}` runs it again")
            raise RunFolderError(
                f"{self.folder.path}: nothing is recorded yet (status: {self.state}{why}); "
                f"`fedsim resume {run}` starts it"
            )
        return Facts.of(self.folder)

    def so_far(self) -> str | None:
        """Return how far an unfinished seed is, as a sentence; None if it is done.

        Raises:
            RunFolderError: as in :meth:`facts`, or if its journal is damaged.
        """
        state = self.state
        if state == "done":
            return None
        facts = self.facts()
        last = read_run(self.folder, facts).tally.round
        reason = (
            self.folder.manifest().get("reason") if state in ("failed", "interrupted") else None
        )
        words = f"{self.name}: {state}, {max(0, last)} of {facts.rounds} rounds"
        return f"{words}: {reason}" if reason else words

    def summary(self) -> dict[str, Any]:
        """Return its identity and status, and if it is done, its outcome: ``fedsim run --json``.

        What is ``lost`` of the journal of a seed that is done is said, too.

        Raises:
            RunFolderError: if its manifest is damaged, and its journal cannot replace it.
        """
        from fedsim.results.outcome import is_baseline, is_outcome

        manifest, status = self.folder.manifest(), self.status
        found: dict[str, Any] = {
            "variant": self.variant,
            "seed": self.seed,
            "folder": str(self.folder.path),
            "status": status,
        }
        if status != "done":
            return found
        outcome: dict[str, Any] = manifest.get("outcome", {})
        if not is_outcome(outcome):  # damaged, or of an earlier version
            from fedsim.results.tables import outcome_of

            outcome = outcome_of(self.folder, self.facts())
        if is_baseline(manifest.get("baseline")):
            found["baseline"] = manifest["baseline"]
        lost = self._lost_journal(outcome.get("journal_sha256"))
        return {**found, **outcome, **({"lost": lost} if lost else {})}

    def _lost_journal(self, sha256: str | None) -> str | None:
        """Return what is wrong with the journal of a seed that is done, and what to do."""
        try:
            with self.folder.journal.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            wrong = "is missing"
        except OSError as error:
            wrong = f"cannot be read: {error.strerror}"
        else:
            if sha256 in (None, found):
                return None
            wrong = "is not the one that it ended with"
        return f"its journal {wrong}: only its tables and its outcome are left; {REDO}"
