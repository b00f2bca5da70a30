import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import yaml

from fedsim.config.construct import resolve_section
from fedsim.usercode.sources import NO_CODE
from fedsim.workload import Scenario

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"


@pytest.fixture(scope="module")
def branin() -> ModuleType:
    spec = importlib.util.spec_from_file_location("branin", EXAMPLES / "branin.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestBranin:
    def test_it_is_a_scenario(self, branin: ModuleType) -> None:
        assert isinstance(branin.Branin(), Scenario)

    @pytest.mark.parametrize("minimum", [(-np.pi, 12.275), (np.pi, 2.275), (9.42478, 2.475)])
    def test_the_minima_of_branin(self, branin: ModuleType, minimum: tuple[float, float]) -> None:
        scenario = branin.Branin(agents=8)
        for agent in range(8):
            objective = scenario.objective(agent)
            point = {"a": minimum[0] - agent / 16, "b": minimum[1]}
            found = np.mean([objective(point, np.random.default_rng(s)) for s in range(100)])
            assert found == pytest.approx(0.397887, abs=4 * 0.1 / 10)

    def test_the_configuration_names_it(self, branin: ModuleType) -> None:
        scenario = yaml.safe_load((EXAMPLES / "branin.yaml").read_text())["scenario"]
        module, name = scenario.pop("name").split(":")
        assert module == "branin"
        assert getattr(branin, name)(**scenario).agents == 8

    def test_it_fits_on_a_slide(self) -> None:
        lines = (EXAMPLES / "branin.py").read_text().splitlines()
        code = [line for line in lines if line.strip() and '"""' not in line]
        assert len(code) <= 15


@pytest.mark.parametrize("name", ["synthetic", "digits-svm"])
def test_ready_configurations_spell_out_the_defaults(name: str) -> None:
    settings = yaml.safe_load((ROOT / "scenarios" / f"{name}.yaml").read_text())["scenario"]
    assert settings == resolve_section("scenario", {"name": name}, NO_CODE)
