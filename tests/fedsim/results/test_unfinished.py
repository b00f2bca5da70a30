"""Run folders that are unfinished, or that lack seeds."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import fedsim
from fedsim.cli.main import run_command
from fedsim.errors import Interrupted, RunFolderError
from fedsim.record.progress import Progress
from fedsim.results.analysis import Run, load
from fedsim.results.listing import list_runs
from fedsim.running.jobs import Job, Listener
from tests.fedsim.results.conftest import ROUNDS
from tests.util.small import small


class Stopping(Listener):
    """Stops a run after a round of one of its jobs."""

    def __init__(self, label: str, seed: int, last: int) -> None:
        self.last = (label, seed, last)

    def progress(self, job: Job, progress: Progress) -> None:
        if (job.label, job.simulation.spec.seed, progress.round) == self.last:
            raise KeyboardInterrupt


def stop(last: int, **changes: Any) -> Run:
    with pytest.raises(Interrupted):
        fedsim.run(small(rounds=ROUNDS, seeds=[0, 1], **changes), listener=Stopping(*AT, last))
    return load("runs/small-1")


AT = ("random-search", 1)


def test_what_an_interrupted_run_has_is_read(here: Path) -> None:
    run = stop(2)
    rounds, missing = run.read("rounds")
    assert rounds.groupby("seed")["round"].max().to_dict() == {0: ROUNDS, 1: 2}
    assert missing == [
        f"random-search, seed 1: interrupted, 2 of {ROUNDS} rounds: stopped by Ctrl-C"
    ]
    with pytest.warns(UserWarning, match=r"small-1 is incomplete: random-search, seed 1"):
        observed = run.observations
    assert len(observed) == 3 * (2 + ROUNDS) + 3 * (2 + 2)
    whole = fedsim.resume("runs/small-1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pd.testing.assert_frame_equal(whole.rounds.iloc[: len(rounds)], rounds)
        pd.testing.assert_frame_equal(whole.observations.iloc[: len(observed)], observed)


def test_seeds_without_anything_are_left_out(here: Path) -> None:
    run = stop(2, variants={"random-search": {}, "late": {}})
    rounds, missing = run.read("rounds")
    assert set(rounds["variant"]) == {"random-search"}
    assert [one.partition(":")[0] for one in missing[1:]] == [
        f"late, seed {seed} is left out" for seed in (0, 1)
    ]
    with pytest.raises(
        RunFolderError,
        match=r"nothing is recorded.*not started.*`fedsim resume .*runs/small-1` starts",
    ):
        _ = load("runs/small-1/late").rounds


def test_a_seed_whose_folder_is_missing(done: Run, capsys: pytest.CaptureFixture[str]) -> None:
    whole = done.rounds
    folder = done.runs[1].folder.path
    shutil.rmtree(folder)
    run = load(done.folder)
    assert [(one.variant, one.seed, one.state) for one in run.runs] == [
        ("a", 0, "done"),
        ("a", 1, "missing"),
        ("b", 0, "done"),
        ("b", 1, "done"),
    ]
    capsys.readouterr()
    for given in (done.folder, done.folder / "a"):
        assert run_command(["show", str(given)]) == 0
        out = capsys.readouterr().out
        assert "a, seed 1: its folder is missing" in out
        assert "1 of 2" in out
        assert "continue with: fedsim resume " in out
    assert run_command(["show", str(done.folder), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)["runs"][1]
    assert (record["status"], record["reason"]) == ("missing", "its folder is missing")
    (listed,) = list_runs("runs")
    assert (listed.status, listed.done, listed.jobs) == ("stopped", 3, 4)
    assert listed.reason == f"{done.folder / 'a' / 'seed-1'}: its folder is missing"
    for missing in (run.read("rounds")[1], run.read_best()[1], fedsim.compare(run).notes):
        assert any(
            note.startswith("a, seed 1 is left out: ") and "its folder is missing" in note
            for note in missing
        )
    with pytest.warns(UserWarning, match=r"a, seed 1 is left out: .*its folder is missing"):
        run.best()
    again = fedsim.resume(done.folder)
    pd.testing.assert_frame_equal(again.rounds, whole)
    assert [one.state for one in again.runs] == ["done"] * 4


@pytest.mark.parametrize("place", ["a/seed-1", "a"])
@pytest.mark.parametrize("made", [Path.touch, lambda path: path.symlink_to("nowhere")])
def test_a_file_in_the_place_of_a_folder(
    done: Run, capsys: pytest.CaptureFixture[str], place: str, made: Callable[[Path], None]
) -> None:
    whole = done.rounds
    path = done.folder.absolute() / place
    shutil.rmtree(path)
    made(path)
    words = f"{path} is a file, not a folder: remove it first"
    run = load(done.folder.absolute())
    capsys.readouterr()
    assert run_command(["show", str(run.folder)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert f"a, seed 1: {words}" in out
    assert "repair what is damaged, then continue with: fedsim resume " in out
    (listed,) = list_runs("runs")
    assert listed.reason == words.replace(f"{Path.cwd()}/", "")
    missing = run.read("rounds")[1][-1]
    assert missing.startswith(f"a, seed 1 is left out: {words}; then `fedsim resume ")
    with pytest.raises(RunFolderError) as caught:
        fedsim.resume(done.folder)
    assert str(caught.value) == f"{words}, then resume the run again"
    path.unlink()
    pd.testing.assert_frame_equal(fedsim.resume(done.folder).rounds, whole)


def test_a_variant_or_a_configuration_that_is_missing(done: Run) -> None:
    shutil.rmtree(done.folder / "b")
    (done.folder / "a" / "seed-0" / "config.yaml").unlink()
    run = load(done.folder)
    assert [(one.variant, one.seed, one.state) for one in run.runs] == [
        ("a", 0, "done"),
        ("a", 1, "done"),
        ("b", 0, "missing"),
        ("b", 1, "missing"),
    ]
    assert len(load(done.folder / "a").runs) == 2
    (listed,) = list_runs("runs")
    assert (listed.done, listed.jobs) == (2, 4)


def test_a_run_of_one_variant_that_lacks_a_seed(here: Path) -> None:
    run = fedsim.run(small(seeds=[0, 1, 2], rounds=1))
    shutil.rmtree(run.runs[1].folder.path)
    found = load(run.folder).runs
    assert [(one.variant, one.seed, one.state) for one in found] == [
        ("random-search", 0, "done"),
        ("random-search", 1, "missing"),
        ("random-search", 2, "done"),
    ]
    assert "2 done, 1 missing" in load(run.folder)._repr_html_()


def test_a_run_that_ended_before_its_first_seed(
    done: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """As on a full disk: the folder of the first seed is there, but its configuration is not."""
    whole = done.rounds
    for variant in ("a", "b"):
        shutil.rmtree(done.folder / variant)
    (done.folder / "a/seed-0/state").mkdir(parents=True)
    run = load(done.folder)
    assert [(one.name, one.state) for one in run.runs] == [
        (f"{variant}, seed {seed}", "missing") for variant in "ab" for seed in (0, 1)
    ]
    capsys.readouterr()
    assert run_command(["show", str(done.folder)]) == 0
    told = capsys.readouterr().out
    assert "continue with: fedsim resume" in told
    assert "fedsim best" not in told
    with pytest.raises(RunFolderError, match=r"seed-0: its folder is missing; `fedsim resume"):
        run.best()
    pd.testing.assert_frame_equal(fedsim.resume(done.folder).rounds, whole)


def test_show_hints_at_best_points_only_if_there_are_some(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def told() -> str:
        capsys.readouterr()
        assert run_command(["show", str(run.folder)]) == 0
        return capsys.readouterr().out

    run = stop(2)
    assert "fedsim best" in told()
    for seed in run.runs:  # nothing but the journals' headers is left
        seed.folder.update_manifest(status="interrupted")
        journal = seed.folder.journal
        journal.write_bytes(journal.read_bytes().partition(b"\n")[0] + b"\n")
    assert "fedsim best" not in told()
