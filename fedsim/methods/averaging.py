"""How a server averages the agents' vectors, with or without privacy: the settings.

The average itself is in :mod:`fedsim.privacy.mechanism`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsim.errors import ConfigError, require
from fedsim.privacy.events import Sampling
from fedsim.privacy.mechanism import SubsampledGaussianMechanism, WeightedAverage
from fedsim.privacy.weights import WeightSchedule

LEAST_SIGNAL = 0.01
"""Of a release's noise: if its signal is at most so much, the plan warns."""


@dataclass(frozen=True, slots=True)
class PrivacySettings:
    """Settings of the subsampled Gaussian mechanism; see :mod:`fedsim.privacy.mechanism`.

    Attributes:
        sampling: ``poisson``, or ``fixed``: exactly int(N q) agents in every release.
        sampling_rate: q, the probability with which an agent enters a release.
        noise_multiplier: z; 1 if neither it nor ``epsilon`` is given.
        clipping_norm: S, the largest norm of an agent's joint vector over all sub-regions.
        noise_only: replace the signal by zeros: a control that useful messages must beat.
        epsilon: the privacy loss of a whole run that z is calibrated for when a configuration is
            read (:mod:`fedsim.config.targets`), above 0; None: z is given.
        delta: of ``epsilon``, in (0, 1).

    Raises:
        ConfigError: if epsilon or delta is outside its range, or delta has no epsilon.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    sampling: Sampling = "poisson"
    sampling_rate: float = 0.25
    noise_multiplier: float | None = None
    clipping_norm: float = 11.0
    noise_only: bool = False
    epsilon: float | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        epsilon, delta = self.epsilon, self.delta
        if epsilon is None:
            if delta is not None:
                raise ConfigError(
                    "method.dp.delta: it belongs to method.dp.epsilon, which is missing"
                )
            if self.noise_multiplier is None:
                object.__setattr__(self, "noise_multiplier", 1.0)
            return
        expected = "a finite number above 0"
        require(0 < epsilon < math.inf, "method.dp.epsilon", expected, epsilon)
        if delta is not None:
            require(0 < delta < 1, "method.dp.delta", "a number above 0 and below 1", delta)


@dataclass(frozen=True, slots=True)
class FewReleasesSettings:
    """The mechanism's settings: those of :class:`PrivacySettings`, with other defaults.

    Attributes:
        sampling_rate: q; with few releases, all agents may enter each.
        noise_multiplier: z; 3 if neither it nor ``epsilon`` is given.
        clipping_norm: S, the largest norm of a message.
        noise_only: replace the signal by zeros: a control that useful messages must beat.
        epsilon: the privacy loss of a whole run that z is calibrated for; None: z is given.
        delta: of ``epsilon``.

    Raises:
        ConfigError: if epsilon or delta is outside its range, or delta has no epsilon.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    sampling_rate: float = 1.0
    noise_multiplier: float | None = None
    clipping_norm: float = 1.0
    noise_only: bool = False
    epsilon: float | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        if self.epsilon is None and self.noise_multiplier is None:
            object.__setattr__(self, "noise_multiplier", 3.0)
        self.complete()

    def complete(self) -> PrivacySettings:
        """Return these settings with Poisson sampling."""
        return PrivacySettings(
            "poisson",
            self.sampling_rate,
            self.noise_multiplier,
            self.clipping_norm,
            self.noise_only,
            self.epsilon,
            self.delta,
        )


def averaging(
    dp: PrivacySettings | None,
    agents: int,
    features: int,
    regions: int,
    weights: WeightSchedule,
) -> SubsampledGaussianMechanism | WeightedAverage:
    """Return what averages the agents' vectors.

    Args:
        dp: the privacy mechanism, or None for a plain average.
        agents: N.
        features: the length of a vector.
        regions: P.
        weights: how much an agent counts in each region.

    Raises:
        ConfigError: if a setting is out of range, or the noise multiplier is missing.
    """
    if dp is None:
        return WeightedAverage(agents, features, regions, weights)
    if dp.noise_multiplier is None:
        raise ConfigError(
            "method.dp.noise_multiplier: missing; for method.dp.epsilon, reading a "
            "configuration calibrates it"
        )
    try:
        return SubsampledGaussianMechanism(
            agents,
            features,
            regions,
            dp.clipping_norm,
            dp.sampling_rate,
            dp.noise_multiplier,
            weights,
            dp.noise_only,
            dp.sampling,
        )
    except ConfigError as error:
        raise ConfigError(f"method.dp.{error}") from None


def warnings_of_noise(
    aggregator: SubsampledGaussianMechanism | WeightedAverage, last: int
) -> list[str]:
    """Return a warning if noise drowns every release, whatever the agents' data; else nothing.

    The signal is at most about that of agents that all send the same vector: of the norm that a
    clipped vector may have, or if that is less of the root of M. A sample of M independent standard
    normal weights has about that norm, and a posterior mean of them a smaller one.

    Args:
        aggregator: what averages the vectors.
        last: the last release, in which agents count the most alike, so that its noise is least.
    """
    if not isinstance(aggregator, SubsampledGaussianMechanism) or aggregator.noise_only:
        return []
    one, root = aggregator, math.sqrt(aggregator.features)
    signal = min(one.clipping_norm, root * math.sqrt(one.regions))
    ratio = signal / (root * float(np.linalg.norm(one.noise_scale(last))))
    if ratio > LEAST_SIGNAL:
        return []
    return [
        f"the signal of a release is at most about {ratio:.1g} of its noise: the server's vectors "
        "are noise; choose a smaller method.dp.clipping_norm or noise_multiplier, or a larger "
        "sampling_rate (`fedsim privacy plan` proposes some)"
    ]
