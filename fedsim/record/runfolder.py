"""The run folder: everything that a run keeps, and all that is needed to show its results.

    runs/NAME-NUMBER/config.yaml   the whole configuration with all defaults
    runs/NAME-NUMBER/origin.yaml   the folders of module:Class names and data sets, hashes of code
    runs/NAME-NUMBER/code/         the user's modules
    runs/NAME-NUMBER/[VARIANT/]variant.txt   its label, which may not suit a folder name
    runs/NAME-NUMBER/[VARIANT/]seed-K/
        config.yaml            this run's configuration
        manifest.json          versions, machine, start, end, status, reason
        journal.jsonl          what happened; deterministic (see fedsim.record.journal)
        timings.jsonl          durations and CPU time: everything that may differ
        transcript.jsonl       what the server received, if asked for
        logs/                  what its processes print (see fedsim.record.logs)
        state/checkpoint.npz   the programs' arrays after the last finished round
        state/evaluations.jsonl evaluations of the current call
        state/releases/N.npz   releases whose noise came from the operating system
        observations.parquet   written at the end
        rounds.parquet

Nothing in it is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedsim.errors import DiskError, RunFolderError, of_option
from fedsim.files import (
    arrays_under,
    format_json,
    load_arrays,
    read_yaml,
    save_arrays,
    slugify,
    write_atomically,
    write_yaml,
)
from fedsim.protocol import State
from fedsim.record.locking import locked
from fedsim.record.origin import keep_code
from fedsim.record.remedies import REMAKE
from fedsim.systemerrors import cannot_read, cannot_write, of_system
from fedsim.usercode.sources import NO_CODE, UserCode

RUNS = Path("runs")
"""Where run folders are, unless another place is named."""


@dataclass(frozen=True)
class Checkpoint:
    """What a run needs to resume, in addition to its journal.

    Attributes:
        rounds: rounds finished; 0 when only ``start`` has run.
        entries: the number of journal entries at that time.
        state: the server program's state.
        aggregators: its aggregators' states, by name.
    """

    rounds: int
    entries: int
    state: State
    aggregators: Mapping[str, State] = field(default_factory=dict)


@dataclass(frozen=True)
class RunFolder:
    """The folder of one seed of one variant.

    Attributes:
        path: the folder.
    """

    path: Path

    @property
    def journal(self) -> Path:
        """The journal's path."""
        return self.path / "journal.jsonl"

    @property
    def timings(self) -> Path:
        """The path of the timings."""
        return self.path / "timings.jsonl"

    @property
    def transcript(self) -> Path:
        """The path of the transcript: what the server received, if asked for."""
        return self.path / "transcript.jsonl"

    @property
    def logs(self) -> Path:
        """The folder of what the run's processes print."""
        return self.path / "logs"

    @property
    def evaluations(self) -> Path:
        """The path of the evaluations that the journal does not have yet."""
        return self.path / "state" / "evaluations.jsonl"

    def create(self, config: Mapping[str, Any]) -> None:
        """Create the folder with its configuration; other files in it are kept.

        Raises:
            RunFolderError: if it cannot be created.
        """
        try:
            (self.path / "state" / "releases").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(self.path, error) from error
        write_yaml(self.path / "config.yaml", config)

    def config(self) -> dict[str, Any]:
        """Return this run's configuration; raises RunFolderError if it cannot be read."""
        return read_yaml(self.path / "config.yaml", kept=True)

    def manifest(self) -> dict[str, Any]:
        """Return the manifest, or an empty one if the run never started.

        Raises:
            RunFolderError: if it is damaged, or somebody changed it.
        """
        path = self.path / "manifest.json"
        if not path.exists():
            return {}
        try:
            found = json.loads(path.read_text("utf-8"))
        except OSError as error:
            raise cannot_read(path, error, f"; {REMAKE}") from error
        except ValueError as error:
            raise RunFolderError(f"{path}: cannot be read: {error}; {REMAKE}") from error
        if not isinstance(found, dict):
            got = type(found).__name__
            raise RunFolderError(f"{path}: expected a JSON object, got {got}; {REMAKE}")
        checksum = found.pop("checksum", None)  # earlier versions had none
        if checksum not in (None, _checksum(found)):
            raise RunFolderError(f"{path}: was changed after fedsim wrote it; {REMAKE}")
        return found

    def update_manifest(self, **changes: Any) -> None:
        """Set entries of the manifest; keep the others."""
        manifest = json.loads(format_json({**self.manifest(), **changes}))
        manifest["checksum"] = _checksum(manifest)
        text = format_json(manifest, indent=2, sort_keys=True)
        write_atomically(self.path / "manifest.json", text.encode() + b"\n")

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Replace the checkpoint, atomically."""
        states = {"program": checkpoint.state}
        states |= {f"aggregator/{name}": a for name, a in checkpoint.aggregators.items()}
        arrays = {
            f"{name}/{array}": value
            for name, state in states.items()
            for array, value in state.items()
        }
        counts = np.array([checkpoint.rounds, checkpoint.entries])
        names = np.array(list(checkpoint.aggregators), dtype=str)
        save_arrays(self._checkpoint, {"counts": counts, "aggregators": names, **arrays})

    def load_checkpoint(self) -> Checkpoint | None:
        """Return the checkpoint, or None if there is none yet."""
        if not self._checkpoint.exists():
            return None
        try:
            arrays = load_arrays(self._checkpoint)
            rounds, entries, *_ = (int(count) for count in arrays["counts"])
            names = [str(name) for name in arrays.get("aggregators", ())]
        except DiskError:
            raise
        except (RunFolderError, KeyError, ValueError, TypeError) as error:
            why = str(error).removeprefix(f"{self._checkpoint}: ")
            raise RunFolderError(f"{self._checkpoint}: damaged ({why}); {REMAKE}") from error
        return Checkpoint(
            rounds,
            entries,
            arrays_under("program/", arrays),
            {name: arrays_under(f"aggregator/{name}/", arrays) for name in names},
        )

    @property
    def _checkpoint(self) -> Path:
        return self.path / "state" / "checkpoint.npz"

    def release_path(self, number: int) -> Path:
        """Return the path of the run's ``number``-th release, counted from 0."""
        return self.path / "state" / "releases" / f"{number}.npz"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder; wait for the server of a killed run to exit. See :func:`locked`.

        What the file system cannot do becomes a warning in the manifest.
        """
        with locked(self.path, wait_seconds=30.0) as warnings:
            known = self.manifest().get("warnings", [])
            if new := [warning for warning in warnings if warning not in known]:
                self.update_manifest(warnings=[*known, *new])
            yield


def _checksum(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def new_run_folder(name: str, out: Path | None, root: Path = RUNS) -> Path:
    """Create and return a new folder: ``out``, or the next free ``runs/NAME-NUMBER``.

    Raises:
        RunFolderError: if ``out`` exists, or the folder cannot be created.
        ResourceError: if there is no room for it.
    """
    try:
        if out is not None:
            if out.exists():
                raise of_option(
                    "--out",
                    RunFolderError(
                        f"out: {out} already exists; choose a new folder, or `fedsim resume {out}`"
                    ),
                )
            out.mkdir(parents=True)
            return out
        slug = slugify(name)
        root.mkdir(parents=True, exist_ok=True)
        pattern = re.compile(re.escape(slug) + r"-(\d+)")
        taken = [int(m[1]) for p in root.iterdir() if (m := pattern.fullmatch(p.name))]
        number = max(taken, default=0) + 1
        while True:
            try:
                (folder := root / f"{slug}-{number}").mkdir()
            except FileExistsError:
                number += 1
            else:
                return folder
    except OSError as error:
        where = out if out is not None else root
        raise cannot_write(where, error, begun=False) from error


def begin(
    folder: Path, config: Mapping[str, Any], origin: Mapping[str, Any], code: UserCode = NO_CODE
) -> None:
    """Write what makes a new folder a run folder.

    Args:
        folder: the folder, which is empty.
        config: the whole configuration.
        origin: see :mod:`fedsim.record.origin`.
        code: the user's modules.

    Raises:
        RunFolderError: if it cannot be written; the folder is removed.
        ResourceError: if there is no room for it; the folder is removed.
    """
    with removed_on_error(folder):
        write_yaml(folder / "origin.yaml", origin)
        write_yaml(folder / "config.yaml", config)
        keep_code(folder, code)


@contextmanager
def removed_on_error(folder: Path) -> Iterator[None]:
    """Remove a new run folder, and ``runs`` if nothing else is in it, if the block fails.

    A block that ends the whole process leaves it.

    Raises:
        ResourceError: if it failed for lack of room, open files, threads or memory.
    """
    with of_system(begun=False):
        try:
            yield
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            if folder.parent == RUNS:
                with suppress(OSError):  # other runs are in it
                    RUNS.rmdir()
            raise
