"""What variants are called."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.errors import ConfigError
from fedsim.record.runfolder import RunFolder
from fedsim.results.analysis import Run
from fedsim.results.naming import labels_of, shortened
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


SWEEP = [
    "rate=0.25, scale=0.1, seed 0",
    "rate=0.25, scale=0.2, seed 0",
    "rate=0.5, scale=0.1, seed 0",
]


@pytest.mark.parametrize(
    ("labels", "longest", "short"),
    [
        (SWEEP, 30, SWEEP),
        (SWEEP, 20, ["rate=0.25, scale=0.1", "rate=0.25, scale=0.2", "rate=0.5, scale=0.1"]),
        (SWEEP, 12, ["0.25, 0.1", "0.25, 0.2", "0.5, 0.1"]),
        (["a" * 40 + "b", "c" * 41], 10, ["aaa…aaaaab", "ccc…cccccc"]),
        (["a" * 20 + x + "a" * 20 for x in "bc"], 10, ["1: aa…aaaa", "2: aa…aaaa"]),
        (["x=1, y=2"], 5, ["1, 2"]),
        (["same", "same"], 9, ["same", "same"]),
    ],
)
def test_short_forms(labels: list[str], longest: int, short: list[str]) -> None:
    found = shortened(labels, longest)
    assert [found[label] for label in labels] == short


@given(st.lists(st.text("ab=, 1", max_size=40), min_size=1, max_size=12), st.integers(8, 40))
def test_short_forms_differ_and_are_short(labels: list[str], longest: int) -> None:
    found = shortened(labels, longest)
    assert set(found) == set(labels)
    assert len(set(found.values())) == len(found)
    assert max(map(len, found.values())) <= longest
