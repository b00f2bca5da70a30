"""The functions F1 to F20 of CEC 2005, over the organisers' shifts and rotations.

Source: Suganthan, Hansen, Liang, Deb, Chen, Auger and Tiwari, "Problem definitions and evaluation
criteria for the CEC 2005 special session on real-parameter optimization", report 2005005 (2005).

Notation: X, points, shape (n, D); o, the place of the minimum, shape (D,); M, a rotation, shape
(D, D); z = (x - o) M, rows times matrix. Values, shape (n,), are without noise.

Deviation: F7 has no box; [0, 600] is only where its starting points lie, and its minimum is outside
of that. Here its box is [-600, 600].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

import numpy as np

from fedsim.scenarios.classics import (
    ackley,
    ellipsoid,
    expanded_scaffer,
    griewank,
    griewank_of_rosenbrock,
    rastrigin,
    rosenbrock,
    schwefel102,
    sphere,
    sums,
    weierstrass,
)
from fedsim.space import Array

Name = Literal[
    "F1", "F2", "F3", "F4", "F5", "F6", "F7", "F8", "F9", "F10",
    "F11", "F12", "F13", "F14", "F15", "F16", "F17", "F18", "F19", "F20",
]  # fmt: skip
Base = Callable[[Array], Array]
Tables = Mapping[str, Array]
"""The organisers' arrays by name: shifts ``o_*``, rotations ``M_*_D*``, and those of F5 and F12."""


class Function(Protocol):
    """A function of points X, shape (n, D)."""

    @property
    def minimiser(self) -> Array:
        """Where it is smallest, shape (D,)."""
        ...

    def __call__(self, X: Array) -> Array:
        """Return its values at X, shape (n,)."""
        ...


@dataclass(frozen=True)
class Definition:
    """What is known of a function without the organisers' data.

    Attributes:
        title: its name in the report.
        bound: its box is [-bound, bound] in every coordinate, unless ``lower`` is given.
        bias: its smallest value.
        noise: the factor of |N(0, 1)| by which its distance from ``bias`` is enlarged.
        lower: the box's lower end, or None.
    """

    title: str
    bound: float
    bias: float
    noise: float = 0.0
    lower: float | None = None

    @property
    def box(self) -> tuple[float, float]:
        """The range of every coordinate."""
        return -self.bound if self.lower is None else self.lower, self.bound


DEFINITIONS: Mapping[Name, Definition] = {
    "F1": Definition("shifted sphere", 100.0, -450.0),
    "F2": Definition("shifted Schwefel 1.2", 100.0, -450.0),
    "F3": Definition("shifted rotated elliptic", 100.0, -450.0),
    "F4": Definition("shifted Schwefel 1.2 with noise", 100.0, -450.0, noise=0.4),
    "F5": Definition("Schwefel 2.6, optimum on the bounds", 100.0, -310.0),
    "F6": Definition("shifted Rosenbrock", 100.0, 390.0),
    "F7": Definition("shifted rotated Griewank", 600.0, -180.0),
    "F8": Definition("shifted rotated Ackley, optimum on the bounds", 32.0, -140.0),
    "F9": Definition("shifted Rastrigin", 5.0, -330.0),
    "F10": Definition("shifted rotated Rastrigin", 5.0, -330.0),
    "F11": Definition("shifted rotated Weierstrass", 0.5, 90.0),
    "F12": Definition("Schwefel 2.13", np.pi, -460.0),
    "F13": Definition("shifted Griewank of Rosenbrock", 1.0, -130.0, lower=-3.0),
    "F14": Definition("shifted rotated expanded Scaffer", 100.0, -300.0),
    "F15": Definition("hybrid composition 1", 5.0, 120.0),
    "F16": Definition("rotated hybrid composition 1", 5.0, 120.0),
    "F17": Definition("rotated hybrid composition 1 with noise", 5.0, 120.0, noise=0.2),
    "F18": Definition("rotated hybrid composition 2", 5.0, 10.0),
    "F19": Definition("rotated hybrid composition 2, narrow basin", 5.0, 10.0),
    "F20": Definition("rotated hybrid composition 2, optimum on the bounds", 5.0, 10.0),
}


@dataclass(frozen=True)
class Shifted:
    """``base((x - o) M + offset) + bias``.

    Attributes:
        base: smallest, and 0, at z = ``offset``.
        minimiser: o.
        bias: the smallest value.
        rotation: M, or None for the identity.
        offset: 1 for Rosenbrock's function.
    """

    base: Base
    minimiser: Array
    bias: float
    rotation: Array | None = None
    offset: float = 0.0

    def __call__(self, X: Array) -> Array:
        """Return the values at X (n, D), shape (n,)."""
        Z = X - self.minimiser
        if self.rotation is not None:
            Z = Z @ self.rotation
        return self.base(Z + self.offset) + self.bias


@dataclass(frozen=True)
class Schwefel206:
    """F5: ``max |A x - A o| + bias``; ``matrix`` is A, shape (D, D), and ``minimiser`` is o."""

    matrix: Array
    minimiser: Array
    bias: float

    def __call__(self, X: Array) -> Array:
        """Return the values at X (n, D), shape (n,)."""
        target = self.matrix @ self.minimiser
        largest: Array = np.max(np.abs(X @ self.matrix.T - target), axis=1)
        return largest + self.bias


@dataclass(frozen=True)
class Schwefel213:
    """F12: squared distance of ``a sin x + b cos x`` from its value at ``minimiser``, plus bias.

    Attributes:
        a: shape (D, D).
        b: shape (D, D).
        minimiser: alpha, shape (D,).
        bias: the smallest value.
    """

    a: Array
    b: Array
    minimiser: Array
    bias: float

    def __call__(self, X: Array) -> Array:
        """Return the values at X (n, D), shape (n,)."""
        target = self._waves(self.minimiser[None])
        return sums((target - self._waves(X)) ** 2) + self.bias

    def _waves(self, X: Array) -> Array:
        waves: Array = np.sin(X) @ self.a.T + np.cos(X) @ self.b.T
        return waves


@dataclass(frozen=True)
class Composition:
    """F15 to F20: a weighted mean of ten functions; near o_i, nearly all weight is on the i-th.

    Attributes:
        bases: five functions, each f_i of two neighbours i.
        places: o_i, shape (10, D).
        rotations: M_i, shape (10, D, D), or None for identities.
        widths: sigma_i, of the Gaussian weights, shape (10,).
        stretches: lambda_i, by which coordinates are divided, shape (10,).
        bias: the smallest value, at o_1.
    """

    bases: tuple[Base, ...]
    places: Array
    rotations: Array | None
    widths: Array
    stretches: Array
    bias: float

    @property
    def minimiser(self) -> Array:
        """The first function's place, shape (D,)."""
        first: Array = self.places[0]
        return first

    def __call__(self, X: Array) -> Array:
        """Return the values at X (n, D), shape (n,)."""
        distances = np.sum((X[:, None] - self.places) ** 2, axis=2)  # (n, 10)
        weights = np.exp(-distances / (2.0 * X.shape[1] * self.widths**2))
        largest = weights.max(axis=1, keepdims=True)
        weights = np.where(weights == largest, weights, weights * (1.0 - largest**10))
        weights /= weights.sum(axis=1, keepdims=True)
        values = self._values(X - self.places[:, None]).T  # (n, 10)
        heights = 2000.0 * values / self._tops + 100.0 * np.arange(len(self.places))
        return sums(weights * heights) + self.bias

    @cached_property
    def _tops(self) -> Array:
        """Each function's size at (5, ..., 5), by which it is divided, shape (10,)."""
        corner = np.full((len(self.places), 1, self.places.shape[1]), 5.0)
        return np.abs(self._values(corner)[:, 0])

    def _values(self, Z: Array) -> Array:
        """Return the values, shape (10, n), of each function at points of its own, (10, n, D)."""
        Z = Z / self.stretches[:, None, None]
        if self.rotations is not None:
            Z = Z @ self.rotations
        count, n, D = Z.shape
        pairs = zip(self.bases, Z.reshape(count // 2, 2 * n, D), strict=True)
        return np.array([base(rows) for base, rows in pairs]).reshape(count, n)


_SHIFTED: Mapping[str, tuple[Base, str, str | None, float]] = {
    "F1": (sphere, "o_f1", None, 0.0),
    "F2": (schwefel102, "o_f2", None, 0.0),
    "F3": (ellipsoid, "o_f3", "M_f3", 0.0),
    "F4": (schwefel102, "o_f2", None, 0.0),
    "F6": (rosenbrock, "o_f6", None, 1.0),
    "F7": (griewank, "o_f7", "M_f7", 0.0),
    "F8": (ackley, "o_f8", "M_f8", 0.0),
    "F9": (rastrigin, "o_f9", None, 0.0),
    "F10": (rastrigin, "o_f9", "M_f10", 0.0),
    "F11": (weierstrass, "o_f11", "M_f11", 0.0),
    "F13": (griewank_of_rosenbrock, "o_f13", None, 1.0),
    "F14": (expanded_scaffer, "o_f14", "M_f14", 0.0),
}
"""Base, shift, rotation and offset."""

_BASES_1 = (rastrigin, weierstrass, griewank, ackley, sphere)
_STRETCHES_1 = (1.0, 10.0, 5 / 60, 5 / 32, 5 / 100)
_BASES_2 = (ackley, rastrigin, sphere, weierstrass, griewank)
_STRETCHES_2 = (
    10 / 32, 5 / 32, 2.0, 1.0, 10 / 100, 5 / 100, 20.0, 10.0, 10 / 60, 5 / 60,
)  # fmt: skip
_WIDTHS_2 = (1.0, 2.0, 1.5, 1.5, 1.0, 1.0, 1.5, 1.5, 2.0, 2.0)


def make_function(name: Name, dimension: int, tables: Tables) -> Function:
    """Return one of the functions.

    Args:
        name: F1 to F20.
        dimension: D: 2, 10, 30 or 50, or any that ``tables`` has rotations for.
        tables: the organisers' arrays; only those of this function are read.
    """
    D, bias = dimension, DEFINITIONS[name].bias
    if name in _SHIFTED:
        base, shift, rotation, offset = _SHIFTED[name]
        o = tables[shift][:D].copy()
        if name == "F8":
            o[0::2] = -32.0
        M = None if rotation is None else tables[f"{rotation}_D{D}"]
        return Shifted(base, o, bias, M, offset)
    if name == "F5":
        o = tables["o_f5"][:D].copy()
        o[: -(-D // 4)] = -100.0
        o[max(3 * D // 4, 1) - 1 :] = 100.0
        return Schwefel206(tables["A_f5"][:D, :D], o, bias)
    if name == "F12":
        a, b = tables["a_f12"][:D, :D], tables["b_f12"][:D, :D]
        return Schwefel213(a, b, tables["alpha_f12"][:D], bias)
    return _composition(name, D, tables)


def _composition(name: Name, D: int, tables: Tables) -> Composition:
    bias = DEFINITIONS[name].bias
    if name in ("F15", "F16", "F17"):
        rotations = None if name == "F15" else tables[f"M_hybrid1_D{D}"]
        places, stretches = tables["o_hybrid1"][:, :D], np.repeat(_STRETCHES_1, 2)
        return Composition(_BASES_1, places, rotations, np.ones(10), stretches, bias)
    places = tables["o_hybrid2"][:, :D].copy()
    places[9] = 0.0
    widths, scales = np.array(_WIDTHS_2), np.array(_STRETCHES_2)
    if name == "F19":
        widths[0], scales[0] = 0.1, 0.5 / 32
    if name == "F20":
        places[0, 1::2] = 5.0
    rotations = tables[f"M_hybrid2_D{D}"]
    return Composition(_BASES_2, places, rotations, widths, scales, bias)
