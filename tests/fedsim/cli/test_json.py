"""JSON is JSON: in what every command prints with --json, and in every file of a run folder.

The runs are the worst for it: sums of their values overflow, one has almost no privacy noise, and
one sends NaN and infinity to its server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer

import fedsim
from fedsim.cli.app import app
from fedsim.cli.main import run_command
from tests.util.small import small, write
from tests.util.strict import strict_json

USERS = """
import numpy as np
from fedsim.methods.random_search import RandomSearch
from fedsim.protocol import Request
from fedsim.space import Parameter, Space

class Top:
    '''Values whose sum overflows.'''
    space, direction = Space((Parameter("a", 0, 1),)), "maximize"
    def __init__(self, agents: int = 3):
        self.agents = agents
    def objective(self, agent):
        return lambda point, rng: 1e308

class Shout(RandomSearch):
    '''Its agents send NaN and infinity; its server hears them, and tells them.'''
    def agent(self, agent):
        program = super().agent(agent)
        program.reply = lambda request, rng: {"x": np.array([np.nan, np.inf, 1.0])}
        return program
    def server(self):
        return Listening()

class Listening:
    aggregators = {}
    def start(self, fleet): pass
    def round(self, t, fleet):
        heard = fleet.step(t, None, then=Request("x"))
        return {"heard": float(sum(reply.payload["x"].sum() for reply in heard))}
    def state(self): return {}
    def restore(self, state): pass
"""

LOUD = {"dp": {"sampling_rate": 0.25, "noise_multiplier": 1e-7}}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The current folder, with two runs: ``top`` and ``loud``."""
    folder = tmp_path_factory.mktemp("json")
    (folder / "top_users.py").write_text(USERS, "utf-8")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patched.syspath_prepend(str(folder))
        top = small(scenario={"name": "top_users:Top"}, seeds=[0, 1], transcript=True)
        top |= {"variants": {"a": {}, "b": {"method": {"name": "top_users:Shout"}}}}
        fedsim.run(top, out="top", jobs=1)
        loud = small("dp-fts-de", transcript=True)
        loud["method"] |= LOUD
        fedsim.run(loud, out="loud")
        write(top, "top.yaml")
        write(loud, "loud.yaml")
        yield folder


COMMANDS: dict[str, Sequence[str]] = {
    "run": ("top.yaml --out new-top", "loud.yaml --out new-loud", "loud.yaml --dry-run"),
    "resume": ("top", "loud"),
    "runs": (".",),
    "show": ("top", "loud"),
    "compare": ("top",),
    "best": ("top", "loud"),
    "plot": ("top loud --out both.png",),
    "logs": ("top",),
    "list": ("",),
    "evaluate": ("top_users:Top --point [0.5]",),
    "data list": ("",),
    "data": ("",),
    "privacy subsampled": (
        "--agents 200 --sampling-rate 0.25 --noise-multiplier 1e-7 --rounds 4",
        "--agents 200 --sampling-rate 1 --noise-multiplier 1e-300 --rounds 4",
    ),
    "crypto bench": ("--members 3 --support 8 --rounds 1",),
    "crypto collusion": ("--members 3 --support 8 --trials 2",),
    "privacy calibrate": ("--agents 200 --sampling-rate 0.25 --epsilon 1e9 --rounds 40",),
    "privacy plan": ("--agents 200 --rounds 40 --epsilon 100",),
    "reproduce": ("", "dp-fts-de 11", "dp-fts-de 4 --dry-run"),
}
FAILING = {name: f"{name} --frobnicate" for name in COMMANDS}


def commands(group: typer.Typer, before: str = "") -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the names and functions of all commands that are registered."""
    for command in group.registered_commands:
        assert command.name is not None
        assert command.callback is not None
        yield f"{before}{command.name}", command.callback
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from commands(inner.typer_instance, f"{before}{inner.name} ")


def test_all_commands_with_json_are_looked_at() -> None:
    found = {name for name, function in commands(app) if "as_json" in function.__annotations__}
    assert found | {"data"} == COMMANDS.keys()


@pytest.mark.parametrize(
    "line", [f"{name} {rest}" for name, lines in COMMANDS.items() for rest in lines]
)
def test_what_a_command_prints(runs: Path, capsys: pytest.CaptureFixture[str], line: str) -> None:
    capsys.readouterr()
    code = run_command([*line.split(), "--json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    assert strict_json(out)


@pytest.mark.parametrize("line", FAILING.values())
def test_what_a_command_prints_if_it_fails(
    runs: Path, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    capsys.readouterr()
    assert run_command([*line.split(), "--json"]) == 2
    (printed,) = capsys.readouterr().out.splitlines()
    assert strict_json(printed)["error"]["exit_code"] == 2


def test_the_files_of_a_run_folder(runs: Path) -> None:
    names = set()
    for folder in ("top", "loud"):
        for path in (runs / folder).rglob("*.json*"):
            text = path.read_text("utf-8")
            for one in text.splitlines() if path.suffix == ".jsonl" else [text]:
                strict_json(one)
            names.add(path.name)
    assert {"manifest.json", "journal.jsonl", "timings.jsonl", "transcript.jsonl"} <= names


def test_what_the_server_heard(runs: Path) -> None:
    lines = (runs / "top" / "b" / "seed-0" / "transcript.jsonl").read_text("utf-8").splitlines()
    heard = [reply for line in lines for reply in strict_json(line)["replies"]]
    assert heard[0] == [0, "ok", {"x": [None, None, 1.0]}]
