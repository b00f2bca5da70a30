"""Composes privacy losses, and reads epsilon off the sum's distribution.

For a given delta, the sum's distribution matters only near epsilon, far out in its upper tail. So
every loss is tilted (:mod:`fedsim.privacy.cumulants`) such that the sum is typically near epsilon.
The tilted losses are put on a grid once, composed with one Fourier transform each, however many
releases there are, and tilted back. So delta has full relative precision, however small it is.

What is left out is charged to delta: infinite losses, what lies above the grid, and the rounding of
the transform. What wraps around the grid only adds to delta. So epsilon is an upper bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from fedsim.privacy.cumulants import cumulants
from fedsim.privacy.ledger import Component
from fedsim.privacy.losses import Direction, bulk, discretise, loss_at
from fedsim.privacy.placement import (
    Counted,
    Frame,
    Window,
    best_renyi_bound,
    log_tail_of,
    lowest_point,
    renyi_bounds,
    window_of,
)
from fedsim.space import Array

_FEWEST_STEPS = 200  # from 0 to epsilon
_CUMULANTS, _TRANSFORMS, _PRODUCTS = 256, 8, 4  # cached; a transform takes up to 8 MB
_MARGIN = 1e-8  # of delta, for rounding
_FAR = 40.0  # exp(-40) is nothing beside 1
_LARGEST_EXPONENT = 300.0  # so that no product overflows

_Spectrum = NDArray[np.complex128]


class _Part(NamedTuple):
    """A component's loss, on the grid points from ``lowest`` on."""

    component: Component
    lowest: int


@dataclass(frozen=True, slots=True)
class _Sum:
    """The distribution of a sum of losses.

    Attributes:
        spectrum: the transform of the tilted sum.
        log_moment: of the sum, at the tilt.
        log_upper_moment: at the upper tilt.
        log_infinite: ln of at least the probability of an infinite loss.
    """

    spectrum: _Spectrum
    log_moment: float
    log_upper_moment: float
    log_infinite: float

    def repeated(self, n: int) -> _Sum:
        """Return the sum of ``n`` independent copies."""
        return _Sum(
            _power(self.spectrum, n),
            n * self.log_moment,
            n * self.log_upper_moment,
            self.log_infinite + math.log(n),
        )

    def plus(self, other: _Sum) -> _Sum:
        """Return the sum with another, independent one."""
        return _Sum(
            self.spectrum * other.spectrum,
            self.log_moment + other.log_moment,
            self.log_upper_moment + other.log_upper_moment,
            float(np.logaddexp(self.log_infinite, other.log_infinite)),
        )


class Composition:
    """Epsilon of composed releases, for one direction of the comparison at a time.

    Its caches do not affect results.
    """

    def __init__(self) -> None:
        self._cumulants = lru_cache(_CUMULANTS)(cumulants)
        self._transform = lru_cache(_TRANSFORMS)(_transformed)
        self._lock = Lock()
        self._products: dict[tuple[Frame, tuple[_Part, ...]], _Sum] = {}

    def renyi_bound(
        self, components: Sequence[Component], delta: float, direction: Direction
    ) -> float:
        """Return a bound on epsilon that needs no grid, at least 0: of a fixed set of orders."""
        bounds = renyi_bounds(self._counted(components, delta, direction), delta)
        return max(0.0, float(bounds.min()))

    def best_renyi_bound(
        self, components: Sequence[Component], delta: float, direction: Direction
    ) -> float:
        """Return the smallest such bound, of any order; it takes some milliseconds."""
        return max(0.0, best_renyi_bound(self._counted(components, delta, direction), delta))

    def epsilon(
        self, components: Sequence[Component], delta: float, direction: Direction
    ) -> float | None:
        """Return epsilon, at least 0; None if it cannot be bounded well.

        Args:
            components: at least one.
            delta: in (0, 1).
            direction: of the comparison.
        """
        counted = self._counted(components, delta, direction)
        window, log_tail = window_of(counted, delta), log_tail_of(components, delta)
        frame = window.frame(direction, log_tail)
        found = self._epsilon_on(frame, counted, window, delta)
        if found and found < _FEWEST_STEPS * frame.step:  # small beside the tilted losses
            finer = window.frame(direction, log_tail, found / _FEWEST_STEPS)
            if finer.step < frame.step:
                again = self._epsilon_on(finer, counted, window, delta)
                return found if again is None else min(found, again)
        return found

    def _epsilon_on(
        self, frame: Frame, counted: Counted, window: Window, delta: float
    ) -> float | None:
        parts = tuple(
            _Part(component, lowest_point(one, frame, window.releases))
            for component, one in counted
        )
        return _epsilon(self._composed(parts, frame), frame, window, delta)

    def _counted(
        self, components: Sequence[Component], delta: float, direction: Direction
    ) -> Counted:
        log_tail = log_tail_of(components, delta)
        return [
            (c, self._cumulants(c.sampling_rate, c.noise_multiplier, log_tail, direction))
            for c in components
        ]

    def _composed(self, parts: tuple[_Part, ...], frame: Frame) -> _Sum:
        """Return the sum of all parts; that of all but the last is kept for the next question."""
        shared = len(parts) - 1
        while shared and (frame, parts[:shared]) not in self._products:
            shared -= 1
        total = self._products.get((frame, parts[:shared]))
        for place in range(shared, len(parts)):
            component, lowest = parts[place]
            single = self._transform(
                component.sampling_rate, component.noise_multiplier, lowest, frame
            )
            own = single.repeated(component.releases)
            total = own if total is None else total.plus(own)
            if place == len(parts) - 2:
                self._keep((frame, parts[:-1]), total)
        assert total is not None
        return total

    def _keep(self, key: tuple[Frame, tuple[_Part, ...]], total: _Sum) -> None:
        with self._lock:
            while len(self._products) >= _PRODUCTS:
                del self._products[next(iter(self._products))]
            self._products[key] = total


def _transformed(sampling_rate: float, noise_multiplier: float, lowest: int, frame: Frame) -> _Sum:
    """Return the transform of one release's tilted loss."""
    q, z = sampling_rate, noise_multiplier
    ends = loss_at(np.array(bulk(q, z, frame.log_tail)), q, z)
    largest = -float(ends[0]) if frame.direction == "add" else float(ends[1])
    numbers = np.arange(lowest, max(math.ceil(largest / frame.step), lowest + 1) + 1)
    loss = discretise(np.asarray(numbers * frame.step, dtype=float), q, z, frame.direction)
    log_moment = loss.log_moment(frame.tilt)
    weights = np.exp(loss.log_masses + frame.tilt * loss.losses - log_moment)
    masses = np.bincount(numbers % frame.size, weights, minlength=frame.size)
    return _Sum(
        np.asarray(fft.rfft(masses)),
        log_moment,
        loss.log_moment(frame.upper_tilt),
        loss.log_infinite,
    )


def _power(spectrum: _Spectrum, n: int) -> _Spectrum:
    """Return the n-th power, n at least 1, by squaring."""
    result: _Spectrum | None = None
    while True:
        if n & 1:
            result = spectrum if result is None else result * spectrum
        n >>= 1
        if not n:
            assert result is not None
            return result
        spectrum = spectrum * spectrum


def _epsilon(total: _Sum, frame: Frame, window: Window, delta: float) -> float | None:
    """Return the epsilon at which the sum's delta is ``delta``.

    delta(epsilon) is the sum over losses l > epsilon of their probability times
    1 - exp(epsilon - l). With A(l), the probability of l and more, delta at a grid point is
    (1 - exp(-h)) times the sum over larger points m of A(m) exp(-(m - h - epsilon)): all terms are
    positive, so nothing cancels.
    """
    h, theta = frame.step, frame.tilt
    first = math.floor(window.bottom / h)
    losses = np.asarray((first + np.arange(frame.size)) * h, dtype=float)
    tilted = np.maximum(np.roll(fft.irfft(total.spectrum, frame.size), -(first % frame.size)), 0.0)
    back = np.exp(np.minimum(-theta * (losses - window.mean), _LARGEST_EXPONENT))
    at_least = np.append(np.cumsum((tilted * back)[::-1])[::-1], 0.0)
    above = total.log_upper_moment - frame.upper_tilt * float(losses[-1])
    spare = 1 - _MARGIN - math.exp(min(0.0, total.log_infinite - math.log(delta)))
    spare -= math.exp(min(0.0, above - math.log(delta)))
    if spare < 0.5:
        return None
    # In units in which the grid's probabilities are tilted * back.
    log_target = math.log(delta) + theta * window.mean - total.log_moment
    if abs(log_target) > _LARGEST_EXPONENT:
        return None
    target = spare * math.exp(log_target)
    end = int(np.argmax(at_least <= target))  # epsilon is below, but not far
    start = max(0, end - math.ceil(min(_FAR / h, frame.size)) - 1)
    near = min(end, frame.size - 1) - start
    found = _crossing(losses[start:], at_least[start:], near, h, target)
    counted = back[int(np.searchsorted(losses, found)) :]
    rounding = np.finfo(float).eps * (window.releases + 2 * math.log2(frame.size))
    rounding *= math.sqrt(float(np.square(tilted).sum()) * float(np.square(counted).sum()))
    if rounding > 0.1 * target:
        return None
    if rounding > _MARGIN * target:
        found = _crossing(losses[start:], at_least[start:], near, h, target - rounding)
    return max(0.0, found)


def _crossing(losses: Array, at_least: Array, near: int, h: float, target: float) -> float:
    """Return where delta falls to ``target``; ``losses[0]`` if it is never above.

    Args:
        losses: grid points, shape (n,).
        at_least: the probability of each grid point and more, and 0, shape (n + 1,).
        near: the index of a grid point near the result.
        h: the distance between grid points.
        target: delta, in the units of the probabilities.
    """
    shift = np.clip(losses - losses[near], -_LARGEST_EXPONENT, _LARGEST_EXPONENT)
    later = np.cumsum((at_least[:-1] * np.exp(-shift))[::-1])[::-1]
    delta = np.append(-math.expm1(-h) * np.exp(shift[1:]) * later[1:], 0.0)
    delta = np.minimum(delta, at_least[1:])  # and where exp would overflow, it is the same
    above = np.flatnonzero(delta > target)
    if not len(above):
        return float(losses[0])
    k = int(above[-1]) + 1  # epsilon is between grid points k - 1 and k, where delta is
    # (1 - exp(-s)) A(k) + exp(-s) delta(k), at a distance s below k.
    part = (target - delta[k]) / (at_least[k] - delta[k])
    return float(losses[k]) + math.log1p(-part)
