"""What a privacy mechanism says about one of its releases: the input of every accountant."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from fedsim.errors import require


@dataclass(frozen=True, slots=True, order=True)
class SubsampledGaussian:
    """One release of a Poisson-subsampled Gaussian mechanism.

    The values may be given as any real number type; they are kept as Python floats, because
    accounting libraries treat other types differently (one of them then counts too little).

    Attributes:
        sampling_rate: the probability q, in [0, 1], with which each agent enters the sum.
        noise_multiplier: the plain z, at least 0: noise standard deviation over the bound on
            one agent's contribution that the paper charges.
        exact_noise_multiplier: the multiplier of the joint release of this round, at least z.

    Raises:
        ConfigError: if a value is outside its range or not finite.
    """

    sampling_rate: float
    noise_multiplier: float
    exact_noise_multiplier: float

    def __post_init__(self) -> None:
        for name in ("sampling_rate", "noise_multiplier", "exact_noise_multiplier"):
            object.__setattr__(self, name, float(getattr(self, name)))
        q, z, exact = self.sampling_rate, self.noise_multiplier, self.exact_noise_multiplier
        require(0 <= q <= 1, "sampling_rate", "a probability in [0, 1]", q)
        require(0 <= z < math.inf, "noise_multiplier", "a finite number of at least 0", z)
        expected = f"a finite number of at least the noise_multiplier {z}"
        require(z <= exact < math.inf, "exact_noise_multiplier", expected, exact)

    def record(self) -> dict[str, float]:
        """Return the event as it stands in the journal."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, float]) -> SubsampledGaussian:
        """Return the event whose :meth:`record` this is."""
        return cls(
            sampling_rate=record["sampling_rate"],
            noise_multiplier=record["noise_multiplier"],
            exact_noise_multiplier=record["exact_noise_multiplier"],
        )
