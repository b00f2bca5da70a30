"""Privacy events: a mechanism's description of one release, and the input of every accountant.

Events are frozen, hashable values, written to the journal as JSON with their ``kind``. New kinds
are added to :data:`KINDS`; an accountant's ``supports`` returns which of them it can compose.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

from fedsim.errors import ConfigError, RunFolderError, require
from fedsim.protocol import AgentId, PrivacyEvent

Sampling = Literal["poisson", "fixed"]
"""How agents are sampled for a release: each with probability q, or always the same number."""


@dataclass(frozen=True, slots=True)
class SubsampledGaussian:
    """One release of a Poisson-subsampled Gaussian mechanism.

    The values may be of any real number type; they are kept as Python floats, because accounting
    libraries treat other types differently (one of them then counts too little).

    Attributes:
        sampling_rate: the probability q, in [0, 1], with which each agent enters the sum.
        noise_multiplier: the plain z that the paper charges, at least 0: noise standard deviation
            over the bound on one agent's contribution.
        exact_noise_multiplier: the multiplier of the joint release of this round, at least z.

    Raises:
        ConfigError: if a value is outside its range or not finite.
    """

    kind: ClassVar[str] = "subsampled-gaussian"
    agent: ClassVar[None] = None
    sampling: ClassVar[Sampling] = "poisson"

    sampling_rate: float
    noise_multiplier: float
    exact_noise_multiplier: float

    def __post_init__(self) -> None:
        for name in ("sampling_rate", "noise_multiplier", "exact_noise_multiplier"):
            object.__setattr__(self, name, float(getattr(self, name)))
        require(
            0 <= self.sampling_rate <= 1,
            "sampling_rate",
            "a probability in [0, 1]",
            self.sampling_rate,
        )
        _check_multipliers(self.noise_multiplier, self.exact_noise_multiplier)

    def record(self) -> dict[str, Any]:
        """Return the event as JSON for the journal."""
        return {"kind": self.kind, **asdict(self)}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> SubsampledGaussian:
        """Return the event of a :meth:`record`; the kind may be left out."""
        return cls(**{name: value for name, value in record.items() if name != "kind"})


@dataclass(frozen=True, slots=True)
class FixedSizeGaussian:
    """One release of a Gaussian mechanism on a sample of fixed size, drawn without replacement.

    Its guarantee is that of replace-one neighbours: an agent's vectors are replaced by any others.
    That moves the sum by up to twice the bound on one agent's contribution, so accountants charge
    half of a multiplier.

    Attributes:
        agents: N, the size of the roster, at least 1.
        sample_size: m, how many of them enter the sum, in 1 .. N.
        noise_multiplier: as of :class:`SubsampledGaussian`, beside one agent's contribution.
        exact_noise_multiplier: the same.

    Raises:
        ConfigError: if a value is outside its range or not finite.
    """

    kind: ClassVar[str] = "fixed-size-gaussian"
    agent: ClassVar[None] = None
    sampling: ClassVar[Sampling] = "fixed"

    agents: int
    sample_size: int
    noise_multiplier: float
    exact_noise_multiplier: float

    def __post_init__(self) -> None:
        for name in ("agents", "sample_size"):
            object.__setattr__(self, name, operator.index(getattr(self, name)))
        for name in ("noise_multiplier", "exact_noise_multiplier"):
            object.__setattr__(self, name, float(getattr(self, name)))
        expected = f"a number of agents from 1 to {self.agents}"
        require(1 <= self.sample_size <= self.agents, "sample_size", expected, self.sample_size)
        _check_multipliers(self.noise_multiplier, self.exact_noise_multiplier)

    @property
    def sampling_rate(self) -> float:
        """The probability m / N with which each agent enters the sum."""
        return self.sample_size / self.agents

    def record(self) -> dict[str, Any]:
        """Return the event as JSON for the journal."""
        return {"kind": self.kind, **asdict(self)}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> FixedSizeGaussian:
        """Return the event of a :meth:`record`."""
        return cls(**{name: value for name, value in record.items() if name != "kind"})


GaussianEvent = SubsampledGaussian | FixedSizeGaussian
"""What the accountants can compose."""


def sample_size(agents: int, sampling_rate: float) -> int:
    """Return m = int(N q), the size of a fixed-size sample.

    Raises:
        ConfigError: if it is 0: every release would be noise alone.
    """
    size = math.floor(agents * sampling_rate + 1e-9)  # 100 * 0.29 is 28.999999999999996
    require(
        size >= 1,
        "sampling_rate",
        f"at least 1/{agents}, so that a sample of fixed size has an agent",
        sampling_rate,
    )
    return size


def gaussian_event(
    sampling: Sampling,
    agents: int,
    sampling_rate: float,
    noise_multiplier: float,
    exact_noise_multiplier: float,
) -> GaussianEvent:
    """Return the event of one release.

    Raises:
        ConfigError: if a value is outside its range.
    """
    z, exact = noise_multiplier, exact_noise_multiplier
    if sampling == "fixed":
        return FixedSizeGaussian(agents, sample_size(agents, sampling_rate), z, exact)
    return SubsampledGaussian(sampling_rate, z, exact)


def _check_multipliers(z: float, exact: float) -> None:
    require(0 <= z < math.inf, "noise_multiplier", "a finite number of at least 0", z)
    expected = f"a finite number of at least the noise_multiplier {z}"
    require(z <= exact < math.inf, "exact_noise_multiplier", expected, exact)


@dataclass(frozen=True, slots=True)
class UnknownEvent:
    """An event from a journal, of a kind that this version does not know.

    It is counted, so that no cost is lost, but no accountant supports it.

    Attributes:
        kind: the mechanism.
        agent: the only agent that pays, or None.
        details: the record, as JSON text.
    """

    kind: str
    agent: AgentId | None
    details: str

    def record(self) -> dict[str, Any]:
        """Return the event as JSON for the journal."""
        found: dict[str, Any] = json.loads(self.details)
        return found


KINDS: Mapping[str, type[GaussianEvent]] = {
    event.kind: event for event in (SubsampledGaussian, FixedSizeGaussian)
}
"""The events that journals can hold, by kind."""


def event_from_record(record: object) -> PrivacyEvent:
    """Return the event of a journal entry.

    Raises:
        RunFolderError: if the record is damaged.
    """
    if not isinstance(record, Mapping):
        raise RunFolderError(f"journal: damaged privacy event {record!r}")
    kind = record.get("kind", SubsampledGaussian.kind)  # the first journals had no kinds
    if kind not in KINDS:
        agent = record.get("agent")
        return UnknownEvent(str(kind), agent if type(agent) is int else None, json.dumps(record))
    try:
        return KINDS[kind].from_record(record)
    except (TypeError, ConfigError) as error:
        raise RunFolderError(f"journal: damaged privacy event {dict(record)}: {error}") from error
