"""The composition root, from Python."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim import runner
from fedsim.config.experiment import prepare
from fedsim.errors import ConfigError, Interrupted, RunError, RunFolderError
from fedsim.record.locking import locked
from fedsim.record.progress import Progress
from fedsim.results.status import StatusReader
from fedsim.running.jobs import Job, Listener
from fedsim.running.preflight import check
from tests.util.small import small


class Heard(Listener):
    """A listener that records events, and stops the run where the test wants."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.events: list[Any] = []
        self.stop_at = stop_at

    def planned(self, folder: Path, jobs: Any, plan: str) -> None:
        self.events.append(("planned", str(folder), len(jobs)))

    def started(self, job: Job) -> None:
        self.events.append((job.label, "started"))

    def progress(self, job: Job, progress: Progress) -> None:
        self.events.append((job.label, progress.round))
        if progress.round == self.stop_at:
            raise Interrupted("enough")

    def finished(self, job: Job) -> None:
        self.events.append((job.label, "finished"))


def test_a_listener_hears_everything_in_order(here: Path) -> None:
    heard = Heard()
    fedsim.run(small(variants={"a": {}, "b": {"rounds": 1}}), listener=heard)
    a = [("a", "started"), ("a", 0), ("a", 1), ("a", 2), ("a", "finished")]
    b = [("b", "started"), ("b", 0), ("b", 1), ("b", "finished")]
    assert heard.events == [("planned", "runs/small-1", 2), *a, *b]


def test_the_folder_is_returned(here: Path) -> None:
    folder = runner.run(prepare(small()))
    assert folder == Path("runs/small-1")
    assert runner.resume(folder) == folder


def test_a_resumed_run_does_only_what_is_left(here: Path) -> None:
    raw = small(variants={"a": {}, "b": {}}, seeds=[0, 1])
    whole = fedsim.run(raw)
    with pytest.raises(Interrupted, match="enough; continue with: fedsim resume runs/small-2"):
        fedsim.run(raw, listener=Heard(stop_at=1))
    heard = Heard()
    again = fedsim.resume("runs/small-2", listener=heard)
    first = [("planned", "runs/small-2", 4), ("a", "started"), ("a", 2), ("a", "finished")]
    assert heard.events[:4] == first
    digests = [[s["journal_sha256"] for s in run.summaries()] for run in (whole, again)]
    assert digests[0] == digests[1]


def test_a_seeds_folder_knows_its_seed(here: Path) -> None:
    run = fedsim.run(small(seeds=[3, 7]))
    for one, seed in zip(run.runs, (3, 7), strict=True):
        assert one.folder.config()["seeds"] == [seed]
        assert one.folder.manifest()["seed"] == seed
    assert run.config["seeds"] == [3, 7]


COUNTED = """
    from pathlib import Path

    from fedsim.space import Parameter, Space

    class Counted:
        direction, agents = "maximize", 2

        def __init__(self, seed):
            with Path(__file__).with_name("built").open("a") as file:
                file.write(f"{seed}\\n")
            self.space = Space((Parameter("x", 0, 1),))

        def objective(self, agent):
            return lambda point, rng: point["x"]
"""


def test_a_scenario_is_built_once_per_seed_and_once_to_check_it(
    here: Path, user_module: Callable[[str], str]
) -> None:
    name = user_module(COUNTED)
    scenario = {"name": f"{name}:Counted"}
    variants = {"a": {}, "b": {"rounds": 1}}
    fedsim.run(small(scenario=scenario, seeds=[0, 1], variants=variants))
    built = [int(line) for line in (here / "built").read_text().split()]
    assert built == [0, 0] + [0, 1] * 2


HELPERS = """
    from fedsim.methods.common import SilentServer
    from fedsim.protocol import Proposal
    from fedsim.space import Parameter, Space
    import numpy as np

    class Peak:
        direction, agents = "maximize", 2
        space = Space((Parameter("x", 0, 1),))

        def objective(self, agent):
            return lambda point, rng: point["x"]

    class Agent:
        def propose(self, step, message, rng):
            return [Proposal(np.array([0.9 if step == 0 else 0.5]), "own")]

        def observe(self, observations):
            pass

        def reply(self, request, rng):
            return {}

    class Method:
        def agent(self, agent):
            return Agent()

        def server(self):
            return Server()

    class Server(SilentServer):
        def start(self, fleet):
            fleet.step(-1, None)
"""


def test_what_comes_before_round_0_counts_nowhere(
    here: Path, user_module: Callable[[str], str]
) -> None:
    """The live line, ``show`` and the tables use one tally."""
    name = user_module(HELPERS)
    seen: list[Progress] = []

    class Watching(Listener):
        def progress(self, job: Job, progress: Progress) -> None:
            seen.append(progress)

    raw = {**small(), "scenario": {"name": f"{name}:Peak"}, "method": {"name": f"{name}:Method"}}
    run = fedsim.run(raw, listener=Watching())
    (one,) = run.runs
    assert [progress.round for progress in seen] == [-1, 0, 1, 2]
    assert [progress.scores.best_observed for progress in seen] == [None, 0.5, 0.5, 0.5]
    assert seen[-1].evaluations == one.summary()["evaluations"] == 2 * 4
    assert one.summary()["best_observed"] == one.summary()["mean_best_observed"] == 0.5
    assert run.rounds["best_observed"].tolist() == [0.5] * 3
    one.folder.update_manifest(status="running")
    progress = StatusReader(one).read().progress
    assert progress.scores == seen[-1].scores
    assert progress.evaluations == 8


def test_a_variant_draws_what_it_draws_alone(here: Path) -> None:
    """Runs compared on one seed share it; nothing leaks from one into the next."""
    both = fedsim.run(small(variants={"a": {}, "b": {"method": {"initial_points": 3}}}))
    alone = fedsim.run(small())
    first = both.runs[0].folder.journal.read_bytes()
    assert first == alone.runs[0].folder.journal.read_bytes()


def test_the_manifest_says_what_was_run_and_how(here: Path) -> None:
    run = fedsim.run(small("dp-fts-de"))
    manifest = json.loads((run.runs[0].folder.path / "manifest.json").read_text())
    assert manifest["status"] == "done"
    assert manifest["backend"] == "serial"
    assert manifest["privacy_noise"] == "seed: simulation, not private"
    assert manifest["environment"].keys() >= {"python", "numpy", "processor", "fedsim"}
    assert manifest["warnings"] == []
    assert manifest["started"] <= manifest["ended"]


def test_resuming_elsewhere_warns(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Interrupted):
        fedsim.run(small(), listener=Heard(stop_at=1))
    monkeypatch.setattr("fedsim.running.jobs.environment", lambda: {"python": "another"})
    run = fedsim.resume("runs/small-1")
    (warning,) = run.runs[0].folder.manifest()["warnings"]
    assert warning.startswith("resumed in another environment (python differ)")


def test_two_processes_never_run_one_folder(here: Path) -> None:
    fedsim.run(small())
    with (
        locked(Path("runs/small-1"), 0),
        pytest.raises(RunFolderError, match="another process is running"),
    ):
        fedsim.resume("runs/small-1")


def test_an_unforeseen_error_is_noted_and_shown(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise LookupError("no room")

    monkeypatch.setattr("fedsim.running.execution.run_serial", fail)
    with pytest.raises(LookupError, match="no room"):
        fedsim.run(small())
    manifest = json.loads(Path("runs/small-1/seed-0/manifest.json").read_text())
    assert (manifest["status"], manifest["reason"]) == ("failed", "LookupError: no room")


def test_a_users_scenario_is_found_beside_the_caller(
    here: Path, user_module: Callable[[str], str]
) -> None:
    module = user_module(
        """
        from fedsim.space import Parameter, Space
        class Mine:
            space, direction, agents = Space((Parameter("x", 0, 1),)), "minimize", 2
            def __init__(self, seed: int): self.seed = seed
            def objective(self, agent): return lambda point, rng: self.seed + point["x"]
        """
    )
    raw = small(seeds=[7])
    raw["scenario"] = {"name": f"{module}:Mine"}
    observed = fedsim.run(raw).observations
    assert observed["y"].between(7, 8).all()


OPTIMA = """
    from fedsim.space import Parameter, Space

    class Knows:
        direction, agents = "maximize", 3
        space = Space((Parameter("x", 0, 1),))

        def objective(self, agent):
            return lambda point, rng: point["x"]

        def optimum(self, agent):
            return {value}
"""


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("float('nan')", "the optimum of agent 0: expected a finite number, got nan"),
        ("True", "the optimum of agent 0: expected a finite number, got True"),
        ("'1'", "the optimum of agent 0: expected a finite number, got '1'"),
        ("1 / 0", "the scenario failed to return its optima: ZeroDivisionError"),
    ],
)
def test_bad_optima_end_the_run_and_its_manifest_says_so(
    here: Path, user_module: Callable[[str], str], value: str, message: str
) -> None:
    name = user_module(OPTIMA.format(value=value))
    with pytest.raises(RunError, match=re.escape(message)):
        fedsim.run(small(scenario={"name": f"{name}:Knows"}))
    (one,) = fedsim.load("runs/small-1").runs
    assert one.status == "failed"
    status = StatusReader(one).read()
    assert (status.state, status.progress.round) == ("failed", -1)
    assert message in (status.reason or "")


def test_optima_that_are_not_all_known_are_none(
    here: Path, user_module: Callable[[str], str]
) -> None:
    name = user_module(OPTIMA.format(value="None if agent else 1.0"))
    (one,) = fedsim.run(small(scenario={"name": f"{name}:Knows"})).runs
    assert one.folder.manifest()["optima"] is None


BASELINE = (
    OPTIMA.replace("optimum(self", "baseline(self")
    + """
        @property
        def baseline_name(self):
            return {name}
"""
)


@pytest.mark.parametrize(
    ("value", "name", "message"),
    [
        ("float('inf')", "'none'", "the baseline of agent 0: expected a finite number, got inf"),
        ("1 / 0", "'none'", "the scenario failed to return its baseline: ZeroDivisionError"),
        ("1", "1 / 0", "the scenario failed to return its baseline: ZeroDivisionError"),
    ],
)
def test_a_bad_baseline_ends_the_run(
    here: Path, user_module: Callable[[str], str], value: str, name: str, message: str
) -> None:
    module = user_module(BASELINE.format(value=value, name=name))
    with pytest.raises(RunError, match=message):
        fedsim.run(small(scenario={"name": f"{module}:Knows"}))


def test_a_baseline_is_recorded_and_kept_by_a_resume(
    here: Path, user_module: Callable[[str], str]
) -> None:
    module = user_module(BASELINE.format(value="1 + agent", name="'doing nothing'"))
    with pytest.raises(Interrupted):
        fedsim.run(small(scenario={"name": f"{module}:Knows"}), listener=Heard(stop_at=1))
    (one,) = fedsim.load("runs/small-1").runs
    assert one.folder.manifest()["baseline"] == {"name": "doing nothing", "mean": 2.0}
    (summary,) = fedsim.resume("runs/small-1").summaries()
    assert summary["baseline"] == {"name": "doing nothing", "mean": 2.0}


def test_a_run_without_a_baseline(here: Path) -> None:
    (one,) = fedsim.run(small()).runs
    assert one.folder.manifest()["baseline"] is None
    assert "baseline" not in one.summary()


OPTIMAL_POINTS = (
    OPTIMA.format(value="1.0")
    + """
        def optimal_point(self, agent):
            return {value}
"""
)


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("{'x': 1.0}", [{"x": 1.0}]),
        ("[0.5 * (agent // 2)]", [{"x": 0.0}, {"x": 0.0}, {"x": 0.5}]),
        ("None if agent else [1.0]", None),
    ],
)
def test_optimal_points_are_recorded_for_each_agent_or_once_for_all(
    here: Path, user_module: Callable[[str], str], value: str, kept: object
) -> None:
    name = user_module(OPTIMAL_POINTS.replace("{value}", value))
    (one,) = fedsim.run(small(scenario={"name": f"{name}:Knows"})).runs
    assert one.folder.manifest()["optimal_points"] == kept


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("[2.0]", "the optimal point of agent 0: point: x: expected a value in [0, 1], got 2.0"),
        ("3", "the optimal point of agent 0: "),
        ("1 / 0", "the scenario failed to return its optimal points: ZeroDivisionError"),
    ],
)
def test_bad_optimal_points_end_the_run(
    here: Path, user_module: Callable[[str], str], value: str, message: str
) -> None:
    name = user_module(OPTIMAL_POINTS.replace("{value}", value))
    with pytest.raises(RunError, match=re.escape(message)):
        fedsim.run(small(scenario={"name": f"{name}:Knows"}))


@pytest.mark.parametrize("change", [{"noise_source": "system"}, {"noise_source": "seed"}])
def test_the_source_of_the_noise_is_a_runs_for_ever(here: Path, change: dict[str, str]) -> None:
    other = {"system": "seed", "seed": "system"}[change["noise_source"]]
    with pytest.raises(Interrupted):
        fedsim.run(small("dp-fts-de", privacy=change), listener=Heard(stop_at=1))
    for path in Path("runs/small-1").rglob("config.yaml"):
        path.write_text(
            path.read_text().replace(
                f"noise_source: {change['noise_source']}", f"noise_source: {other}"
            )
        )
    manifest = Path("runs/small-1/seed-0/manifest.json").read_bytes()
    with pytest.raises(RunFolderError, match=r"differs in privacy\.noise_source from"):
        fedsim.resume("runs/small-1")
    assert Path("runs/small-1/seed-0/manifest.json").read_bytes() == manifest


class TestUnusedBudget:
    def test_one_that_no_variant_can_spend_is_refused(self, here: Path) -> None:
        raw = small("fts", privacy={"budget": 3.0}, variants={"a": {}, "b": {"method": "ts"}})
        message = (
            r"privacy.budget: expected a variant that makes .* got 3 for fts, ts alone; choose"
        )
        with pytest.raises(ConfigError, match=message):
            fedsim.run(raw)
        assert not Path("runs").exists()

    def test_each_budget_needs_a_variant(self) -> None:
        private = {"method": "dp-fts-de"}
        shared = small("ts", privacy={"budget": 3.0}, variants={"a": {}, "b": private})
        assert check(prepare(shared)).keys() == {"a", "b"}
        own = {"a": {"privacy": {"budget": 2.0}}, "b": private}
        with pytest.raises(ConfigError, match=r"privacy.budget: .* got 2 for ts alone"):
            check(prepare({**shared, "variants": own}))

    def test_a_method_of_the_users_may_spend_it_without_a_plan(
        self, here: Path, user_module: Callable[[str], str]
    ) -> None:
        name = user_module("from fedsim.methods.random_search import RandomSearch as Mine")
        raw = {**small(privacy={"budget": 1.0}), "method": {"name": f"{name}:Mine"}}
        assert check(prepare(raw))


@pytest.mark.parametrize("method", ["random-search", "ts", "dp-fts-de"])
def test_a_design_that_never_ends_is_refused_at_once(method: str) -> None:
    raw = {**small(), "method": {"name": method, "initial_points": 10**9}}
    message = "method.initial_points: expected 1 to 10,000, got 1000000000"
    with pytest.raises(ConfigError, match=message):
        check(prepare(raw))


def test_a_budget_needs_an_accountant_that_knows_the_planned_costs(
    here: Path, user_module: Callable[[str], str]
) -> None:
    name = user_module(
        """
        from fedsim.methods.random_search import RandomSearch
        from fedsim.privacy.events import UnknownEvent

        class Plans(RandomSearch):
            def planned_costs(self):
                return [UnknownEvent("later", None, "{}")]
        """
    )
    raw = {**small(privacy={"budget": 1.0}), "method": {"name": f"{name}:Plans"}}
    with pytest.raises(ConfigError, match="pld cannot account for 'later' events"):
        fedsim.run(raw)
    assert not Path("runs").exists()
