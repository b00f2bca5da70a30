"""What a run on Ray does when the user's code fails, and when it is stopped."""

import json
import os
import re
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray

import fedsim
from fedsim.actors.launch import _report, _Slot
from fedsim.actors.server import Progressed
from fedsim.config.model import Config
from fedsim.config.spec import RunSpec
from fedsim.errors import ObjectiveError, ResourceError, RunError, UserCodeError
from fedsim.record.locking import locked
from fedsim.record.progress import Progress
from fedsim.running.jobs import Job, Listener
from fedsim.simulation.loop import Simulation
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


class FakeRay:
    """Answers questions at once, unless ``silent``."""

    silent = False

    def wait(self, refs: list[Any], **_: Any) -> tuple[list[Any], list[Any]]:
        return ([], refs) if self.silent else (refs, [])

    def get(self, ref: Any, **_: Any) -> Any:
        return ref


class Heard(Listener):
    """Records what is heard of a job."""

    def __init__(self) -> None:
        self.rounds: list[int] = []
        self.waits: list[str] = []

    def progress(self, job: Job, progress: Progress) -> None:
        self.rounds.append(progress.round)

    def waiting(self, job: Job, why: str) -> None:
        self.waits.append(why)


class TestReports:
    """What a server says about its job."""

    @pytest.fixture
    def ray_says(self, monkeypatch: pytest.MonkeyPatch) -> FakeRay:
        fake = FakeRay()
        monkeypatch.setattr("fedsim.actors.launch.ray", fake)
        return fake

    def slot(self, answer: Progressed) -> _Slot:
        config = Config(scenario={"name": "synthetic"}, method={"name": "ts"}, rounds=9)
        spec = RunSpec(config.scenario, config.method, 9, 1, None)
        job = Job("ts", config, Simulation(spec, Path("seed-1")))
        server = SimpleNamespace(progress=SimpleNamespace(remote=lambda: answer))
        return _Slot(server, job, 100.0, asked=answer)

    def test_numbers_of_an_earlier_job_are_dropped(self, ray_says: FakeRay) -> None:
        """The question was asked before the server took the next job."""
        heard = Heard()
        _report(self.slot(Progressed(Path("seed-0"), Progress(round=9), "slow hosts")), heard)
        assert (heard.rounds, heard.waits) == ([], [])
        _report(self.slot(Progressed(Path("seed-1"), Progress(round=2))), heard)
        assert (heard.rounds, heard.waits) == ([2], [])

    def test_what_keeps_a_job_waiting_is_told_until_it_no_longer_does(
        self, ray_says: FakeRay
    ) -> None:
        heard, slot = Heard(), self.slot(Progressed(Path("seed-1"), Progress(), "a host is silent"))
        _report(slot, heard)
        for _ in range(2):
            slot.asked = Progressed(Path("seed-1"), Progress())
            _report(slot, heard)
        assert heard.waits == ["a host is silent", ""]

    def test_a_silent_server_is_told_and_then_given_up(self, ray_says: FakeRay) -> None:
        ray_says.silent = True
        heard, slot = Heard(), self.slot(Progressed(Path("seed-1"), Progress()))
        _report(slot, heard)
        assert heard.waits == []
        slot.heard = time.monotonic() - 30.1
        _report(slot, heard)
        assert heard.waits == ["its server actor has been silent for 30 s"]
        slot.heard = time.monotonic() - 100.5
        with pytest.raises(ResourceError, match="server actor of ts, seed 1 did not answer within"):
            _report(slot, heard)


@pytest.mark.slow
def test_progress_of_many_seeds_is_their_own(
    ray_cluster: str, one_host: dict[str, Any], tmp_path: Path
) -> None:
    told: dict[int, list[Progress]] = {}

    class Watching(Listener):
        def progress(self, job: Job, progress: Progress) -> None:
            told.setdefault(job.simulation.spec.seed, []).append(progress)

    config = {**one_host, "rounds": 2, "seeds": "0-19", "backend": "ray"}
    run = fedsim.run(config, out=tmp_path / "run", listener=Watching())
    assert sorted(told) == list(range(20))
    for seed, heard in told.items():
        table = run.rounds[run.rounds["seed"] == seed].set_index("round")
        for progress in heard:
            if progress.round >= 0:
                row = table.loc[progress.round]
                assert progress.scores.best_observed == row["best_observed"]
        assert heard[-1].round == 2


@pytest.mark.slow
def test_a_silent_host_is_told(ray_cluster: str, bowl: dict[str, Any], tmp_path: Path) -> None:
    waits: list[str] = []

    class Waking(Listener):
        """Stops a host in round 2, and lets it go on when that is told."""

        host: int | None = None

        def progress(self, job: Job, progress: Progress) -> None:
            if progress.round >= 2 and self.host is None:
                self.host = actors(os.getpid(), "AgentHost")[0]
                os.kill(self.host, signal.SIGSTOP)

        def waiting(self, job: Job, why: str) -> None:
            waits.append(why)
            if self.host is not None:
                os.kill(self.host, signal.SIGCONT)

    scenario = {**bowl["scenario"], "pause": 0.2}
    run = tmp_path / "run"
    fedsim.run({**bowl, "scenario": scenario, "backend": "ray"}, out=run, listener=Waking())
    assert re.fullmatch(
        r"a host on .+ has been silent for 1\d s; it is replaced after 660 s", waits[0]
    )
    assert waits[-1] == ""
    assert journal(run) == undisturbed(bowl, tmp_path / "serial")


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


def raise_late(*_: object) -> None:
    raise TimeoutError("my limit")


def test_an_exception_in_the_callers_thread_ends_the_run_first(
    ray_cluster: str, one_host: dict[str, Any], tmp_path: Path
) -> None:
    """On the caller's own cluster, which lives on. Nothing is recorded after the call."""
    scenario = {**one_host["scenario"], "pause": 0.01}
    config = {**one_host, "scenario": scenario, "rounds": 5000, "backend": "ray"}
    before = signal.signal(signal.SIGALRM, raise_late)

    class Setting(Listener):
        def progress(self, job: Job, progress: Progress) -> None:
            if progress.round > 0 and signal.getitimer(signal.ITIMER_REAL)[0] == 0:
                signal.setitimer(signal.ITIMER_REAL, 0.1)

    try:
        with pytest.raises(TimeoutError, match="my limit"):
            fedsim.run(config, out=tmp_path / "run", listener=Setting())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    with locked(tmp_path / "run" / "seed-0", 0):  # nobody else can write
        pass
    manifest = json.loads((tmp_path / "run" / "seed-0" / "manifest.json").read_text())
    assert (manifest["status"], manifest["reason"]) == ("failed", "TimeoutError: my limit")


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

    @pytest.mark.parametrize("resources", [None, {"cpus": 1.0}], ids=["host", "task"])
    def test_an_interrupt_of_its_own_is_the_objectives_mistake(
        self, one_host: dict[str, Any], tmp_path: Path, resources: dict[str, Any] | None
    ) -> None:
        config = troubled(one_host, "interrupt") | {"resources": resources}
        words = r"raised KeyboardInterrupt \(agent 1, round 0, point .*\); it must return a number"
        with pytest.raises(ObjectiveError, match=words) as raised:
            fedsim.run(config, out=tmp_path / "run")
        assert "workloads.py" in raised.value.user_traceback

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
        config = troubled(one_host, "hang") | {"deadlines": {"evaluation": 1.0, "start": 300.0}}
        with pytest.raises(ObjectiveError, match=r"within 1 s \(agent 1, round 0, point") as raised:
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
    assert driver.returncode == 128 + number
    assert f"fedsim resume {run}" in errors
    assert "Traceback" not in errors
    manifest = json.loads((run / "seed-0" / "manifest.json").read_text())
    assert manifest["status"] == "interrupted"
    await_end(below)
    fedsim.resume(run)
    assert journal(run) == undisturbed(bowl, tmp_path / "serial")
