"""What a run on Ray does when the user's code fails, and when it is stopped."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import ray

import fedsim
from fedsim.errors import ObjectiveError, RunError, UserCodeError
from tests.util.bowl import OURS, journal, troubled, undisturbed
from tests.util.processes import (
    PATIENCE,
    actors,
    await_end,
    await_steps,
    descendants,
    start_fedsim,
    write_config,
)


@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize("resources", [None, {"cpus": 1.0}])
def test_agents_are_asked_to_prepare_every_step_but_the_first(
    one_host: dict[str, Any], tmp_path: Path, resources: dict[str, Any] | None
) -> None:
    diary = tmp_path / "diary"
    method = {"name": "workloads:Foresight", "diary": str(diary)}
    config = {**one_host, "method": method, "rounds": 3, "resources": resources}
    fedsim.run({**config, "backend": "ray"}, out=tmp_path / "run")
    agents = range(one_host["scenario"].get("agents", 6))
    expected = [f"{agent} {step} {step}" for step in (1, 2, 3) for agent in agents]
    assert diary.read_text().splitlines() == expected


@pytest.mark.usefixtures("ray_cluster")
class TestFailures:
    def test_an_objective_that_raises_shows_its_own_traceback(
        self, one_host: dict[str, Any], tmp_path: Path
    ) -> None:
        with pytest.raises(ObjectiveError, match=r"ZeroDivisionError.*agent 1, round 0, poi") as e:
            fedsim.run(troubled(one_host, "raise"), out=tmp_path / "run")
        assert "workloads.py" in e.value.user_traceback
        assert "the bowl is broken" in e.value.user_traceback
        assert not OURS.search(e.value.user_traceback)
        manifest = json.loads((tmp_path / "run" / "seed-0" / "manifest.json").read_text())
        assert manifest["status"] == "failed"
        assert "agent 1" in manifest["reason"]
        mine = os.getpid()  # nothing is left on the caller's cluster
        await_end(actors(mine, "AgentHost") + actors(mine, "SimulationServer"))
        assert ray.get(ray.put("alive")) == "alive"

    def test_a_scenario_that_workers_cannot_import(
        self, one_host: dict[str, Any], tmp_path: Path
    ) -> None:
        config = {**one_host, "scenario": {"name": "driver_only:DriverOnly"}, "backend": "ray"}
        with pytest.raises(UserCodeError, match="libmissing") as raised:
            fedsim.run(config, out=tmp_path / "run")
        assert "driver_only.py" in raised.value.user_traceback
        assert not OURS.search(raised.value.user_traceback)

    def test_an_objective_that_ends_its_process(self, bowl: dict[str, Any], tmp_path: Path) -> None:
        with pytest.raises(
            RunError, match=r"host of agents 1, 2, 5 died 3 times in round 0"
        ) as raised:
            fedsim.run(troubled(bowl, "exit"), out=tmp_path / "run")
        assert raised.value.exit_code == 3

    def test_an_objective_that_hangs(self, one_host: dict[str, Any], tmp_path: Path) -> None:
        config = troubled(one_host, "hang") | {"deadlines": {"evaluation": 2.0, "start": 300.0}}
        with pytest.raises(ObjectiveError, match=r"within 2 s \(agent 1, round 0, point") as raised:
            fedsim.run(config, out=tmp_path / "run")
        assert raised.value.exit_code == 3

    @pytest.mark.slow
    @pytest.mark.parametrize("trouble", ["hang", "exit"])
    def test_trouble_that_happens_once_changes_nothing(
        self, bowl: dict[str, Any], tmp_path: Path, trouble: str
    ) -> None:
        marker = tmp_path / "marker"
        config = troubled(bowl, trouble, marker=str(marker))
        config |= {"deadlines": {"evaluation": 2.0, "start": 300.0}}
        fedsim.run(config, out=tmp_path / "run")
        assert marker.exists()
        assert journal(tmp_path / "run") == undisturbed(config, tmp_path / "serial")


@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "to_group"),
    [
        (signal.SIGINT, True),
        (signal.SIGINT, False),
        (signal.SIGTERM, False),
    ],
    ids=["ctrl-c", "sigint", "sigterm"],
)
def test_an_interruption_can_be_resumed(
    bowl: dict[str, Any], tmp_path: Path, number: int, to_group: bool
) -> None:
    run = tmp_path / "run"
    scenario = {**bowl["scenario"], "pause": 0.02}
    config = {**bowl, "scenario": scenario, "backend": "ray", "agents_per_actor": 6}
    path = write_config(config, tmp_path)
    # A session of its own, as a terminal's: the signal to the group reaches this one only.
    with start_fedsim("run", path, "--out", str(run), start_new_session=True) as driver:
        await_steps(run / "seed-0" / "journal.jsonl", 3)
        below = descendants(driver.pid)
        assert actors(driver.pid, "SimulationServer")
        (os.killpg if to_group else os.kill)(driver.pid, number)
        _, errors = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 130
    assert f"fedsim resume {run}" in errors
    assert "Traceback" not in errors
    manifest = json.loads((run / "seed-0" / "manifest.json").read_text())
    assert manifest["status"] == "interrupted"
    await_end(below)
    fedsim.resume(run)
    assert journal(run) == undisturbed(bowl, tmp_path / "serial")
