"""Opening run folders: the basis of every figure, report and summary.

Runs that are running, were interrupted or failed are read too: what there is comes from their
journals, and what is missing is said.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsim.errors import RunFolderError
from fedsim.files import NOISE_CONTROL, read_yaml
from fedsim.record.manifest import Facts
from fedsim.record.runfolder import RunFolder, is_locked, run_folder_of

if TYPE_CHECKING:  # takes long to import, and only tables need it
    import pandas as pd

_SEED = re.compile(r"seed-(\d{1,18})")


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
        return str(self.folder.manifest().get("status", "not started"))

    @property
    def state(self) -> str:
        """The status now, since a kill leaves no trace in the record.

        ``done``, ``failed``, ``interrupted`` or ``not started``; ``running`` if a process works on
        it; ``waiting``, if one works on another seed of its run; ``stopped``, if it was killed.
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
                    f"{self.folder.path / 'manifest.json'}: damaged: agents is missing"
                )
            why = f": {manifest['reason']}" if manifest.get("reason") else ""
            raise RunFolderError(
                f"{self.folder.path}: nothing is recorded yet (status: {self.state}{why}); "
                "`fedsim resume` starts it"
            )
        return Facts.of(self.folder)

    def summary(self) -> dict[str, Any]:
        """Return its identity and status, and if it is done, its outcome: ``fedsim run --json``.

        Raises:
            RunFolderError: if its manifest is damaged, and its journal cannot replace it.
        """
        from fedsim.results.outcome import is_outcome

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
        return {**found, **outcome}


@dataclass(frozen=True)
class Run:
    """A run folder: all variants and seeds.

    Attributes:
        folder: the run folder.
        runs: its seeds, variant by variant.
    """

    folder: Path
    runs: tuple[SeedRun, ...]

    @property
    def whole(self) -> Path:
        """The whole run's folder, also if this is one variant or seed of it."""
        if _is_run(self.folder) or not self.runs:
            return self.folder
        return run_folder_of(self.runs[0].folder.path)

    @property
    def config(self) -> dict[str, Any]:
        """The whole resolved configuration."""
        return read_yaml(self.folder / "config.yaml")

    @property
    def observations(self) -> pd.DataFrame:
        """All evaluations so far, with columns ``variant`` and ``seed``; see :meth:`read`."""
        return self._warned("observations")

    @property
    def rounds(self) -> pd.DataFrame:
        """All rounds so far, with columns ``variant`` and ``seed``; see :meth:`read`."""
        return self._warned("rounds")

    def summaries(self) -> list[dict[str, Any]]:
        """Return every seed's outcome."""
        return [run.summary() for run in self.runs]

    def read(self, name: str) -> tuple[pd.DataFrame, list[str]]:
        """Return a table of all seeds, and a sentence for each seed that is not in it as a whole.

        Args:
            name: ``observations`` or ``rounds``.

        Raises:
            RunFolderError: if no seed has anything to show.
        """
        import pandas as pd

        tables: list[pd.DataFrame] = []
        missing: list[str] = []
        errors: list[RunFolderError] = []
        for run in self.runs:
            try:
                table, state = run.table(name), run.state
            except RunFolderError as error:
                errors.append(error)
                missing.append(f"{run.name} is left out: {error}")
                continue
            if state != "done":
                missing.append(_so_far(run, state, table))
            if len(table):
                table.insert(0, "variant", run.variant)
                table.insert(1, "seed", run.seed)
                tables.append(table)
        if not tables:
            nothing = "nothing is recorded yet; `fedsim resume` continues the run"
            raise errors[0] if errors else RunFolderError(f"{self.folder}: {nothing}")
        return pd.concat(tables, ignore_index=True), missing

    def _warned(self, name: str) -> pd.DataFrame:
        table, missing = self.read(name)
        if missing:
            warnings.warn(f"{self.folder} is incomplete: {'; '.join(missing)}", stacklevel=3)
        return table


def _so_far(run: SeedRun, state: str, table: pd.DataFrame) -> str:
    """Return how far an unfinished seed is, as a sentence."""
    reason = run.folder.manifest().get("reason") if state in ("failed", "interrupted") else None
    last = table["round"].max() if len(table) else 0
    return f"{run.name}: {state}, {max(0, int(last))} of {run.facts().rounds} rounds" + (
        f": {reason}" if reason else ""
    )


def load(folder: str | Path) -> Run:
    """Open a run folder, or the folder of one of its variants or seeds.

    Raises:
        RunFolderError: if it is not a run folder, or two of its folders are the same seed.
    """
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise RunFolderError(f"{path}: not a run folder: there is no such folder")
    if _SEED.fullmatch(path.resolve().name) and (path / "config.yaml").exists():
        return Run(path, (SeedRun(_label(path.resolve().parent), RunFolder(path.resolve())),))
    found = [*_seeds(path)]
    inside = [] if found else sorted(one for one in path.iterdir() if one.is_dir())
    found += [seed for one in inside if not _is_run(one) for seed in _seeds(one)]
    if not found:
        raise RunFolderError(f"{path}: not a run folder{_hint(path, inside)}")
    labels = {parent: _label(parent) for parent in {seed.parent for seed in found}}
    runs = [SeedRun(labels[seed.parent], RunFolder(seed)) for seed in found]
    _check_different(runs)
    whole = path / "config.yaml"
    order = list(read_yaml(whole).get("variants") or {}) if whole.exists() else []
    runs.sort(key=lambda run: (_rank(run.variant, order), run.variant, run.seed))
    return Run(path, tuple(runs))


def _seeds(folder: Path) -> Iterator[Path]:
    """Yield the folders of seeds directly in a folder; copies such as ``seed-0.bak`` are not."""
    for one in sorted(folder.glob("seed-*")):
        if _SEED.fullmatch(one.name) and (one / "config.yaml").exists():
            yield one


def _is_run(folder: Path) -> bool:
    return (folder / "origin.yaml").exists()


def _hint(path: Path, inside: Sequence[Path]) -> str:
    runs = [str(one) for one in inside if _is_run(one)]
    if not runs and (path / "runs").is_dir():
        runs = [str(one) for one in sorted((path / "runs").iterdir()) if _is_run(one)]
    if runs:
        return f", but it holds some: give one of them, e.g. {runs[-1]}"
    return ": no seed-* folder with a config.yaml"


def _check_different(runs: Sequence[SeedRun]) -> None:
    known: dict[tuple[str, int], Path] = {}
    for run in runs:
        first = known.setdefault((run.variant, run.seed), run.folder.path)
        if first != run.folder.path:
            raise RunFolderError(
                f"{run.folder.path}: is {run.name}, as is {first}; move the copy out of the run "
                "folder"
            )


def _label(folder: Path) -> str:
    """Return the label of a folder's variant; the method's name if it has none."""
    marker = folder / "variant.txt"
    if marker.exists():
        return marker.read_text("utf-8").strip()
    config = next(_seeds(folder)) / "config.yaml"
    method = read_yaml(config).get("method")
    if not isinstance(method, dict) or "name" not in method:
        raise RunFolderError(f"{config}: damaged: method.name is missing")
    return str(method["name"])


def _rank(label: str, order: Sequence[str]) -> int:
    """Return a variant's position in the configuration; its noise-only control has the same."""
    return order.index(name) if (name := label.removesuffix(NOISE_CONTROL)) in order else -1
