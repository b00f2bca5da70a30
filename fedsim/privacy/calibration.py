"""Find the noise, the sampling rate or the number of rounds that a privacy target allows.

A calibration takes at most about 40 trials, mostly 10 to 20. With ``pld``, one trial of a single
event takes at most about 1 s and 0.3 GB, whatever the number of rounds, and mostly some
milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from fedsim.errors import ConfigError, require
from fedsim.privacy.accountants import Accountant, PrivacyLoss, privacy_loss
from fedsim.privacy.events import GaussianEvent, Sampling, gaussian_event
from fedsim.privacy.ledger import Accounting, Ledger
from fedsim.privacy.searching import (
    largest_rate,
    largest_sample,
    most_rounds,
    smallest_multiplier,
)
from fedsim.protocol import PrivacyEvent

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
    sampling_rate: float,
    noise_multiplier: float,
    rounds: int,
    delta: float,
    accountant: Accountant,
    sampling: Sampling = "poisson",
    agents: int = 1,
) -> PrivacyLoss:
    """Return the privacy loss of ``rounds`` equal releases.

    Args:
        sampling_rate: q, in (0, 1].
        noise_multiplier: z, above 0.
        rounds: T, at least 1.
        delta: in (0, 1).
        accountant: measures the loss.
        sampling: how agents are sampled.
        agents: N; samples of fixed size depend on it.

    Raises:
        ConfigError: if a value is outside its range, or the accountant does not support the
            sampling.
    """
    z = noise_multiplier
    event = gaussian_event(sampling, agents, sampling_rate, z, z)
    return privacy_loss(Ledger(((event, rounds),)), delta, accountant)


def calibrate(
    epsilon: float,
    delta: float,
    accountant: Accountant,
    *,
    sampling_rate: float | None = None,
    noise_multiplier: float | None = None,
    rounds: int | None = None,
    sampling: Sampling = "poisson",
    agents: int = 1,
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
        sampling: how agents are sampled.
        agents: N; samples of fixed size depend on it.
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
        return constant_loss(q, z, count, delta, accountant, sampling, agents)

    def tried(value: float) -> float:
        spent = loss(value).epsilon
        if on_trial is not None:
            on_trial(found, value, spent)
        return spent

    if found == "noise_multiplier":
        value = smallest_multiplier(tried, epsilon)
    elif found == "sampling_rate" and sampling == "fixed":
        value = largest_sample(lambda size: tried(size / agents) <= epsilon, agents) / agents
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
        if not isinstance(event, GaussianEvent):
            raise ConfigError(
                "epsilon: expected events of a subsampled Gaussian mechanism to calibrate, "
                f"got {event}"
            )
        changed = replace(
            event,
            noise_multiplier=factor * event.noise_multiplier,
            exact_noise_multiplier=factor * event.exact_noise_multiplier,
        )
        counts.append((changed, count))
    return Ledger(tuple(counts))


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
