"""Where jobs run: decided by what an evaluation costs, how many jobs there are, and the CPUs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim.config.experiment import prepare
from fedsim.errors import ConfigError, UserCodeError
from fedsim.methods.random_search import RandomSearch
from fedsim.running.measuring import FirstEvaluation, measure
from fedsim.running.placement import Placement, parse_jobs, place
from fedsim.running.preflight import check
from tests.util.small import small

Decide = Callable[..., tuple[str, int]]


@pytest.fixture
def decide(monkeypatch: pytest.MonkeyPatch) -> Decide:
    """Returns backend and jobs at a time, for an evaluation that takes so many seconds."""

    def decided(
        seconds: float | None = 0.0,
        jobs: int | str = "auto",
        *,
        cpus: int = 2,
        left: int | None = None,
        megabytes: float = 64_000,
        **changes: Any,
    ) -> tuple[str, int]:
        def measured(*arguments: Any) -> FirstEvaluation | None:
            found = measure(*arguments)
            assert found is not None
            return None if seconds is None else replace(found, seconds=seconds)

        monkeypatch.setattr("fedsim.running.preflight.measure", measured)
        monkeypatch.setattr("fedsim.running.placement.usable_cpus", lambda: cpus)
        monkeypatch.setattr("fedsim.actors.plan.usable_cpus", lambda: cpus)
        for module in ("fedsim.running.placement", "fedsim.actors.plan"):
            monkeypatch.setattr(f"{module}.available_megabytes", lambda: megabytes)
        experiment = prepare(small(**{"backend": "auto", **changes}))
        _, placement = place(experiment, check(experiment), left or experiment.jobs, jobs)
        decided_on.append(placement)
        return placement.backend, placement.at_a_time

    decided_on: list[Placement] = []
    decided.plan = lambda: decided_on[-1].plan  # type: ignore[attr-defined]
    return decided


class TestDecision:
    """``small`` has 3 agents that evaluate 4 times each."""

    def test_a_small_run_stays_here(self, decide: Decide) -> None:
        assert decide(seeds="0-9") == ("serial", 1)
        assert decide(0.1) == ("serial", 1)

    def test_several_jobs_share_the_cpus(self, decide: Decide) -> None:
        assert decide(1.0, seeds="0-9") == ("serial", 2)
        assert decide(1.0, cpus=4, seeds="0-9") == ("serial", 4)
        assert decide(1.0, cpus=16, seeds="0-9") == ("serial", 10)

    def test_one_job_goes_to_ray_if_it_takes_long(self, decide: Decide) -> None:
        assert decide(1.0) == ("serial", 1)  # 12 s: Ray needs 7 s to start
        assert decide(10.0) == ("ray", 1)
        assert decide(10.0, backend="serial") == ("serial", 1)

    def test_few_jobs_on_many_cpus_go_to_ray(self, decide: Decide) -> None:
        assert decide(60.0, cpus=16, seeds=[0, 1]) == ("ray", 2)
        assert decide(60.0, cpus=16, seeds=[0, 1], backend="serial") == ("serial", 2)

    def test_cheap_evaluations_of_many_agents_also_take_long(self, decide: Decide) -> None:
        many = {"name": "synthetic", "agents": 2000, "grid_size": 5}
        assert decide(0.0, scenario=many, rounds=20) == ("ray", 1)
        assert decide(0.0, scenario=many, rounds=20, seeds=[0, 1]) == ("serial", 2)

    def test_jobs_can_be_told(self, decide: Decide) -> None:
        assert decide(1.0, jobs=1, seeds="0-9", backend="serial") == ("serial", 1)
        assert decide(0.0, jobs=3, seeds="0-9", backend="serial") == ("serial", 3)
        assert decide(0.0, jobs="3", seeds=[0, 1]) == ("serial", 2)
        assert decide(0.0, jobs=3) == ("serial", 1)
        assert decide(10.0, jobs=1, seeds="0-9") == ("ray", 1)
        assert decide(backend="ray", jobs=1, seeds="0-9") == ("ray", 1)
        assert decide(backend="ray", seeds="0-9") == ("ray", 10)

    def test_only_what_is_left_counts(self, decide: Decide) -> None:
        assert decide(1.0, seeds="0-9", left=1) == ("serial", 1)
        assert decide(10.0, seeds="0-9", left=2) == ("serial", 2)

    def test_one_cpu_does_one_thing_at_a_time(self, decide: Decide) -> None:
        assert decide(100.0, cpus=1, seeds="0-9") == ("serial", 1)

    def test_no_more_processes_than_fit_in_memory(self, decide: Decide) -> None:
        assert decide(1.0, cpus=16, seeds="0-9", megabytes=500.0) == ("serial", 3)
        assert decide(10.0, cpus=16, megabytes=500.0) == ("serial", 1)  # nor a cluster

    def test_some_settings_mean_ray(self, decide: Decide) -> None:
        assert decide(agents_per_actor=2) == ("ray", 1)
        assert decide(address="10.0.0.1:6379") == ("ray", 1)
        assert decide(resources={"cpus": 1.0}) == ("ray", 1)
        assert decide(resources={"cpus": 1.0}, backend="serial") == ("serial", 1)


class TestWords:
    @pytest.mark.parametrize(
        ("seconds", "changes", "words"),
        [
            (0.0123, {}, "3 agents in this process, one after another: an evaluation takes 12 ms, "
             "so about 170 ms in one process"),
            (1.5, {"seeds": "0-9"}, "10 jobs in processes of their own, 2 at a time: an evaluation "
             "takes 1.5 s, so about 3 min in one process"),
            (1000.0, {}, r"3 agents in 2 host actors on a private Ray cluster: about .*: an "
             "evaluation takes 17 min, so about 3.3 h in one process"),
            (0.0, {}, r"3 agents .*: an evaluation takes less than 1 ms, so about 27 ms in one"),
            (None, {}, "3 agents in this process, one after another$"),
        ],
    )  # fmt: skip
    def test_the_plan_says_why(
        self, decide: Decide, seconds: float | None, changes: dict[str, Any], words: str
    ) -> None:
        decide(seconds, **changes)
        assert re.match(words, decide.plan())  # type: ignore[attr-defined]

    def test_nothing_is_measured_where_nothing_depends_on_it(
        self, decide: Decide, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for decided in (
            {"backend": "serial"},
            {"backend": "serial", "seeds": [0, 1], "jobs": 1},
            {"backend": "ray"},
            {"address": "10.0.0.1:6379"},
            {"cpus": 1},
        ):
            decide(**decided)
            assert "an evaluation takes" not in decide.plan()  # type: ignore[attr-defined]


@pytest.mark.parametrize(("value", "expected"), [("auto", None), (1, 1), ("12", 12)])
def test_numbers_of_jobs(value: int | str, expected: int | None) -> None:
    assert parse_jobs(value) == expected


@pytest.mark.parametrize("value", [0, -1, "two", "1.5", True, ""])
def test_other_numbers_of_jobs(here: Path, value: int | str) -> None:
    words = f"jobs: expected auto or a whole number of at least 1, got {value!r}"
    with pytest.raises(ConfigError, match=re.escape(words)):
        fedsim.run(small(), jobs=value)
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"address": "10.0.0.1:6379"}, "; no effect with backend: serial: address"),
        (
            {"agents_per_actor": 2, "resources": {"cpus": 1}},
            "; no effect with backend: serial: agents_per_actor, resources",
        ),
        ({}, "one after another"),
    ],
)
def test_what_a_serial_run_ignores_is_said(changes: dict[str, Any], words: str) -> None:
    experiment = prepare(small(**changes))
    _, placement = place(experiment, check(experiment), 1)
    assert placement.plan.endswith(words)


def warned(**changes: Any) -> str:
    experiment = prepare(small("fbo-fedgp", **changes))
    return place(experiment, check(experiment), experiment.jobs)[1].plan


def test_the_plan_holds_what_methods_warn_of() -> None:
    words = "in all rounds all clients together have fewer than |S| + 1 = 33 observations"
    assert f"; warning: {words}" in warned()
    variants: dict[str, Any] = {
        "a": {},
        "b": {"method": {"minimum_members": 2}},
        "c": {"method": {"support": {"size": 4}}},
    }
    assert f"; warning: a, b: {words}" in warned(variants=variants)
    assert warned(variants=variants).count("warning") == 1


def test_a_method_that_fails_to_warn(here: Path) -> None:
    class Mine(RandomSearch):
        def plan_warnings(self) -> list[str]:
            raise ValueError("oh")

    with pytest.raises(UserCodeError, match=r"the method failed to return its warnings: .*oh"):
        fedsim.run({**small(), "method": Mine})
