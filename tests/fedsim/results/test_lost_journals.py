"""Journals of finished seeds that are missing, cut or altered."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import fedsim
from fedsim.cli.main import run_command
from fedsim.errors import LostRecordError, RunFolderError
from fedsim.results.analysis import Run, load
from tests.util.readers import follow


def lost(done: Run, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """Return what `fedsim show` says, and what its JSON says of the first seed."""
    capsys.readouterr()
    assert run_command(["show", str(done.folder)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert run_command(["show", str(done.folder), "--json"]) == 0
    first, *others = json.loads(capsys.readouterr().out.splitlines()[-1])["runs"]
    assert all("lost" not in one for one in others)
    return told, first.get("lost", "")


def test_a_lost_journal_is_said(done: Run, capsys: pytest.CaptureFixture[str]) -> None:
    journal = done.runs[0].folder.journal
    assert lost(done, capsys)[1] == ""
    with journal.open("ab") as file:
        file.write(b"x")
    sentence = "its journal is not the one that it ended with"
    told, record = lost(done, capsys)
    assert f"a, seed 0: only its tables and its outcome are left: {sentence}" in told
    assert sentence in record
    journal.unlink()
    told, record = lost(done, capsys)
    assert "a, seed 0: only its tables and its outcome are left: its journal is missing" in told
    assert "its journal is missing" in record


def empty(journal: Path) -> None:
    journal.write_bytes(b"")


def cut(journal: Path) -> None:
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:5]))


def alter(journal: Path) -> None:
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:4], lines[4].replace(b"0", b"1"), *lines[5:]]))


LOSSES: dict[str, Callable[[Path], None]] = {
    "empty": empty,
    "cut": cut,
    "altered": alter,
    "missing": Path.unlink,
}


@pytest.mark.parametrize("loss", LOSSES)
def test_best_does_not_use_a_lost_journal(
    done: Run, loss: str, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = done.best_points()
    LOSSES[loss](done.runs[0].folder.journal)
    points, missing = done.read_best()
    assert points == tuple(one for one in whole if (one.variant, one.seed) != ("a", 0))
    (sentence,) = missing
    assert sentence.startswith("a, seed 0 is left out: ")
    assert "/a/seed-0: its journal is " in sentence
    capsys.readouterr()
    assert run_command(["best", str(done.folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["missing"] == missing
    with pytest.raises(RunFolderError, match="its journal is "):
        load(done.runs[0].folder.path).best()


@pytest.mark.parametrize("name", ["rounds", "observations"])
@pytest.mark.parametrize("loss", LOSSES)
def test_tables_are_not_made_from_a_lost_journal(done: Run, name: str, loss: str) -> None:
    one = done.runs[0]
    LOSSES[loss](one.folder.journal)
    assert done.read(name)[1] == []  # the table that is stored is used
    (one.folder.path / f"{name}.parquet").unlink()
    assert "a, seed 0 is left out: " in done.read(name)[1][0]
    one.folder.update_manifest(outcome={**one.folder.manifest()["outcome"], "agents": "x"})
    with pytest.raises(RunFolderError, match="its journal is "):
        one.summary()


def of_another(journal: Path) -> None:
    shutil.copy(journal.parents[2] / "b/seed-1/journal.jsonl", journal)


def garble_header(journal: Path) -> None:
    journal.write_bytes(b"x" + journal.read_bytes())


DAMAGES = {**LOSSES, "another seed's": of_another, "header": garble_header}


@pytest.mark.parametrize("loss", DAMAGES)
def test_the_advice_for_a_lost_journal_works(done: Run, loss: str) -> None:
    folder = done.runs[0].folder
    rounds, points = done.rounds, done.best_points()
    journal = folder.journal.read_bytes()
    DAMAGES[loss](folder.journal)
    with pytest.raises(RunFolderError) as caught:
        load(folder.path).best()
    lost = load(folder.path).summaries()[0]["lost"]
    assert str(caught.value) == f"{folder.path.absolute()}: {lost.partition(': ')[2]}"
    follow(lost, folder.path)
    again = fedsim.resume(done.folder)
    assert folder.journal.read_bytes() == journal
    assert again.best_points() == points
    pd.testing.assert_frame_equal(again.rounds, rounds)
    assert "lost" not in again.runs[0].summary()


@pytest.mark.parametrize("loss", DAMAGES)
def test_a_resume_of_a_run_that_is_done_says_what_is_lost_and_fails(
    done: Run, loss: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, first = str(done.folder), done.runs[0]
    assert run_command(["resume", folder]) == 0
    DAMAGES[loss](first.folder.journal)
    words = load(first.folder.path).summaries()[0]["lost"]  # what `fedsim show` says
    told = (
        f"{folder}: done, but not all of its record is left: a, seed 0: {words}. Repair what is "
        f"damaged, then continue with: fedsim resume {folder}; or start a new run: fedsim run "
        f"{folder}/config.yaml --seeds 0"
    )
    capsys.readouterr()
    assert run_command(["resume", folder]) == 3
    said = capsys.readouterr()
    assert " ".join(said.err.split()) == f"error: {told}"
    assert said.out == ""
    assert run_command(["resume", folder, "--json"]) == 3
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["kind"], error["exit_code"]) == ("LostRecordError", 3)
    assert (error["message"], error["folder"]) == (told, folder)
    with pytest.raises(LostRecordError) as caught:
        fedsim.resume(done.folder)
    assert not getattr(caught.value, "__notes__", ())  # the message says how to go on


def test_a_resume_finishes_what_is_left_before_it_fails(run: Path) -> None:
    for seed in ("a/seed-0", "a/seed-1", "b/seed-0"):
        cut(run / seed / "journal.jsonl")
    with pytest.raises(
        LostRecordError, match=r": a, seed 0; a, seed 1; b, seed 0: only .*--seeds 0,1$"
    ):
        fedsim.resume(run)
    assert [one.status for one in load(run).runs] == ["done"] * 4
    assert load(run).runs[-1].lost_journal() is None


def test_the_new_run_that_is_advised_is_like_the_first(done: Run) -> None:
    config = done.folder / "config.yaml"
    done.runs[0].folder.journal.unlink()
    again = fedsim.run(config, overrides=["seeds=0"])
    old, new = ([x["journal_sha256"] for x in one.summaries()] for one in (done, again))
    assert new == old[::2]
