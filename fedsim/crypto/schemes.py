"""The schemes of a secure sum, by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fedsim.crypto.ckks_sum import CkksClient, CkksCombiner
from fedsim.crypto.client import ThresholdClient
from fedsim.crypto.fixed_point import MOST_FRACTION_BITS
from fedsim.crypto.parameters import Parameters
from fedsim.crypto.plain import PlainClient, PlainCombiner
from fedsim.crypto.secure_sum import Combiner, SecureSum, SumClient
from fedsim.crypto.threshold_sum import ThresholdCombiner
from fedsim.errors import ConfigError, nearest, require
from fedsim.protocol import AgentId

Encryption = Literal["threshold", "ckks", "plain"]

MOST_MEMBERS = 1024
"""The exact sums of all schemes hold this many vectors."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """One way to sum vectors: makes the clients' parts and the server's.

    Attributes:
        encryption: its name.
        fraction_bits: of the fixed point, 0 to 60; public.
        minimum_members: the fewest vectors in a sum, at least 1.
        strict: whether threshold clients check the sum that they decrypt.
    """

    encryption: Encryption
    fraction_bits: int
    minimum_members: int
    strict: bool = False

    def client(self, agent: AgentId) -> SumClient:
        """Return an agent's part, without keys."""
        if self.encryption == "threshold":
            parameters = Parameters(self.fraction_bits)
            return ThresholdClient(agent, parameters, self.minimum_members, strict=self.strict)
        if self.encryption == "ckks":
            return CkksClient(agent, self.fraction_bits, self.minimum_members)
        return PlainClient(agent, self.fraction_bits)

    def aggregator(self, members: Sequence[AgentId]) -> SecureSum:
        """Return the server's part.

        Args:
            members: all agents that may take part.

        Raises:
            ConfigError: if they are too few or too many.
        """
        expected = f"{self.minimum_members} to {MOST_MEMBERS} agents"
        fits = self.minimum_members <= len(members) <= MOST_MEMBERS
        require(fits, f"encryption {self.encryption}", expected, len(members))
        return SecureSum(self._combiner(), self.minimum_members)

    def _combiner(self) -> Combiner:
        if self.encryption == "threshold":
            return ThresholdCombiner(Parameters(self.fraction_bits), strict=self.strict)
        if self.encryption == "ckks":
            return CkksCombiner(self.fraction_bits)
        return PlainCombiner(self.fraction_bits)


def make_scheme(
    encryption: Encryption,
    *,
    fraction_bits: int,
    minimum_members: int = 3,
    strict: bool = False,
) -> Scheme:
    """Return a scheme.

    Args:
        encryption: ``threshold``: every client has its own key, and only all members together
            decrypt their sum; ``ckks``: the clients share one key that the server does not have;
            ``plain``: no encryption, the same sums.
        fraction_bits: of the fixed point; see :func:`fedsim.crypto.fraction_bits_for`.
        minimum_members: the fewest vectors in a sum. Below 3, a sum shows a member the others'
            vector, or the server the only one: allow it for experiments only.
        strict: threshold clients get all ciphertexts, and decrypt only what is their sum.

    Raises:
        ConfigError: if a setting is out of range.
    """
    names = ("threshold", "ckks", "plain")
    if encryption not in names:
        raise ConfigError(f"encryption: unknown name {encryption!r}{nearest(encryption, names)}")
    fits = 0 <= fraction_bits <= MOST_FRACTION_BITS
    require(fits, "fraction_bits", f"0 to {MOST_FRACTION_BITS}", fraction_bits)
    fits = 1 <= minimum_members <= MOST_MEMBERS
    require(fits, "minimum_members", f"1 to {MOST_MEMBERS}", minimum_members)
    return Scheme(encryption, fraction_bits, minimum_members, strict)
