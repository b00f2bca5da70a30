"""Random search: the baseline that every method must beat.

The initial design and all further points are uniform on the search space. The design has the same
key as in all other methods, so methods compared on one seed start from the same points.
"""

from __future__ import annotations

from collections.abc import Sequence

from fedsim.acquisition import whole_cube
from fedsim.methods.common import DesignKind, InitialDesign, SilentServer, refuse
from fedsim.methods.roles import Targets, roles_of
from fedsim.protocol import (
    AgentId,
    AgentProgram,
    Broadcast,
    Context,
    Observation,
    Payload,
    Proposal,
    Request,
    ServerProgram,
)
from fedsim.rng import Keys
from fedsim.space import Space, uniform_design


class RandomSearch:
    """Random search by each agent alone.

    Args:
        context: the federation.
        initial_points: points of the initial design, 1 to 10,000.
        initial_design: ``uniform``, or ``corners`` first; see
            :class:`fedsim.methods.common.InitialDesign`.
        targets: the agents that take part, or ``all``: for comparisons with methods that have
            targets, such as ``fts-target``.

    Raises:
        ConfigError: if one of them is out of range.
    """

    def __init__(
        self,
        context: Context,
        *,
        initial_points: int = 10,
        initial_design: DesignKind = "uniform",
        targets: Targets = "all",
    ) -> None:
        self._space = context.space
        self._targets = roles_of(targets, context.agents).targets
        self._design = InitialDesign(initial_points, initial_design)

    @property
    def target_agents(self) -> tuple[AgentId, ...]:
        """The agents that take part."""
        return self._targets

    def agent(self, agent: AgentId) -> AgentProgram:
        """Return a new program."""
        return _RandomAgent(self._space, self._design)

    def server(self) -> ServerProgram:
        """Return a server that sends nothing."""
        return SilentServer(self.target_agents)


class _RandomAgent:
    def __init__(self, space: Space, design: InitialDesign) -> None:
        self._space = space
        self._design = design

    def propose(self, step: int, message: Broadcast | None, rng: Keys) -> Sequence[Proposal]:
        cube = whole_cube(self._space.dimension)
        if step == 0:
            return self._design.proposals(self._space, cube, rng)
        point = uniform_design(self._space, cube, 1, rng("random-search"))[0]
        return [Proposal(point, "random")]

    def observe(self, observations: Sequence[Observation]) -> None:
        pass  # nothing is learned

    def reply(self, request: Request, rng: Keys) -> Payload:
        return refuse(request)
