"""Find the noise, the sampling rate or the number of rounds that a privacy target allows.

Epsilon falls with the noise multiplier and rises with the sampling rate and the rounds, so each
is found by bisection. The end of the bracket that meets the target is returned: the result never
exceeds the target, however the accountant rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from fedsim.errors import ConfigError, require
from fedsim.privacy.accountants import Accountant, PrivacyLoss, privacy_loss
from fedsim.privacy.events import SubsampledGaussian
from fedsim.privacy.ledger import Ledger

_PRECISION = 1e-7  # relative
_MULTIPLIERS = (2.0**-14, 2.0**20)
_RATES = (2.0**-30, 1.0)
_MOST_ROUNDS = 2**20

Unknown = Literal["noise_multiplier", "sampling_rate", "rounds"]


@dataclass(frozen=True, slots=True)
class Calibration:
    """A setting that meets a privacy target.

    Attributes:
        sampling_rate: q.
        noise_multiplier: z.
        rounds: T, the number of releases.
        found: which of the three was calibrated.
        loss: the setting's privacy loss, at most the target.
    """

    sampling_rate: float
    noise_multiplier: float
    rounds: int
    found: Unknown
    loss: PrivacyLoss


def constant_loss(
    sampling_rate: float, noise_multiplier: float, rounds: int, delta: float, accountant: Accountant
) -> PrivacyLoss:
    """Return the privacy loss of ``rounds`` equal releases."""
    event = SubsampledGaussian(sampling_rate, noise_multiplier, noise_multiplier)
    return privacy_loss(Ledger(((event, rounds),)), delta, accountant)


def calibrate(
    epsilon: float,
    delta: float,
    accountant: Accountant,
    *,
    sampling_rate: float | None = None,
    noise_multiplier: float | None = None,
    rounds: int | None = None,
) -> Calibration:
    """Return the best value of the setting that is left out.

    Args:
        epsilon: the target, above 0.
        delta: in (0, 1).
        accountant: measures the loss.
        sampling_rate: q, in (0, 1], or None to find the largest.
        noise_multiplier: z, above 0, or None to find the smallest.
        rounds: T, at least 1, or None to find the most.

    Raises:
        ConfigError: if not exactly one setting is left out, a value is outside its range, or
            no value in the search range meets the target.
    """
    _check(epsilon, sampling_rate, noise_multiplier, rounds)

    def loss(q: float, z: float, count: int) -> PrivacyLoss:
        return constant_loss(q, z, count, delta, accountant)

    def found(q: float, z: float, count: int, which: Unknown) -> Calibration:
        return Calibration(q, z, count, which, loss(q, z, count))

    if noise_multiplier is None and sampling_rate is not None and rounds is not None:
        q, T = float(sampling_rate), rounds
        z = smallest_multiplier(lambda value: loss(q, value, T).epsilon <= epsilon)
        return found(q, z, T, "noise_multiplier")
    if sampling_rate is None and noise_multiplier is not None and rounds is not None:
        z, T = float(noise_multiplier), rounds
        q = largest_rate(lambda value: loss(value, z, T).epsilon <= epsilon)
        return found(q, z, T, "sampling_rate")
    if rounds is None and sampling_rate is not None and noise_multiplier is not None:
        q, z = float(sampling_rate), float(noise_multiplier)
        T = most_rounds(lambda value: loss(q, z, value).epsilon <= epsilon)
        return found(q, z, T, "rounds")
    raise ConfigError(
        "calibration: expected exactly one of sampling_rate, noise_multiplier and rounds to be "
        "left out; give the other two"
    )


def smallest_multiplier(meets: Callable[[float], bool]) -> float:
    """Return the smallest noise multiplier that ``meets`` the target, to a relative 1e-7."""
    good = bad = 1.0
    while not meets(good):
        bad, good = good, 2 * good
        if good > _MULTIPLIERS[1]:
            raise ConfigError(
                f"epsilon: not reached even with a noise multiplier of {_MULTIPLIERS[1]:.0f}; "
                "allow a larger epsilon, or lower the sampling rate or the rounds"
            )
    while bad == good or meets(bad):
        good, bad = bad, bad / 2
        if bad < _MULTIPLIERS[0]:
            raise ConfigError(
                f"epsilon: met even with a noise multiplier of {good:.1e}; such a target asks for "
                "no privacy: choose a smaller one"
            )
    return _bisect(good, bad, meets)


def largest_rate(meets: Callable[[float], bool]) -> float:
    """Return the largest sampling rate that ``meets`` the target, to a relative 1e-7."""
    good = bad = _RATES[1]
    while not meets(good):
        bad, good = good, good / 2
        if good < _RATES[0]:
            raise ConfigError(
                f"epsilon: not reached even with a sampling rate of {bad:.1e}; allow a larger "
                "epsilon, or raise the noise multiplier"
            )
    return good if good == bad else _bisect(good, bad, meets)


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


def _bisect(good: float, bad: float, meets: Callable[[float], bool]) -> float:
    """Return a value that meets the target, next to one that does not."""
    while abs(good - bad) > _PRECISION * good:
        middle = math.sqrt(good * bad)
        good, bad = (middle, bad) if meets(middle) else (good, middle)
    return good


def _check(
    epsilon: float,
    sampling_rate: float | None,
    noise_multiplier: float | None,
    rounds: int | None,
) -> None:
    positive = "a finite number above 0"
    require(0 < epsilon < math.inf, "epsilon", positive, epsilon)
    if sampling_rate is not None:
        require(0 < sampling_rate <= 1, "sampling_rate", "a probability in (0, 1]", sampling_rate)
    if noise_multiplier is not None:
        require(0 < noise_multiplier < math.inf, "noise_multiplier", positive, noise_multiplier)
    if rounds is not None:
        require(rounds >= 1, "rounds", "at least 1", rounds)
