"""The journal is the same, byte for byte, after any kill and with agents on any hosts."""

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.errors import RunError
from fedsim.record.entries import ReleaseEntry
from fedsim.record.journal import read_journal
from tests.util.processes import (
    PATIENCE,
    Killer,
    actors,
    alive,
    await_end,
    await_steps,
    descendants,
    start_fedsim,
    write_config,
)
from tests.util.processes import steps as steps_in
from tests.util.small import body

METHODS: dict[str, dict[str, Any]] = {
    "random-search": {"name": "random-search"},
    "dp-fts-de": {"name": "dp-fts-de", "initial_points": 3, "message": {"features": 20}},
    # Two releases per round, each of two asks; it remembers, and its agents' keys get lost.
    "masked": {"name": "masked:Masked"},
}
ROUNDS = 8  # and the initial design
PAUSE = 0.02  # per evaluation: three agents share a host, so that a round takes 60 ms
FEW, MANY = [0], list(range(10))

Journals = dict[int, bytes]


def drill(*quick: str) -> pytest.MarkDecorator:
    """Ten seeds of both methods (slow), and one seed of the methods that are named."""
    few = [pytest.param(method, FEW, id=f"{method}-one-seed") for method in quick]
    many = [
        pytest.param(method, MANY, id=f"{method}-ten-seeds", marks=pytest.mark.slow)
        for method in METHODS
    ]
    return pytest.mark.parametrize(("method", "seeds"), few + many)


def journals(folder: Path, seeds: Sequence[int]) -> Journals:
    """Return the journals of a run's seeds."""
    return {seed: journal(folder, seed).read_bytes() for seed in seeds}


def journal(folder: Path, seed: int) -> Path:
    return folder / f"seed-{seed}" / "journal.jsonl"


def go_on(config: dict[str, Any], folder: Path) -> None:
    """Start a run, or resume it if it was started."""
    if folder.exists():
        fedsim.resume(folder)
    else:
        fedsim.run(config, out=folder)


def kill_rounds(kind: str, seeds: Sequence[int]) -> dict[int, int]:
    """Return after which step of each seed to kill, from 1 to the last but one."""
    draw = np.random.default_rng([len(kind), *kind.encode()])
    return {seed: int(draw.integers(1, ROUNDS)) for seed in seeds}


@pytest.fixture
def config(bowl: dict[str, Any], method: str, seeds: list[int]) -> dict[str, Any]:
    """A run on Ray, slow enough to be killed in time."""
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
    alone = {"backend": "serial", "agents_per_actor": "auto"}
    fedsim.run({**config, **alone}, out=tmp_path / "serial")
    found = journals(tmp_path / "serial", config["seeds"])
    assert len({body(journal(tmp_path / "serial", seed)) for seed in found}) == len(found)
    return found


@pytest.mark.usefixtures("ray_cluster")
class TestOneCluster:
    @drill()  # test_evaluations.py has one seed of dp-fts-de on two hosts
    @pytest.mark.parametrize(
        "agents_per_actor",
        [2, *(pytest.param(spread, marks=pytest.mark.slow) for spread in ("auto", 1))],
    )
    def test_however_agents_are_spread(
        self,
        config: dict[str, Any],
        expected: Journals,
        tmp_path: Path,
        agents_per_actor: str | int,
    ) -> None:
        fedsim.run({**config, "agents_per_actor": agents_per_actor}, out=tmp_path / "run")
        assert journals(tmp_path / "run", config["seeds"]) == expected

    @drill("masked")
    def test_hosts_are_killed(
        self, config: dict[str, Any], expected: Journals, tmp_path: Path
    ) -> None:
        run = tmp_path / "run"
        rounds = kill_rounds("host", config["seeds"])
        killer = Killer("AgentHost", {journal(run, seed): n for seed, n in rounds.items()})
        fedsim.run(config, out=run)
        killer.check(last=ROUNDS + 1)
        assert journals(run, config["seeds"]) == expected

    @drill("masked")
    def test_servers_are_killed(
        self, config: dict[str, Any], expected: Journals, tmp_path: Path
    ) -> None:
        run = tmp_path / "run"
        config |= {"agents_per_actor": "auto"}
        rounds = kill_rounds("server", config["seeds"])
        for seed, count in rounds.items():
            killer = Killer("SimulationServer", {journal(run, seed): count})
            with pytest.raises(RunError, match=f"^the server actor of .*, seed {seed} died"):
                go_on(config, run)
            killer.check(last=ROUNDS + 1)
        fedsim.resume(run)
        assert journals(run, config["seeds"]) == expected


@drill("random-search")
@pytest.mark.usefixtures("ray_cluster")
def test_drivers_are_killed(config: dict[str, Any], expected: Journals, tmp_path: Path) -> None:
    run, orphans, kills = tmp_path / "run", list[int](), 0
    start = write_config({**config, "agents_per_actor": "auto"}, tmp_path)
    for seed, count in kill_rounds("driver", config["seeds"]).items():
        arguments = ("resume", str(run)) if run.exists() else ("run", start, "--out", str(run))
        began = steps_in(journal(run, seed))
        if began > ROUNDS:
            continue  # two seeds run at a time: this one ended while the other was watched
        with start_fedsim(*arguments) as driver:
            await_steps(journal(run, seed), max(count, began + 1))
            orphans += actors(driver.pid, "AgentHost") + actors(driver.pid, "SimulationServer")
            driver.send_signal(signal.SIGKILL)
            driver.communicate(timeout=PATIENCE)
        assert driver.returncode == -signal.SIGKILL
        kills += 1
    assert kills > len(config["seeds"]) // 2
    fedsim.resume(run)
    assert journals(run, config["seeds"]) == expected
    await_end(orphans)


@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize(
    ("method", "per_round", "seeds"),
    [
        pytest.param("masked", 2, FEW, id="masked-one-seed"),
        pytest.param("masked", 2, MANY, id="masked-ten-seeds", marks=pytest.mark.slow),
        pytest.param("dp-fts-de", 1, MANY, id="dp-fts-de-ten-seeds", marks=pytest.mark.slow),
    ],
)
def test_noise_of_the_operating_system_is_drawn_once(
    config: dict[str, Any], tmp_path: Path, seeds: list[int], per_round: int
) -> None:
    config |= {"privacy": {"noise_source": "system"}, "transcript": True}
    config |= {"agents_per_actor": "auto"}
    run = tmp_path / "run"
    drawn: dict[Path, bytes] = {}
    for seed, count in kill_rounds("noise", seeds).items():
        killer = Killer("SimulationServer", {journal(run, seed): count})
        with pytest.raises(RunError, match="died"):
            go_on(config, run)
        killer.check(last=ROUNDS + 1)
        releases = run / f"seed-{seed}" / "state" / "releases"
        found = {path: path.read_bytes() for path in releases.glob("*.npz")}
        assert len(found) >= per_round * (count - 1)
        drawn |= found
    assert drawn
    fedsim.resume(run)
    for path, content in drawn.items():
        assert path.read_bytes() == content
    for seed in seeds:
        folder = run / f"seed-{seed}"
        kept = list((folder / "state" / "releases").glob("*.npz"))
        assert len(kept) == per_round * ROUNDS
        entries = list(read_journal(folder / "journal.jsonl"))
        releases_in = Counter(one.t for one in entries if isinstance(one, ReleaseEntry))
        assert releases_in == dict.fromkeys(range(ROUNDS), per_round)
        transcript = (folder / "transcript.jsonl").read_text().splitlines()
        check_transcript(transcript, per_round * ROUNDS + 1)


def check_transcript(lines: Sequence[str], calls: int) -> None:
    """If the server program received something twice, both must be equal."""
    received: dict[int, str] = {}
    for line in lines:
        assert received.setdefault(json.loads(line)["call"], line) == line
    assert sorted(received) == list(range(calls))


class TestTheDrillItself:
    @pytest.mark.heavy
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
