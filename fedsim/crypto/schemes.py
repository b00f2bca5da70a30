"""The schemes of a secure sum, by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from fedsim.crypto.ckks_client import CkksClient
from fedsim.crypto.ckks_server import CkksCombiner
from fedsim.crypto.fixed_point import MOST_FRACTION_BITS
from fedsim.crypto.parameters import Parameters
from fedsim.crypto.plain import PlainClient, PlainCombiner
from fedsim.crypto.secure_sum import Combiner, SecureSum, SumClient
from fedsim.crypto.threshold_client import ThresholdClient
from fedsim.crypto.threshold_server import ThresholdCombiner
from fedsim.errors import ConfigError, nearest, require
from fedsim.protocol import AgentId

Encryption = Literal["threshold", "ckks", "plain"]

MOST_MEMBERS = 1024
"""The exact sums of all schemes hold this many vectors."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """One way to sum vectors: makes the clients' parts and the server's.

    Attributes:
        encryption: ``threshold``: every client has its own key, and only all members together
            decrypt their sum; ``ckks``: the clients share one key that the server does not have;
            ``plain``: no encryption, the same sums.
        fraction_bits: of the fixed point, 0 to 60; public; see
            :func:`fedsim.crypto.fraction_bits_for`.
        minimum_members: the fewest vectors in a sum, 1 to 1024. Below 3, a sum shows a member the
            others' vector, or the server the only one: allow it for experiments only.
        strict_decryption: threshold clients get all ciphertexts, and decrypt only what is their
            sum.

    Raises:
        ConfigError: if a setting is out of range.
    """

    encryption: Encryption
    fraction_bits: int
    minimum_members: int = 3
    strict_decryption: bool = False

    def __post_init__(self) -> None:
        name, names = self.encryption, get_args(Encryption)
        if name not in names:
            raise ConfigError(f"encryption: unknown name {name!r}{nearest(name, names)}")
        fits = 0 <= self.fraction_bits <= MOST_FRACTION_BITS
        require(fits, "fraction_bits", f"0 to {MOST_FRACTION_BITS}", self.fraction_bits)
        fits = 1 <= self.minimum_members <= MOST_MEMBERS
        require(fits, "minimum_members", f"1 to {MOST_MEMBERS}", self.minimum_members)
        fits = name == "threshold" or not self.strict_decryption
        require(fits, "strict_decryption", "encryption threshold", name)

    def client(self, agent: AgentId) -> SumClient:
        """Return an agent's part, without keys."""
        if self.encryption == "threshold":
            parameters = Parameters(self.fraction_bits)
            return ThresholdClient(
                agent, parameters, self.minimum_members, strict=self.strict_decryption
            )
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
            parameters = Parameters(self.fraction_bits)
            return ThresholdCombiner(parameters, strict=self.strict_decryption)
        if self.encryption == "ckks":
            return CkksCombiner(self.fraction_bits)
        return PlainCombiner(self.fraction_bits)
