"""F1 to F20: the organisers' own test values if available; else made-up shifts and rotations."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.scenarios.cec_functions import (
    DEFINITIONS,
    Composition,
    Name,
    Schwefel206,
    Shifted,
    make_function,
)
from fedsim.scenarios.classics import (
    expanded_scaffer,
    griewank_of_rosenbrock,
    schwefel102,
    sphere,
    weierstrass,
)
from fedsim.space import Array
from tests.util.cec import SIZES, made_up_tables

NAMES: list[Name] = list(DEFINITIONS)
TABLES = made_up_tables()
RTOL = 1e-10


@pytest.fixture(scope="module")
def folder(data_dir: Path) -> Path:
    if not (data_dir / "cec2005").is_dir():
        pytest.skip("needs the data set cec2005")
    return data_dir / "cec2005"


@pytest.fixture(scope="module")
def official(folder: Path) -> dict[str, Array]:
    with np.load(folder / "cec2005_official.npz") as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def reference(folder: Path) -> dict[str, Any]:
    path = folder / "reference_10d.json"
    if not path.is_file():
        pytest.skip("needs reference_10d.json of the data set cec2005")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


class TestOfficialValues:
    @pytest.mark.parametrize("name", NAMES)
    def test_the_organisers_50_dimensional_values(
        self, name: Name, official: dict[str, Array]
    ) -> None:
        f = make_function(name, 50, official)
        values = f(official[f"test_X_{name.lower()}"])
        np.testing.assert_allclose(values, official[f"test_f_{name.lower()}"], rtol=RTOL)

    @pytest.mark.parametrize("name", NAMES)
    def test_10_dimensional_values(
        self, name: Name, official: dict[str, Array], reference: dict[str, Any]
    ) -> None:
        f, known = make_function(name, 10, official), reference[name]
        lower, upper = known["bounds"]
        drawn = np.random.default_rng(0).uniform(lower, upper, size=10)
        X = np.array([np.zeros(10), np.ones(10), drawn, known["x_opt"]])
        expected = [known[key] for key in ("zeros", "ones", "rng0", "f_opt")]
        np.testing.assert_allclose(f(X), expected, rtol=RTOL)
        assert f.minimiser.tolist() == known["x_opt"]
        assert DEFINITIONS[name].bias == known["bias"] == known["f_opt"]
        if name != "F7":  # only its starting range is known
            assert DEFINITIONS[name].box == pytest.approx((lower, upper))

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("dimension", [2, 10, 30, 50])
    def test_the_optimum_is_in_the_box(
        self, name: Name, dimension: int, official: dict[str, Array]
    ) -> None:
        f, known = make_function(name, dimension, official), DEFINITIONS[name]
        lower, upper = known.box
        assert f.minimiser.min() >= lower
        assert f.minimiser.max() <= upper
        assert f(f.minimiser[None])[0] == pytest.approx(known.bias, rel=RTOL)
        assert official["fbias"][NAMES.index(name)] == known.bias

    def test_why_the_box_of_f7_is_wider(self, official: dict[str, Array]) -> None:
        """Its optimum is outside of [0, 600], and far below all that is inside."""
        assert make_function("F7", 10, official).minimiser.max() < 0


class TestProperties:
    """With made-up shifts and rotations."""

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("dimension", SIZES)
    def test_the_optimum(self, name: Name, dimension: int) -> None:
        f, bias = make_function(name, dimension, TABLES), DEFINITIONS[name].bias
        assert f.minimiser.shape == (dimension,)
        assert f(f.minimiser[None])[0] == pytest.approx(bias, rel=1e-12)
        lower, upper = DEFINITIONS[name].box
        X = np.random.default_rng(1).uniform(lower, upper, (100, dimension))
        near = f.minimiser + np.random.default_rng(2).normal(0, 1e-3, (100, dimension))
        assert f(X).min() > bias
        assert f(near).min() > bias

    @pytest.mark.parametrize("name", NAMES)
    @settings(max_examples=10)
    @given(rows=st.integers(0, 5), seed=st.integers(0, 1000))
    def test_rows_are_evaluated_on_their_own(self, name: Name, rows: int, seed: int) -> None:
        f = make_function(name, 2, TABLES)
        X = np.random.default_rng(seed).uniform(*DEFINITIONS[name].box, (rows, 2))
        values = f(X)
        assert values.shape == (rows,)
        np.testing.assert_allclose(values, [f(x[None])[0] for x in X], rtol=1e-12)

    @pytest.mark.parametrize("name", ["F18", "F19", "F20"])
    @pytest.mark.parametrize("dimension", SIZES)
    def test_the_trap_at_the_origin(self, name: Name, dimension: int) -> None:
        """The tenth function's place is 0: whatever the data, 900 above the bias of 10."""
        f = make_function(name, dimension, TABLES)
        assert f(np.zeros((1, dimension)))[0] == pytest.approx(910.0, rel=1e-12)

    def test_tables_are_not_changed(self) -> None:
        for name in NAMES:
            make_function(name, 10, TABLES)
        for key, array in made_up_tables().items():
            assert np.array_equal(array, TABLES[key]), key

    @pytest.mark.parametrize(
        ("dimension", "expected"),
        [
            (10, {0: -100, 1: -100, 2: -100, 6: 100, 7: 100, 8: 100, 9: 100}),
            (2, {0: 100, 1: 100}),
            (30, {0: -100, 7: -100, 21: 100, 29: 100}),
        ],
    )
    def test_the_corner_of_f5(self, dimension: int, expected: dict[int, float]) -> None:
        o, given_o = make_function("F5", dimension, TABLES).minimiser, TABLES["o_f5"][:dimension]
        assert {i: o[i] for i in expected} == expected
        middle = [i for i in range(dimension) if abs(o[i]) != 100]
        assert o[middle].tolist() == given_o[middle].tolist()

    def test_bounds_of_f8_and_f20(self) -> None:
        o = make_function("F8", 10, TABLES).minimiser
        assert (o[0::2] == -32).all()
        assert o[1::2].tolist() == TABLES["o_f8"][1:10:2].tolist()
        f = make_function("F20", 10, TABLES)
        assert isinstance(f, Composition)
        assert (f.minimiser[1::2] == 5).all()
        assert f.minimiser[0::2].tolist() == TABLES["o_hybrid2"][0, 0:10:2].tolist()
        assert f.places[1].tolist() == TABLES["o_hybrid2"][1, :10].tolist()

    def test_noisy_functions_are_the_others(self) -> None:
        X = np.random.default_rng(0).uniform(-5, 5, (20, 10))
        for noisy, plain in (("F4", "F2"), ("F17", "F16")):
            one, other = (make_function(n, 10, TABLES) for n in (noisy, plain))  # type: ignore[arg-type]
            assert np.array_equal(one(X), other(X))
        assert {n: d.noise for n, d in DEFINITIONS.items() if d.noise} == {"F4": 0.4, "F17": 0.2}


def slow_weierstrass(z: list[float]) -> float:
    def wave(x: float) -> float:
        return sum(0.5**k * math.cos(2 * math.pi * 3**k * x) for k in range(21))

    return sum(wave(x + 0.5) for x in z) - len(z) * wave(0.5)


def slow_scaffer(z: list[float]) -> float:
    def pair(x: float, y: float) -> float:
        s = x * x + y * y
        return 0.5 + (math.sin(math.sqrt(s)) ** 2 - 0.5) / (1 + 0.001 * s) ** 2

    return sum(pair(x, z[(i + 1) % len(z)]) for i, x in enumerate(z))


def slow_griewank_of_rosenbrock(z: list[float]) -> float:
    def pair(x: float, y: float) -> float:
        t = 100 * (x * x - y) ** 2 + (x - 1) ** 2
        return t * t / 4000 - math.cos(t) + 1

    return sum(pair(x, z[(i + 1) % len(z)]) for i, x in enumerate(z))


class TestDefinitions:
    @pytest.mark.parametrize(
        ("fast", "slow", "spread"),
        [
            (schwefel102, lambda z: sum(sum(z[: i + 1]) ** 2 for i in range(len(z))), 10.0),
            (weierstrass, slow_weierstrass, 0.3),
            (expanded_scaffer, slow_scaffer, 20.0),
            (griewank_of_rosenbrock, slow_griewank_of_rosenbrock, 2.0),
        ],
    )
    def test_with_loops(self, fast: Any, slow: Any, spread: float) -> None:
        Z = np.random.default_rng(0).normal(0, spread, (10, 5))
        np.testing.assert_allclose(fast(Z), [slow(row.tolist()) for row in Z], rtol=RTOL)

    def test_a_shift_and_a_rotation(self) -> None:
        """Rows times matrix: with z = (x - o) M, the second coordinate comes first here."""
        M = np.array([[0.0, 1.0], [-1.0, 0.0]])
        f = Shifted(lambda Z: Z[:, 0] + 10 * Z[:, 1], np.array([1.0, 2.0]), 5.0, M, 1.0)
        # x - o = (3, 4); z = (-4, 3) + 1 = (-3, 4)
        assert f(np.array([[4.0, 6.0]])).tolist() == [-3 + 40 + 5]

    def test_f5_by_hand(self) -> None:
        f = Schwefel206(np.array([[1.0, 2.0], [3.0, -1.0]]), np.array([1.0, 1.0]), -310.0)
        # A o = (3, 2); A (2, 0) = (2, 6); the larger difference is 4.
        assert f(np.array([[2.0, 0.0]])).tolist() == [-306.0]

    def test_f12_by_hand(self) -> None:
        f = make_function("F12", 2, TABLES)
        a, b, alpha = TABLES["a_f12"], TABLES["b_f12"], TABLES["alpha_f12"]
        x, total = (0.3, -1.2), 0.0
        for i in range(2):
            target = sum(
                a[i, j] * math.sin(alpha[j]) + b[i, j] * math.cos(alpha[j]) for j in (0, 1)
            )
            found = sum(a[i, j] * math.sin(x[j]) + b[i, j] * math.cos(x[j]) for j in (0, 1))
            total += (target - found) ** 2
        assert f(np.array([x]))[0] == pytest.approx(total - 460, rel=RTOL)

    @pytest.mark.parametrize("rotated", [False, True])
    def test_a_composition_with_loops(self, rotated: bool) -> None:
        generator = np.random.default_rng(3)
        places = generator.uniform(-5, 5, (10, 3))
        M = np.linalg.qr(generator.normal(size=(10, 3, 3)))[0] if rotated else None
        widths, stretches = generator.uniform(0.5, 2, 10), generator.uniform(0.1, 5, 10)
        bases = (sphere, weierstrass, expanded_scaffer, schwefel102, sphere)
        f = Composition(bases, places, M, widths, stretches, 7.0)
        x = generator.uniform(-5, 5, 3)

        weights, heights = [], []
        for i in range(10):
            base, turn = bases[i // 2], np.eye(3) if M is None else M[i]
            distance = sum((x[d] - places[i, d]) ** 2 for d in range(3))
            weights.append(math.exp(-distance / (2 * 3 * widths[i] ** 2)))
            top = abs(base((np.full((1, 3), 5.0) / stretches[i]) @ turn)[0])
            value = base(((x - places[i]) / stretches[i])[None] @ turn)[0]
            heights.append(2000 * value / top + 100 * i)
        largest = max(weights)
        weights = [w if w == largest else w * (1 - largest**10) for w in weights]
        expected = sum(w * h for w, h in zip(weights, heights, strict=True)) / sum(weights) + 7
        assert f(x[None])[0] == pytest.approx(expected, rel=RTOL)
