"""What a privacy mechanism says about one of its releases: the input of every accountant."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, order=True)
class SubsampledGaussian:
    """One release of a Poisson-subsampled Gaussian mechanism.

    Attributes:
        sampling_rate: the probability q, in [0, 1], with which each agent enters the sum.
        noise_multiplier: the plain z, at least 0: noise standard deviation over the bound on
            one agent's contribution that the paper charges.
        exact_noise_multiplier: the multiplier of the joint release of this round, at least z.
    """

    sampling_rate: float
    noise_multiplier: float
    exact_noise_multiplier: float

    def record(self) -> dict[str, float]:
        """Return the event as it stands in the journal."""
        return asdict(self)
