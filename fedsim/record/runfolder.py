"""The run folder: where a run keeps everything, and the only thing that showing results needs.

    runs/NAME-NUMBER/config.yaml   the whole configuration, every default filled in
    runs/NAME-NUMBER/origin.yaml   where module:Class names and data sets come from
    runs/NAME-NUMBER/[VARIANT/]variant.txt   the variant's label, which need not suit a folder
    runs/NAME-NUMBER/[VARIANT/]seed-K/
        config.yaml            this run's configuration
        manifest.json          versions, machine, start, end, status, reason
        journal.jsonl          what happened; deterministic (see fedsim.record.journal)
        timings.jsonl          durations and CPU time: everything that may differ
        transcript.jsonl       what the server program received, if asked for
        state/checkpoint.npz   the programs' arrays after the last finished round
        state/evaluations.jsonl evaluations of the call under way
        state/releases/N.npz   releases whose noise came from the operating system
        observations.parquet   written at the end
        rounds.parquet

Nothing in it is ever unpickled.
"""

from __future__ import annotations

import fcntl
import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedsim.errors import RunFolderError, cannot_write
from fedsim.files import (
    arrays_under,
    load_arrays,
    read_yaml,
    save_arrays,
    slugify,
    write_atomically,
    write_yaml,
)
from fedsim.protocol import State


@dataclass(frozen=True)
class Checkpoint:
    """What a run needs beside its journal to go on.

    Attributes:
        rounds: rounds finished; 0 when only ``start`` has run.
        lines: journal entries that were written by then.
        state: the server program's state.
        aggregators: its aggregators' states, by name.
    """

    rounds: int
    lines: int
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
        """Where everything that the server program received is written, if asked for."""
        return self.path / "transcript.jsonl"

    @property
    def evaluations(self) -> Path:
        """Where evaluations are kept until the journal has them."""
        return self.path / "state" / "evaluations.jsonl"

    def create(self, config: Mapping[str, Any]) -> None:
        """Make the folder with its configuration; what is in it already is kept.

        Raises:
            RunFolderError: if it cannot be made.
        """
        try:
            (self.path / "state" / "releases").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(self.path, error) from error
        write_yaml(self.path / "config.yaml", config)

    def config(self) -> dict[str, Any]:
        """Return this run's configuration; raises RunFolderError if it cannot be read."""
        return read_yaml(self.path / "config.yaml")

    def manifest(self) -> dict[str, Any]:
        """Return the manifest, or an empty one if the run never started."""
        path = self.path / "manifest.json"
        if not path.exists():
            return {}
        try:
            found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise RunFolderError(f"{path}: cannot be read: {error}") from error
        return found

    def update_manifest(self, **changes: Any) -> None:
        """Set entries of the manifest, keeping the others."""
        manifest = {**self.manifest(), **changes}
        text = json.dumps(manifest, indent=2, sort_keys=True)
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
        counts = np.array([checkpoint.rounds, checkpoint.lines])
        names = np.array(list(checkpoint.aggregators), dtype=str)
        save_arrays(self._checkpoint, {"counts": counts, "aggregators": names, **arrays})

    def load_checkpoint(self) -> Checkpoint | None:
        """Return the checkpoint, or None if none was reached."""
        if not self._checkpoint.exists():
            return None
        arrays = load_arrays(self._checkpoint)
        rounds, lines, *_ = (int(count) for count in arrays["counts"])
        names = [str(name) for name in arrays.get("aggregators", ())]
        return Checkpoint(
            rounds,
            lines,
            arrays_under("program/", arrays),
            {name: arrays_under(f"aggregator/{name}/", arrays) for name in names},
        )

    @property
    def _checkpoint(self) -> Path:
        return self.path / "state" / "checkpoint.npz"

    def release_path(self, number: int) -> Path:
        """Return where the ``number``-th release of the run is kept, counted from 0."""
        return self.path / "state" / "releases" / f"{number}.npz"

    def locked(self) -> AbstractContextManager[None]:
        """Hold the folder; a killed run's server gets a moment to go. See :func:`locked`."""
        return locked(self.path, wait_seconds=30.0)


def run_folder_of(seed: Path) -> Path:
    """Return the run folder that the folder of one seed is in."""
    return seed.parent if (seed.parent / "origin.yaml").exists() else seed.parent.parent


@contextmanager
def locked(folder: Path, wait_seconds: float) -> Iterator[None]:
    """Hold a folder, so that two processes never write to it; released when the process ends.

    Args:
        folder: a run's folder, or that of one seed.
        wait_seconds: how long to wait for the present holder.

    Raises:
        RunFolderError: if it is still held then, or cannot be written.
    """
    deadline = time.monotonic() + wait_seconds
    try:
        file = (folder / ".lock").open("w")
    except OSError as error:
        raise cannot_write(folder, error) from error
    with file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise RunFolderError(
                        f"{folder}: another process is running this run; stop it first"
                    ) from None
                time.sleep(0.1)
        yield


def is_locked(folder: Path) -> bool:
    """Return whether a process holds a folder with :func:`locked`, without writing to it."""
    try:
        file = (folder / ".lock").open("rb")
    except OSError:
        return False
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # until the file is closed: at once
        except BlockingIOError:
            return True
    return False


def new_run_folder(name: str, out: Path | None, root: Path = Path("runs")) -> Path:
    """Make and return a new folder: ``out``, or the next free ``runs/NAME-NUMBER``.

    Raises:
        RunFolderError: if ``out`` exists, or nothing can be written there.
    """
    try:
        if out is not None:
            if out.exists():
                raise RunFolderError(
                    f"--out: {out} exists already; choose a new folder, or `fedsim resume {out}`"
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
        raise cannot_write(where, error) from error
