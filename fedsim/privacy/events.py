"""Privacy events: a mechanism's description of one release, and the input of every accountant.

Events are frozen, hashable values, written to the journal as JSON with their ``kind``. New kinds
are added to :data:`KINDS`; an accountant's ``supports`` returns which of them it can compose.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from fedsim.errors import ConfigError, RunFolderError, require
from fedsim.protocol import AgentId, PrivacyEvent


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

    def record(self) -> dict[str, Any]:
        """Return the event as JSON for the journal."""
        return {"kind": self.kind, **asdict(self)}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> SubsampledGaussian:
        """Return the event of a :meth:`record`; the kind may be left out."""
        return cls(**{name: value for name, value in record.items() if name != "kind"})


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


KINDS: Mapping[str, type[SubsampledGaussian]] = {SubsampledGaussian.kind: SubsampledGaussian}
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
