import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.errors import ConfigError
from fedsim.scenarios.synthetic import Synthetic, axis_root, circle_size, circulant_root
from fedsim.space import Array
from fedsim.workload import Evaluation, Scenario


def mixed(alpha: float, seed: int = 0, grid_size: int = 1000) -> Synthetic:
    return Synthetic(perturbation=None, mixture=alpha, seed=seed, grid_size=grid_size)


def noiseless(evaluation: Evaluation) -> float:
    assert evaluation.noiseless is not None
    return evaluation.noiseless


class TestGaussianProcess:
    @pytest.mark.parametrize("grid_size", [2, 3, 50, 1000])
    @pytest.mark.parametrize("length_scale", [1e-6, 0.03, 0.3, 1.0])
    def test_the_covariance_of_a_draw_is_the_kernel(
        self, grid_size: int, length_scale: float
    ) -> None:
        # root^2 are the eigenvalues of the draw's covariance; their transform is its first row.
        circle = circle_size(grid_size, length_scale)
        row = np.fft.irfft(circulant_root(grid_size, length_scale) ** 2, circle)[:grid_size]
        x = np.linspace(0, 1, grid_size)
        assert row == pytest.approx(np.exp(-0.5 * (x / length_scale) ** 2), abs=1e-13)

    def test_draws_have_the_kernels_roughness(self) -> None:
        # For the SE kernel, E[(f(x + h) - f(x))^2] / Var f = 2 (1 - k(h)); 40 draws of about 13
        # independent stretches each: tolerance of 4 standard errors, 4 * sqrt(2 / 520).
        draws = np.array([mixed(1.0, seed=s, grid_size=300).values(0) for s in range(40)])
        steps = np.mean((draws[:, 3:] - draws[:, :-3]) ** 2)
        expected = 2 * (1 - math.exp(-0.5 * (3 / 299 / 0.03) ** 2))
        spread = np.mean(np.var(draws, axis=1))
        # The variance along one draw is smaller than the process's: the mean is taken off.
        loss = 1 - 0.03 * math.sqrt(2 * math.pi)
        assert steps / (spread / loss) == pytest.approx(expected, rel=0.25)


class TestMoreDimensions:
    @pytest.mark.parametrize("grid_size", [2, 3, 25, 128])
    @pytest.mark.parametrize("length_scale", [1e-6, 0.03, 0.3, 1.0])
    def test_an_axis_has_the_covariance_of_the_kernel(
        self, grid_size: int, length_scale: float
    ) -> None:
        root, x = axis_root(grid_size, length_scale), np.linspace(0, 1, grid_size)
        expected = np.exp(-0.5 * ((x[:, None] - x) / length_scale) ** 2)
        assert root @ root == pytest.approx(expected, abs=1e-12)

    @pytest.mark.parametrize(("dimension", "grid_size"), [(2, 12), (3, 5)])
    def test_a_draw_is_white_noise_times_the_kronecker_product_of_the_axes(
        self, dimension: int, grid_size: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        white = np.random.default_rng(1).standard_normal(grid_size**dimension)

        class Given:
            def standard_normal(self, shape: tuple[int, ...]) -> Array:
                return np.reshape(white, shape)

        monkeypatch.setattr("fedsim.scenarios.synthetic.rng", lambda *key: Given())
        scenario = Synthetic(
            dimension=dimension,
            grid_size=grid_size,
            length_scale=0.2,
            perturbation=None,
            mixture=1.0,
        )
        joint: Any = np.eye(1)
        for _ in range(dimension):
            joint = np.kron(joint, axis_root(grid_size, 0.2))
        f = joint @ white
        expected = (f - f.min()) / (f.max() - f.min())
        assert scenario.values(0) == pytest.approx(expected, abs=1e-12)
        # And that product is a root of the kernel's covariance on the space's grid.
        grid = scenario.space.grid
        assert grid is not None
        distances = ((grid[:, None] - grid[None]) ** 2).sum(axis=2)
        assert joint @ joint == pytest.approx(np.exp(-0.5 * distances / 0.2**2), abs=1e-12)

    @pytest.mark.parametrize(("dimension", "grid_size"), [(2, 7), (3, 6), (14, 2)])
    def test_every_grid_point_finds_its_own_value(self, dimension: int, grid_size: int) -> None:
        scenario = Synthetic(dimension=dimension, grid_size=grid_size, length_scale=0.5)
        objective, space = scenario.objective(3), scenario.space
        assert space.names == tuple(f"x{i + 1}" for i in range(dimension))
        assert space.grid is not None
        generator = np.random.default_rng(0)
        found = [objective(space.to_point(u), generator).noiseless for u in space.grid]
        assert found == scenario.values(3).tolist()
        assert scenario.optimum(3) == max(scenario.values(3))

    def test_the_largest_grids_are_those_whose_points_are_all_compared(self) -> None:
        for dimension, most in ((2, 128), (3, 25), (4, 11)):
            assert Synthetic(dimension=dimension, grid_size=most).space.grid is not None
            with pytest.raises(ConfigError, match=f"at most {most} with dimension {dimension}"):
                Synthetic(dimension=dimension, grid_size=most + 1)


class TestPerturbation:
    @given(st.integers(0, 50), st.integers(0, 10))
    def test_agents_differ_from_one_function_by_d(self, seed: int, agent: int) -> None:
        scenario = Synthetic(seed=seed, perturbation=0.02)
        shared = Synthetic(seed=seed, perturbation=0.0).values(agent)
        assert (shared.min(), shared.max()) == (0.0, 1.0)
        assert np.abs(scenario.values(agent) - shared) == pytest.approx(np.full(1000, 0.02))

    def test_both_signs_are_equally_likely_and_agents_toss_for_themselves(self) -> None:
        scenario = Synthetic(perturbation=1.0)
        shared = Synthetic(perturbation=0.0).values(0)
        signs = np.array([np.rint(scenario.values(a) - shared) for a in range(50)])
        assert set(np.unique(signs)) == {-1.0, 1.0}
        assert abs(signs.mean()) < 4 / math.sqrt(signs.size)
        agreement = np.corrcoef(signs)[np.triu_indices(50, 1)]
        assert np.abs(agreement).max() < 5 / math.sqrt(1000)

    def test_several_perturbations_take_turns(self) -> None:
        scenario = Synthetic(agents=5, perturbation=(0.02, 1.2))
        shared = Synthetic(perturbation=0.0).values(0)
        sizes = [float(np.abs(scenario.values(a) - shared).max()) for a in range(5)]
        assert sizes == pytest.approx([0.02, 1.2, 0.02, 1.2, 0.02])
        # An agent's coins do not depend on how many perturbations there are.
        assert np.array_equal(scenario.values(3), Synthetic(perturbation=1.2).values(3))

    @pytest.mark.parametrize("mixture", [None, 0.5])
    def test_unchanged_agents_have_the_shared_function(self, mixture: float | None) -> None:
        perturbation = None if mixture else 1.2
        scenario = Synthetic(agents=3, perturbation=perturbation, mixture=mixture, unchanged=(0, 2))
        shared = Synthetic(perturbation=0.0).values(0)
        assert np.array_equal(scenario.values(0), shared)
        assert np.array_equal(scenario.values(2), shared)
        assert not np.array_equal(scenario.values(1), shared)
        assert (scenario.optimum(0), scenario.optimum(2)) == (1.0, 1.0)


class TestMixture:
    def test_nothing_mixed_in_makes_all_agents_alike(self) -> None:
        scenario = mixed(0.0)
        assert np.array_equal(scenario.values(0), scenario.values(1))
        assert np.array_equal(scenario.values(0), Synthetic(perturbation=0.0).values(0))

    def test_all_mixed_in_makes_agents_independent(self) -> None:
        values = np.array([mixed(1.0).values(a) for a in range(20)])
        assert (values.min(axis=1).tolist(), values.max(axis=1).tolist()) == ([0] * 20, [1] * 20)
        correlations = np.corrcoef(values)[np.triu_indices(20, 1)]
        # A draw is about 1 / (0.03 sqrt(4 pi)) = 9.4 independent stretches long.
        assert abs(correlations.mean()) < 4 / math.sqrt(9.4 * 190)

    @given(st.floats(0, 1), st.integers(0, 5))
    def test_the_mixture_is_linear(self, alpha: float, agent: int) -> None:
        own, shared = mixed(1.0).values(agent), mixed(0.0).values(agent)
        expected = alpha * own + (1 - alpha) * shared
        assert mixed(alpha).values(agent) == pytest.approx(expected, abs=1e-15)


class TestObjective:
    def test_it_is_a_scenario(self) -> None:
        scenario = Synthetic(agents=7)
        assert isinstance(scenario, Scenario)
        assert (scenario.agents, scenario.direction) == (7, "maximize")

    @pytest.mark.parametrize("grid_size", [2, 7, 50, 1000, 1023])
    def test_every_grid_point_finds_its_own_value(self, grid_size: int) -> None:
        scenario = Synthetic(grid_size=grid_size)
        objective, space = scenario.objective(3), scenario.space
        assert space.grid is not None
        found = [objective(space.to_point(u), np.random.default_rng(0)) for u in space.grid]
        assert [e.noiseless for e in found] == scenario.values(3).tolist()

    def test_units_are_the_unit_cubes(self) -> None:
        space = Synthetic().space
        assert space.grid is not None
        assert all(space.to_point(u) == {"x": u[0]} for u in space.grid)

    def test_noise_has_the_stated_variance_and_comes_from_the_generator(self) -> None:
        objective = Synthetic(noise_variance=0.04).objective(0)
        generator = np.random.default_rng(0)
        found = [objective({"x": 0.5}, generator) for _ in range(4000)]
        noise = np.array([e.y - noiseless(e) for e in found])
        assert noise.var() == pytest.approx(0.04, rel=4 * math.sqrt(2 / 4000))
        assert abs(noise.mean()) < 4 * 0.2 / math.sqrt(4000)
        assert objective({"x": 0.5}, np.random.default_rng(0)).y == found[0].y

    def test_without_noise_an_observation_is_the_value(self) -> None:
        found = Synthetic(noise_variance=0.0).objective(0)({"x": 1.0}, np.random.default_rng(0))
        assert found.y == found.noiseless

    def test_the_optimum_is_reached_and_never_passed(self) -> None:
        scenario = Synthetic(grid_size=200)
        objective = scenario.objective(4)
        assert scenario.space.grid is not None
        values = [
            noiseless(objective({"x": u}, np.random.default_rng(0)))
            for u in scenario.space.grid[:, 0]
        ]
        assert scenario.optimum(4) == max(values)

    def test_built_again_it_is_the_same_and_another_seed_is_another(self) -> None:
        first, again, other = Synthetic(seed=4), Synthetic(seed=4), Synthetic(seed=5)
        again.values(9)  # the order in which agents are built does not matter
        assert np.array_equal(first.values(2), again.values(2))
        assert not np.array_equal(first.values(2), other.values(2))

    def test_an_agent_holds_kilobytes(self) -> None:
        assert Synthetic().objective(0).values.base is None
        assert Synthetic().objective(0).values.nbytes == 8000


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"agents": 0}, "scenario.agents: expected at least 1, got 0"),
        ({"grid_size": 1}, "scenario.grid_size: expected at least 2, got 1"),
        ({"dimension": 0}, "scenario.dimension: expected at least 1, got 0"),
        ({"dimension": 15}, "scenario.dimension: expected at most 14, got 15"),
        ({"dimension": 2}, "scenario.grid_size: expected at most 128 with dimension 2, got 1000"),
        ({"length_scale": 0.0}, r"scenario.length_scale: expected in \(0, 1\], got 0.0"),
        ({"length_scale": math.nan}, "scenario.length_scale"),
        ({"noise_variance": -0.1}, "scenario.noise_variance: expected finite and at least 0"),
        ({"noise_variance": math.inf}, "scenario.noise_variance"),
        ({"perturbation": math.nan}, "scenario.perturbation"),
        ({"perturbation": ()}, "scenario.perturbation: expected at least one number, got none"),
        ({"perturbation": (0.1, -1.0)}, "scenario.perturbation: expected finite and at least 0"),
        ({"agents": 2, "unchanged": (2,)}, "scenario.unchanged: expected agents of 0 to 1, got 2"),
        ({"mixture": 0.5}, "exactly one of perturbation and mixture.*to null"),
        ({"perturbation": None}, "exactly one of perturbation and mixture"),
        ({"perturbation": None, "mixture": 1.5}, r"scenario.mixture: expected in \[0, 1\]"),
    ],
)
def test_refusals(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Synthetic(**settings)
