"""Which agents a run is for: targets, whose results count, and helpers, which help them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fedsim.errors import ConfigError, require
from fedsim.protocol import AgentId

Targets = Literal["all"] | list[int]
"""The setting: the targets, or ``all`` agents."""


@dataclass(frozen=True, slots=True)
class Roles:
    """Targets and helpers; made by :func:`roles_of`.

    Attributes:
        agents: the number of agents N.
        targets: the targets, ascending, at least one.
    """

    agents: int
    targets: tuple[AgentId, ...]

    @property
    def helpers(self) -> tuple[AgentId, ...]:
        """The other agents; all agents if every one is a target: then they help one another."""
        others = sorted(set(range(self.agents)) - set(self.targets))
        return self.targets if self.mutual else tuple(others)

    @property
    def mutual(self) -> bool:
        """Whether all agents are targets and helpers."""
        return len(self.targets) == self.agents


def roles_of(targets: Literal["all"] | Sequence[int], agents: int) -> Roles:
    """Return the roles that a setting ``method.targets`` describes.

    Args:
        targets: ``all``, or agents; the order does not matter.
        agents: the number of agents.

    Raises:
        ConfigError: if there is none, one twice, or one that the run does not have.
    """
    if isinstance(targets, str):
        require(targets == "all", "method.targets", "all, or a list of agents", targets)
        return Roles(agents, tuple(range(agents)))
    chosen = tuple(sorted(targets))
    known = bool(chosen) and chosen[0] >= 0 and chosen[-1] < agents
    if not known or len(set(chosen)) < len(chosen):
        raise ConfigError(
            f"method.targets: expected all, or different agents of 0 to {agents - 1}, got "
            f"{list(targets)}"
        )
    return Roles(agents, chosen)
