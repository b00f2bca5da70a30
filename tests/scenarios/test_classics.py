"""The classic functions, against their definitions written with loops."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedsim.scenarios import classics
from fedsim.scenarios.classics import michalewicz, michalewicz_minimiser, schwefel
from fedsim.space import Array


def product(values: list[float]) -> float:
    return math.prod(values)


def slow_levy(z: list[float]) -> float:
    w = [1 + (x - 1) / 4 for x in z]
    inner = sum((a - 1) ** 2 * (1 + 10 * math.sin(math.pi * a + 1) ** 2) for a in w[:-1])
    last = (w[-1] - 1) ** 2 * (1 + math.sin(2 * math.pi * w[-1]) ** 2)
    return math.sin(math.pi * w[0]) ** 2 + inner + last


def slow_ackley(z: list[float]) -> float:
    a = -20 * math.exp(-0.2 * math.sqrt(sum(x * x for x in z) / len(z)))
    return a - math.exp(sum(math.cos(2 * math.pi * x) for x in z) / len(z)) + 20 + math.e


SLOW: dict[str, Callable[[list[float]], float]] = {
    "sphere": lambda z: sum(x * x for x in z),
    "ellipsoid": lambda z: sum(1e6 ** (i / (len(z) - 1)) * x * x for i, x in enumerate(z)),
    "rosenbrock": lambda z: sum(
        100 * (a * a - b) ** 2 + (a - 1) ** 2 for a, b in itertools.pairwise(z)
    ),
    "rastrigin": lambda z: sum(x * x - 10 * math.cos(2 * math.pi * x) + 10 for x in z),
    "griewank": lambda z: (
        sum(x * x for x in z) / 4000
        - product([math.cos(x / math.sqrt(i)) for i, x in enumerate(z, 1)])
        + 1
    ),
    "ackley": slow_ackley,
    "levy": slow_levy,
    "michalewicz": lambda z: (
        -sum(
            math.sin(x % math.pi) * math.sin(i * (x % math.pi) ** 2 / math.pi) ** 20
            for i, x in enumerate(z, 1)
        )
    ),
    # On its box only; its coordinate is u = z + 420.97.
    "schwefel": lambda z: sum(
        418.98288727243374 - u * math.sin(math.sqrt(abs(u)))
        for u in (x + 420.968746359982 for x in z)
    ),
}


@pytest.mark.parametrize("name", SLOW)
@pytest.mark.parametrize("dimension", [2, 7])
def test_definitions(name: str, dimension: int) -> None:
    generator = np.random.default_rng(dimension)
    Z = generator.uniform(-900, 70, (20, dimension)) if name == "schwefel" else None
    Z = generator.normal(0, 3, (20, dimension)) if Z is None else Z
    found = getattr(classics, name)(Z)
    assert found.shape == (20,)
    assert found == pytest.approx([SLOW[name](row.tolist()) for row in Z], rel=1e-11, abs=1e-9)


@pytest.mark.parametrize("name", SLOW)
@pytest.mark.parametrize("dimension", [1, 2, 10])
def test_minima(name: str, dimension: int) -> None:
    if name == "michalewicz" or (name, dimension) == ("rosenbrock", 1):
        return
    z = np.full((1, dimension), float(name in ("rosenbrock", "levy")))
    assert getattr(classics, name)(z)[0] == pytest.approx(0, abs=1e-10)


@pytest.mark.parametrize("name", [name for name in SLOW if name != "michalewicz"])
@given(Z=arrays(float, (4, 3), elements=st.floats(-2000, 2000)))
def test_nothing_is_below_the_minimum(name: str, Z: Array) -> None:
    assert getattr(classics, name)(Z).min() >= -1e-9


class TestSchwefel:
    def test_it_goes_on_smoothly_at_the_ends_of_its_box(self) -> None:
        for end in (500.0, -500.0):
            z = end - 420.968746359982
            below, above = schwefel(np.array([[z - 1e-9], [z + 1e-9]]))
            assert below == pytest.approx(above, abs=1e-6)

    def test_far_outside_the_penalty_counts(self) -> None:
        """With u = 600: folded to 400, and (600 - 500)^2 / 10000."""
        u = 400 * math.sin(20)
        found = schwefel(np.array([[600 - 420.968746359982]]))[0]
        assert found == pytest.approx(418.98288727243374 - u + 1, rel=1e-12)


class TestMichalewicz:
    def test_known_minima(self) -> None:
        """Values as published, for 2, 5 and 10 dimensions."""
        for dimension, value in ((2, -1.80130341), (5, -4.687658179), (10, -9.66015171564)):
            found = michalewicz(np.array([michalewicz_minimiser(dimension)]))[0]
            assert found == pytest.approx(value, abs=1e-8)

    def test_no_coordinate_has_a_better_value(self) -> None:
        """Each term is compared on a fine grid; 30 has many peaks near pi / 2."""
        best = np.array(michalewicz_minimiser(30))
        grid = np.linspace(0, np.pi, 20_001)
        for i, place in enumerate(best, 1):
            term = np.sin(grid) * np.sin(i * grid**2 / np.pi) ** 20
            assert np.sin(place) * np.sin(i * place**2 / np.pi) ** 20 >= term.max() - 1e-12

    def test_it_repeats(self) -> None:
        Z = np.random.default_rng(0).uniform(0, np.pi, (10, 4))
        assert michalewicz(Z - np.pi) == pytest.approx(michalewicz(Z), abs=1e-9)
