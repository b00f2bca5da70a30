"""Input warps: each agent learns on which scale its function is smooth.

A search that is given linear scales, where the objective varies on a logarithmic one, wastes most
of its points: all that matters is in a corner. Snoek, Swersky, Zemel and Adams, "Input Warping for
Bayesian Optimization of Non-stationary Functions" (ICML 2014), let the marginal likelihood choose
how to stretch each axis. Here an axis has one number a, in [-1, 1]:

    w_a(u) = log(1 + c u) / log(1 + c),   c = 10^(5 a) - 1,   a > 0
    w_0(u) = u
    w_a(u) = 1 - w_-a(1 - u),                                 a < 0

so that a > 0 stretches what is near 0, as a logarithmic scale of 5 a decades, and a < 0 what is
near 1. Model, candidates and maximiser work in w(u).

The warp that is chosen has the highest posterior density: the likelihood of the outputs, at the
best length scale, noise ratio and variance for each warp, times a prior on every axis, exp(-2 a)
for a > 0 and exp(8 a) for a < 0, so that a warp needs evidence. Without a prior, ten observations
often show a scale that is not there, and queries were worse where no warp was needed. What is near
the upper end seldom needs a scale of its own, but sometimes does (a momentum of 0.9, 0.99, 0.999).

a is one of :data:`STRENGTHS` on every axis: in one and two dimensions all combinations are
compared, in more one axis after another. First a rough profile over a few length scales and noise
ratios is compared; in one and two dimensions the best few are then compared exactly.

Symbol   Meaning                                                  Shape
u, v     points of the unit cube, and w(u), also in the cube      (D,)
r        outputs minus the mean, in units of their spread         (n,)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from fedsim.space import Array, Choice, Space
from fedsim.surrogates.cholesky import factorise, solve_lower
from fedsim.surrogates.fit import most_likely
from fedsim.surrogates.kernels import Family, Kernel
from fedsim.surrogates.scaling import spread
from fedsim.surrogates.trend import Trend

STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0, -0.5, -1.0)
"""The values of a that are compared; of equally good ones, the first counts."""

RATE, UPPER_RATE = 2.0, 8.0
"""Of the prior of a, for a > 0 and a < 0."""

FIRST_CHOICE = 10
"""The least number of observations that a warp is chosen from."""

ALL_TOGETHER = 2
"""In more dimensions than this, axes are chosen one after another."""

_DECADES = 5.0 * math.log(10.0)
_ROUGH_SQUARED_SCALES = np.square([0.05, 0.12, 0.3, 0.7, 1.7])[:, None, None]
_ROUGH_NOISE_RATIOS = (1e-3, 1e-1)
_EXACTLY = 3  # of the best by the rough profile are compared exactly
_SWEEPS = 2  # over the axes, in more than two dimensions


@dataclass(frozen=True, slots=True)
class Warp:
    """A warp of the unit cube; hashable, so it can be a cache key.

    Attributes:
        strengths: a of each axis, in [-1, 1]; 0: the axis stays as it is.
    """

    strengths: tuple[float, ...]

    @property
    def is_identity(self) -> bool:
        """Whether no axis is changed."""
        return not any(self.strengths)

    def changed(self, strengths: Mapping[int, float]) -> Warp:
        """Return the same warp with other strengths on some axes."""
        return Warp(tuple(strengths.get(d, a) for d, a in enumerate(self.strengths)))

    def forward(self, U: Array) -> Array:
        """Return w(u) at the rows of ``U`` (n, D), shape (n, D); an identity returns ``U``."""
        return self._each(U, _forward)

    def inverse(self, V: Array) -> Array:
        """Return the u with w(u) = v for the rows of ``V`` (n, D), shape (n, D)."""
        return self._each(V, _inverse)

    def slopes(self, U: Array) -> Array:
        """Return dw_d / du_d at the rows of ``U`` (n, D), shape (n, D)."""
        slopes = np.ones_like(U)
        for d, a in enumerate(self.strengths):
            if a:
                c = math.expm1(_DECADES * abs(a))
                end = U[:, d] if a > 0.0 else 1.0 - U[:, d]
                slopes[:, d] = c / (math.log1p(c) * (1.0 + c * end))
        return slopes

    def _each(self, U: Array, along: Callable[[Array, float], Array]) -> Array:
        if self.is_identity:
            return U
        out = np.array(U)
        for d, a in enumerate(self.strengths):
            if a > 0.0:
                out[:, d] = along(U[:, d], a)
            elif a < 0.0:
                out[:, d] = 1.0 - along(1.0 - U[:, d], -a)
        return out


def _forward(u: Array, a: float) -> Array:
    c = math.expm1(_DECADES * a)
    warped: Array = np.minimum(np.log1p(c * u) / np.log1p(np.full(1, c)), 1.0)
    return warped


def _inverse(v: Array, a: float) -> Array:
    c = math.expm1(_DECADES * a)
    unwarped: Array = np.minimum(np.expm1(math.log1p(c) * v) / c, 1.0)
    return unwarped


def identity(dimension: int) -> Warp:
    """Return the warp that changes nothing."""
    return Warp((0.0,) * dimension)


Doubt = Callable[[Warp], float]
"""A prior of warps: minus the logarithm of its density, but for a constant."""


def doubt_of(warp: Warp) -> float:
    """Return minus the logarithm of the prior density of :data:`RATE` and :data:`UPPER_RATE`."""
    return sum(RATE * a if a > 0.0 else -UPPER_RATE * a for a in warp.strengths)


def scaled_axes(space: Space) -> list[int]:
    """Return the axes that may be warped: the numbers'; choices have no scale."""
    return [d for d, p in enumerate(space.parameters) if not isinstance(p, Choice)]


def choice_size(count: int) -> int:
    """Return from how many of ``count`` observations a warp is chosen; below 10: 0, no warp.

    The sizes are public: 10, 15, 20, 30, 40, 55, 75, 100, 135, ...: each is 4/3 of the one before,
    rounded up to a multiple of 5.
    """
    size, following = 0, FIRST_CHOICE
    while following <= count:
        size = following
        following = 5 * -(-4 * size // 15)
    return size


def choose_warp(
    space: Space,
    family: Family,
    ard: bool,
    inputs: Array,
    residuals: Array,
    trend: Trend | None = None,
    doubt: Doubt | None = None,
) -> Warp:
    """Return the most likely warp of the numbers' axes; choices have no scale.

    It is a function of the arguments alone, and the same in other units of the outputs.

    Args:
        space: the search space.
        family: the kernel's.
        ard: one length scale per parameter instead of one for all.
        inputs: points of the cube, shape (n, D), n at least 1.
        residuals: outputs minus the mean, shape (n,), not all zero.
        trend: of the model, in warped coordinates; None: it has none.
        doubt: of a warp: minus the logarithm of its prior density, but for a constant; None:
            :func:`doubt_of`.
    """
    axes = scaled_axes(space)
    costs_of = WarpCosts(space, family, ard, inputs, residuals / spread(residuals), trend, doubt)
    if len(axes) > ALL_TOGETHER:
        return _one_after_another(costs_of, axes)
    warps = [
        identity(space.dimension).changed(dict(zip(axes, each, strict=True)))
        for each in itertools.product(STRENGTHS, repeat=len(axes))
    ]
    rough = np.array([costs_of.rough_cost(warp) for warp in warps])
    nearly_best: list[Warp] = [
        warps[i] for i in np.argsort(rough, kind="stable")[:_EXACTLY].tolist()
    ]
    costs = [costs_of.cost(warp) for warp in nearly_best]
    return nearly_best[costs.index(min(costs))]


def _one_after_another(costs_of: WarpCosts, axes: Sequence[int]) -> Warp:
    """Return the warp that no change of a single axis makes likelier, after a few sweeps."""
    best = identity(costs_of.space.dimension)
    for _ in range(_SWEEPS):
        before = best
        for d in axes:
            candidates = [best.changed({d: a}) for a in STRENGTHS]
            costs = [costs_of.rough_cost(warp) for warp in candidates]
            best = candidates[costs.index(min(costs))]
        if best == before:
            break
    return best


@dataclass(frozen=True, slots=True, eq=False)
class WarpCosts:
    """Costs of warps: minus the logarithms of likelihood and prior, for the same outputs.

    Attributes:
        space: the search space.
        family: the kernel's.
        ard: one length scale per parameter instead of one for all.
        inputs: points of the cube, shape (n, D).
        residuals: r, shape (n,).
        trend: of the model; None: it has none.
        doubt: of a warp, as in :func:`choose_warp`.
    """

    space: Space
    family: Family
    ard: bool
    inputs: Array
    residuals: Array
    trend: Trend | None = None
    doubt: Doubt | None = None

    def rough_cost(self, warp: Warp) -> float:
        """Return :meth:`rough_misfit` and the doubt: an approximation of :meth:`cost`."""
        return self.rough_misfit(warp) + self._doubt(warp)

    def rough_misfit(self, warp: Warp) -> float:
        """Return minus the log likelihood, but for a constant: no prior of the warp counts.

        It is the least over a few length scales, the same on all axes, and noise ratios.
        """
        n, r, Z = len(self.residuals), self.residuals, self._warped(warp)
        wider = max(1.0, self.space.dimension / 2.0)  # squared, as for fits
        squared = cdist(Z, Z, "sqeuclidean") / (wider * _ROUGH_SQUARED_SCALES)
        R = Kernel(self.family, (1.0,), 1.0).at_squared_distances(squared)
        if self.trend is not None:
            F = self.trend.matrix(Z)
            R = R + F @ F.T
        best = math.inf
        for matrix in R:
            for ratio in _ROUGH_NOISE_RATIOS:
                A = matrix.copy()
                A.flat[:: n + 1] += ratio
                L = factorise(A, "warped inputs")
                half = solve_lower(L, r)
                cost = np.log(L.diagonal()).sum() + 0.5 * n * math.log(half @ half)
                best = min(best, float(cost))
        return best

    def cost(self, warp: Warp) -> float:
        """Return minus the log posterior at the best length scales and noise ratio."""
        widths = self.space.embedded_widths
        Z, r = self._warped(warp), self.residuals
        misfit = most_likely(self.family, self.ard, Z, r, widths, self.trend)[1]
        return misfit + self._doubt(warp)

    def _doubt(self, warp: Warp) -> float:
        return doubt_of(warp) if self.doubt is None else self.doubt(warp)

    def _warped(self, warp: Warp) -> Array:
        return self.space.embed(warp.forward(self.inputs))
