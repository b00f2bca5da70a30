"""Methods on spaces with choices, whole numbers, and more grid points than fit in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import fedsim
from fedsim.acquisition import draw_candidates
from fedsim.errors import ConfigError
from fedsim.methods.dp_fts_de import DPFTSDE
from fedsim.methods.dp_prior import DPPrior
from fedsim.methods.fed_warp import FederatedWarp
from fedsim.methods.local_model import LocalModel, LocalModelSettings
from fedsim.methods.random_search import RandomSearch
from fedsim.methods.shared_work import SharedWork
from fedsim.methods.thompson import ThompsonSampling
from fedsim.protocol import Context, Observation
from fedsim.rng import Keys
from fedsim.space import Array, Choice, Parameter, Space
from fedsim.surrogates.fit import fit
from fedsim.surrogates.kernels import Kernel
from fedsim.surrogates.paths import GRID_WORK
from fedsim.surrogates.rff import draw_features
from fedsim.surrogates.scaling import standardised
from fedsim.testing import check_method, check_scenario
from fedsim.usercode.loading import load_class
from tests.util.mixed import MIXED


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """As in a run; small products on several threads wait for busy cores."""
    with threadpool_limits(1):
        yield


SPACE = Space((Choice("k", list("abcd")), Parameter("x", 0, 1), Parameter("n", 1, 5, integer=True)))
TALL = Parameter("t", 0, 1)  # with it, a space is no grid
TOPS = {"a": (0.5, 0.2, 1), "b": (0.6, 0.9, 5), "c": (1.0, 0.4, 4), "d": (0.7, 0.7, 2)}


def value(u: Array) -> float:
    """Each option has a peak of its own; that of c is the highest."""
    point: dict[str, Any] = SPACE.to_point(u)
    height, x, n = TOPS[point["k"]]
    return height * math.exp(-8 * (point["x"] - x) ** 2 - 0.1 * (point["n"] - n) ** 2)


def share_of_best(method: Any, seed: int, steps: int = 25) -> float:
    """Return how many of the last ten queries have the best option."""
    agent, options = method(Context(SPACE, 1, steps, 0), initial_points=8).agent(0), []
    for step in range(steps):
        batch = []
        for i, p in enumerate(agent.propose(step, None, Keys(seed, 0, step))):
            assert np.array_equal(SPACE.snap(p.u), p.u)
            noise = 0.02 * np.random.default_rng([seed, step, i]).normal()
            batch.append(Observation(step, i, p.u, value(p.u) + noise, p.source))
            options.append(SPACE.to_point(p.u)["k"])
        agent.observe(batch)
    return float(np.mean([option == "c" for option in options[-10:]]))


@pytest.mark.parametrize(("method", "good"), [(ThompsonSampling, True), (RandomSearch, False)])
def test_thompson_sampling_finds_the_best_option(method: Any, good: bool) -> None:
    # Statistical: in 55 of 60 runs of Thompson sampling, and in 2 of random search, at least half
    # of the last ten queries have the best option. Were the shares 85 % and 10 %, fewer than 6 of
    # 12 would come once in 1400, and 6 or more once in 1800.
    found = sum(share_of_best(method, seed) >= 0.5 for seed in range(12))
    assert (found >= 6) == good


def test_whole_numbers_and_options_are_drawn_uniformly() -> None:
    # Binomial(3000, 1/3): standard deviation 25.8; 4 of them.
    space = Space((Parameter("n", 0, 2, integer=True), Choice("k", list("abc")), TALL))
    agent = RandomSearch(Context(space, 1, 9, 0), initial_points=3000).agent(0)
    design = [p.u for p in agent.propose(0, None, Keys(0, 0, 0))]
    queries = [agent.propose(step, None, Keys(0, 0, step))[0].u for step in range(1, 3001)]
    candidates = draw_candidates(space, 3000, np.random.default_rng(0))
    for U in (design, queries, candidates):
        points = [space.to_point(u) for u in U]
        for name, values in (("n", (0, 1, 2)), ("k", ("a", "b", "c"))):
            counts = [sum(p[name] == v for p in points) for v in values]
            assert np.abs(np.array(counts) - 1000).max() < 104


@pytest.mark.parametrize(
    "method",
    [
        lambda context: ThompsonSampling(context, initial_points=3),
        lambda context: DPFTSDE(
            context, initial_points=3, subregions=3, own_probability=0.5, dp=None
        ),
        lambda context: DPPrior(context, initial_points=3, releases=2),
        lambda context: RandomSearch(context, initial_points=3),
        lambda context: FederatedWarp(context, initial_points=9),
    ],
)
def test_ours_conform_on_a_users_scenario(
    method: Any, here: Path, user_module: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(here)
    scenario = load_class(f"{user_module(MIXED)}:Mixed")()
    check_scenario(scenario)
    check_method(method, scenario=scenario)


def history(space: Space, count: int) -> list[Observation]:
    rng = np.random.default_rng(0)
    U = space.snap(rng.random((count, space.dimension)))
    return [Observation(0, i, u, float(rng.random()), "") for i, u in enumerate(U)]


def test_a_choice_has_one_length_scale() -> None:
    model = LocalModel(LocalModelSettings(ard=True, fit_every=5), SharedWork(SPACE))
    model.observe(history(SPACE, 20))
    scales = model.hyperparameters().kernel.length_scales
    assert len(scales) == 6
    assert len(set(scales[:4])) == 1
    U, y = model.inputs, standardised(model.outputs)
    expected = fit("squared_exponential", True, SPACE.embed(U), y, (4, 1, 1))
    assert model.hyperparameters() == expected


def test_random_features_and_the_exact_kernel_agree_on_embedded_points() -> None:
    # Statistical: the inner product of M features has a standard deviation of at most
    # sqrt(1 / M) about the kernel; 5 of them.
    U = np.array([o.u for o in history(SPACE, 25)])
    Z, M = SPACE.embed(U), 20_000
    for family in ("squared_exponential", "matern52"):
        kernel = Kernel(family, (0.7,), 1.0)
        exact = kernel.matrix(Z, Z)
        assert np.linalg.eigvalsh(exact).min() > -1e-12
        same = U[:, 0][:, None] == U[:, 0][None]
        assert exact[~same].max() < kernel.matrix(np.zeros((1, 1)), np.ones((1, 1)))[0, 0] + 1e-12
        features = draw_features(kernel, 6, M, np.random.default_rng(0), normalised=False)
        phi = features.matrix(Z)
        assert np.abs(phi @ phi.T - exact).max() < 5 / math.sqrt(M)


@pytest.mark.parametrize("dimensions", [2, 5])
@pytest.mark.parametrize("levels", [100, 2**40])
@pytest.mark.parametrize("method", [ThompsonSampling, DPFTSDE, DPPrior, FederatedWarp])
def test_grids_that_do_not_fit_in_memory(method: Any, dimensions: int, levels: int) -> None:
    space = Space(tuple(Parameter(f"x{i}", 0, 1, levels=levels) for i in range(dimensions)))
    built = method(Context(space, 4, 9, 0), initial_points=3)
    agent = built.agent(0)
    agent.observe(history(space, 6))
    agent.prepare(1, Keys(0, 0, 1))
    (proposal,) = agent.propose(1, None, Keys(0, 0, 1))
    assert np.array_equal(space.snap(proposal.u), proposal.u)


def test_a_grid_whose_factor_is_too_large_is_climbed() -> None:
    # 6400 points with a short length scale: the factor would have hundreds of columns.
    space = Space(tuple(Parameter(name, 0, 1, levels=80) for name in "ab"))
    assert space.grid is not None
    shared = SharedWork(space)
    for scale, small in ((0.9, True), (0.05, False)):
        settings = LocalModelSettings(length_scale=scale, fit_every=0)
        model = LocalModel(settings, shared)
        factor = shared.grid_factor(model.hyperparameters().kernel, model.warp(), None)
        assert (factor is not None) == small
        assert factor is None or factor.size * factor.shape[1] <= GRID_WORK
        model.observe(history(space, 6))
        u = model.propose(Keys(0, 0, 1))
        assert np.array_equal(space.snap(u), u)


def test_sub_regions_that_would_divide_an_option_are_refused_before_anything_starts(
    here: Path, user_module: Callable[[str], str]
) -> None:
    space = Space((Choice("k", list("ab")), Parameter("n", 0, 2, integer=True)))
    with pytest.raises(ConfigError, match=r"5 parts do not fit .*\(k 2, n 3\)"):
        DPFTSDE(Context(space, 8, 5, 0), subregions=5)
    module = user_module(
        """
        from fedsim.space import Choice, Space

        class Two:
            direction, agents = "maximize", 9
            space = Space((Choice("k", [0, 1]),))

            def objective(self, agent):
                raise AssertionError("started")
        """
    )
    config = {"scenario": f"{module}:Two", "method": {"name": "dp-fts-de", "subregions": 4}}
    with pytest.raises(ConfigError, match="sub-regions: 4 parts do not fit"):
        fedsim.run({**config, "scenario": {"name": f"{module}:Two"}, "rounds": 1})
    assert not (here / "runs").exists()
