"""What a shell offers at Tab: through the shell's own protocol, and the functions behind it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fedsim.cli import completion
from fedsim.cli.main import run_command
from fedsim.config.ready import ready_names
from fedsim.config.registry import METHODS, SCENARIOS
from fedsim.data.catalogue import DATA_SETS

Press = Callable[[str], list[str]]


@pytest.fixture
def tab(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Press:
    """A function that completes the last word of a command line, as bash asks for it."""

    def press(line: str) -> list[str]:
        words = line.split(" ")
        monkeypatch.setenv("_FEDSIM_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", "\n".join(words))
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        capsys.readouterr()
        assert run_command([]) == 0
        return capsys.readouterr().out.split()

    return press


def make_run(folder: str) -> None:
    Path(folder).mkdir(parents=True)
    Path(folder, "origin.yaml").touch()


class TestThroughTheShell:
    def test_commands(self, tab: Press) -> None:
        assert {"run", "runs"} <= set(tab("fedsim ru"))
        assert "list" in tab("fedsim data ")

    def test_ready_configurations(self, tab: Press) -> None:
        Path("mine.yaml").touch()
        Path("notes.txt").touch()
        assert tab("fedsim run ") == [*ready_names(), "mine.yaml"]
        assert tab("fedsim run synthetic-f") == ["synthetic-fts"]
        assert tab("fedsim init ") == ready_names()
        assert set(tab("fedsim evaluate digits")) == {"digits-svm", "digits-svm-warp"}

    def test_methods_and_scenarios(self, tab: Press) -> None:
        assert tab("fedsim run --set method.name=dp") == [
            f"method.name={name}" for name in METHODS if name.startswith("dp")
        ]
        assert tab("fedsim run --set scenario") == [f"scenario.name={name}" for name in SCENARIOS]

    def test_run_folders(self, tab: Press) -> None:
        make_run("runs/a-1")
        make_run("elsewhere/b-1")
        for command in ("resume", "show", "plot", "runs"):
            assert tab(f"fedsim {command} ") == ["runs/a-1"]
            assert tab(f"fedsim {command} else") == ["elsewhere/"]
            assert tab(f"fedsim {command} elsewhere/") == ["elsewhere/b-1"]

    def test_others(self, tab: Press) -> None:
        assert tab("fedsim data fetch ") == list(DATA_SETS)
        assert tab("fedsim run --backend s") == ["serial"]


class TestPaths:
    def test_hidden_ones_are_offered_when_they_are_begun(self, here: Path) -> None:
        make_run(".hidden")
        make_run("seen")
        assert completion.complete_run("") == ["seen"]
        assert completion.complete_run(".h") == [".hidden"]

    def test_a_folder_that_is_not_there_offers_nothing(self, here: Path) -> None:
        assert completion.complete_run("no/where") == []
        assert completion.complete_source("no/where/") == []

    def test_absolute_paths(self, here: Path) -> None:
        make_run("runs/a-1")
        assert completion.complete_run(f"{here}/runs/") == [f"{here}/runs/a-1"]
        assert completion.complete_run(f"{here}/ru") == [f"{here}/runs/"]
