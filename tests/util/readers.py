"""What each command that reads a run says of it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedsim.cli.main import run_command
from fedsim.dashboards.curves import chart
from fedsim.results.analysis import load
from fedsim.results.listing import RunSummary, list_runs


def listed(run: Path) -> RunSummary:
    (found,) = list_runs(run)
    return found


def told(command: str, run: Path, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    run_command([command, str(run)])
    return " ".join("".join(capsys.readouterr()).split())


def everywhere(run: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[str]:
    """Yield what each reader says of a run."""
    for command in ("show", "best", "compare"):
        yield told(command, run, capsys)
    yield "; ".join(load(run).read("rounds")[1])
    yield "; ".join(chart(load(run)).notes)
    yield str(listed(run).reason)


def follow(advice: str, seed: Path) -> None:
    """Do what is advised about a seed's journal, but for the resume."""
    if "move the seed's folder out of the run folder" in advice:
        shutil.move(seed, Path("moved-out"))
        return
    if (line := re.search(r"line (\d+) is damaged", advice)) is not None:
        assert "cut it before that line" in advice
        journal = seed / "journal.jsonl"
        lines = journal.read_bytes().splitlines(keepends=True)
        journal.write_bytes(b"".join(lines[: int(line[1]) - 1]))
    assert "remove manifest.json and state/checkpoint.npz beside it and resume" in advice
    for name in ("manifest.json", "state/checkpoint.npz"):
        (seed / name).unlink()
