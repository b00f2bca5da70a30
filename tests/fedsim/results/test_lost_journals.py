"""Journals of finished seeds that are missing, cut or altered."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import fedsim
from fedsim.cli.main import run_command
from fedsim.errors import RunFolderError
from fedsim.results.analysis import Run, load


def lost(done: Run, capsys: pytest.CaptureFixture[str], command: str) -> tuple[str, str]:
    """Return what a command says, and what its JSON says of the first seed."""
    capsys.readouterr()
    assert run_command([command, str(done.folder)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert run_command([command, str(done.folder), "--json"]) == 0
    first, *others = json.loads(capsys.readouterr().out.splitlines()[-1])["runs"]
    assert all("lost" not in one for one in others)
    return told, first.get("lost", "")


@pytest.mark.parametrize("command", ["show", "resume"])
def test_a_lost_journal_is_said(
    done: Run, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    journal = done.runs[0].folder.journal
    assert lost(done, capsys, command)[1] == ""
    with journal.open("ab") as file:
        file.write(b"x")
    sentence = "its journal is not the one that it ended with"
    told, record = lost(done, capsys, command)
    assert f"a, seed 0: {sentence}" in told
    assert sentence in record
    journal.unlink()
    told, record = lost(done, capsys, command)
    assert "a, seed 0: its journal is missing: only its tables and its outcome are left" in told
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
    assert "journal.jsonl: " in sentence
    capsys.readouterr()
    assert run_command(["best", str(done.folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["missing"] == missing
    with pytest.raises(RunFolderError, match=r"journal\.jsonl: "):
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
    with pytest.raises(RunFolderError, match=r"journal\.jsonl: "):
        one.summary()


@pytest.mark.parametrize("loss", LOSSES)
def test_the_advice_for_a_lost_journal_works(done: Run, loss: str) -> None:
    folder = done.runs[0].folder
    rounds, points = done.rounds, done.best_points()
    journal = folder.journal.read_bytes()
    LOSSES[loss](folder.journal)
    with pytest.raises(RunFolderError) as caught:
        load(folder.path).best()
    for part in ("manifest.json", "state/checkpoint.npz", "resume"):
        assert part in str(caught.value)
    if loss == "altered":  # "cut it there"
        cut(folder.journal)
        folder.journal.write_bytes(b"".join(folder.journal.read_bytes().splitlines(True)[:4]))
    assert "resume" in load(folder.path).summaries()[0]["lost"]
    (folder.path / "manifest.json").unlink()
    (folder.path / "state/checkpoint.npz").unlink()
    again = fedsim.resume(done.folder)
    assert folder.journal.read_bytes() == journal
    assert again.best_points() == points
    pd.testing.assert_frame_equal(again.rounds, rounds)
    assert "lost" not in again.runs[0].summary()
