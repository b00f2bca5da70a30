"""Finished runs, of which every test gets a copy to damage."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim.errors import Interrupted
from fedsim.record.progress import Progress
from fedsim.results.analysis import Run, load
from fedsim.running.jobs import Job, Listener
from tests.util.small import small

ROUNDS = 4
"""Of ``done`` and ``run``."""

UNFINISHED = "b/seed-1"
"""Of ``run``."""


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished private run of two variants and two seeds."""
    variants = {"a": {"method": {"initial_points": 3}}, "b": {}}
    raw = small("dp-fts-de", rounds=ROUNDS, seeds=[0, 1], variants=variants)
    return fedsim.run(raw, out=tmp_path_factory.mktemp("finished") / "run").folder


@pytest.fixture
def done(here: Path, finished: Path) -> Run:
    """A copy of it."""
    shutil.copytree(finished, "runs/small-1")
    return load("runs/small-1")


@pytest.fixture(scope="session")
def three_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of finished runs: two of two variants and two seeds, one without variants."""
    folder = tmp_path_factory.mktemp("three")
    variants = {"a": {"method": {"initial_points": 3}}, "b": {}}
    raw = small(rounds=2, seeds=[0, 1], variants=variants)
    fedsim.run(raw, out=folder / "first")
    other = {**raw, "scenario": {**raw["scenario"], "agents": 4}}
    fedsim.run(other, out=folder / "second")
    fedsim.run(small(rounds=2, seeds=[0, 1]), out=folder / "alone")
    return folder


@pytest.fixture
def runs(here: Path, three_runs: Path) -> Path:
    """A copy of it."""
    shutil.copytree(three_runs, "runs")
    return Path("runs").absolute()


class Stopping(Listener):
    """Stops a run after round 2 of its last seed."""

    def progress(self, job: Job, progress: Progress) -> None:
        if (job.label, job.simulation.spec.seed, progress.round) == ("b", 1, 2):
            raise KeyboardInterrupt


@pytest.fixture(scope="session")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two variants and two seeds, of which the last one was interrupted."""
    folder = tmp_path_factory.mktemp("interrupted") / "run"
    variants: dict[str, Any] = {"a": {}, "b": {"method": {"name": "ts"}}}
    raw = small(rounds=ROUNDS, seeds=[0, 1], variants=variants)
    with pytest.raises(Interrupted):
        fedsim.run(raw, out=folder, jobs=1, listener=Stopping())
    return folder


@pytest.fixture
def run(here: Path, interrupted: Path) -> Path:
    """A copy of it."""
    shutil.copytree(interrupted, "run")
    return Path("run")
