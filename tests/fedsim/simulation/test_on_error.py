"""If an evaluation fails, the run stops, continues without it, or tries again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.cli.main import run_command
from fedsim.config.experiment import prepare
from fedsim.config.registry import METHODS
from fedsim.errors import ConfigError, Interrupted, ObjectiveError
from fedsim.record.entries import Line, StepEntry
from fedsim.record.journal import read_journal
from fedsim.record.progress import Progress
from fedsim.record.runfolder import RunFolder
from fedsim.rng import Keys
from fedsim.simulation.evaluation import call_with_retries
from fedsim.simulation.loop import Simulation
from fedsim.yamltext import format_yaml
from tests.util.small import make, run, small

USERS = """
    import os
    from pathlib import Path
    from fedsim.space import Parameter, Space

    class Mine:
        space, direction, agents = Space((Parameter("x", 0, 1),)), "maximize", 3

        def objective(self, agent):
            def objective(point, rng):
                draw = rng.random()
                with open("calls", "a") as file:
                    print(agent, draw, file=file)
                tries = Path("calls").read_text().splitlines().count(f"{{agent}} {{draw}}")
                if not Path("mended").exists() and ({trouble}):
                    raise ValueError(f"in {{os.getcwd()}}")  # here
                return point["x"] + draw
            return objective
"""
SOMETIMES = "draw < 0.4"
"""Fails at points that depend on nothing but the key."""

Module = Callable[[str], str]


def config(module: Module, trouble: str, method: str = "random-search", **changes: Any) -> Any:
    raw = small(method, **changes)
    raw["scenario"] = {"name": f"{module(USERS.format(trouble=trouble))}:Mine"}
    return raw


def steps(folder: Path) -> list[Line]:
    entries = read_journal(RunFolder(folder).journal)
    return [entry.to_json() for entry in entries if isinstance(entry, StepEntry)]


def calls() -> list[str]:
    """Return a word on every call of an objective so far: whose it was, and its draw."""
    path = Path("calls")
    return path.read_text().splitlines() if path.exists() else []


class TestStop:
    def test_is_the_default(self, here: Path, user_module: Module) -> None:
        simulation = make(here / "seed-0", config(user_module, "agent == 1"))
        with pytest.raises(ObjectiveError, match=r"raised ValueError \(agent 1, round 0, point"):
            run(simulation)
        assert [line[0] for line in calls()] == ["0", "0", "1"]
        assert steps(simulation.folder) == []


class TestSkip:
    def test_a_failure_is_recorded_and_the_run_goes_on(
        self, here: Path, user_module: Module
    ) -> None:
        raw = config(user_module, SOMETIMES, rounds=5, on_error="skip")
        simulation = make(here / "seed-0", raw)
        seen: list[Progress] = []
        run(simulation, seen.append)
        design = 2
        assert len(calls()) == 3 * (design + 5)  # a lost query is not replaced
        lines, lost = steps(simulation.folder), 0
        for line, progress in zip(lines, seen, strict=True):
            failed = line.get("failed", [])
            lost += len(failed)
            assert len(line["observations"]) + len(failed) == 3 * (1 if line["t"] else design)
            assert progress.failed == lost
            for agent, step, index, u, source, reason in failed:
                assert (step, reason) == (line["t"], "raised ValueError")
                draw = Keys(0, agent, step)("objective", index).random()
                assert draw < 0.4
                assert f"{agent} {draw}" in calls()
                assert source == ("initial" if step == 0 else "random")
                assert len(u) == 1
            for agent, step, index, *_ in line["observations"]:
                assert Keys(0, agent, step)("objective", index).random() >= 0.4
        assert 0 < lost < len(calls())
        assert all(line.get("failed", True) for line in lines)  # no empty lists

    def test_the_journal_does_not_tell_where_it_ran_and_the_timings_do(
        self, here: Path, user_module: Module
    ) -> None:
        simulation = make(here / "seed-0", config(user_module, SOMETIMES, on_error="skip"))
        journal = run(simulation)
        assert str(here).encode() not in journal
        told = [
            json.loads(line)
            for line in RunFolder(simulation.folder).timings.read_text().splitlines()
        ]
        failed = [line for line in told if line["kind"] == "failed"]
        assert len(failed) == sum(len(line.get("failed", [])) for line in steps(simulation.folder))
        for line in failed:
            assert f"in {here}" in line["summary"]
            assert "# here" in line["traceback"]

    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("trouble", ["agent == 1", SOMETIMES])
    def test_every_method_goes_on(
        self, here: Path, user_module: Module, method: str, trouble: str
    ) -> None:
        """With an agent that never observes anything, too: it proposes and replies."""
        raw = config(user_module, trouble, method, rounds=4, on_error="skip")
        simulation = make(here / "seed-0", raw)
        run(simulation)
        lines = steps(simulation.folder)
        assert [line["t"] for line in lines] == [0, 1, 2, 3, 4]
        assert len(calls()) == 3 * (2 + 4)
        if trouble == "agent == 1":
            assert {row[0] for line in lines for row in line["observations"]} == {0, 2}
            assert {row[0] for line in lines for row in line["failed"]} == {1}
            assert [row[1] for line in lines for row in line["failed"]] == [0, 0, 1, 2, 3, 4]

    @pytest.mark.parametrize("method", ["random-search", "ts", "dp-fts-de"])
    def test_recorded_failures_are_not_evaluated_again(
        self, here: Path, user_module: Module, method: str
    ) -> None:
        trouble = f"agent == 1 or {SOMETIMES}"
        raw = config(user_module, trouble, method, rounds=3, on_error="skip")
        whole = make(here / "whole", raw)
        journal = run(whole)
        made = calls()
        (whole.folder / "state" / "checkpoint.npz").unlink()
        assert run(whole) == journal  # all of it is replayed
        assert calls() == made

        def stop(progress: Progress) -> None:
            raise Interrupted("enough")

        parts = Simulation(whole.spec, make(here / "parts", raw).folder)
        for _ in range(4):
            with pytest.raises(Interrupted):
                run(parts, stop)
        assert run(parts) == journal
        assert calls() == made * 2

    def test_an_agents_steps_go_on_where_all_of_a_step_failed(
        self, here: Path, user_module: Module
    ) -> None:
        """Its last recorded step is one without observations."""
        raw = config(user_module, "agent == 1", rounds=3, on_error="skip")
        simulation = make(here / "seed-0", raw)

        def stop(progress: Progress) -> None:
            raise Interrupted("enough")

        with pytest.raises(Interrupted):
            run(simulation, stop)
        run(simulation)
        found = [row[1] for line in steps(simulation.folder) for row in line["failed"]]
        assert found == [0, 0, 1, 2, 3]

    @pytest.mark.parametrize(
        ("trouble", "reason"),
        [
            ("not leave()", "raised SystemExit"),
            ("give(float('nan'))", "returned nan"),
            ("give(float('-inf'))", "returned -inf"),
            ("give('text')", "returned str"),
            ("give(True)", "returned bool"),
        ],
    )
    def test_reasons(self, here: Path, user_module: Module, trouble: str, reason: str) -> None:
        helpers = """
    def leave():
        raise SystemExit(1)

    class Given(Exception):
        pass

    def give(value):
        raise Given(value)

    class Giving(Mine):
        def objective(self, agent):
            inner = super().objective(agent)
            def objective(point, rng):
                try:
                    return inner(point, rng)
                except Given as given:
                    return given.args[0]
            return objective
"""
        raw = small(rounds=1, on_error="skip")
        module = user_module(USERS.format(trouble=f"agent == 2 and {trouble}") + helpers)
        raw["scenario"] = {"name": f"{module}:Giving"}
        simulation = make(here / "seed-0", raw)
        run(simulation)
        failed = [row for line in steps(simulation.folder) for row in line["failed"]]
        assert {(row[0], row[-1]) for row in failed} == {(2, reason)}
        assert len(failed) == 3


class TestRetry:
    def test_a_later_try_counts_and_has_the_same_key(self, here: Path, user_module: Module) -> None:
        raw = config(user_module, "tries <= 2", on_error={"retry": 2})
        module_is_the_same = make(here / "reference", raw)
        journal = run(make(here / "seed-0", raw))
        evaluations = 3 * (2 + 2)
        counts = Counter(calls())
        assert set(counts.values()) == {3}
        assert len(counts) == evaluations  # the draw is the key's: the same for every try
        Path("mended").touch()
        assert run(module_is_the_same) == journal

    @pytest.mark.parametrize("retries", [1, 3])
    def test_it_stops_after_the_last_try(
        self, here: Path, user_module: Module, retries: int
    ) -> None:
        raw = config(user_module, "agent == 1", on_error={"retry": retries})
        simulation = make(here / "seed-0", raw)
        with pytest.raises(ObjectiveError, match="raised ValueError") as caught:
            run(simulation)
        assert "# here" in caught.value.user_traceback
        tried = [line for line in calls() if line.startswith("1 ")]
        assert (len(tried), len(set(tried))) == (retries + 1, 1)
        Path("mended").touch()
        assert run(simulation) == run(make(here / "reference", raw))

    def test_other_errors_are_not_tried_again(self) -> None:
        tries = []

        def objective(point: Any, rng: np.random.Generator) -> float:
            tries.append(rng.random())
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            call_with_retries(objective, {}, Keys(0, 0, 0), 0, "here", retries=5)
        assert len(tries) == 1

    def test_one_evaluation(self) -> None:
        draws = []

        def objective(point: Any, rng: np.random.Generator) -> float:
            draws.append(rng.random())
            return float("nan") if len(draws) < 3 else 7.0

        assert call_with_retries(objective, {}, Keys(0, 1, 2), 3, "here", retries=9).y == 7.0
        assert draws == [Keys(0, 1, 2)("objective", 3).random()] * 3


class TestSettings:
    @pytest.mark.parametrize(
        ("value", "retries", "skip"),
        [("stop", 0, False), ("skip", 0, True), ({"retry": 1}, 1, False), ({"retry": 9}, 9, False)],
    )
    def test_forms(self, value: Any, retries: int, skip: bool) -> None:
        experiment = prepare(small(on_error=value))
        (variant,) = experiment.variants.values()
        spec = experiment.spec(variant, 0)
        assert (spec.retries, spec.skip_failures) == (retries, skip)
        resolved = experiment.config.model_dump(mode="json")
        assert resolved["on_error"] == value
        assert prepare(resolved).config == experiment.config

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            ({"retry": 0}, r"on_error\.retry: expected a number of at least 1, got 0"),
            ({"retry": -1}, r"on_error\.retry: expected a number of at least 1, got -1"),
            ({"retry": 1.5}, r"on_error\.retry: expected a whole number, got 1\.5"),
            ({"retry": True}, r"on_error\.retry: expected a number, got true"),
            ({"retry": None}, r"on_error\.retry: .*got null"),
            ({"retries": 2}, r"on_error\.retry: missing"),
            ({"retry": 1, "wait": 2}, r"on_error\.wait: unknown key"),
            ({}, r"on_error\.retry: missing; it has no default"),
            ("ignore", "on_error: .*'stop' or 'skip'.*got 'ignore'"),
            (3, "on_error: .*'stop' or 'skip'.*got 3"),
            (None, "on_error: .*got null"),
            (["skip"], r"on_error: .*got \['skip'\]"),
        ],
    )
    def test_what_is_wrong(self, value: Any, message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            prepare(small(on_error=value))


class TestCommandLine:
    def test_skip(
        self, here: Path, user_module: Module, capsys: pytest.CaptureFixture[str]
    ) -> None:
        raw = config(user_module, SOMETIMES)
        Path("run.yaml").write_text(format_yaml(raw), "utf-8")
        assert run_command(["run", "run.yaml"]) == 3
        assert "raised ValueError" in capsys.readouterr().err
        assert run_command(["run", "run.yaml", "--set", "on_error=skip", "--json"]) == 0
        result = json.loads(capsys.readouterr().out.splitlines()[-1])
        failed = sum(
            len(line.get("failed", [])) for line in steps(Path(result["folder"]) / "seed-0")
        )
        assert result["status"] == "done"
        assert failed > 0
        seen = fedsim.load(result["folder"]).observations
        assert len(seen) == 3 * (2 + 2) - failed

    def test_retry(self, here: Path, user_module: Module) -> None:
        raw = config(user_module, "tries <= 1")
        Path("run.yaml").write_text(format_yaml(raw), "utf-8")
        assert run_command(["run", "run.yaml", "--set", "on_error={retry: 1}"]) == 0
        assert run_command(["run", "run.yaml", "--set", "on_error={retry: 0}"]) == 2
