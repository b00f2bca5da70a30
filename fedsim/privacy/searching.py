"""Searches for the edge of a privacy target, given epsilon as a function of one setting.

Epsilon falls with the noise multiplier and rises with the sampling rate and the rounds, so each
is found by trials between a value that meets the target and one that does not. The one that meets
it is returned: the result never exceeds the target, however the accountant rounds.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

from fedsim.errors import ConfigError

_PRECISION = 1e-7  # relative
_MULTIPLIERS = (2.0**-14, 2.0**20)
_RATES = (2.0**-30, 1.0)
_MOST_ROUNDS = 2**20

_MOST_EXCESS = 50.0  # of ln(epsilon / target): 0 and infinity are no numbers to interpolate


def smallest_multiplier(epsilon_of: Callable[[float], float], target: float) -> float:
    """Return the smallest noise multiplier whose epsilon meets the target, to a relative 1e-7."""
    low, high = _MULTIPLIERS
    excess = _excess(epsilon_of, target)
    above, below = excess(high), excess(low)
    if above > 0:
        raise ConfigError(
            f"epsilon: not reached even with a noise multiplier of {high:.0f}; "
            "allow a larger epsilon, or lower the sampling rate or the rounds"
        )
    if below <= 0:
        raise ConfigError(
            f"epsilon: met even with a noise multiplier of {low:.1e}; such a target asks for "
            "no privacy: choose a smaller one"
        )
    return _edge(high, above, low, below, excess)


def largest_rate(epsilon_of: Callable[[float], float], target: float) -> float:
    """Return the largest sampling rate whose epsilon meets the target, to a relative 1e-7."""
    low, high = _RATES
    excess = _excess(epsilon_of, target)
    above = excess(high)
    if above <= 0:
        return high
    below = excess(low)
    if below > 0:
        raise ConfigError(
            f"epsilon: not reached even with a sampling rate of {low:.1e}; allow a larger "
            "epsilon, or raise the noise multiplier"
        )
    return _edge(low, below, high, above, excess)


def largest_sample(meets: Callable[[int], bool], agents: int) -> int:
    """Return the size of the largest sample of at most ``agents`` that ``meets`` the target."""
    if not meets(1):
        raise ConfigError(
            "epsilon: exceeded even by samples of one agent; allow a larger epsilon, or raise the "
            "noise multiplier"
        )
    good, bad = 1, agents + 1
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if meets(middle) else (good, middle)
    return good


def most_rounds(meets: Callable[[int], bool]) -> int:
    """Return the largest number of rounds that ``meets`` the target."""
    if not meets(1):
        raise ConfigError(
            "epsilon: exceeded by a single round; allow a larger epsilon, raise the noise "
            "multiplier or lower the sampling rate"
        )
    good, bad = 1, 2
    while meets(bad):
        good, bad = bad, 2 * bad
        if bad > _MOST_ROUNDS:
            raise ConfigError(
                f"epsilon: not even used up by {good} rounds, the most that are searched; choose a "
                "smaller epsilon or less noise"
            )
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if meets(middle) else (good, middle)
    return good


def _excess(epsilon_of: Callable[[float], float], target: float) -> Callable[[float], float]:
    """Return ln(epsilon / target) as a function of the setting, within finite limits."""

    def excess(value: float) -> float:
        epsilon = epsilon_of(value)
        ratio = min(epsilon / target, math.exp(_MOST_EXCESS))
        log = math.log(max(ratio, math.exp(-_MOST_EXCESS)))
        return log if epsilon <= target else max(log, sys.float_info.min)

    return excess


def _edge(
    good: float, good_excess: float, bad: float, bad_excess: float, excess: Callable[[float], float]
) -> float:
    """Return a value that meets the target, next to one that does not, to a relative 1e-7.

    The method of Oliveira and Takahashi ("ITP", ACM TOMS 2021) on logarithms: it interpolates, and
    needs at most one trial more than bisection.

    Args:
        good: meets the target.
        good_excess: its excess, at most 0.
        bad: does not.
        bad_excess: its excess, above 0.
        excess: by how much a value misses the target.
    """
    g, b, below, above = math.log(good), math.log(bad), good_excess, bad_excess
    width = abs(b - g)
    most = math.ceil(math.log2(width / _PRECISION)) + 1
    for trial in range(most + 1):
        if abs(b - g) <= _PRECISION:
            break
        middle = (g + b) / 2
        guess = (above * g - below * b) / (above - below)
        towards = math.copysign(1.0, middle - guess)
        shift = 0.2 * (b - g) ** 2 / width
        x = guess + towards * shift if shift <= abs(middle - guess) else middle
        radius = _PRECISION / 2 * 2.0 ** (most - trial) - abs(b - g) / 2
        if abs(x - middle) > radius:
            x = middle - towards * radius
        found = excess(math.exp(x))
        g, below, b, above = (x, found, b, above) if found <= 0 else (g, below, x, found)
    return good if g == math.log(good) else math.exp(g)
