"""Agents learn the scale of their inputs together, from one release, and go on alone.

Where parameters are searched on linear scales but matter on logarithmic ones, what agents lack are
not the others' values but the scale, and ten observations of one agent rarely show it. So agents
share only that: after the initial design each sends a few numbers, which say how much likelier its
outputs are on other scales (:mod:`fedsim.surrogates.shared_scales`). The server releases their sum
once, with noise. From then on every agent does Thompson sampling in the warped space: with the warp
that all agents together make likeliest (``surrogate.warp: none``), or with one of its own, for
which the others' average counts beside its own history (``own``). A method of our own.

Privacy: a single release of the Gaussian mechanism, of which every agent is part (q = 1). So
epsilon is that of one release, whatever the number of rounds; everything after it depends on an
agent's own data and on the release alone.

The release is part of the message of every round, so an agent follows from its history and the
message. Agents that are absent in round 0 count as zeros in the release, and use it all the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedsim.acquisition import whole_cube
from fedsim.errors import ConfigError, RunError, require
from fedsim.memo import Memo
from fedsim.methods.averaging import PrivacySettings, averaging
from fedsim.methods.common import DesignKind, InitialDesign
from fedsim.methods.local_model import LocalModel, LocalModelSettings
from fedsim.methods.shared_work import SharedWork
from fedsim.privacy.mechanism import (
    VECTOR,
    VECTORS,
    SubsampledGaussianMechanism,
    WeightedAverage,
)
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
)
from fedsim.rng import Keys
from fedsim.space import Array
from fedsim.surrogates.shared_scales import ScaleVectors, SharedScales

SCALES = Request("scales")


@dataclass(frozen=True, slots=True)
class OneReleaseSettings:
    """Settings of the release: the Gaussian mechanism, with all agents in it.

    Attributes:
        noise_multiplier: z; 1 if neither it nor ``epsilon`` is given.
        clipping_norm: S, the largest norm of an agent's vector, in units of log likelihoods.
        noise_only: replace the signal by zeros: a control that useful vectors must beat.
        epsilon: the privacy loss that z is calibrated for when a configuration is read
            (:mod:`fedsim.config.targets`), above 0; None: z is given.
        delta: of ``epsilon``, in (0, 1).

    Raises:
        ConfigError: if epsilon or delta is outside its range, or delta has no epsilon.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    noise_multiplier: float | None = None
    clipping_norm: float = 1.0
    noise_only: bool = False
    epsilon: float | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        if self.epsilon is None and self.noise_multiplier is None:
            object.__setattr__(self, "noise_multiplier", 1.0)
        self.complete()

    def complete(self) -> PrivacySettings:
        """Return these settings with all agents in the release."""
        z, S = self.noise_multiplier, self.clipping_norm
        return PrivacySettings("poisson", 1.0, z, S, self.noise_only, self.epsilon, self.delta)


class FederatedWarp:
    """Thompson sampling by each agent alone, on scales that all agents learn together.

    Args:
        context: the federation.
        initial_points: points of the initial design, 1 to 10,000.
        initial_design: ``uniform``, or ``corners`` first; see
            :class:`fedsim.methods.common.InitialDesign`.
        weight: how many agents' own histories the average of all counts as, beside an agent's own
            where it has a warp of its own; at least 0.
        dp: the release's privacy mechanism, or None for a plain average.
        surrogate: the agents' Gaussian processes; their ``warp`` says what follows a release.

    Raises:
        ConfigError: if a setting is out of range, or no parameter is a number.
    """

    def __init__(
        self,
        context: Context,
        *,
        initial_points: int = 10,
        initial_design: DesignKind = "uniform",
        weight: float = 4.0,
        dp: OneReleaseSettings | None = OneReleaseSettings(),
        surrogate: LocalModelSettings = LocalModelSettings(),
    ) -> None:
        require(0 <= weight < math.inf, "method.weight", "a number of at least 0", weight)
        fits = surrogate.fit_every >= 1
        expected = "at least 1, as warps are chosen by fits"
        require(fits, "method.surrogate.fit_every", expected, surrogate.fit_every)
        self._context = context
        self._design = InitialDesign(initial_points, initial_design)
        self._surrogate = surrogate
        self._dp = dp
        self._vectors = ScaleVectors(context.space)
        if not self._vectors.size:
            raise ConfigError(
                "fed-warp: expected a parameter that is a number, got choices alone, which have "
                "no scale; use ts"
            )
        self._aggregator()  # checks the privacy settings
        self._work = _Work(context, self._vectors, self._deviation(), weight)

    def agent(self, agent: AgentId) -> AgentProgram:
        """Return a new program."""
        return _Agent(self._work, self._design, LocalModel(self._surrogate, self._work.shared))

    def server(self) -> ServerProgram:
        """Return a new server program."""
        return _Server(self._aggregator(), self._releases)

    def planned_costs(self) -> list[PrivacyEvent]:
        """Return the cost of the release; empty without privacy, or without queries."""
        aggregator = self._aggregator()
        if isinstance(aggregator, WeightedAverage):
            return []
        return [aggregator.cost(t) for t in range(self._releases)]

    @property
    def _releases(self) -> int:
        return min(1, self._context.rounds)  # none follows the last query

    def _deviation(self) -> float:
        """Return s, which agents take off: of the sum's noise, and by chance.

        Without privacy vectors are not clipped: nothing is known of what chance makes of them.
        """
        if self._dp is None or self._dp.noise_multiplier is None:
            return 0.0
        z, S, N = self._dp.noise_multiplier, self._dp.clipping_norm, self._context.agents
        return S * math.hypot(z, math.sqrt(N / self._vectors.size))

    def _aggregator(self) -> SubsampledGaussianMechanism | WeightedAverage:
        dp = None if self._dp is None else self._dp.complete()
        weights = WeightSchedule("uniform")
        return averaging(dp, self._context.agents, self._vectors.size, 1, weights)


class _Work:
    """Work shared by the agents of one process: what follows from the release."""

    def __init__(
        self, context: Context, vectors: ScaleVectors, deviation: float, weight: float
    ) -> None:
        self.shared = SharedWork(context.space)
        self.vectors = vectors
        self.weight = weight
        self._agents = context.agents
        self._deviation = deviation
        self._scales = Memo[SharedScales](2)

    def scales(self, message: Broadcast | None) -> SharedScales | None:
        """Return what a message says; None: nothing was released."""
        if message is None:
            return None
        average: Array = message.payload[VECTORS][0]
        return self._scales.get(
            average.tobytes(),
            lambda: self.vectors.scales(self._agents * average, self._deviation, self._agents),
        )


class _Agent:
    def __init__(self, work: _Work, design: InitialDesign, model: LocalModel) -> None:
        self._work = work
        self._design = design
        self._model = model
        self._informed = False

    def propose(self, step: int, message: Broadcast | None, rng: Keys) -> Sequence[Proposal]:
        if step == 0:
            space = self._work.shared.space
            return self._design.proposals(space, whole_cube(space.dimension), rng)
        self._model.use_scales(self._work.scales(message), self._work.weight)
        self._informed = True
        return [Proposal(self._model.propose(rng), "own")]

    def prepare(self, step: int, rng: Keys) -> None:
        if self._informed:  # all rounds have the same message
            self._model.prepare(rng)

    def observe(self, observations: Sequence[Observation]) -> None:
        self._model.observe(observations)

    def reply(self, request: Request, rng: Keys) -> Payload:
        if request.kind != SCALES.kind:
            raise RunError(f"fed-warp: agents do not know the request {request.kind!r}")
        return {VECTOR: self._model.scale_vector(self._work.vectors)}


class _Server:
    """One release after the initial design, if there are queries that can use it."""

    def __init__(self, aggregator: Aggregator, releases: int) -> None:
        self._aggregator = aggregator
        self._releases = releases
        self._released: Payload | None = None

    @property
    def aggregators(self) -> Mapping[str, Aggregator]:
        return {"releases": self._aggregator}

    def start(self, fleet: Fleet) -> None:
        """Do nothing before round 0."""

    def round(self, t: int, fleet: Fleet) -> RoundInfo:
        message = None if self._released is None else Broadcast(self._released)
        if t >= self._releases:
            fleet.step(t, message)
            return {}
        release = fleet.step(t, message, then=SCALES, via=self._aggregator)
        assert isinstance(release, Release)
        self._released = release.payload  # None: the budget is spent, or nobody answered
        return {}

    def state(self) -> State:
        return {} if self._released is None else self._released

    def restore(self, state: State) -> None:
        self._released = state or None
