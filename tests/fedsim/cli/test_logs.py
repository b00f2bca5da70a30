"""``fedsim logs`` shows what was printed, and whose it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

import fedsim
from fedsim.cli.main import run_command
from tests.util.small import UserModule, small, write

TALKING = """
    from fedsim.space import Parameter, Space
    class Mine:
        direction, agents, space = "maximize", 12, Space((Parameter("x", 0, 1),))
        def objective(self, agent):
            return lambda point, rng: self.value(agent)
        def value(self, agent):
            if agent in (1, 11):
                print(f"[bold]{agent}[/bold]")
            return 0.0
"""


@pytest.fixture
def folder(here: Path, user_module: UserModule, capsys: pytest.CaptureFixture[str]) -> Path:
    """A run of two seeds, of which agents 1 and 11 print."""
    scenario = {"name": f"{user_module(TALKING)}:Mine"}
    config = small(scenario=scenario, rounds=1, seeds=[3, 4])
    config["method"]["initial_points"] = 1
    done = fedsim.run(config, out=here / "run")
    capsys.readouterr()
    return done.folder


def test_all_that_was_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["logs", str(folder)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        line
        for seed in (3, 4)
        for t in (0, 1)
        for agent in (1, 11)
        for line in (
            f"random-search, seed {seed}, agent {agent}, round {t}:",
            f"[bold]{agent}[/bold]",
        )
    ]


def test_of_one_agent_and_seed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["logs", str(folder / "seed-4"), "--agent", "1", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    told = {"variant": "random-search", "seed": 4, "process": "process", "text": "[bold]1[/bold]\n"}
    assert record["printed"] == [{**told, "whose": f"agent 1, round {t}"} for t in (0, 1)]


def test_what_has_not_ended(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs = folder / "seed-3" / "logs"
    (logs / "process.log").write_text("so far")
    (logs / "running").mkdir()
    (logs / "running" / "agent-2-5-0.log").write_text("epoch 1\n")
    assert run_command(["logs", str(folder / "seed-3")]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "random-search, seed 3, process, not ended:",
        "so far",
        "random-search, seed 3, running/agent-2-5-0, not ended:",
        "epoch 1",
    ]
    assert run_command(["logs", str(folder / "seed-3"), "--agent", "2"]) == 0
    assert "epoch 1" in capsys.readouterr().out


def test_a_run_that_printed_says_where_it_is(
    folder: Path, capsys: pytest.CaptureFixture[str], here: Path
) -> None:
    config = yaml.safe_load((folder / "config.yaml").read_text())
    assert run_command(["run", write(config), "--out", "talking"]) == 0
    assert "what was printed: fedsim logs talking\n" in capsys.readouterr().out
    assert run_command(["run", write(small(rounds=1)), "--out", "silent"]) == 0
    assert "what was printed" not in capsys.readouterr().out


def test_nothing_and_no_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["logs", str(folder), "--agent", "0"]) == 0
    assert capsys.readouterr().out == "nothing was printed by agent 0\n"
    assert run_command(["logs", str(folder / "none")]) == 2
    for agent in ("99", "-1"):
        capsys.readouterr()
        assert run_command(["logs", str(folder), "--agent", agent]) == 2
        out, err = capsys.readouterr()
        assert (out, err) == ("", f"error: --agent: expected 0 to 11, got {agent}\n")
