"""Opening run folders: the basis of every figure, report and summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsim.errors import RunFolderError
from fedsim.files import NOISE_CONTROL, read_yaml
from fedsim.record.runfolder import RunFolder

if TYPE_CHECKING:  # takes long to import, and only tables need it
    import pandas as pd


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
    def seed(self) -> int:
        """The seed, from the folder's name."""
        return int(self.folder.path.name.removeprefix("seed-"))

    @property
    def status(self) -> str:
        """``done``, ``running``, ``failed``, ``interrupted`` or ``not started``."""
        return str(self.folder.manifest().get("status", "not started"))

    @property
    def observations(self) -> pd.DataFrame:
        """One row per evaluation; raises RunFolderError before the run is done."""
        return self.table("observations")

    @property
    def rounds(self) -> pd.DataFrame:
        """One row per round; raises RunFolderError before the run is done."""
        return self.table("rounds")

    def table(self, name: str) -> pd.DataFrame:
        """Return ``observations`` or ``rounds``; raises RunFolderError before the run is done."""
        import pandas as pd

        path = self.folder.path / f"{name}.parquet"
        if not path.exists():
            reason = self.folder.manifest().get("reason")
            raise RunFolderError(
                f"{self.folder.path}: not finished (status: {self.status}"
                f"{f', {reason}' if reason else ''}); `fedsim resume` continues it"
            )
        return pd.read_parquet(path)

    def summary(self) -> dict[str, Any]:
        """Return the run's outcome, as in ``fedsim run --json``."""
        manifest = self.folder.manifest()
        if self.status == "done" and "outcome" not in manifest:
            raise RunFolderError(
                f"{self.folder.path / 'manifest.json'}: damaged: the run is done, but its outcome "
                "is missing"
            )
        outcome: dict[str, Any] = {
            "variant": self.variant,
            "seed": self.seed,
            "folder": str(self.folder.path),
            "status": self.status,
        }
        return {**outcome, **manifest.get("outcome", {})}


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
    def config(self) -> dict[str, Any]:
        """The whole resolved configuration."""
        return read_yaml(self.folder / "config.yaml")

    @property
    def observations(self) -> pd.DataFrame:
        """All evaluations, with columns ``variant`` and ``seed``."""
        return self._concatenated("observations")

    @property
    def rounds(self) -> pd.DataFrame:
        """All rounds, with columns ``variant`` and ``seed``."""
        return self._concatenated("rounds")

    def summaries(self) -> list[dict[str, Any]]:
        """Return every seed's outcome."""
        return [run.summary() for run in self.runs]

    def _concatenated(self, name: str) -> pd.DataFrame:
        import pandas as pd

        tables = []
        for run in self.runs:
            table = run.table(name)
            table.insert(0, "variant", run.variant)
            table.insert(1, "seed", run.seed)
            tables.append(table)
        return pd.concat(tables, ignore_index=True)


def load(folder: str | Path) -> Run:
    """Open a run folder, or the folder of one of its variants or seeds.

    Raises:
        RunFolderError: if it is not a run folder.
    """
    path = Path(folder)
    if path.name.startswith("seed-") and (path / "config.yaml").exists():
        return Run(path, (SeedRun(_label(path.parent), RunFolder(path)),))
    found = [file.parent for file in path.glob("**/seed-*/config.yaml")]
    if not found:
        raise RunFolderError(f"{path}: not a run folder: no seed-* folder with a config.yaml")
    labels = {parent: _label(parent) for parent in {seed.parent for seed in found}}
    runs = [SeedRun(labels[seed.parent], RunFolder(seed)) for seed in found]
    whole = path / "config.yaml"
    order = list(read_yaml(whole).get("variants", {})) if whole.exists() else []
    runs.sort(key=lambda run: (_rank(run.variant, order), run.variant, run.seed))
    return Run(path, tuple(runs))


def _label(folder: Path) -> str:
    """Return the label of a folder's variant; the method's name if it has none."""
    marker = folder / "variant.txt"
    if marker.exists():
        return marker.read_text("utf-8").strip()
    seed = next(iter(sorted(folder.glob("seed-*/config.yaml"))))
    return str(read_yaml(seed)["method"]["name"])


def _rank(label: str, order: Sequence[str]) -> int:
    """Return a variant's position in the configuration; its noise-only control has the same."""
    return order.index(name) if (name := label.removesuffix(NOISE_CONTROL)) in order else -1
