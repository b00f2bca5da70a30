"""Find the noise, the sampling rate or the number of rounds that a privacy target allows.

Epsilon falls with the noise multiplier and rises with the sampling rate and the rounds, so each
is found by trials between a value that meets the target and one that does not. The one that meets
it is returned: the result never exceeds the target, however the accountant rounds.

A calibration takes at most about 40 trials, mostly 10 to 20. With ``pld``, one trial of a single
event takes at most about 1 s and 0.3 GB, whatever the number of rounds, and mostly some
milliseconds.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from fedsim.errors import ConfigError, require
from fedsim.privacy.accountants import Accountant, PrivacyLoss, privacy_loss
from fedsim.privacy.events import SubsampledGaussian
from fedsim.privacy.ledger import Accounting, Ledger
from fedsim.protocol import PrivacyEvent

_PRECISION = 1e-7  # relative
_MULTIPLIERS = (2.0**-14, 2.0**20)
_RATES = (2.0**-30, 1.0)
_MOST_ROUNDS = 2**20

_MOST_EXCESS = 50.0  # of ln(epsilon / target): 0 and infinity are no numbers to interpolate

Unknown = Literal["noise_multiplier", "sampling_rate", "rounds"]

Trial = Callable[[Unknown, float, float], None]
"""Is told about every trial: what is looked for, the value that was tried, its epsilon."""


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
    on_trial: Trial | None = None,
) -> Calibration:
    """Return the best value of the setting that is left out.

    Args:
        epsilon: the target, above 0.
        delta: in (0, 1).
        accountant: measures the loss.
        sampling_rate: q, in (0, 1], or None to find the largest.
        noise_multiplier: z, above 0, or None to find the smallest.
        rounds: T, at least 1, or None to find the most.
        on_trial: told about every trial.

    Raises:
        ConfigError: if not exactly one setting is left out, a value is outside its range, or
            no value in the search range meets the target.
    """
    _check(epsilon, sampling_rate, noise_multiplier, rounds)
    if [sampling_rate, noise_multiplier, rounds].count(None) != 1:
        raise ConfigError(
            "calibration: expected exactly one of sampling_rate, noise_multiplier and rounds to be "
            "left out; give the other two"
        )
    found: Unknown = "noise_multiplier" if noise_multiplier is None else "sampling_rate"
    if rounds is None:
        found = "rounds"

    def loss(value: float) -> PrivacyLoss:
        q = value if sampling_rate is None else float(sampling_rate)
        z = value if noise_multiplier is None else float(noise_multiplier)
        count = round(value) if rounds is None else rounds
        return constant_loss(q, z, count, delta, accountant)

    def tried(value: float) -> float:
        spent = loss(value).epsilon
        if on_trial is not None:
            on_trial(found, value, spent)
        return spent

    if found == "noise_multiplier":
        value = smallest_multiplier(tried, epsilon)
    elif found == "sampling_rate":
        value = largest_rate(tried, epsilon)
    else:
        value = most_rounds(lambda count: tried(count) <= epsilon)
    return Calibration(
        value if sampling_rate is None else float(sampling_rate),
        value if noise_multiplier is None else float(noise_multiplier),
        round(value) if rounds is None else rounds,
        found,
        loss(value),
    )


def noise_for(
    events: Iterable[PrivacyEvent],
    epsilon: float,
    delta: float,
    accountant: Accountant,
    accounting: Accounting = "paper",
) -> float:
    """Return the smallest factor on all events' noise with which they meet a target.

    Args:
        events: all of a subsampled Gaussian mechanism.
        epsilon: the target, above 0.
        delta: in (0, 1).
        accountant: measures the loss.
        accounting: which multiplier is charged.

    Raises:
        ConfigError: if an event is of another kind, or no factor is enough.
    """
    kept = tuple(events)
    return smallest_multiplier(
        lambda factor: privacy_loss(scaled(kept, factor), delta, accountant, accounting).epsilon,
        epsilon,
    )


def scaled(events: Iterable[PrivacyEvent], factor: float) -> Ledger:
    """Return the ledger of events whose noise is multiplied by a factor.

    Raises:
        ConfigError: if an event is not of a subsampled Gaussian mechanism.
    """
    counts = []
    for event, count in Ledger.from_events(events).counts:
        if not isinstance(event, SubsampledGaussian):
            raise ConfigError(
                f"epsilon: expected subsampled-gaussian events to calibrate, got {event}"
            )
        plain, exact = event.noise_multiplier, event.exact_noise_multiplier
        changed = SubsampledGaussian(event.sampling_rate, factor * plain, factor * exact)
        counts.append((changed, count))
    return Ledger(tuple(counts))


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
