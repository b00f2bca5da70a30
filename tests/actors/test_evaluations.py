"""Evaluations as Ray tasks: the same results as inside the hosts, after any kill."""

import json
import os
import pickle
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray.exceptions import GetTimeoutError, NodeDiedError, RayError, WorkerCrashedError

import fedsim
from fedsim.actors.evaluations import Work
from fedsim.actors.evaluator import TaskEvaluator, _Evaluation, _lost
from fedsim.actors.objectives import Objectives
from fedsim.config.model import DeadlinesConfig
from fedsim.config.spec import RunSpec
from fedsim.errors import ConfigError, ObjectiveError, ResourceError, RunError
from fedsim.protocol import Proposal
from fedsim.record.entries import StepEntry
from fedsim.record.evaluationlog import EvaluationLog
from fedsim.record.journal import read_journal
from fedsim.record.logfolder import LogFolder
from fedsim.resources import Resources, declared_resources
from fedsim.space import Parameter, Space
from tests.util.bowl import OURS, journal, troubled, undisturbed
from tests.util.processes import FEDSIM, HERE, Killer, actors, await_end, steps, write_config

ROUNDS = 6


@pytest.fixture
def tasks(one_host: dict[str, Any]) -> dict[str, Any]:
    """A run whose evaluations are tasks, one at a time."""
    method = {"name": "dp-fts-de", "initial_points": 3, "message": {"features": 20}}
    method["dp"] = {"sampling": "fixed", "sampling_rate": 0.5}
    return {
        **one_host,
        "method": method,
        "rounds": ROUNDS,
        "backend": "ray",
        "resources": {"cpus": 1.0},
    }


@pytest.fixture
def side_by_side(tasks: dict[str, Any]) -> dict[str, Any]:
    """The same with two hosts, and two tasks at a time."""
    return {**tasks, "agents_per_actor": 3, "resources": {"cpus": 0.5}}


def serial(config: dict[str, Any], folder: Path) -> bytes:
    """Return the journal of the same run in one process, without any trouble."""
    alone = {"backend": "serial", "agents_per_actor": "auto", "resources": None}
    fedsim.run({**config, **alone}, out=folder)
    return journal(folder)


class TestResources:
    def test_what_an_objective_says(self) -> None:
        def objective(point: Any, rng: Any) -> float:
            return 0.0

        assert declared_resources(objective) is None
        objective.resources = Resources(gpus=0.5)  # type: ignore[attr-defined]
        assert declared_resources(objective) == Resources(1.0, 0.5, 0.0)
        objective.resources = {"gpus": 1}  # type: ignore[attr-defined]
        with pytest.raises(ConfigError, match=r"resources: expected fedsim\.resources\.Resources"):
            declared_resources(objective)

    @pytest.mark.parametrize(
        "bad", [{"cpus": -1.0}, {"gpus": float("nan")}, {"gpus": 1.5}, {"cpus": 1e-5}]
    )
    def test_ranges(self, bad: dict[str, float]) -> None:
        with pytest.raises(ConfigError, match=r"resources\.[cg]pus: expected"):
            Resources(**bad)

    def test_words(self) -> None:
        assert Resources().describe() == "1 CPU"
        assert Resources(2, 1, 500).describe() == "2 CPUs, 1 GPU, 500 MB"


@pytest.mark.usefixtures("ray_cluster")
class TestSameResults:
    @pytest.mark.parametrize(
        "method", [pytest.param("random-search", marks=pytest.mark.slow), "dp-fts-de"]
    )
    def test_as_inside_the_hosts(
        self, side_by_side: dict[str, Any], tmp_path: Path, method: str
    ) -> None:
        config = {**side_by_side, "availability": 0.7}
        if method == "random-search":
            config["method"] = {"name": method}
        fedsim.run(config, out=tmp_path / "run")
        assert journal(tmp_path / "run") == serial(config, tmp_path / "serial")

    def test_what_objectives_declare_is_enough(
        self, one_host: dict[str, Any], tmp_path: Path
    ) -> None:
        diary = tmp_path / "diary"
        scenario = {**one_host["scenario"], "cpus": 0.5, "diary": str(diary)}
        run = fedsim.run({**one_host, "scenario": scenario, "rounds": 2}, out=tmp_path / "run")
        manifest = json.loads((run.folder / "seed-0" / "manifest.json").read_text())
        assert manifest["backend"] == "ray"  # worth it for expensive objectives
        noted = [line.split() for line in diary.read_text().splitlines()]
        built: dict[str, int] = {}
        for what, _, process in noted:
            built[process] = built.get(process, 0) + (what == "build")
        # The driver builds the first agent's, one task all of them, and hosts none.
        assert sorted(n for n in built.values() if n) == [1, 6]
        evaluating = {process for what, _, process in noted if what == "evaluate"}
        assert str(os.getpid()) not in evaluating

    def test_a_process_that_ends_once_changes_nothing(
        self, tasks: dict[str, Any], tmp_path: Path
    ) -> None:
        marker = tmp_path / "marker"
        tasks["method"] = {"name": "random-search", "initial_points": 3}
        config = troubled(tasks, "exit", marker=str(marker))
        fedsim.run(config, out=tmp_path / "run")
        assert marker.exists()
        expected = undisturbed({**config, "resources": None}, tmp_path / "serial")
        assert journal(tmp_path / "run") == expected


@pytest.mark.usefixtures("ray_cluster")
class TestFailures:
    @pytest.fixture
    def tasks(self, tasks: dict[str, Any]) -> dict[str, Any]:
        """With the method that takes the least time to import."""
        return {**tasks, "method": {"name": "random-search", "initial_points": 3}}

    def test_an_exception_names_agent_round_point_and_node(
        self, tasks: dict[str, Any], tmp_path: Path
    ) -> None:
        where = r"ZeroDivisionError \(agent 1, round 0, point \{.*\}, node .+\): the bowl is broken"
        with pytest.raises(ObjectiveError, match=where) as raised:
            fedsim.run(troubled(tasks, "raise"), out=tmp_path / "run")
        assert "workloads.py" in raised.value.user_traceback
        assert not OURS.search(raised.value.user_traceback)

    def test_a_deadline_shows_where_it_hangs(self, tasks: dict[str, Any], tmp_path: Path) -> None:
        config = troubled(tasks, "hang") | {"deadlines": {"evaluation": 1.0, "start": 300.0}}
        with pytest.raises(
            ObjectiveError, match=r"within 1 s \(agent 1, round 0, .*node"
        ) as raised:
            fedsim.run(config, out=tmp_path / "run")
        assert "time.sleep(3600)" in raised.value.user_traceback
        assert not OURS.search(raised.value.user_traceback)

    def test_a_segfault(self, tasks: dict[str, Any], tmp_path: Path) -> None:
        words = r"process of an evaluation ended 3 times \(agent 1, round 0, point .*crashes"
        with pytest.raises(ObjectiveError, match=words) as raised:
            fedsim.run(troubled(tasks, "segfault"), out=tmp_path / "run")
        assert raised.value.exit_code == 3

    @pytest.mark.parametrize(
        ("trouble", "reason"),
        [
            ("hang", "missed its deadline"),
            pytest.param("segfault", "ended its process", marks=pytest.mark.slow),
        ],
    )
    def test_what_fails_can_be_skipped(
        self, tasks: dict[str, Any], tmp_path: Path, trouble: str, reason: str
    ) -> None:
        config = troubled(tasks, trouble) | {
            "deadlines": {"evaluation": 0.5, "start": 300.0},
            "on_error": "skip",
            "rounds": 1,
            "method": {"name": "random-search", "initial_points": 1},
        }
        run = fedsim.run(config, out=tmp_path / "run")
        entries = list(read_journal(run.folder / "seed-0" / "journal.jsonl"))
        steps = [entry for entry in entries if isinstance(entry, StepEntry)]
        failed = [(one.agent, one.reason) for step in steps for one in step.failed]
        assert failed == [(1, reason)] * 2
        assert {one.agent for step in steps for one in step.observations} == {0, 2, 3, 4, 5}
        timings = (run.folder / "seed-0" / "timings.jsonl").read_text()
        assert timings.count('"kind":"failed"') == 2

    def test_a_retry_may_succeed(self, tasks: dict[str, Any], tmp_path: Path) -> None:
        config = troubled(tasks, "raise", marker=str(tmp_path / "marker"))
        fedsim.run({**config, "on_error": {"retry": 1}}, out=tmp_path / "run")
        expected = undisturbed({**config, "resources": None}, tmp_path / "serial")
        assert journal(tmp_path / "run") == expected

    def test_hosts_skip_and_retry_as_one_process_does(
        self, bowl: dict[str, Any], tmp_path: Path
    ) -> None:
        scenario = {**bowl["scenario"], "trouble": "raise"}
        config = {**bowl, "scenario": scenario, "rounds": 2, "on_error": "skip"}
        fedsim.run({**config, "backend": "ray"}, out=tmp_path / "run")
        assert journal(tmp_path / "run") == serial(config, tmp_path / "serial")
        assert b'"failed":[[1,' in journal(tmp_path / "run")

    def test_no_node_has_that_much(self, tasks: dict[str, Any], tmp_path: Path) -> None:
        words = r"needs 1 CPU, 8 GPUs on one node, but no node has that \(.*: 1 CPU, [\d.e+]+ MB\)"
        with pytest.raises(ResourceError, match=words) as raised:
            fedsim.run({**tasks, "resources": {"gpus": 8}}, out=tmp_path / "run")
        assert raised.value.exit_code == 4

    def test_an_objective_that_cannot_be_sent(
        self, one_host: dict[str, Any], tmp_path: Path
    ) -> None:
        config = {**one_host, "scenario": {"name": "workloads:Unsendable"}, "backend": "ray"}
        with pytest.raises(RunError, match=r"cannot be sent to Ray tasks: .*must be picklable"):
            fedsim.run(config, out=tmp_path / "run")

    def test_all_declare_resources_or_none_does(
        self, one_host: dict[str, Any], tmp_path: Path
    ) -> None:
        config = {**one_host, "scenario": {"name": "workloads:Mixed"}, "backend": "ray"}
        with pytest.raises(RunError, match=r"agent [12] declares resources, agent 0's does not"):
            fedsim.run(config, out=tmp_path / "run")


@pytest.mark.usefixtures("ray_cluster")
def test_silence_ends_in_numbers(tmp_path: Path) -> None:
    """Waiting for tasks that cannot start, or never return, has a deadline."""
    deadlines = DeadlinesConfig(evaluation=5.0, start=10.0)
    spec = RunSpec({"name": ""}, {"name": ""}, 1, 0, None, retries=1)
    log = EvaluationLog(tmp_path / "log", "run")
    space = Space((Parameter("x", 0.0, 1.0),))
    logs = LogFolder(tmp_path, "")
    evaluator = TaskEvaluator(spec, space, [0], deadlines, log, logs, lambda: False)
    evaluator._objectives = Objectives([Resources(2)], None, [])
    work = Work(0, 0, 0, 0, 0, 0, {}, 5.0, 10.0, logs)
    pending = {"ref": _Evaluation(work, Proposal(np.zeros(1), ""))}
    now = time.monotonic()
    evaluator._pending = {}
    evaluator._check_silence(now - 41.0)
    evaluator._pending = pending
    evaluator._check_silence(now - 39.0)  # 2 tries of 5 + 10 seconds, and a start
    words = r"none of 1 evaluation tasks .*within 40 s.*needs 2 CPUs, available: .* of 1 CPU"
    with pytest.raises(ResourceError, match=words):
        evaluator._check_silence(now - 41.0)


@pytest.mark.parametrize(
    ("error", "attempts", "follows"),
    [
        (NodeDiedError("lost"), 99, None),
        (WorkerCrashedError(), 2, None),
        (WorkerCrashedError(), 3, ObjectiveError),
        (GetTimeoutError("slow"), 2, None),
        (GetTimeoutError("slow"), 3, RunError),
    ],
)
def test_what_a_lost_task_means(
    error: RayError, attempts: int, follows: type[RunError] | None
) -> None:
    """Only a process that dies repeatedly counts as its objective's fault."""
    work = Work(0, 0, 0, 0, 0, 0, {}, 5.0, 10.0, LogFolder(Path(), ""))
    one = _Evaluation(work, Proposal(np.zeros(1), ""), attempts)
    if follows is RunError:
        with pytest.raises(RunError, match="lost an evaluation 3 times"):
            _lost(one, error)
    else:
        assert type(_lost(one, error)) is (follows or type(None))


@pytest.mark.usefixtures("ray_cluster")
def test_what_was_evaluated_is_not_evaluated_again(tasks: dict[str, Any], tmp_path: Path) -> None:
    """A run that stops in the middle of a step resumes after its last evaluation."""
    diary = tmp_path / "diary"
    tasks["method"] = {"name": "random-search", "initial_points": 3}
    broken = troubled(tasks, "raise", marker=str(tmp_path / "marker"), diary=str(diary))
    broken["rounds"] = 1
    with pytest.raises(ObjectiveError):
        fedsim.run(broken, out=tmp_path / "run")
    kept = (tmp_path / "run" / "seed-0" / "state" / "evaluations.jsonl").read_text()
    done = kept.count('evaluation"')
    assert done >= 1
    await_end(actors(os.getpid(), "evaluate_point"))  # running evaluations have been written
    before = diary.read_text().count("evaluate")
    fedsim.resume(tmp_path / "run")
    again = diary.read_text().count("evaluate") - before
    assert again == 6 * 3 + 6 * broken["rounds"] - done
    expected = undisturbed({**broken, "resources": None}, tmp_path / "serial")
    assert journal(tmp_path / "run") == expected


def test_errors_survive_pickling() -> None:
    error = ObjectiveError("summary", "traceback", "reason")
    again = pickle.loads(pickle.dumps(error))
    assert (again.summary, again.user_traceback, again.reason) == ("summary", "traceback", "reason")


class TaskKiller(threading.Thread):
    """Kills an evaluation's process now and then, until it is stopped.

    At most twice between two steps of the journal: of one whose process ended three times, a run
    rightly gives up.

    Attributes:
        kills: how many it killed.
    """

    def __init__(self, seed: int, journal: Path) -> None:
        super().__init__(daemon=True)
        self._random = random.Random(seed)
        self._journal = journal
        self._end = threading.Event()
        self.kills = 0
        self.start()

    def run(self) -> None:
        killed = Counter[int]()  # by the steps that the journal held
        while not self._end.wait(self._random.uniform(1.0, 3.0)):
            running, step = actors(os.getpid(), "evaluate_point"), steps(self._journal)
            if running and killed[step] < 2:
                os.kill(self._random.choice(running), signal.SIGKILL)
                killed[step] += 1
                self.kills += 1

    def stop(self) -> None:
        self._end.set()
        self.join(60)


@pytest.mark.slow
@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize("seed", range(5))
def test_tasks_and_hosts_are_killed(
    side_by_side: dict[str, Any], tmp_path: Path, seed: int
) -> None:
    scenario = {**side_by_side["scenario"], "pause": 0.25}
    config = {**side_by_side, "scenario": scenario, "seeds": [seed]}
    record = tmp_path / "run" / f"seed-{seed}" / "journal.jsonl"
    tasks_killer = TaskKiller(seed, record)
    hosts_killer = Killer("AgentHost", {record: 1 + seed % ROUNDS})
    try:
        fedsim.run(config, out=tmp_path / "run")
    finally:
        tasks_killer.stop()
    hosts_killer.check(last=ROUNDS + 1)
    assert tasks_killer.kills >= 2
    alone = {"backend": "serial", "agents_per_actor": "auto", "resources": None}
    fedsim.run({**config, **alone}, out=tmp_path / "serial")
    assert (
        record.read_bytes() == (tmp_path / "serial" / f"seed-{seed}" / "journal.jsonl").read_bytes()
    )
    await_end(actors(os.getpid(), "AgentHost"))


# Never two at once (the engine has one process): Ray would end whatever it finds.
@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ("{cpus: 1}", "the process of an evaluation ended 3 times (agent 1, round 0"),
        ("null", "the host of agents 1, 2, 5 died 3 times in round 0"),
    ],
    ids=["task", "host"],
)
def test_an_objective_that_fills_the_memory(
    bowl: dict[str, Any], tmp_path: Path, resources: str, words: str
) -> None:
    """Ray's monitor kills it before memory is full: here, at 4 GB above the current use."""
    meminfo = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    total, available = (float(meminfo[key].split()[0]) for key in ("MemTotal", "MemAvailable"))
    threshold = 1.0 - available / total + 4e6 / total
    if threshold > 0.9:
        pytest.skip("needs 4 GB of free memory")
    monitor = {
        "RAY_memory_usage_threshold": f"{threshold:.3f}",
        "RAY_memory_monitor_refresh_ms": "50",
        # Ray ends its youngest process, and older ones up to the server's until 5 % of the memory
        # are free besides: more than the objective has, if other programs use the 4 GB.
        "RAY_max_kill_memory_buffer_bytes": "0",
    }
    scenario = {"name": "workloads:Bowl", "trouble": "memory"}
    path = write_config({**bowl, "scenario": scenario, "agents_per_actor": "auto"}, tmp_path)
    run = subprocess.run(
        [
            *(FEDSIM, "run", path, "--backend", "ray", "--set", f"resources={resources}"),
            *("--out", str(tmp_path / "run")),
        ],
        cwd=HERE,
        env={**os.environ, **monitor},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert run.returncode == 3, run.stderr
    assert words in run.stderr
    assert "running low on memory" in run.stderr
    assert "Traceback" not in run.stderr
    assert "(raylet)" not in run.stdout + run.stderr
