"""Whole runs in other units: the same queries, whatever the outputs' size, sign or a huge one."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.errors import RunError
from fedsim.record.entries import observations
from fedsim.record.journal import read_journal
from fedsim.space import Array
from tests.util.small import UserModule, make, run, small

Queries = Callable[..., Array]

MODULE = """
    import math
    from fedsim.space import Parameter, Space
    class Hill:
        def __init__(
            self, levels: int = 0, size: float = 1.0, penalty: float = 0.0, up: bool = True
        ):
            grid = {"levels": levels} if levels else {}
            self.space = Space((Parameter("a", 0, 1, **grid), Parameter("b", 0, 1, **grid)))
            self.direction = "maximize" if up else "minimize"
            self.agents, self.size, self.penalty = 3, size if up else -size, penalty
        def objective(self, agent):
            def f(p, rng):
                if self.penalty and p["a"] > 0.7:
                    return self.penalty
                y = math.exp(-3 * (p["a"] - 0.3) ** 2 - 2 * (p["b"] - 0.1 * agent) ** 2)
                return self.size * (y + 0.01 * rng.standard_normal())
            return f
"""
AGENTS = 3
SURROGATE = {"candidates": 50, "fit_every": 3}
MESSAGE = {"features": 20}
METHODS = ["random-search", "ts", "fts", "fts-de", "dp-fts-de", "dp-prior"]
SIZES = [2.0**-990, 2.0**-498, 2.0**498, 2.0**990]
"""About 1e-298 to 1e298; powers of two, so that the outputs are exactly the same otherwise."""


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # of overflows and the like
        yield


@pytest.fixture
def queries(here: Path, user_module: UserModule) -> Queries:
    """A function that runs a method on ``Hill`` and returns all queries, shape (n, 2)."""
    name = f"{user_module(MODULE)}:Hill"
    count = itertools.count()

    def run_it(
        method: str,
        surrogate: dict[str, Any] = SURROGATE,
        message: dict[str, Any] = MESSAGE,
        **scenario: Any,
    ) -> Array:
        raw = small(method, scenario={"name": name, **scenario}, rounds=6)
        raw["method"] = {"name": method, "initial_points": 4}
        if method != "random-search":
            raw["method"]["surrogate"] = surrogate
        if "fts" in method or "prior" in method:
            raw["method"]["message"] = message
        simulation = make(here / f"run-{next(count)}" / "seed-0", raw)
        run(simulation)
        entries = read_journal(simulation.folder / "journal.jsonl")
        return np.array([record.u for _, record in observations(entries)])

    return run_it


@pytest.mark.parametrize(
    ("method", "levels"), [*((m, 0) for m in METHODS), ("fts-de", 9), ("dp-prior", 9)]
)
def test_the_queries_are_the_same_in_every_unit_and_direction(
    queries: Queries, method: str, levels: int
) -> None:
    # Exact, for every processor.
    expected = queries(method, levels=levels)
    assert len(np.unique(expected, axis=0)) > AGENTS * 4
    for size in SIZES:
        np.testing.assert_array_equal(queries(method, levels=levels, size=size), expected)
    np.testing.assert_array_equal(queries(method, levels=levels, up=False), expected)


@pytest.mark.parametrize("size", [1e-150, 1e-8, 1e100, 1e150])
def test_other_units_change_the_queries_by_rounding_only(queries: Queries, size: float) -> None:
    surrogate = {**SURROGATE, "ard": True, "kernel": "matern52"}
    expected = queries("fts", surrogate=surrogate)
    found = queries("fts", surrogate=surrogate, size=size)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("levels", [0, 9])
def test_settings_in_the_outputs_units_are_scaled_with_them(queries: Queries, levels: int) -> None:
    # Exact: without fits, and with public constants instead of the agents' own.
    def run_it(size: float) -> Array:
        surrogate = {
            "candidates": 50,
            "fit_every": 0,
            "variance": 2.0 * size**2,
            "noise_variance": 0.01 * size**2,
        }
        message = {"center": 0.25 * size, "scale": 0.5 * size}
        return queries("fts", surrogate=surrogate, message=message, levels=levels, size=size)

    expected = run_it(1.0)
    for size in (2.0**-498, 2.0**498):
        np.testing.assert_array_equal(run_it(size), expected)


@pytest.mark.parametrize("penalty", [-1e155, -1e300, -1.7e308])
@pytest.mark.parametrize("method", ["ts", "fts-de", "dp-fts-de", "dp-prior"])
def test_a_huge_penalty_is_one_bad_value(queries: Queries, method: str, penalty: float) -> None:
    # The worst value that a number can have, where an evaluation fails. Some points are there.
    found = queries(method, penalty=penalty).reshape(-1, 2)
    assert (found[:, 0] > 0.7).any()
    assert np.isfinite(found).all()


def test_outputs_far_from_a_given_prior_are_refused_in_words(queries: Queries) -> None:
    with pytest.raises(RunError, match=r"surrogate\.variance: expected .* got 1e-09 for outputs"):
        queries("ts", surrogate={"fit_every": 0, "variance": 1e-9}, size=1e155)
