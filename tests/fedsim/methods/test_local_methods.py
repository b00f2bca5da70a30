"""The agent's own model, random search and Thompson sampling without communication."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedsim.errors import ConfigError, RunError
from fedsim.methods import local_model
from fedsim.methods.local_model import LocalModel, LocalModelSettings
from fedsim.methods.random_search import RandomSearch
from fedsim.methods.shared_work import SharedWork, grid_indices
from fedsim.methods.thompson import ThompsonSampling
from fedsim.protocol import AgentProgram, Context, Method, Observation, Request, ServerProgram
from fedsim.rng import Keys
from fedsim.space import Array, Box, Parameter, Space, uniform_design
from fedsim.surrogates.fit import fit
from fedsim.surrogates.kernels import Kernel
from fedsim.surrogates.scaling import standardised

PLANE = Space((Parameter("a", 0.0, 1.0), Parameter("b", 1e-3, 10.0, scale="log")))
GRID = Space((Parameter("x", 0.0, 1.0, levels=50),))
MIXED = Space((Parameter("a", 0.0, 1.0), Parameter("k", 1.0, 5.0, integer=True)))


def peak(u: Array) -> float:
    return float(np.exp(-8 * np.square(u - 0.7).sum()))


def drive(agent: AgentProgram, steps: int, seed: int = 0, first: int = 0) -> list[Observation]:
    seen: list[Observation] = []
    for step in range(first, steps):
        proposals = agent.propose(step, None, Keys(seed, 3, step))
        batch = [Observation(step, i, p.u, peak(p.u), p.source) for i, p in enumerate(proposals)]
        agent.observe(batch)
        seen += batch
    return seen


def context(space: Space) -> Context:
    return Context(space, agents=4, rounds=10, seed=0)


@pytest.mark.parametrize("method", [RandomSearch, ThompsonSampling])
@pytest.mark.parametrize("space", [PLANE, GRID, MIXED])
def test_protocol_initial_design_and_space(method: Any, space: Space) -> None:
    built = method(context(space), initial_points=4)
    assert isinstance(built, Method)
    agent, server = built.agent(3), built.server()
    assert isinstance(agent, AgentProgram)
    assert isinstance(server, ServerProgram)
    seen = drive(agent, 4)
    assert [o.source for o in seen[:4]] == ["initial"] * 4
    assert len(seen) == 4 + 3
    for o in seen:
        np.testing.assert_allclose(space.snap(o.u), o.u, atol=1e-12)
    D = space.dimension
    design = uniform_design(space, Box((0.0,) * D, (1.0,) * D), 4, Keys(0, 3, 0)("initial-design"))
    np.testing.assert_array_equal([o.u for o in seen[:4]], [space.snap(u) for u in design])
    assert server.state() == {}
    server.restore({})
    with pytest.raises(RunError, match="'posterior'"):
        agent.reply(Request("posterior"), Keys(0, 3, 1))


class RecordingFleet:
    members = (0, 1)

    def __init__(self) -> None:
        self.calls: list[tuple[int, object]] = []

    def step(self, t: int, message: object, **other: object) -> Sequence[object]:
        assert other == {"to": (0, 1, 2, 3)}  # all agents are targets
        self.calls.append((t, message))
        return ()


def test_server_lets_everybody_step_in_silence() -> None:
    fleet: Any = RecordingFleet()
    server = ThompsonSampling(context(PLANE)).server()
    server.start(fleet)
    assert fleet.calls == []
    for t in range(3):
        assert server.round(t, fleet) == {}
    assert fleet.calls == [(0, None), (1, None), (2, None)]


@pytest.mark.parametrize("space", [PLANE, GRID])
@pytest.mark.parametrize("fit_every", [0, 3])
def test_rebuilt_agent_and_shared_process_change_nothing(space: Space, fit_every: int) -> None:
    settings = LocalModelSettings(fit_every=fit_every, candidates=100)
    method = ThompsonSampling(context(space), initial_points=4, surrogate=settings)
    seen = drive(method.agent(3), 8)
    # Another agent works in the same process; a third process rebuilds ours from its history.
    crowd = ThompsonSampling(context(space), initial_points=4, surrogate=settings)
    drive(crowd.agent(2), 8, seed=1)
    rebuilt = crowd.agent(3)
    rebuilt.observe(seen[:8])  # steps 0 to 4
    again = drive(rebuilt, 8, first=5)
    np.testing.assert_array_equal([o.u for o in again], [o.u for o in seen[8:]])


@pytest.mark.parametrize("space", [PLANE, GRID])
def test_what_was_prepared_is_proposed_once(space: Space, monkeypatch: Any) -> None:
    settings = LocalModelSettings(fit_every=3, candidates=50)
    method = ThompsonSampling(context(space), initial_points=4, surrogate=settings)
    plain = drive(method.agent(3), 6)
    samples: list[str] = []

    def counted(name: str) -> Callable[..., Any]:
        original = getattr(local_model, name)

        def sample(*given: Any) -> Any:
            samples.append(name)
            return original(*given)

        return sample

    for name in ("sample_path", "sample_on_grid"):
        monkeypatch.setattr(local_model, name, counted(name))
    agent: Any = method.agent(3)
    agent.prepare(0, Keys(0, 3, 0))  # the initial design needs no preparation
    assert not samples
    agent.observe(plain[:4])
    agent.prepare(1, Keys(0, 3, 1))
    (first,) = agent.propose(1, None, Keys(0, 3, 1))
    assert len(samples) == 1
    np.testing.assert_array_equal(first.u, plain[4].u)
    agent.prepare(2, Keys(0, 3, 2))
    agent.observe(plain[4:5])  # what was prepared before is out of date
    (second,) = agent.propose(2, None, Keys(0, 3, 2))
    assert len(samples) == 3
    np.testing.assert_array_equal(second.u, plain[5].u)


@pytest.mark.parametrize("seeds", [3, pytest.param(8, marks=pytest.mark.slow)])
def test_thompson_sampling_beats_random_search(seeds: int) -> None:
    best: dict[str, list[float]] = {"ts": [], "random": []}
    for seed in range(seeds):
        for name, method in (
            ("ts", ThompsonSampling(context(PLANE), initial_points=5)),
            ("random", RandomSearch(context(PLANE), initial_points=5)),
        ):
            seen = drive(method.agent(3), 15, seed)
            best[name].append(max(o.y for o in seen))
    assert np.mean(best["ts"]) > 0.995
    assert np.mean(best["random"]) < 0.99


def test_grid_posterior_concentrates_on_the_best_point() -> None:
    surrogate = LocalModelSettings(length_scale=0.1, noise_variance=1e-6, fit_every=0)
    method = ThompsonSampling(context(GRID), initial_points=3, surrogate=surrogate)
    seen = drive(method.agent(3), 25)
    near = [abs(o.u[0] - 0.7) < 0.03 for o in seen[-10:]]
    assert sum(near) >= 7  # now and then a sample is highest elsewhere


def model_with(space: Space, settings: LocalModelSettings, y: Sequence[float]) -> LocalModel:
    model = LocalModel(settings, SharedWork(space))
    design = np.random.default_rng(0).random((len(y), space.dimension))
    model.observe([Observation(0, i, design[i], v, "initial") for i, v in enumerate(y)])
    return model


def test_hyperparameters_come_from_the_longest_settled_prefix() -> None:
    y = list(np.random.default_rng(1).random(13))
    for ard in (False, True):
        model = model_with(PLANE, LocalModelSettings(fit_every=5, ard=ard), y)
        X, r = model.inputs[:10], standardised(model.outputs[:10])
        assert model.hyperparameters() == fit("squared_exponential", ard, X, r)


@pytest.mark.parametrize("space", [PLANE, GRID])
@pytest.mark.parametrize("mean", ["zero", "observed"])
def test_the_variance_is_the_best_for_all_outputs(
    space: Space, mean: Any, monkeypatch: Any
) -> None:
    # Length scale and noise ratio are those of the first ten, or before that of the settings.
    betas: list[float] = []
    for name in ("sample_path", "sample_on_grid"):
        original = getattr(local_model, name)

        def sample(*given: Any, original: Any = original) -> Any:
            betas.append(given[-2])
            return original(*given)

        monkeypatch.setattr(local_model, name, sample)
    settings = LocalModelSettings(mean=mean, beta=1.5, noise_variance=0.03, variance=0.1)
    y = [0.3 + math.sin(7.0 * i) for i in range(13)]
    for size in (3, 13):
        model = LocalModel(settings, SharedWork(space))
        design = np.random.default_rng(0).random((size, space.dimension))
        observed = [space.snap(u) for u in design]
        model.observe([Observation(0, i, observed[i], y[i], "") for i in range(size)])
        current = model.hyperparameters()
        ratio = current.noise_variance / current.kernel.variance
        assert size == 13 or ratio == pytest.approx(0.3)
        model.propose(Keys(0, 0, 1))
        r = standardised(np.array(y[:size]), centred=mean == "observed")
        A = replace(current.kernel, variance=1.0).matrix(model.inputs, model.inputs)
        best = r @ np.linalg.solve(A + ratio * np.eye(size), r) / size
        assert betas.pop() == pytest.approx(1.5 * math.sqrt(best), rel=1e-6)


def test_fixed_hyperparameters_before_the_first_fit_and_without_fits() -> None:
    given = LocalModelSettings(
        kernel="matern52", length_scale=0.3, variance=2.0, noise_variance=0.1, fit_every=5
    )
    never = LocalModelSettings(
        kernel="matern52", length_scale=0.3, variance=2.0, noise_variance=0.1, fit_every=0
    )
    for settings, y in (
        (given, [1.0, 2.0, 0.5, 3.0]),
        (never, [1.0] * 5 + [2.0]),
        (given, [0.6] * 7),
    ):
        current = model_with(PLANE, settings, y).hyperparameters()
        assert current.kernel == Kernel("matern52", (0.3,), 2.0)
        assert current.noise_variance == 0.1


@pytest.mark.parametrize("mean", ["zero", "observed"])
def test_beta_zero_proposes_the_posterior_means_maximiser(mean: Any) -> None:
    # Statistical: the posterior mean's own maximum is near the peak. Over 150 histories the median
    # distance was 0.007 (mean zero), and of every ten, in order, at most 0.014.
    settings = LocalModelSettings(beta=0.0, mean=mean, fit_every=0, noise_variance=1e-4)
    distances = []
    for seed in range(10):
        model = LocalModel(settings, SharedWork(PLANE))
        U = np.random.default_rng(seed).random((60, 2))
        model.observe([Observation(0, i, u, 3.0 + peak(u), "") for i, u in enumerate(U)])
        distances.append(np.abs(model.propose(Keys(0, 0, 1)) - 0.7).max())
    assert np.median(distances) < 0.025


def test_model_without_history_samples_its_prior() -> None:
    model = LocalModel(LocalModelSettings(), SharedWork(PLANE))
    a, b = model.propose(Keys(0, 0, 1)), model.propose(Keys(0, 0, 2))
    assert not np.array_equal(a, b)


def test_candidates_are_shared_by_agents_and_change_with_the_step() -> None:
    shared = SharedWork(PLANE)
    first = shared.candidates(0, 1, 30)
    assert shared.candidates(0, 1, 30) is first
    assert not np.array_equal(shared.candidates(0, 2, 30), first)
    np.testing.assert_array_equal(SharedWork(PLANE).candidates(0, 1, 30), first)


def test_grid_indices() -> None:
    space = Space((Parameter("a", 0.0, 1.0, levels=4), Parameter("b", 0.0, 1.0, levels=7)))
    assert space.grid is not None
    np.testing.assert_array_equal(grid_indices(space, space.grid), np.arange(28))
    with pytest.raises(ConfigError, match="on the space's grid"):
        grid_indices(space, np.array([[0.1, 0.0]]))


@pytest.mark.parametrize(
    "setting",
    [
        {"length_scale": 0.0},
        {"variance": math.nan},
        {"noise_variance": -1.0},
        {"beta": math.nan},
        {"fit_every": -1},
        {"candidates": 0},
        {"starts": 0},
        {"path_features": 0},
        {"mean": "median"},
        {"kernel": "linear"},
        {"warp": "all"},
        {"trend": "steep"},
    ],
)
def test_bad_settings_are_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(setting))):
        LocalModelSettings(**setting)


@pytest.mark.parametrize("method", [RandomSearch, ThompsonSampling])
def test_an_empty_initial_design_is_refused(method: Any) -> None:
    with pytest.raises(ConfigError, match="initial_points"):
        method(context(PLANE), initial_points=0)
