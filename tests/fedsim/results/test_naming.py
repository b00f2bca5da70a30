"""What variants are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedsim.errors import ConfigError
from fedsim.record.runfolder import RunFolder
from fedsim.results.analysis import Run
from fedsim.results.naming import labels_of
from fedsim.results.seeds import SeedRun


def run(folder: str, *variants: str) -> Run:
    path = Path(folder)
    seeds = [SeedRun(one, RunFolder(path / one / f"seed-{k}")) for one in variants for k in (0, 1)]
    return Run(path, tuple(seeds))


def test_one_run_keeps_its_labels() -> None:
    assert labels_of([run("r", "a", "b")]) == [{"a": "a", "b": "b"}]


def test_several_runs_are_named_by_their_folders() -> None:
    found = labels_of([run("x/r", "a", "b"), run("x/s", "a")])
    assert found == [{"a": "a (r)", "b": "b (r)"}, {"a": "a (s)"}]
    first, second = labels_of([run("x/r", "a"), run("y/r", "a")])
    assert first["a"].endswith("x/r)")
    assert second["a"].endswith("y/r)")


def test_given_names() -> None:
    found = labels_of([run("x/r", "a", "b"), run("x/s", "a")], ["old", "new"])
    assert found == [{"a": "a (old)", "b": "b (old)"}, {"a": "new"}]
    assert labels_of([run("x/r", "a")], ["only"]) == [{"a": "only"}]


def test_mistakes_are_explained() -> None:
    with pytest.raises(ConfigError, match="one for each of 2 runs, got 1"):
        labels_of([run("r", "a"), run("s", "a")], ["x"])
    with pytest.raises(ConfigError, match="got x twice"):
        labels_of([run("r", "a"), run("s", "a")], ["x", "x"])
    with pytest.raises(ConfigError, match="twice"):
        labels_of([run("r", "a"), run("r", "a")])
