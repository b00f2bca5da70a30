"""Journals of an unfinished seed that are missing, cut, damaged or another's: what is advised."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import fedsim
from fedsim.errors import RunFolderError
from tests.fedsim.results.conftest import UNFINISHED
from tests.util.readers import everywhere, follow, listed, told


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, interrupted: Path) -> bytes:
    """The seed's journal when the run was resumed."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    shutil.copytree(interrupted, folder)
    return fedsim.resume(folder).runs[3].folder.journal.read_bytes()


def cut(lines: int) -> Callable[[Path], None]:
    def change(journal: Path) -> None:
        journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:lines]))

    return change


def garbled(number: int) -> Callable[[Path], None]:
    def change(journal: Path) -> None:
        lines = journal.read_bytes().splitlines(keepends=True)
        lines[number - 1] = b"nonsense\n"
        journal.write_bytes(b"".join(lines))

    return change


def of(seed: str) -> Callable[[Path], None]:
    def change(journal: Path) -> None:
        shutil.copy(journal.parents[2] / seed / "journal.jsonl", journal)

    return change


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "empty": (cut(0), "the end of its journal is lost: it has 0 of 3 entries"),
    "header only": (cut(1), "the end of its journal is lost: it has 0 of 3 entries"),
    "cut": (cut(3), "the end of its journal is lost: it has 2 of 3 entries"),
    "missing": (Path.unlink, "its journal is missing"),
    "header garbled": (garbled(1), "line 1 is damaged: "),
    "garbled": (garbled(3), "line 3 is damaged: "),
    "of another seed": (of("b/seed-0"), "belongs to another seed, or to other settings, than"),
    "of another variant": (of("a/seed-1"), "belongs to another seed, or to other settings, than"),
}


@pytest.mark.parametrize(("damage", "words"), DAMAGES.values(), ids=DAMAGES)
def test_one_advice_everywhere_that_works(
    run: Path,
    whole: bytes,
    damage: Callable[[Path], None],
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    journal = run / UNFINISHED / "journal.jsonl"
    damage(journal)
    texts = [*everywhere(run, capsys)]
    with pytest.raises(RunFolderError) as caught:
        fedsim.resume(run)
    refusal = str(caught.value)
    advice = refusal[refusal.index("restore it from a copy, or ") :]
    assert words in refusal
    for text in texts:
        assert words in text
        assert advice in text
    shown, reason = told("show", run, capsys), str(listed(run).reason)
    assert "repair what is damaged, then continue with: fedsim resume run" in shown
    assert shown.count(advice) == reason.count(advice) == 1  # also after a resume that failed
    follow(refusal, run / UNFINISHED)
    assert {one.state for one in fedsim.resume(run).runs} == {"done"}
    assert journal.read_bytes() == whole


def test_a_resume_that_is_not_refused_is_said(run: Path, whole: bytes) -> None:
    journal = run / UNFINISHED / "journal.jsonl"
    journal.unlink()
    (run / UNFINISHED / "state/checkpoint.npz").unlink()
    lost = "its journal is missing; resume does the seed again from its start"
    assert str(listed(run).reason).endswith(f"b, seed 1: {lost}")
    fedsim.resume(run)
    assert journal.read_bytes() == whole


def test_a_damaged_checkpoint_is_said_once(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / UNFINISHED / "state/checkpoint.npz").write_bytes(b"x")
    words = "state/checkpoint.npz: damaged (cannot be read"
    for _ in range(2):
        for text in everywhere(run, capsys):
            assert text.count(words) == 1
        with pytest.raises(RunFolderError, match=r"checkpoint.npz: .*; remove it and resume"):
            fedsim.resume(run)
        assert "repair what is damaged, then continue with" in told("show", run, capsys)
    (run / UNFINISHED / "state/checkpoint.npz").unlink()
    assert {one.state for one in fedsim.resume(run).runs} == {"done"}
