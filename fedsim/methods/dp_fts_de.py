"""Federated Thompson sampling with a server, and its private and distributed variants.

Paper: Dai, Low and Jaillet, "Differentially Private Federated Bayesian Optimization with
Distributed Exploration" (NeurIPS 2021): Algorithms 1 (server) and 2 (agent). One method, four
names: FTS (P = 1, no privacy), FTS-DE (no privacy), DP-FTS (P = 1), DP-FTS-DE.

=============  ==========================================================  =========
symbol         meaning                                                     shape
=============  ==========================================================  =========
N, P, M        agents, sub-regions, random features
phi(x)         random Fourier features that all agents share               (M,)
omega_n,t      agent n's message, drawn from its linear posterior, Eq. (2)  (M,)
omega_t^(i)    the server's vector for sub-region i                        (P, M)
p_t            probability of a query from the agent's own model
S, q, z        clipping threshold, sampling rate, noise multiplier
=============  ==========================================================  =========

Deviations from the paper:

- Features are scaled to unit norm, as in FTS (NeurIPS 2020), Appendix A.
- Every agent standardises its outputs by their own mean and spread, as the prior of the weights
  expects; the paper's outputs are about that size as they are. They can be centred and scaled by
  public constants instead. Either way an agent's vector is a function of its own data, and is
  clipped.
- ``message: mean`` sends the posterior mean instead of a sample. A sample's norm is mostly prior
  noise, about sqrt(M). A mean's norm is far smaller, so S, and with it the noise, can be smaller at
  the same z.
- There is no release after the last query: T queries cost T releases.
- Without privacy, the server averages over the agents that answered, without sampling. If none
  did, there is no message in the next round, and agents query from their own models. With privacy
  there always is one: an empty sample releases noise, and costs the same.
- All agents of a round maximise the server's function from the same candidates, which are drawn
  by the round that the message names, so that agents that missed rounds choose the same point.
- ``share_until`` ends the sharing after a public round (the paper's footnote 13).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fedsim.acquisition import whole_cube
from fedsim.errors import RunError, require
from fedsim.methods.averaging import PrivacySettings, averaging, warnings_of_noise
from fedsim.methods.common import DesignKind, InitialDesign
from fedsim.methods.local_model import LocalModel, LocalModelSettings
from fedsim.methods.messages import FederatedWork, MessageSettings
from fedsim.methods.own_probability import (
    Schedule,
    ScheduleSetting,
    own_probability_schedule,
    queries_own,
)
from fedsim.privacy.mechanism import SubsampledGaussianMechanism, WeightedAverage
from fedsim.privacy.weights import WeightSchedule
from fedsim.protocol import (
    AgentId,
    AgentProgram,
    Aggregator,
    Broadcast,
    Context,
    Fleet,
    Observation,
    Payload,
    PrivacyEvent,
    Proposal,
    Release,
    Request,
    RoundInfo,
    ServerProgram,
    State,
    Uncharged,
)
from fedsim.rng import Keys
from fedsim.space import Box, Space

POSTERIOR_MESSAGE = Request("posterior-message")


class DPFTSDE:
    """FTS, FTS-DE, DP-FTS and DP-FTS-DE.

    Args:
        context: the federation.
        subregions: P, at least 1.
        initial_points: points of each agent's initial design, 1 to 10,000.
        initial_design: ``uniform``, or ``corners`` first, of the sub-region if the design stays in
            it; see :class:`fedsim.methods.common.InitialDesign`.
        local_initial_design: whether an agent's initial design stays in its own sub-region.
        own_probability: p_t, t = 1, 2, ...: ``1 - 1/t``, ``1 - 1/sqrt(t)``, ``1 - 1/t^2`` or
            any other exponent, a constant in [0, 1], or a class of yours: its name
            ``module:Class``, or a mapping of its ``name`` and settings.
        share_until: the last query that may use the server's vectors; None: all may.
        message: the agents' messages.
        weights: how much the sub-regions' own agents are emphasised.
        dp: the privacy mechanism, or None for a plain average.
        surrogate: the agents' own Gaussian processes.

    Raises:
        ConfigError: if a setting is out of range.
    """

    def __init__(
        self,
        context: Context,
        *,
        subregions: int = 2,
        initial_points: int = 10,
        initial_design: DesignKind = "uniform",
        local_initial_design: bool = True,
        own_probability: ScheduleSetting = "1 - 1/sqrt(t)",
        share_until: int | None = None,
        message: MessageSettings = MessageSettings(),
        weights: WeightSchedule = WeightSchedule(),
        dp: PrivacySettings | None = PrivacySettings(),
        surrogate: LocalModelSettings = LocalModelSettings(),
    ) -> None:
        expected = f"1 to the number of agents ({context.agents})"
        require(1 <= subregions <= context.agents, "method.subregions", expected, subregions)
        if share_until is not None:
            require(share_until >= 0, "method.share_until", "at least 0", share_until)
        self._context = context
        self._weights = weights
        self._dp = dp
        self._surrogate = surrogate
        last = context.rounds if share_until is None else min(share_until, context.rounds)
        self._releases = last  # queries 1 .. last use releases 0 .. last - 1
        self._work = FederatedWork(context, message, subregions, surrogate)
        self._design = InitialDesign(initial_points, initial_design)
        self._local_initial_design = local_initial_design
        self._schedule = own_probability_schedule(own_probability)
        self._aggregator()  # checks the privacy settings

    def agent(self, agent: AgentId) -> AgentProgram:
        """Return a new program."""
        box = whole_cube(self._context.space.dimension)
        if self._local_initial_design:
            box = self._work.boxes[agent % len(self._work.boxes)]
        model = LocalModel(self._surrogate, self._work.shared)
        return _FederatedAgent(self._work, model, box, self._design, self._schedule)

    def server(self) -> ServerProgram:
        """Return a new server program."""
        return _FederatedServer(self._aggregator(), self._releases)

    def planned_costs(self) -> list[PrivacyEvent]:
        """Return the costs of all releases of a run; empty without privacy."""
        aggregator, costs = self._aggregator(), dict[float, PrivacyEvent | Uncharged]()
        found = []
        for t in range(self._releases):  # a million may have few different weights
            emphasis = self._weights.emphasis(t)
            if emphasis not in costs:
                costs[emphasis] = aggregator.cost(t)
            found.append(costs[emphasis])
        return [cost for cost in found if not isinstance(cost, Uncharged)]

    def plan_warnings(self) -> list[str]:
        """Return whether noise drowns the releases."""
        return warnings_of_noise(self._aggregator(), self._releases - 1) if self._releases else []

    def _aggregator(self) -> SubsampledGaussianMechanism | WeightedAverage:
        agents, features = self._context.agents, self._work.settings.features
        return averaging(self._dp, agents, features, len(self._work.boxes), self._weights)


class _FederatedAgent:
    """Algorithm 2."""

    def __init__(
        self,
        work: FederatedWork,
        model: LocalModel,
        box: Box,
        design: InitialDesign,
        own_probability: Schedule,
    ) -> None:
        self._work = work
        self._model = model
        self._box = box
        self._design = design
        self._own_probability = own_probability
        self._features = work.features_of(model.inputs)

    def propose(self, step: int, message: Broadcast | None, rng: Keys) -> Sequence[Proposal]:
        if step == 0:  # lines 1-2
            space: Space = self._work.shared.space
            return self._design.proposals(space, self._box, rng)
        if message is None or self._is_own(step, rng):
            return [Proposal(self._model.propose(rng), "own")]  # line 6
        vectors, t = message.payload["vectors"], int(message.payload["round"])
        return [Proposal(self._work.maximiser(vectors, t), "server")]  # line 8

    def prepare(self, step: int, rng: Keys) -> None:
        if step > 0 and self._is_own(step, rng):
            self._model.prepare(rng)

    def _is_own(self, step: int, rng: Keys) -> bool:
        return queries_own(self._own_probability, step, rng, "own-or-server")  # line 4

    def observe(self, observations: Sequence[Observation]) -> None:
        self._model.observe(observations)
        # One row at a time: the last digits must not depend on the number of rows.
        rows = (self._work.features_of(o.u[None]) for o in observations)
        self._features = np.vstack([self._features, *rows])

    def reply(self, request: Request, rng: Keys) -> Payload:
        if request.kind != POSTERIOR_MESSAGE.kind:
            raise RunError(f"DP-FTS-DE: agents do not know the request {request.kind!r}")
        generator = rng("posterior-message")
        vector = self._work.message(self._features, self._model.outputs, generator)  # line 10
        return {"vector": vector}


class _FederatedServer:
    """Algorithm 1, with the releases 0 .. ``releases - 1``."""

    def __init__(self, aggregator: Aggregator, releases: int) -> None:
        self._aggregator = aggregator
        self._releases = releases
        self._vectors: Payload | None = None

    @property
    def aggregators(self) -> Mapping[str, Aggregator]:
        return {"releases": self._aggregator}

    def start(self, fleet: Fleet) -> None:
        """Do nothing before round 0."""

    def round(self, t: int, fleet: Fleet) -> RoundInfo:
        # The round is part of the message: agents that were absent do not know it.
        vectors, self._vectors = self._vectors, None
        message = None if vectors is None else Broadcast({**vectors, "round": np.array(t)})
        if t >= self._releases:  # the last query, or after share_until
            fleet.step(t, message)
            return {}
        release = fleet.step(t, message, then=POSTERIOR_MESSAGE, via=self._aggregator)
        assert isinstance(release, Release)
        self._vectors = release.payload  # None: the budget is spent, or nobody answered
        return {}

    def state(self) -> State:
        return {} if self._vectors is None else self._vectors

    def restore(self, state: State) -> None:
        self._vectors = state or None
