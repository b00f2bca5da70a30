"""Whatever is killed, and however the agents are spread: the journal is the same, byte for byte."""

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import PATIENCE, Killer, alive, await_end, await_steps, descendants, start_fedsim
from processes import steps as steps_in

import fedsim
from fedsim.errors import RunError
from fedsim.journal import read_journal

METHODS: dict[str, dict[str, Any]] = {
    "random-search": {"name": "random-search"},
    "dp-fts-de": {"name": "dp-fts-de", "initial_points": 3, "message": {"features": 20}},
}
ROUNDS = 8  # and the initial design
PAUSE = 0.02  # per evaluation: three agents share a host, so that a round takes 60 ms
FEW, MANY = [0], list(range(10))
SELECTION = pytest.mark.parametrize("seeds", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
EACH_METHOD = pytest.mark.parametrize("method", METHODS)

Journals = dict[int, bytes]


def journals(folder: Path, seeds: Sequence[int]) -> Journals:
    """Return the journals of a run's seeds."""
    return {seed: journal(folder, seed).read_bytes() for seed in seeds}


def journal(folder: Path, seed: int) -> Path:
    return folder / f"seed-{seed}" / "journal.jsonl"


def kill_rounds(kind: str, seeds: Sequence[int]) -> dict[int, int]:
    """Return after which step of each seed to kill, from 1 to the last but one."""
    draw = np.random.default_rng([len(kind), *kind.encode()])
    return {seed: int(draw.integers(1, ROUNDS)) for seed in seeds}


@pytest.fixture
def config(bowl: dict[str, Any], method: str, seeds: list[int]) -> dict[str, Any]:
    """A run on Ray, slow enough to be hit."""
    scenario = {**bowl["scenario"], "pause": PAUSE}
    return {
        **bowl,
        "scenario": scenario,
        "method": METHODS[method],
        "rounds": ROUNDS,
        "seeds": seeds,
        "backend": "ray",
    }


@pytest.fixture
def expected(config: dict[str, Any], tmp_path: Path) -> Journals:
    """The journals of undisturbed runs in one process."""
    quick = {**config, "scenario": {"name": "workloads:Bowl"}}
    alone = {"backend": "serial", "agents_per_actor": "auto"}
    fedsim.run({**quick, **alone}, out=tmp_path / "serial")
    found = journals(tmp_path / "serial", config["seeds"])
    assert len(set(found.values())) == len(found)
    return found


@SELECTION
@EACH_METHOD
@pytest.mark.usefixtures("ray_cluster")
class TestOneCluster:
    @pytest.mark.parametrize("agents_per_actor", ["auto", 1])
    def test_however_agents_are_spread(
        self,
        config: dict[str, Any],
        expected: Journals,
        tmp_path: Path,
        agents_per_actor: str | int,
    ) -> None:
        quick = {"scenario": {"name": "workloads:Bowl"}, "agents_per_actor": agents_per_actor}
        fedsim.run({**config, **quick}, out=tmp_path / "run")
        assert journals(tmp_path / "run", config["seeds"]) == expected

    def test_hosts_are_killed(
        self, config: dict[str, Any], expected: Journals, tmp_path: Path
    ) -> None:
        run = tmp_path / "run"
        killers = [
            Killer("AgentHost", journal(run, seed), count, choice=seed)
            for seed, count in kill_rounds("host", config["seeds"]).items()
        ]
        fedsim.run(config, out=run)
        for killer in killers:
            killer.join(PATIENCE)
            assert killer.steps_at_death is not None
            assert killer.steps_at_death <= ROUNDS  # there was something left to do
        assert journals(run, config["seeds"]) == expected

    def test_servers_are_killed(
        self, config: dict[str, Any], expected: Journals, tmp_path: Path
    ) -> None:
        run = tmp_path / "run"
        rounds = kill_rounds("server", config["seeds"])
        for seed, count in rounds.items():
            killer = Killer("SimulationServer", journal(run, seed), count)
            with pytest.raises(RunError, match=f"seed {seed}, died .*fedsim resume"):
                fedsim.resume(run) if run.exists() else fedsim.run(config, out=run)
            killer.join(PATIENCE)
            assert killer.steps_at_death is not None
            assert count <= killer.steps_at_death <= ROUNDS
        fedsim.resume(run)
        assert journals(run, config["seeds"]) == expected


@SELECTION
@EACH_METHOD
def test_drivers_are_killed(
    config: dict[str, Any], expected: Journals, tmp_path: Path, ray_cluster: str
) -> None:
    run = tmp_path / "run"
    start = write_config({**config, "agents_per_actor": "auto"}, tmp_path)
    for seed, count in kill_rounds("driver", config["seeds"]).items():
        arguments = ("resume", str(run)) if run.exists() else ("run", start, "--out", str(run))
        with start_fedsim(*arguments) as driver:
            began = steps_in(journal(run, seed))
            await_steps(journal(run, seed), max(count, began + 1))
            below = descendants(driver.pid)
            driver.send_signal(signal.SIGKILL)
            driver.communicate(timeout=PATIENCE)
        assert driver.returncode == -signal.SIGKILL
        await_end(below)
    fedsim.resume(run)
    assert journals(run, config["seeds"]) == expected


def write_config(config: dict[str, Any], folder: Path) -> str:
    import yaml

    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    return str(path)


@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize("method", ["dp-fts-de"])
@SELECTION
def test_noise_of_the_operating_system_is_drawn_once(
    config: dict[str, Any], tmp_path: Path, seeds: list[int]
) -> None:
    config |= {"privacy": {"noise_source": "system"}, "transcript": True}
    run = tmp_path / "run"
    drawn: dict[Path, bytes] = {}
    for seed, count in kill_rounds("noise", seeds).items():
        killer = Killer("SimulationServer", journal(run, seed), count)
        with pytest.raises(RunError, match="died"):
            fedsim.resume(run) if run.exists() else fedsim.run(config, out=run)
        killer.join(PATIENCE)
        releases = run / f"seed-{seed}" / "state" / "releases"
        found = {path: path.read_bytes() for path in releases.glob("*.npz")}
        assert len(found) >= count - 1
        drawn |= found
    fedsim.resume(run)
    for path, content in drawn.items():
        assert path.read_bytes() == content
    for seed in seeds:
        folder = run / f"seed-{seed}"
        assert len(list((folder / "state" / "releases").glob("*.npz"))) == ROUNDS
        lines = list(read_journal(folder / "journal.jsonl"))
        assert [line["t"] for line in lines if line["kind"] == "release"] == list(range(ROUNDS))
        check_transcript((folder / "transcript.jsonl").read_text().splitlines())


def check_transcript(lines: Sequence[str]) -> None:
    """What the server program received twice must be equal."""
    import json

    received: dict[int, str] = {}
    for line in lines:
        assert received.setdefault(json.loads(line)["t"], line) == line
    assert sorted(received) == list(range(ROUNDS + 1))


class TestTheDrillItself:
    def test_only_own_processes_are_found(self) -> None:
        with subprocess.Popen(["sleep", "60"]) as child:
            assert child.pid in descendants(os.getpid())
            assert child.pid not in descendants(child.pid)
            assert alive(child.pid)
            child.kill()
            await_end([child.pid])

    def test_kills_differ_from_seed_to_seed(self) -> None:
        assert len(set(kill_rounds("host", MANY).values())) > 3
        assert set(kill_rounds("host", MANY).values()) <= set(range(1, ROUNDS))
