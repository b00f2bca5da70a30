"""Agents that learn the scales of their inputs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedsim.errors import ConfigError
from fedsim.methods.local_model import LocalModel, LocalModelSettings
from fedsim.methods.shared_work import SharedWork
from fedsim.methods.thompson import ThompsonSampling
from fedsim.methods.warped_search import Warped, maximise_path
from fedsim.protocol import Context, Observation
from fedsim.rng import Keys
from fedsim.space import Array, Box, Choice, Parameter, Space, uniform_design
from fedsim.surrogates.exact_gp import condition
from fedsim.surrogates.fit import fit
from fedsim.surrogates.kernels import Kernel
from fedsim.surrogates.paths import PosteriorPath, grid_factor, sample_path
from fedsim.surrogates.scaling import standardised
from fedsim.surrogates.warping import Warp, choose_warp, identity

PLANE = Space((Parameter("a", 0.0, 1.0), Parameter("b", 0.0, 1.0)))
GRID = Space((Parameter("a", 0.0, 1.0, levels=40), Parameter("n", 1, 12, integer=True)))
MIXED = Space(
    (
        Choice("c", ["a", "b", "c"]),
        Parameter("x", 0.0, 1.0),
        Parameter("n", 1, 10_000, integer=True),
        Parameter("v", 0.0, 1.0, levels=9),
    )
)
OWN = LocalModelSettings(warp="own", candidates=100)


def corner(u: Array) -> float:
    """A function of the logarithm, over four decades, of every coordinate: best at 0.003."""
    decades = np.log10(1e-4 + np.asarray(u))
    return float(np.exp(-np.square(decades + 2.5).sum()))


def drive(agent: Any, steps: int, seed: int = 0, first: int = 0) -> list[Observation]:
    seen: list[Observation] = []
    for step in range(first, steps):
        proposals = agent.propose(step, None, Keys(seed, 0, step))
        batch = [Observation(step, i, p.u, corner(p.u), p.source) for i, p in enumerate(proposals)]
        agent.observe(batch)
        seen += batch
    return seen


def model_with(space: Space, count: int, settings: LocalModelSettings = OWN) -> LocalModel:
    model = LocalModel(settings, SharedWork(space))
    D = space.dimension
    box = Box((0.0,) * D, (1.0,) * D)
    U = uniform_design(space, box, count, np.random.default_rng(5))
    model.observe([Observation(0, i, u, corner(u), "") for i, u in enumerate(U)])
    return model


def test_the_warp_is_that_of_the_last_public_size() -> None:
    for count, size in ((9, 0), (10, 10), (14, 10), (17, 15)):
        model = model_with(PLANE, count)
        if not size:
            assert model.warp().is_identity
            continue
        y = standardised(model.outputs[:size])
        warp = choose_warp(PLANE, "squared_exponential", False, model.inputs[:size], y)
        assert model.warp() == warp
        assert not warp.is_identity
        # Other hyper-parameters have their own sizes, through this warp.
        fitted = count - count % 5
        inputs, y = warp.forward(model.inputs[:fitted]), standardised(model.outputs[:fitted])
        assert model.hyperparameters() == fit("squared_exponential", False, inputs, y)


def test_equal_outputs_have_no_warp() -> None:
    model = LocalModel(OWN, SharedWork(PLANE))
    U = np.random.default_rng(0).random((12, 2))
    model.observe([Observation(0, i, u, 0.7, "") for i, u in enumerate(U)])
    assert model.warp().is_identity
    model.propose(Keys(0, 0, 1))


@pytest.mark.parametrize("space", [PLANE, GRID, MIXED])
@pytest.mark.parametrize("settings", [OWN, replace(OWN, trend="smooth")])
def test_a_rebuilt_agent_is_the_same_and_proposes_points_of_the_space(
    space: Space, settings: LocalModelSettings
) -> None:
    method = ThompsonSampling(Context(space, 2, 10, 0), initial_points=8, surrogate=settings)
    seen = drive(method.agent(0), 10)
    for o in seen:
        assert np.array_equal(space.snap(o.u), o.u)
    again_built = ThompsonSampling(Context(space, 2, 10, 0), initial_points=8, surrogate=settings)
    rebuilt = again_built.agent(0)
    rebuilt.observe(seen[:13])
    again = drive(rebuilt, 10, first=6)
    np.testing.assert_array_equal([o.u for o in again], [o.u for o in seen[13:]])


@pytest.mark.parametrize("settings", [OWN, replace(OWN, trend="smooth")])
def test_in_other_units_the_queries_are_the_same(settings: LocalModelSettings) -> None:
    one, other = model_with(PLANE, 12, settings), LocalModel(settings, SharedWork(PLANE))
    for i, u in enumerate(one.inputs):
        other.observe([Observation(0, i, u, 2.0**40 * one.outputs[i], "")])
    np.testing.assert_array_equal(one.propose(Keys(0, 0, 3)), other.propose(Keys(0, 0, 3)))


def test_a_grid_is_sampled_through_its_warp() -> None:
    shared, warp = SharedWork(GRID), Warp((0.75, 0.25))
    kernel = Kernel("squared_exponential", (0.4,), 1.0)
    assert GRID.grid is not None
    factor, plain = (
        shared.grid_factor(kernel, warp, None),
        shared.grid_factor(kernel, identity(2), None),
    )
    assert factor is not None
    assert plain is not None
    np.testing.assert_array_equal(factor, grid_factor(kernel, warp.forward(GRID.grid)))
    np.testing.assert_array_equal(plain, grid_factor(kernel, GRID.grid))
    assert shared.grid_factor(kernel, warp, None) is factor


def path_on(space: Space, warp: Warp, seed: int) -> PosteriorPath:
    rng, D = np.random.default_rng(seed), space.dimension
    U = space.snap(rng.random((12, D)))
    kernel = Kernel("matern52", (0.5,), 1.0)
    posterior = condition(kernel, 1e-2, space.embed(warp.forward(U)), rng.standard_normal(12))
    return sample_path(posterior, 100, 1.0, rng)


@pytest.mark.parametrize("space", [PLANE, GRID, MIXED])
def test_the_maximiser_is_a_point_of_the_space_that_beats_all_candidates(space: Space) -> None:
    strengths = (0.0, 1.0, 0.5, -0.5)[-space.dimension :]
    warp, shared = Warp(strengths), SharedWork(space)
    for seed in range(5):
        path, keys = path_on(space, warp, seed), Keys(0, 0, seed)
        u = maximise_path(shared, path, warp, keys, candidates=60, starts=3)
        assert np.array_equal(space.snap(u), u)
        reached = path.values(space.embed(warp.forward(u[None])))[0]
        U = space.snap(warp.inverse(np.random.default_rng(seed).random((60, space.dimension))))
        others = path.values(space.embed(warp.forward(U)))
        V = shared.candidates(0, seed, 60, replaced(warp, space))
        U = np.where([p.cells is None for p in space.parameters], warp.inverse(V), V)
        shown = path.values(space.embed(warp.forward(U)))
        assert reached >= shown.max() - 1e-9
        assert reached >= np.median(others)


def replaced(warp: Warp, space: Space) -> Warp:
    return warp.changed({d: 0.0 for d, p in enumerate(space.parameters) if p.cells is None})


def test_candidates_are_spread_evenly_in_warped_coordinates() -> None:
    space = Space((Parameter("n", 1, 10**6, integer=True), Parameter("x", 0.0, 1.0)))
    shared, warp = SharedWork(space), Warp((1.0, 0.0))
    U = shared.candidates(0, 1, 2000, warp)
    assert np.array_equal(space.snap(U), U)
    share = (warp.forward(U)[:, 0] < 0.5).mean()
    # Binomial(2000, 1/2): standard deviation 0.011; 4 of them, and the last values' own widths.
    assert share == pytest.approx(0.5, abs=0.05)
    assert shared.candidates(0, 1, 2000, warp) is U
    assert shared.candidates(0, 1, 2000) is not U


def test_a_warped_samples_gradients_are_derivatives() -> None:
    warp = Warp((0.5, -0.25))
    function = Warped(path_on(PLANE, identity(2), 0), warp)
    Z, h = np.random.default_rng(1).uniform(0.05, 0.95, (20, 2)), 1e-6
    values, gradients = function.values_and_gradients(Z)
    np.testing.assert_allclose(values, function.values(Z), atol=1e-12)
    for d in range(2):
        step = h * np.eye(2)[d]
        differences = (function.values(Z + step) - function.values(Z - step)) / (2 * h)
        np.testing.assert_allclose(gradients[:, d], differences, rtol=1e-4, atol=1e-5)


def test_an_own_warp_finds_what_is_in_a_corner() -> None:
    # Statistical: of eight means over six agents, those with a warp were all above 0.99, and those
    # without were 0.05 to 0.23.
    best: dict[str, list[float]] = {"none": [], "own": []}
    plain = replace(OWN, warp="none")
    for seed in range(6):
        for name, surrogate in (("none", plain), ("own", OWN)):
            method = ThompsonSampling(Context(PLANE, 1, 20, 0), surrogate=surrogate)
            seen = drive(method.agent(0), 21, seed)
            best[name].append(max(o.y for o in seen))
    assert np.mean(best["own"]) > 0.9
    assert np.mean(best["none"]) < 0.6


def test_a_warp_needs_fits() -> None:
    with pytest.raises(ConfigError, match=r"surrogate\.fit_every: expected at least 1.*'own'"):
        LocalModelSettings(warp="own", fit_every=0)
    assert not LocalModelSettings(warp="none", fit_every=0).fit_every
