"""The scenario of the CEC 2005 functions, with made-up data, and the real if available."""

from __future__ import annotations

import dataclasses
import json
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.cli.main import run_command
from fedsim.errors import ConfigError, MissingDataError
from fedsim.rng import rng
from fedsim.scenarios.cec2005 import CEC2005
from fedsim.scenarios.cec_functions import DEFINITIONS, Name
from fedsim.testing import check_scenario
from fedsim.workload import Scenario
from tests.util.pages import section_of


class TestScenario:
    def test_it_is_one(self) -> None:
        scenario = CEC2005()
        assert isinstance(scenario, Scenario)
        assert (scenario.agents, scenario.direction) == (10, "minimize")
        assert scenario.space.names == tuple(f"x{i}" for i in range(1, 11))

    @pytest.mark.parametrize("name", ["F1", "F4", "F12", "F17", "F20"])
    def test_it_conforms(self, tiny: Path, name: Name) -> None:
        check_scenario(CEC2005(3, name, 2, data_dir=tiny))

    @pytest.mark.parametrize("name", DEFINITIONS)
    def test_the_box_and_the_optimum_need_no_data(self, name: Name) -> None:
        scenario, known = CEC2005(function=name, dimension=2), DEFINITIONS[name]
        ends = [scenario.space.to_point(np.full(2, u)) for u in (0.0, 1.0)]
        assert [p["x2"] for p in ends] == list(known.box)
        assert scenario.optimum(0) == known.bias

    def test_the_box_of_f7(self) -> None:
        assert DEFINITIONS["F7"].box == (-600.0, 600.0)

    def test_all_agents_have_one_function(self, tiny: Path) -> None:
        scenario = CEC2005(function="F9", data_dir=tiny)
        point = scenario.space.to_point(np.linspace(0, 1, 10))
        values = {scenario.objective(a)(point, rng(0, "x", a, 0)) for a in range(10)}
        assert len(values) == 1

    def test_the_optimal_point_has_the_optimal_value(self, tiny: Path) -> None:
        scenario = CEC2005(function="F9", dimension=2, data_dir=tiny)
        point = scenario.space.checked(scenario.optimal_point(0))
        value = scenario.objective(0)(point, rng(0, "x", 0, 0)).noiseless
        assert value == pytest.approx(scenario.optimum(0), abs=1e-10)

    def test_names_count_and_not_the_order(self, tiny: Path) -> None:
        objective = CEC2005(function="F2", dimension=2, data_dir=tiny).objective(0)
        values = {
            objective(point, rng(0, "x", 0, 0)).y
            for point in ({"x1": 1.0, "x2": -3.0}, {"x2": -3.0, "x1": 1.0})
        }
        assert len(values) == 1

    def test_an_objective_can_be_sent(self, tiny: Path) -> None:
        objective = CEC2005(function="F16", dimension=2, data_dir=tiny).objective(0)
        point = {"x1": 1.0, "x2": -3.0}
        again = pickle.loads(pickle.dumps(objective))
        assert again(point, rng(0, "x", 0, 0)) == objective(point, rng(0, "x", 0, 0))

    def test_every_setting_is_documented(self) -> None:
        section = section_of("cec2005")
        told = {f.name for f in dataclasses.fields(CEC2005)} - {"data_dir", "agents"}
        assert {name for name in told if f"`scenario.{name}`" not in section} == set()

    def test_a_run_reports_regret(self, tiny: Path, here: Path) -> None:
        raw = {
            "scenario": {"name": "cec2005", "agents": 2, "function": "F4", "dimension": 2},
            "method": {"name": "random-search", "initial_points": 3},
            "rounds": 2,
            "backend": "serial",
        }
        run = fedsim.run(raw, data_dir=tiny)
        seen = run.observations
        assert len(seen) == 2 * (3 + 2)
        assert (seen["regret"] == seen["noiseless"] + 450).all()
        assert (seen["y"] > seen["noiseless"]).all()


class TestNoise:
    @pytest.mark.parametrize(("name", "scale"), [("F4", 0.4), ("F17", 0.2)])
    def test_it_enlarges_the_distance_from_the_optimum(
        self, tiny: Path, name: Name, scale: float
    ) -> None:
        """|N(0, 1)| has the mean sqrt(2/pi) and the variance 1 - 2/pi; five standard errors."""
        objective = CEC2005(function=name, dimension=2, data_dir=tiny).objective(0)
        bias, point, n = DEFINITIONS[name].bias, {"x1": 1.0, "x2": 2.0}, 4000
        found = [objective(point, rng(0, "objective", 0, step)) for step in range(n)]
        assert len({one.noiseless for one in found}) == 1
        exact = found[0].noiseless
        assert exact is not None
        draws = (np.array([one.y for one in found]) - exact) / ((exact - bias) * scale)
        assert draws.min() >= 0
        tolerance = 5 * math.sqrt((1 - 2 / math.pi) / n)
        assert draws.mean() == pytest.approx(math.sqrt(2 / math.pi), abs=tolerance)

    def test_it_is_by_key(self, tiny: Path) -> None:
        objective = CEC2005(function="F4", dimension=2, data_dir=tiny).objective(0)
        point = {"x1": 1.0, "x2": 2.0}
        values = [objective(point, rng(0, "objective", 0, step)).y for step in (0, 0, 1)]
        assert values[0] == values[1] != values[2]

    def test_there_is_none_at_the_optimum(self, tiny: Path) -> None:
        objective = CEC2005(function="F4", dimension=2, data_dir=tiny).objective(0)
        x1, x2 = objective.function.minimiser.tolist()
        assert objective({"x1": x1, "x2": x2}, rng(0, "x", 0, 0)).y == -450

    def test_others_have_none(self, tiny: Path) -> None:
        found = CEC2005(dimension=2, data_dir=tiny).objective(0)(
            {"x1": 1, "x2": 2}, rng(0, "x", 0, 0)
        )
        assert found.y == found.noiseless


class TestCommandLine:
    CALL = ("evaluate", "cec2005", "--set", "scenario.function=F2")
    ZEROS = json.dumps([0] * 10)

    def test_the_official_value(
        self, data_dir: Path, here: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        if not (data_dir / "cec2005").is_dir():
            pytest.skip("needs the data set cec2005")
        arguments = ("--set", "scenario.dimension=10", "--point", self.ZEROS, "--noiseless")
        code = run_command([*self.CALL, *arguments, "--json", "--data", str(data_dir)])
        assert code == 0
        record = json.loads(capsys.readouterr().out)
        assert record["value"] == pytest.approx(67545.09279384, rel=1e-10)

    def test_a_noisy_function(
        self, tiny: Path, here: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def value(*more: str) -> float:
            call = ("evaluate", "cec2005", "--set", "scenario.function=F4", "--json", *more)
            assert run_command([*call, "--point", self.ZEROS, "--data", str(tiny)]) == 0
            return float(json.loads(capsys.readouterr().out)["value"])

        exact = value("--noiseless")
        assert value() == value() > exact
        assert value("--seed", "1") != value()
        assert value("--seed", "1", "--noiseless") == exact

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("--point", "[0, 0]"), "point: expected 10 values (x1, x2, x3,"),
            (("--point", "[0, 101]", "--set", "scenario.dimension=2"), "x2: expected a value in"),
            (
                ("--point", "[0]", "--set", "scenario.function=F21"),
                "scenario.function: expected 'F1', 'F2', ",
            ),
            (
                ("--point", "[0]", "--set", "scenario.dimension=3"),
                "scenario.dimension: expected 2, 10, 30 or 50, got 3",
            ),
            (
                ("--point", "[0]", "--set", "scenario.agents=0"),
                "scenario.agents: expected at least 1",
            ),
        ],
    )
    def test_refusals(
        self,
        tiny: Path,
        here: Path,
        capsys: pytest.CaptureFixture[str],
        arguments: tuple[str, ...],
        message: str,
    ) -> None:
        assert run_command([*self.CALL, *arguments, "--data", str(tiny)]) == 2
        assert message in " ".join(capsys.readouterr().err.split())


class TestRefusals:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"agents": 0}, "scenario.agents: expected at least 1, got 0"),
            ({"function": "F21"}, "scenario.function: expected F1 to F20, got F21"),
            ({"dimension": 3}, "scenario.dimension: expected 2, 10, 30 or 50, got 3"),
        ],
    )
    def test_settings(self, settings: dict[str, Any], message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            CEC2005(**settings)

    def test_a_missing_set(self, tmp_path: Path) -> None:
        with pytest.raises(MissingDataError, match="data set cec2005 is not in"):
            CEC2005(data_dir=tmp_path).objective(0)
