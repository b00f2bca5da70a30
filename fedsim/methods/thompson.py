"""Thompson sampling by each agent alone, without communication.

Papers: the baseline "TS" of FTS (Dai, Low and Jaillet, NeurIPS 2020) and DP-FTS-DE (NeurIPS
2021): FTS with p_t = 1. Each query maximises a sample of the agent's own posterior; see
:mod:`fedsim.methods.local_model` for the model and its deviations.
"""

from __future__ import annotations

from collections.abc import Sequence

from fedsim.acquisition import whole_cube
from fedsim.methods.common import DesignKind, InitialDesign, SilentServer, refuse
from fedsim.methods.local_model import LocalModel, LocalModelSettings
from fedsim.methods.roles import Targets, roles_of
from fedsim.methods.shared_work import SharedWork
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
from fedsim.space import Space


class ThompsonSampling:
    """Thompson sampling without communication.

    Args:
        context: the federation.
        initial_points: points of the initial design, 1 to 10,000.
        initial_design: ``uniform``, or ``corners`` first; see
            :class:`fedsim.methods.common.InitialDesign`.
        targets: the agents that take part, or ``all``: for comparisons with methods that have
            targets, such as ``fts-target``.
        surrogate: the agents' Gaussian processes.

    Raises:
        ConfigError: if a setting is out of range.
    """

    def __init__(
        self,
        context: Context,
        *,
        initial_points: int = 10,
        initial_design: DesignKind = "uniform",
        targets: Targets = "all",
        surrogate: LocalModelSettings = LocalModelSettings(),
    ) -> None:
        self._space = context.space
        self._targets = roles_of(targets, context.agents).targets
        self._design = InitialDesign(initial_points, initial_design)
        self._surrogate = surrogate
        self._shared = SharedWork(context.space)

    @property
    def target_agents(self) -> tuple[AgentId, ...]:
        """The agents that take part."""
        return self._targets

    def agent(self, agent: AgentId) -> AgentProgram:
        """Return a new program."""
        model = LocalModel(self._surrogate, self._shared)
        return _ThompsonAgent(self._space, self._design, model)

    def server(self) -> ServerProgram:
        """Return a server that sends nothing."""
        return SilentServer(self.target_agents)


class _ThompsonAgent:
    def __init__(self, space: Space, design: InitialDesign, model: LocalModel) -> None:
        self._space = space
        self._design = design
        self._model = model

    def propose(self, step: int, message: Broadcast | None, rng: Keys) -> Sequence[Proposal]:
        if step == 0:
            cube = whole_cube(self._space.dimension)
            return self._design.proposals(self._space, cube, rng)
        return [Proposal(self._model.propose(rng), "own")]

    def prepare(self, step: int, rng: Keys) -> None:
        if step > 0:
            self._model.prepare(rng)

    def observe(self, observations: Sequence[Observation]) -> None:
        self._model.observe(observations)

    def reply(self, request: Request, rng: Keys) -> Payload:
        return refuse(request)
