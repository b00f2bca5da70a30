"""Code shared by several methods: the initial design, and a server that sends nothing."""

from __future__ import annotations

from collections.abc import Sequence

from fedsim.errors import RunError, require
from fedsim.protocol import AgentId, Fleet, Payload, Proposal, Request, RoundInfo, State
from fedsim.rng import Keys
from fedsim.space import Box, Space, uniform_design


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


def initial_design(space: Space, box: Box, count: int, keys: Keys) -> list[Proposal]:
    """Return ``count`` uniform points of a box; the key is the same for all methods."""
    points = uniform_design(space, box, count, keys("initial-design"))
    return [Proposal(u, "initial") for u in points]


def check_initial_points(count: int) -> int:
    """Return ``count``.

    Raises:
        ConfigError: if it is below 1, or above :data:`MOST_INITIAL_POINTS`.
    """
    expected = f"1 to {MOST_INITIAL_POINTS:,}"
    require(1 <= count <= MOST_INITIAL_POINTS, "method.initial_points", expected, count)
    return count


def refuse(request: Request) -> Payload:
    """Refuse to answer, for agents that expect no requests.

    Raises:
        RunError: always.
    """
    raise RunError(f"method: its agents do not answer requests, got {request.kind!r}")
