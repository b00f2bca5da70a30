"""Shifted and rotated test functions: a known minimum for every agent."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedsim
from fedsim.errors import ConfigError
from fedsim.rng import rng
from fedsim.scenarios.functions import Classic, Functions
from fedsim.space import Array
from fedsim.testing import check_scenario
from fedsim.workload import Scenario
from tests.util.pages import section_of

NAMES: tuple[Classic, ...] = get_args(Classic)


def units(scenario: Functions, X: Array) -> Array:
    """Return points X in unit coordinates."""
    first = scenario.space.parameters[0]
    lower, upper = (float(first.to_value(u)) for u in (0.0, 1.0))
    return np.asarray((X - lower) / (upper - lower))


class TestMinimum:
    @pytest.mark.parametrize("function", NAMES)
    @settings(max_examples=10)
    @given(
        dimension=st.integers(2, 6),
        seed=st.integers(0, 1000),
        shared=st.booleans(),
        rotated=st.booleans(),
    )
    def test_it_is_where_and_what_it_should_be(
        self, function: Classic, dimension: int, seed: int, shared: bool, rotated: bool
    ) -> None:
        scenario = Functions(
            3, function, dimension, rotated, shared=shared, heterogeneity=0.5, seed=seed
        )
        objective, best = scenario.objective(2), scenario.minimiser(2)
        value, scale = scenario.optimum(2), 1e-9 * max(1.0, abs(scenario.optimum(2)))
        assert objective.values(best[None])[0] == pytest.approx(value, abs=scale)
        U = np.random.default_rng(seed).random((50, dimension))
        X = np.array([[*scenario.space.to_point(u).values()] for u in U])
        near = best + 1e-3 * (X - best)
        assert objective.values(np.concatenate([X, near])).min() >= value - scale
        place = units(scenario, best)
        assert place.min() > 0.0999
        assert place.max() < 0.9001

    @pytest.mark.parametrize("function", NAMES)
    def test_it_conforms(self, function: Classic) -> None:
        check_scenario(Functions(3, function, 3, shared=False, noise_variance=0.1), points=3)

    def test_the_optimum_of_michalewicz(self) -> None:
        assert Functions(function="michalewicz").optimum(0) == pytest.approx(-9.66015171564)


class TestAgents:
    def test_by_default_all_have_one_function(self) -> None:
        scenario = Functions(seed=3)
        assert np.array_equal(scenario.minimiser(0), scenario.minimiser(9))
        point = scenario.space.to_point(np.full(10, 0.3))
        assert len({scenario.objective(a)(point, rng(0, "x", 0, 0)) for a in range(10)}) == 1

    def test_the_optimal_point_has_the_optimal_value(self) -> None:
        scenario = Functions(shared=False, dimension=3, seed=4)
        for agent in range(3):
            point = scenario.space.checked(scenario.optimal_point(agent))
            value = scenario.objective(agent)(point, rng(0, "x", agent, 0)).noiseless
            assert value == pytest.approx(scenario.optimum(agent), abs=1e-12)

    def test_heterogeneity_moves_the_minima_apart(self) -> None:
        def places(heterogeneity: float) -> Array:
            scenario = Functions(50, shared=False, heterogeneity=heterogeneity)
            return np.array([scenario.minimiser(a) for a in range(50)])

        alike, some, unrelated = places(0.0), places(0.5), places(1.0)
        shared = Functions().minimiser(0)
        assert np.array_equal(alike, np.tile(shared, (50, 1)))
        np.testing.assert_allclose(some, (shared + unrelated) / 2, rtol=1e-12)
        assert len(np.unique(unrelated)) == unrelated.size

    def test_the_seed_makes_the_function(self) -> None:
        one, again, other = (Functions(seed=seed) for seed in (0, 0, 1))
        point = one.space.to_point(np.full(10, 0.3))
        values = [s.objective(0)(point, rng(0, "x", 0, 0)).y for s in (one, again, other)]
        assert values[0] == values[1] != values[2]

    def test_a_rotation(self) -> None:
        R = Functions(dimension=5).objective(0).rotation
        np.testing.assert_allclose(R @ R.T, np.eye(5), atol=1e-12)
        assert not np.allclose(np.abs(R), np.eye(5))
        assert np.array_equal(
            Functions(dimension=5, rotated=False).objective(0).rotation, np.eye(5)
        )

    def test_without_a_rotation_the_ellipsoid_is_separable(self) -> None:
        """Steps along the first and the last axis cost 1 and a million."""
        objective = Functions(function="ellipsoid", dimension=4, rotated=False).objective(0)
        best, step = objective.minimiser, np.eye(4)
        assert objective.values(best + step)[[0, 3]] == pytest.approx([1.0, 1e6])

    def test_an_objective_can_be_sent(self) -> None:
        objective = Functions(dimension=2).objective(0)
        point = {"x1": 1.0, "x2": -3.0}
        again = pickle.loads(pickle.dumps(objective))
        assert again(point, rng(0, "x", 0, 0)) == objective(point, rng(0, "x", 0, 0))


def test_noise() -> None:
    """Its mean and variance within five standard errors."""
    objective = Functions(dimension=2, noise_variance=4.0).objective(0)
    point, n = {"x1": 1.0, "x2": 2.0}, 4000
    found = [objective(point, rng(0, "objective", 0, step)) for step in range(n)]
    noise = np.array([one.y - (one.noiseless or 0.0) for one in found])
    assert noise.mean() == pytest.approx(0, abs=5 * 2 / np.sqrt(n))
    assert noise.var() == pytest.approx(4, abs=5 * 4 * np.sqrt(2 / n))


def test_a_run_reports_regret(here: Path) -> None:
    raw = {
        "scenario": {"name": "functions", "agents": 2, "dimension": 3, "shared": False},
        "method": {"name": "ts", "initial_points": 3},
        "rounds": 2,
        "backend": "serial",
    }
    seen = fedsim.run(raw).observations
    assert (seen["regret"] > 0).all()
    assert (seen["y"] == seen["noiseless"]).all()


def test_it_is_one() -> None:
    assert isinstance(Functions(), Scenario)
    assert (Functions().agents, Functions().direction) == (10, "minimize")


def test_every_setting_is_documented() -> None:
    section = section_of("functions")
    told = {f.name for f in dataclasses.fields(Functions)} - {"seed", "agents"}
    assert {name for name in told if f"`scenario.{name}`" not in section} == set()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"agents": 0}, "scenario.agents: expected at least 1, got 0"),
        ({"function": "spheres"}, "scenario.function: expected one of sphere, ellipsoid, "),
        ({"dimension": 0}, "scenario.dimension: expected at least 1"),
        ({"function": "rosenbrock", "dimension": 1}, "scenario.dimension: expected at least 2"),
        ({"heterogeneity": 1.1}, "scenario.heterogeneity: expected 0 to 1, got 1.1"),
        ({"heterogeneity": float("nan")}, "scenario.heterogeneity: expected 0 to 1, got nan"),
        ({"noise_variance": -1.0}, "scenario.noise_variance: expected finite and at least 0"),
        ({"noise_variance": float("inf")}, "scenario.noise_variance: expected finite"),
    ],
)
def test_refusals(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Functions(**settings)
