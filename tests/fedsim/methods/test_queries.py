"""Where to query next, given a posterior."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedsim.acquisition.functions import (
    LogExpectedImprovement,
    LogProbabilityOfImprovement,
    OfPosterior,
)
from fedsim.errors import ConfigError
from fedsim.methods.queries import AcquisitionSettings, Queries
from fedsim.rng import Keys
from fedsim.space import Array, Choice, Parameter, Space
from fedsim.surrogates.dpitc import SparsePosterior, sparse_posterior, summarise, support
from fedsim.surrogates.exact_gp import ExactGP, condition
from fedsim.surrogates.kernels import Kernel

SQUARE = Space((Parameter("a", 0.0, 1.0), Parameter("b", 0.0, 1.0)))
GRID = Space((Parameter("a", 0.0, 1.0, levels=30), Parameter("b", 0.0, 1.0, levels=30)))
MIXED = Space((Parameter("a", 0.0, 1.0), Choice("c", ("x", "y", "z"))))
KINDS = ("ucb", "ei", "pi", "thompson")


def data(space: Space) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    X = space.snap(rng.random((15, space.dimension)))
    return X, np.cos(5.0 * X[:, 0]) + X[:, 1]


def posterior_of(space: Space, sparse: bool) -> ExactGP | SparsePosterior:
    X, y = data(space)
    Z, kernel = space.embed(X), Kernel("matern52", (0.4,), 1.0)
    if not sparse:
        return condition(kernel, 0.01, Z, y)
    base = support(kernel, Z[:10])
    summary = summarise(base, 0.01, Z, y[:, None])
    return sparse_posterior(base, summary.covariance, summary.means[:, 0])


def choose(space: Space, sparse: bool, agent: int = 0, **settings: Any) -> Array:
    queries = Queries(AcquisitionSettings(**settings), space)
    return queries.choose(posterior_of(space, sparse), *data(space), Keys(3, agent, 1), 1)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("space", [SQUARE, GRID, MIXED])
@pytest.mark.parametrize("kind", KINDS)
def test_queries_are_points_of_the_space_and_follow_from_the_key(
    kind: str, space: Space, sparse: bool
) -> None:
    u = choose(space, sparse, kind=kind)
    np.testing.assert_allclose(space.snap(u), u, atol=1e-12)
    np.testing.assert_array_equal(choose(space, sparse, kind=kind), u)


@pytest.mark.parametrize("sparse", [False, True])
def test_ucb_on_a_grid_is_exact(sparse: bool) -> None:
    mean, variance = posterior_of(GRID, sparse).moments(GRID.grid)  # type: ignore[arg-type]
    assert GRID.grid is not None
    expected = GRID.grid[np.argmax(mean + 0.7 * np.sqrt(variance))]
    np.testing.assert_array_equal(choose(GRID, sparse, beta=0.7, spread="none"), expected)


@pytest.mark.parametrize("kind", ["ei", "pi"])
def test_climbs_of_logarithms_end_at_the_maximum(kind: Any) -> None:
    # With little noise the lowest values are below -1e4: no measure of what an exact climb is.
    function = LogExpectedImprovement if kind == "ei" else LogProbabilityOfImprovement
    ticks = np.linspace(0.0, 1.0, 61)
    dense = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    queries = Queries(AcquisitionSettings(kind, spread="none", starts=4), SQUARE)
    for seed in range(5):
        X = np.random.default_rng(seed).random((40, 2))
        y = np.sin(6.0 * X[:, 0]) + np.cos(5.0 * X[:, 1])
        posterior = condition(Kernel("matern52", (0.5,), 1.0), 1e-4, X, y)
        best = float(posterior.moments(X)[0].max()) + 0.05
        log = OfPosterior(posterior, function(best))
        assert np.ptp(log.values(dense)) > 1e4
        u = queries.choose(posterior, X, y, Keys(3, seed, 1), 1)
        expected = log.values(dense)
        finer = np.clip(dense[np.argmax(expected)] + 0.04 * (dense - 0.5), 0.0, 1.0)
        assert log.values(u[None])[0] > max(expected.max(), log.values(finer).max()) - 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_clients_with_one_posterior_query_different_points(kind: str) -> None:
    posterior, queries = posterior_of(SQUARE, True), Queries(AcquisitionSettings(kind), SQUARE)  # type: ignore[arg-type]
    points = [queries.choose(posterior, *data(SQUARE), Keys(3, n, 1), 1) for n in range(10)]
    # Maxima in a corner of the square may coincide; in its interior they do not.
    inside = [tuple(u) for u in points if ((u > 0.0) & (u < 1.0)).any()]
    assert len(inside) > 5
    assert len(set(inside)) == len(inside)


def test_without_spread_they_query_the_same_point() -> None:
    points = {tuple(choose(SQUARE, True, agent, spread="none", near=0)) for agent in range(5)}
    assert len(points) == 1


def test_shared_work_does_not_change_queries() -> None:
    # The same from a process that holds many agents and from one that holds a single one.
    queries = Queries(AcquisitionSettings(), SQUARE)
    posterior = posterior_of(SQUARE, True)
    for t in (1, 2):
        for agent in (0, 1):
            keys = Keys(3, agent, t)
            alone = Queries(AcquisitionSettings(), SQUARE)
            one = queries.choose(posterior, *data(SQUARE), keys, t)
            other = alone.choose(posterior_of(SQUARE, True), *data(SQUARE), keys, t)
            np.testing.assert_array_equal(one, other)


def test_without_data_of_its_own_a_client_can_query() -> None:
    for kind in KINDS:
        queries = Queries(AcquisitionSettings(kind), SQUARE)  # type: ignore[arg-type]
        nothing = np.empty((0, 2)), np.empty(0)
        u = queries.choose(posterior_of(SQUARE, True), *nothing, Keys(0, 0, 1), 1)
        assert u.shape == (2,)


@pytest.mark.parametrize(
    ("setting", "value", "expected"),
    [
        ("beta", -1.0, "at least 0"),
        ("margin", float("nan"), "at least 0"),
        ("candidates", 0, "at least 1"),
        ("near", -1, "at least 0"),
        ("starts", 0, "at least 1"),
    ],
)
def test_settings_are_checked(setting: str, value: float, expected: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"method\.acquisition\.{setting}: expected .*{expected}"
    ):
        AcquisitionSettings(**{setting: value})  # type: ignore[arg-type]
