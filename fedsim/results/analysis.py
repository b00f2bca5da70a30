"""Opening run folders: the basis of every figure, report and summary.

Runs that are running, were interrupted or failed are read too: what there is comes from their
journals, and what is missing is said.
"""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from fedsim.errors import ConfigError, RunFolderError
from fedsim.files import read_yaml, user_path
from fedsim.record.layout import is_seed, run_folder_of, seed_folders, subfolders
from fedsim.record.origin import not_a_folder
from fedsim.record.runfolder import RunFolder
from fedsim.results.places import (
    in_order,
    is_run,
    label_of,
    lost_plan,
    planned_seeds,
    resuming,
    variants_of,
)
from fedsim.results.seeds import SeedRun, doubts_of

if TYPE_CHECKING:  # takes long to import, and only tables need it
    import pandas as pd

    from fedsim.protocol import AgentId
    from fedsim.results.best import BestPoint

Part = TypeVar("Part", bound=Sized)


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
        if is_run(self.folder) or not self.runs:
            return self.folder
        return run_folder_of(self.runs[0].folder.path)

    @property
    def config(self) -> dict[str, Any]:
        """The whole resolved configuration."""
        return read_yaml(self.folder / "config.yaml", kept=True)

    @property
    def observations(self) -> pd.DataFrame:
        """All evaluations so far, with columns ``variant`` and ``seed``; see :meth:`read`."""
        return self._warned("observations")

    @property
    def rounds(self) -> pd.DataFrame:
        """All rounds so far, with columns ``variant`` and ``seed``; see :meth:`read`."""
        return self._warned("rounds")

    def __repr__(self) -> str:
        variants = len({run.variant for run in self.runs})
        return f"Run({str(self.folder)!r}, variants: {variants}, seeds: {len(self.runs)})"

    def lost_plan(self) -> str | None:
        """Return why it is not known which of its seeds are missing; None if it is known."""
        one_seed = is_seed(self.folder.resolve())
        return None if one_seed else lost_plan(self.folder)

    def summaries(self) -> list[dict[str, Any]]:
        """Return every seed's outcome."""
        return [run.summary() for run in self.runs]

    def _repr_html_(self) -> str:
        from fedsim.results.notebook import run_html

        return run_html(self.folder, self.runs)

    def read(self, name: str) -> tuple[pd.DataFrame, list[str]]:
        """Return a table of all seeds, and a sentence for each seed that is not in it as a whole.

        Args:
            name: ``observations`` or ``rounds``.

        Raises:
            RunFolderError: if no seed has anything to show.
        """
        import pandas as pd

        found, missing = self._gather(lambda run: run.table(name), empty=True)
        tables = [table for _, table in found]
        for run, table in found:
            table.insert(0, "variant", run.variant)
            table.insert(1, "seed", run.seed)
        return pd.concat(tables, ignore_index=True), missing

    def best(
        self, *, agent: AgentId | None = None, variant: str | None = None, seed: int | None = None
    ) -> BestPoint:
        """Return the point with the best observed value, in the user's units.

        Args:
            agent: only this agent's points; None: all agents'.
            variant: only this variant's; None: all variants'.
            seed: only this seed's; None: all seeds'.

        Raises:
            ConfigError: if there is no such point, or some variants maximise and others minimise.
            RunFolderError: if no seed has anything to show.
        """
        from fedsim.results.best import best_of, matching

        return best_of(matching(self.best_points(), agent, variant, seed))

    def best_points(self) -> tuple[BestPoint, ...]:
        """Return every agent's best point, for every variant and seed; see :meth:`read_best`."""
        points, missing = self.read_best()
        self._warn(missing)
        return points

    def read_best(self) -> tuple[tuple[BestPoint, ...], list[str]]:
        """Return every agent's best point, and a sentence for each seed that is incomplete.

        Raises:
            RunFolderError: if no seed has anything to show.
        """
        from fedsim.results.best import best_of_seed

        found, missing = self._gather(best_of_seed)
        return tuple(point for _, points in found for point in points), missing

    def _gather(
        self, get: Callable[[SeedRun], Part], *, empty: bool = False
    ) -> tuple[list[tuple[SeedRun, Part]], list[str]]:
        """Return something of every seed that has it, and a sentence for each incomplete seed.

        If ``empty``, a seed that is done also has what is empty, such as no evaluations.
        """
        found: list[tuple[SeedRun, Part]] = []
        missing: list[str] = []
        errors: list[RunFolderError] = []
        missing += filter(None, [self.lost_plan()])
        for run in self.runs:
            try:
                part, incomplete = get(run), run.so_far()
            except RunFolderError as error:
                errors.append(error)
                missing.append(f"{run.name} is left out: {error}")
                continue
            missing += filter(None, [incomplete])
            if len(part) or (empty and not incomplete):
                found.append((run, part))
        if not found:
            nothing = f"{self.folder}: {self._nothing()}"
            raise errors[0] if errors else RunFolderError(nothing)
        return found, missing

    def _nothing(self) -> str:
        """Return why there is nothing to show, and what to do, in words."""
        if any(run.status != "done" for run in self.runs):
            return f"nothing is recorded yet; {resuming(self.whole)} continues the run"
        told = shlex.quote(str(self.folder))
        if not any(one.get("evaluations_failed") for one in self.summaries()):
            return "nothing is recorded: no agent took part in any round (availability)"
        return (
            f"no evaluation succeeded; `fedsim show {told}` names the first error, `fedsim logs "
            f"{told}` shows what was printed, and timings.jsonl of a seed has the tracebacks"
        )

    def _warned(self, name: str) -> pd.DataFrame:
        table, missing = self.read(name)
        self._warn(missing)
        return table

    def _warn(self, missing: Sequence[str]) -> None:
        if missing:
            warnings.warn(f"{self.folder} is incomplete: {'; '.join(missing)}", stacklevel=4)
        for sentence in doubts_of({run.name: run for run in self.runs}):
            warnings.warn(f"{self.folder}: {sentence}", stacklevel=4)


AnyRun = Run | str | Path
"""A run, or its folder."""


def opened(*runs: AnyRun | Sequence[AnyRun]) -> list[Run]:
    """Return one or several runs; folders are opened.

    Args:
        runs: runs, folders, or sequences of them.

    Raises:
        ConfigError: if there is none, or one is something else.
        RunFolderError: if one is not a run folder.
    """
    several: list[AnyRun] = []
    for one in runs:
        several += list(one) if isinstance(one, (list, tuple)) else [cast(AnyRun, one)]
    wrong = [one for one in several if not isinstance(one, (Run, str, Path))]
    if wrong or not several:
        got = type(wrong[0]).__name__ if wrong else "none"
        raise ConfigError(f"runs: expected runs or their folders, got {got}")
    return [run if isinstance(run, Run) else load(run) for run in several]


def load(folder: str | Path) -> Run:
    """Open a run folder, or the folder of one of its variants or seeds.

    Seeds of its configuration whose folders are missing are among its seeds.

    Raises:
        RunFolderError: if it is not a run folder, or two of its folders are the same seed.
    """
    path = user_path(folder)
    if (words := not_a_folder(path)) is not None:
        raise RunFolderError(words)
    if is_seed(seed := path.resolve()):
        fingerprints = variants_of(run_folder_of(seed))
        label = label_of(seed.parent)
        return Run(path, (SeedRun(label, RunFolder(seed), fingerprints.get(label, "")),))
    found, planned = seed_folders(path), planned_seeds(path)
    if not found and not (planned and is_run(path)):  # it may have ended before its first seed
        raise RunFolderError(f"{path}: not a run folder{_hint(path)}")
    labels = {parent: label_of(parent) for parent in {seed.parent for seed in found}}
    fingerprints = variants_of(run_folder_of(found[0]) if found else path)

    def run_of(label: str, seed: Path) -> SeedRun:
        return SeedRun(label, RunFolder(seed), fingerprints.get(label, ""))

    runs = [run_of(labels[seed.parent], seed) for seed in found]
    _check_different(runs)
    known = {(run.variant, run.seed) for run in runs}
    others = [run_of(label, seed) for label, seed in planned]
    runs += [run for run in others if (run.variant, run.seed) not in known]
    order = in_order([run.variant for run in runs], path)
    runs.sort(key=lambda run: (order.index(run.variant), run.seed))
    return Run(path, tuple(runs))


def _hint(path: Path) -> str:
    places = (path, path / "runs")
    runs = [str(one) for place in places for one in subfolders(place) if is_run(one)]
    if runs:
        return f", but it holds some: give one of them, e.g. {runs[-1]}"
    return ": no seed-* folder with a config.yaml"


def _check_different(runs: Sequence[SeedRun]) -> None:
    known: dict[tuple[str, int], Path] = {}
    for run in runs:
        first = known.setdefault((run.variant, run.seed), run.folder.path)
        if first != run.folder.path:
            raise RunFolderError(
                f"{first} and {run.folder.path}: both are {run.name}; move the one that is a copy "
                "out of the run folder"
            )
