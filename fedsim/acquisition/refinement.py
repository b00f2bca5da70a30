"""Climbs from given starts to the maxima near them, inside a box: the maximiser's second half.

Papers: Nocedal and Wright, Numerical Optimization (2nd ed., 2006), Alg. 4.1, for the trust region;
Byrd, Lu, Nocedal and Zhu, A Limited Memory Algorithm for Bound Constrained Optimization (1995),
for L-BFGS-B, which is SciPy's.

Which routine when: ``python -m tests.benchmarks.refinement`` compares them on posterior samples.
Newton's method climbs from all starts at once and needs few steps: in one and two dimensions it
takes a sixth to two fifths of the time of L-BFGS-B, and all of 4000 climbs (250 samples instead of
25) ended within 1e-3 of the values' spread. But its second derivatives cost D more gradients per
step, and it is slow along the box's borders, where most maxima lie in many dimensions: 3 of 2000
climbs stop too early in three dimensions, one or two in a hundred in five, a quarter in 20, seven
in ten in 50. Of those of L-BFGS-B hardly any does, then at a saddle. So L-BFGS-B climbs from three
dimensions on, although it takes more time up to five.

Deviations of Newton's method: gradients are analytic, second derivatives their differences. Where
the function is not concave, curvatures count by their absolute values. Steps are shortened to the
trust region, a cube, and cut at the box; a step's gain is compared with what the slope alone
promises, not with the quadratic model.

Deviations of the use of L-BFGS-B: only the projected gradient stops it, because a step may end at a
border at once and gain nothing, although there is more to gain. If it ends with a gradient left, it
is started again.

Symbol   Meaning                                       Shape
U        points, one per start                         (k, D)
g, H     gradients and second derivatives there        (k, D), (k, D, D)
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import fmin_l_bfgs_b

from fedsim.acquisition.evaluations import Evaluations
from fedsim.space import Array, Box

NEWTON_DIMENSIONS = 2
"""Newton's method climbs in at most so many dimensions, L-BFGS-B in more."""

# Newton's method.
_STEPS = 50  # at most
_GAIN = 1e-4  # it stops where a step promises less, in multiples of the values' spread
_DIFFERENCE = 1e-4  # between the gradients of a difference, in multiples of the unit
# L-BFGS-B.
_SLOPE = 1e-4  # it stops at a smaller projected gradient, in spreads per edge of the cube
_RUNS = 5  # how often it is started at most
_RUN_STEPS = 500  # at most, each time


class Differentiable(Protocol):
    """A function on the unit cube, and a little beyond its upper border."""

    def values(self, U: Array) -> Array:
        """Return the function at the rows of ``U`` (n, D), shape (n,)."""
        ...

    def values_and_gradients(self, U: Array) -> tuple[Array, Array]:
        """Return values, shape (n,), and gradients, shape (n, D)."""
        ...


def climb(
    function: Differentiable, box: Box, U: Array, unit: float, spread: float
) -> tuple[Array, Array]:
    """Climb from all starts, inside the box, by the routine that suits the dimension.

    Args:
        function: what to maximise.
        box: where.
        U: the starts, inside the box, shape (k, D).
        unit: about the distance between candidates, in the cube's units; above 0.
        spread: of the function's values, above 0; tolerances are relative to it.

    Returns:
        Where each ends, never below its start, shape (k, D), and the values there, shape (k,).
    """
    if U.shape[1] <= NEWTON_DIMENSIONS:
        return newton(function, box, U, unit, spread)
    return quasi_newton(function, box, U, spread)


def newton(
    function: Differentiable, box: Box, U: Array, unit: float, spread: float
) -> tuple[Array, Array]:
    """Climb from all starts at once by Newton's method in a trust region.

    Arguments and result are those of :func:`climb`; ``unit`` is the largest first step along a
    coordinate, and the scale of the differences.
    """
    lower, upper = np.array(box.lower), np.array(box.highest)
    flattest = _GAIN * spread / unit**2
    reach = np.full(len(U), unit)
    shifts = _DIFFERENCE * unit * np.vstack([np.zeros(U.shape[1]), np.eye(U.shape[1])])
    values, g, H = _derivatives(function, U, shifts)
    for _ in range(_STEPS):
        step = _newton_step(g, H, ((lower >= U) & (g < 0.0)) | ((upper <= U) & (g > 0.0)), flattest)
        length = np.abs(step).max(axis=1)
        # The promise of a step no longer than the first: a short reach is no reason to stop.
        promise = (g * step).sum(axis=1) * (unit / np.maximum(length, unit))
        open_ = promise > _GAIN * spread
        if not open_.any():
            break
        step *= (reach / np.maximum(length, reach))[:, None]
        there = np.minimum(np.maximum(U + step, lower), upper)
        found = _derivatives(function, there, shifts)
        step = there - U
        length = np.abs(step).max(axis=1)
        gain = found[0] - values
        better = gain > 0.0
        # A quadratic function gains half the slope's promise in a full step, more in a shorter one.
        promised = np.abs((g * step).sum(axis=1))
        # The next step is shorter than a failed one, which may have been shorter than the reach.
        grown = np.where(gain > 0.4 * promised, np.maximum(reach, 2.0 * length), reach)
        reach = np.where(open_ & (gain <= 0.1 * promised), 0.25 * length, grown)
        if better.all():  # most steps are; this spares a tenth of the time
            U, (values, g, H) = there, found
            continue
        U = np.where(better[:, None], there, U)
        values = np.where(better, found[0], values)
        g = np.where(better[:, None], found[1], g)
        H = np.where(better[:, None, None], found[2], H)
    return U, values


def quasi_newton(
    function: Differentiable, box: Box, U: Array, spread: float
) -> tuple[Array, Array]:
    """Climb by L-BFGS-B from one start after another; arguments and result as :func:`climb`."""
    lower, upper = np.array(box.lower), np.array(box.highest)
    bounds = list(zip(box.lower, box.highest, strict=True))

    def descent(u: Array) -> tuple[float, Array]:
        # Clipped, as SciPy's versions differ in whether rounding may lead across a border.
        inside = np.minimum(np.maximum(u, lower), upper)
        values, gradients = function.values_and_gradients(inside[None])
        return -float(values[0]) / spread, -gradients[0] / spread

    evaluations = Evaluations(descent)
    ends, values = np.empty_like(U), np.empty(len(U))
    for i, start in enumerate(U):
        ends[i] = start
        lowest = evaluations.value(start)
        for _ in range(_RUNS):
            u, reached, info = fmin_l_bfgs_b(
                evaluations.value,
                ends[i],
                fprime=evaluations.gradient,
                bounds=bounds,
                factr=0.0,
                pgtol=_SLOPE,
                maxiter=_RUN_STEPS,
            )
            if not reached < lowest:
                break
            ends[i], lowest = np.clip(u, lower, upper), float(reached)
            if np.abs(np.clip(u - info["grad"], lower, upper) - u).max() <= _SLOPE:
                break
        values[i] = -lowest * spread
    return ends, values


def _newton_step(g: Array, H: Array, blocked: NDArray[np.bool_], flattest: float) -> Array:
    """Return the ascent step from each point, shape (k, D).

    It leads to the maximum of the quadratic model, if that has one. Otherwise curvatures count by
    their absolute values, so that it leads uphill, away from saddles. Coordinates that the box
    blocks do not change.
    """
    if blocked.any():
        g = np.where(blocked, 0.0, g)
        H = np.where(blocked[:, :, None] | blocked[:, None, :], -np.eye(g.shape[1]), H)
    curvatures, axes = np.linalg.eigh(H)
    along = (g[:, None] @ axes)[:, 0] / np.maximum(np.abs(curvatures), flattest)
    step: Array = (axes @ along[:, :, None])[:, :, 0]
    return step


def _derivatives(function: Differentiable, U: Array, shifts: Array) -> tuple[Array, Array, Array]:
    """Return values (k,), gradients (k, D) and second derivatives (k, D, D) at the rows of U.

    Second derivatives are differences of gradients: ``shifts`` (1 + D, D) is a row of zeros, then
    an equal distance along each coordinate. They are symmetric up to the differences' error.
    """
    k, D = U.shape
    values, gradients = function.values_and_gradients((U[:, None] + shifts).reshape(-1, D))
    gradients = gradients.reshape(k, 1 + D, D)
    g = gradients[:, 0]
    return values[:: 1 + D], g, (gradients[:, 1:] - g[:, None]) / shifts[1, 0]
