"""A mapping and the scenario or method that is given beside it."""

from __future__ import annotations

from typing import Any

import pytest

from fedsim.config.experiment import prepare
from fedsim.errors import ConfigError
from fedsim.space import Parameter, Space
from tests.util.small import small

OWN = f"{__name__}:Own"


class Own:
    space, direction = Space((Parameter("x", 0, 1),)), "maximize"

    def __init__(self, agents: int = 3, depth: int = 1) -> None:
        self.agents = agents

    def objective(self, agent: int) -> Any:
        return lambda point, rng: point["x"]


class TestBesideAMapping:
    @pytest.mark.parametrize(
        ("section", "given", "message"),
        [
            ({"agents": 5}, Own(3), "scenario.agents: .*:Own was given as an object, which has"),
            ({"bogus": 5}, Own(3), "scenario.bogus: .*:Own was given as an object, which has"),
            ({"bogus": 5}, Own, "scenario.bogus: unknown key"),
            ("synthetic", Own(3), "scenario.name: given twice, 'synthetic' in .* by scenario="),
            ({"name": "synthetic", "agents": 5}, Own, "scenario.name: given twice"),
            ({"agents": 5}, {"name": OWN, "agents": 4}, "scenario.agents: given twice, 5 in"),
        ],
    )
    def test_nothing_is_dropped_in_silence(self, section: Any, given: Any, message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            prepare(small(scenario=section), scenario=given)

    @pytest.mark.parametrize("given", [Own, OWN, {"name": OWN}, {"name": OWN, "depth": 2}])
    def test_settings_of_both_apply(self, given: Any) -> None:
        found = prepare(small(scenario={"agents": 5}), scenario=given).config.scenario
        depth = given.get("depth", 1) if isinstance(given, dict) else 1
        assert found == {"name": OWN, "agents": 5, "depth": depth}

    @pytest.mark.parametrize("section", [OWN, {"name": OWN}, {"name": Own}, {}, None])
    def test_the_same_name_may_stand_in_both(self, section: Any) -> None:
        assert prepare(small(scenario=section), scenario=Own(4)).config.scenario == {"name": OWN}

    def test_a_method(self) -> None:
        settings = {"initial_points": 4}
        found = prepare(small() | {"method": settings}, method="random-search")
        assert found.config.method["initial_points"] == 4
        with pytest.raises(ConfigError, match=r"method\.name: given twice, 'fts' in"):
            prepare(small() | {"method": "fts"}, method="random-search")

    def test_a_ready_configuration_keeps_the_rest(self) -> None:
        found = prepare("private-sharing", scenario=Own(4), method="random-search").config
        assert found.scenario == {"name": OWN}
        assert found.method["name"] == "random-search"
