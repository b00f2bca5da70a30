"""The ready configurations: every variant can be built, and evaluated where its data are there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedsim.config.construct import build_method, build_scenario
from fedsim.config.experiment import prepare
from fedsim.config.ready import ready_names
from fedsim.errors import MissingDataError
from fedsim.rng import rng
from fedsim.workload import Scenario


def scenarios(name: str, data_dir: Path | None) -> list[Scenario]:
    """Build every variant's scenario and method; return the scenarios that differ."""
    experiment = prepare(name, (), data_dir)
    found: dict[str, Scenario] = {}
    for variant in experiment.variants.values():
        spec = experiment.spec(variant, variant.seeds[0])
        scenario = build_scenario(spec)
        build_method(spec, scenario)
        found.setdefault(repr(spec.scenario), scenario)
    return list(found.values())


@pytest.mark.parametrize("name", ready_names())
def test_every_variant_can_be_built_without_data(name: str) -> None:
    assert scenarios(name, None)


@pytest.mark.parametrize("name", ready_names())
def test_every_scenario_has_a_value(name: str, data_dir: Path) -> None:
    for scenario in scenarios(name, data_dir):
        try:
            objective = scenario.objective(0)
        except MissingDataError as error:
            pytest.skip(str(error))
        point = scenario.space.to_point(np.full(scenario.space.dimension, 0.25))
        value = objective(point, rng(0, "objective", 0, 0))
        assert np.isfinite(value if isinstance(value, float) else value.y)


def test_table_1_compares_five_methods_on_all_functions() -> None:
    variants = prepare("cec2005-all", (), None).variants.values()
    methods: dict[str, list[tuple[str, str]]] = {}
    for one in variants:
        own = methods.setdefault(str(one.scenario["function"]), [])
        own.append((str(one.method["name"]), str(one.method.get("use", ""))))
    compared = [("random-search", ""), ("fbo-fedgp", "local"), ("fts", ""), ("fbo-fedgp", "mixed")]
    compared.append(("fbo-fedgp-tr", ""))
    assert methods == {f"F{number}": compared for number in range(1, 21)}
    # Equal budgets, and nothing but the method differs between two variants of a function.
    assert {(one.method["initial_points"], one.rounds) for one in variants} == {(4, 50)}
