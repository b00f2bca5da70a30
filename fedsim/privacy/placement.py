"""Where a tilted sum of losses typically is, and the grid that holds it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fedsim.privacy.cumulants import TILTS, Cumulants
from fedsim.privacy.ledger import Component
from fedsim.privacy.losses import Direction
from fedsim.space import Array

LARGEST_GRID = 2**20
"""The most points of a grid; one epsilon then takes about 1 s and 0.3 GB."""

LEFT_OUT = 1e-4
"""The largest part of delta that infinite losses, and the tilted sum outside the grid, may take."""

_SMALLEST_GRID = 2**14
_ROUNDED = 5e-6  # of epsilon: by how much rounding to the grid may raise it
_RELATIVE_STEP = 1e-9  # at least, of a release's mean loss: losses may be all but constant
_LOG_TILT_ERROR = 1e-5  # of the best tilt's logarithm
_ALIGNMENT = 4096  # grids of similar ledgers then share their transforms

Counted = Sequence[tuple[Component, Cumulants]]
"""Releases of equal cost, and what is known about each one's loss."""


class Frame(NamedTuple):
    """A grid of losses, the multiples of ``step``, and what else all transforms have in common.

    Attributes:
        direction: of the comparison.
        log_tail: ln of the probability of one release's loss that may count as infinite.
        tilt: of the losses.
        upper_tilt: another tilt; it shows how little is above the grid.
        step: the distance between grid points.
        size: their number. Larger and smaller losses wrap around.
    """

    direction: Direction
    log_tail: float
    tilt: float
    upper_tilt: float
    step: float
    size: int


@dataclass(frozen=True, slots=True)
class Window:
    """Where the tilted sum typically is.

    Attributes:
        tilt: an index of TILTS.
        upper_tilt: another one; it shows how little is above ``top``.
        bottom: hardly anything of the tilted sum is below.
        top: hardly anything of it is above.
        mean: of the tilted sum.
        variance: of the tilted sum.
        releases: their number.
    """

    tilt: int
    upper_tilt: int
    bottom: float
    top: float
    mean: float
    variance: float
    releases: int

    def frame(self, direction: Direction, log_tail: float, largest_step: float = math.inf) -> Frame:
        """Return the grid, with steps of a power of two, so that similar ledgers share it."""
        width, tilt = self.top - self.bottom, float(TILTS[self.tilt])
        # Connecting dots at a distance h adds about tilt (tilt + 1) h^2 / 12 to a log moment, so
        # (tilt + 1) h^2 / 12 per release to epsilon, which is about tilt * variance.
        step = math.sqrt(12 * _ROUNDED * tilt / (tilt + 1) * self.variance / self.releases)
        step = min(step, width / _SMALLEST_GRID, largest_step)
        step = max(step, _RELATIVE_STEP * abs(self.mean) / self.releases)
        step = 2.0 ** math.floor(math.log2(step))
        while width / step > LARGEST_GRID - 2:
            step *= 2
        size = 2 ** math.ceil(math.log2(width / step + 2))
        upper = float(TILTS[self.upper_tilt])
        return Frame(direction, log_tail, tilt, upper, step, size)


def log_tail_of(components: Sequence[Component], delta: float) -> float:
    """Return ln of the probability of one release's loss that may count as infinite.

    It is a power of 16, so that ledgers of similar length share their cumulants.
    """
    releases = sum(c.releases for c in components)
    exact = (math.log(LEFT_OUT) + math.log(delta) - math.log(releases)) / math.log(16)
    return math.floor(exact) * math.log(16)


def best_renyi_bound(counted: Counted, delta: float) -> float:
    """Return the smallest bound on epsilon from a Renyi divergence, of any order.

    Between two neighbours of the best of :data:`TILTS`: a moment may grow steeply with its order.
    """
    from scipy.optimize import minimize_scalar  # takes long to import

    log_delta = _log_delta(counted, delta)
    bounds = renyi_bounds(counted, delta)
    best = int(np.argmin(bounds)) + 1
    low, high = TILTS[max(best - 1, 1)], TILTS[min(best + 1, len(TILTS) - 1)]

    def bound(log_tilt: float) -> float:
        tilt = np.array([math.exp(log_tilt)])
        moment = math.fsum(c.releases * one.log_moment(float(tilt[0])) for c, one in counted)
        return float(_converted(tilt, np.array([moment]), log_delta)[0])

    found = minimize_scalar(
        bound,
        bounds=(math.log(low), math.log(high)),
        method="bounded",
        options={"xatol": _LOG_TILT_ERROR},
    )
    return min(float(bounds.min()), float(found.fun))


def renyi_bounds(counted: Counted, delta: float) -> Array:
    """Return a bound on epsilon from each tilt but the first, which is 0."""
    return _converted(TILTS[1:], _log_moments(counted)[1:], _log_delta(counted, delta))


def _converted(tilts: Array, log_moments: Array, log_delta: float) -> Array:
    """Return bounds on epsilon from Renyi divergences of the orders ``tilts`` + 1.

    By Canonne, Kamath and Steinke (arXiv 2004.00010, Prop. 12).
    """
    orders = tilts + 1
    found: Array = (log_moments - log_delta - np.log(orders)) / tilts + np.log(tilts / orders)
    return found


def _log_delta(counted: Counted, delta: float) -> float:
    """Return ln of what is left of delta for finite losses."""
    log_delta = math.log(delta)
    infinite = sum(c.releases * math.exp(one.log_infinite - log_delta) for c, one in counted)
    return log_delta + math.log1p(-infinite)  # at most LEFT_OUT


def window_of(counted: Counted, delta: float) -> Window:
    """Return where the sum is under the tilt that gives the smallest bound.

    With K = ln E[exp(tilt loss)], Chernoff's bound at another tilt s says that the tilted sum
    exceeds a value v with a probability of at most exp(K(s) - K(tilt) - (s - tilt) v).
    """
    log_moments = _log_moments(counted)
    best = int(np.argmin(renyi_bounds(counted, delta)[:-1])) + 1
    mean = math.fsum(c.releases * float(one.means[best]) for c, one in counted)
    others = np.delete(np.arange(len(TILTS)), best)
    apart = TILTS[others] - TILTS[best]
    # For tilts below, the smallest typical value; for those above, the largest.
    values = (log_moments[others] - log_moments[best] - math.log(LEFT_OUT)) / apart
    highest = int(np.argmin(values[best:]))
    return Window(
        tilt=best,
        upper_tilt=best + 1 + highest,
        bottom=min(mean, float(np.max(values[:best]))),
        top=max(mean, float(values[best + highest])),
        mean=mean,
        variance=math.fsum(c.releases * float(one.variances[best]) for c, one in counted),
        releases=sum(c.releases for c, _ in counted),
    )


def lowest_point(one: Cumulants, frame: Frame, releases: int) -> int:
    """Return the smallest multiple of the step that matters for a loss.

    Smaller losses are rounded up to it: hardly anything of the tilted loss.

    Args:
        one: what is known about the loss.
        frame: the grid.
        releases: how many losses there are in the sum.
    """
    tilt = int(np.searchsorted(TILTS, frame.tilt))
    log_weights = one.log_below + frame.tilt * one.losses - one.log_moments[tilt]
    negligible = np.flatnonzero(log_weights <= math.log(LEFT_OUT) - math.log(releases))
    lowest = float(one.losses[negligible[-1]] if len(negligible) else one.losses[0])
    aligned = math.floor(lowest / frame.step / _ALIGNMENT) * _ALIGNMENT
    return max(aligned, math.floor(float(one.losses[-1]) / frame.step) - LARGEST_GRID)


def _log_moments(counted: Counted) -> Array:
    total = np.zeros(len(TILTS))
    for component, one in counted:
        total += component.releases * one.log_moments
    return total
