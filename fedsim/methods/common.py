"""Code shared by several methods: the initial design, and a server that sends nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from fedsim.errors import RunError, require
from fedsim.protocol import AgentId, Fleet, Payload, Proposal, Request, RoundInfo, State
from fedsim.rng import Keys
from fedsim.space import Box, Space, corner_design, uniform_design

DesignKind = Literal["uniform", "corners"]


class SilentServer:
    """The server of methods without communication: agents take a step in every round.

    Args:
        agents: those that do; None: all.
    """

    def __init__(self, agents: Sequence[AgentId] | None = None) -> None:
        self._agents = agents

    def start(self, fleet: Fleet) -> None:
        """Do nothing."""

    def round(self, t: int, fleet: Fleet) -> RoundInfo:
        """Let the agents take a step."""
        fleet.step(t, None, to=self._agents)
        return {}

    def state(self) -> State:
        """Return an empty state."""
        return {}

    def restore(self, state: State) -> None:
        """Do nothing."""


MOST_INITIAL_POINTS = 10_000
"""All of a design are there at once, and models take the cube of their number in time."""


@dataclass(frozen=True, slots=True)
class InitialDesign:
    """The points that an agent evaluates before its first query.

    Attributes:
        count: how many, 1 to :data:`MOST_INITIAL_POINTS`.
        kind: ``uniform``; ``corners``: corners of the box first, at most half of the points, see
            :func:`fedsim.space.corner_design`.

    Raises:
        ConfigError: if one is out of range.
    """

    count: int
    kind: DesignKind = "uniform"

    def __post_init__(self) -> None:
        expected = f"1 to {MOST_INITIAL_POINTS:,}"
        fits = 1 <= self.count <= MOST_INITIAL_POINTS
        require(fits, "method.initial_points", expected, self.count)
        kinds = get_args(DesignKind)
        expected = " or ".join(kinds)
        require(self.kind in kinds, "method.initial_design", expected, self.kind)

    def proposals(self, space: Space, box: Box, keys: Keys) -> list[Proposal]:
        """Return the points of a box; the keys are the same for all methods."""
        generator = keys("initial-design")
        if self.kind == "uniform":
            points = uniform_design(space, box, self.count, generator)
        else:
            choosing = keys("initial-corners")
            points = corner_design(space, box, self.count, generator, choosing)
        return [Proposal(u, "initial") for u in points]


def initial_design(space: Space, box: Box, count: int, keys: Keys) -> list[Proposal]:
    """Return ``count`` uniform points of a box; the key is the same for all methods.

    Raises:
        ConfigError: if ``count`` is out of range.
    """
    return InitialDesign(count).proposals(space, box, keys)


def refuse(request: Request) -> Payload:
    """Refuse to answer, for agents that expect no requests.

    Raises:
        RunError: always.
    """
    raise RunError(f"method: its agents do not answer requests, got {request.kind!r}")
