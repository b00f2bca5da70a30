"""Federated Thompson sampling with a server, and its private and distributed kinds.

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
- ``message: mean`` sends the posterior mean instead of a sample, and outputs may be centred by
  a public constant. A sample's norm is mostly prior noise, about sqrt(M); a mean's is far
  smaller, and so can be S, and with it the noise, at the same z.
- The last query is not followed by a release: T queries cost T releases.
- Without privacy the server averages over the agents that answered, without sampling.
- All agents compare the server's function at the round's shared candidates.
- ``share_until`` ends the sharing after a public round (the paper's footnote 13).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fedsim.acquisition import Piece, maximize, whole_cube
from fedsim.errors import ConfigError, RunError
from fedsim.features.rff import FeatureFunction, RandomFeatures, draw_features
from fedsim.kernels import Kernel
from fedsim.methods.local_model import LocalModel, LocalModelSettings, Memo, SharedWork
from fedsim.methods.random_search import check_initial_points, initial_design
from fedsim.privacy.events import SubsampledGaussian
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
    Proposal,
    Release,
    Request,
    RoundInfo,
    ServerProgram,
    State,
)
from fedsim.rng import SERVER, Keys, rng
from fedsim.space import Array, Box, Space
from fedsim.surrogates.linear import linear_posterior

POSTERIOR_MESSAGE = Request("posterior-message")


@dataclass(frozen=True, slots=True)
class MessageSettings:
    """What agents send: a vector of weights of the shared random features.

    Attributes:
        kind: ``sample`` of the posterior, as in the paper, or its ``mean``.
        center: public constant that outputs are centred by; larger-is-better units.
        features: the number of random features M, at least 1.
        kernel: family of the shared kernel.
        length_scale: of the shared kernel, in unit-cube coordinates; public.
        noise_variance: the regularisation lambda, above 0; public.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    kind: Literal["sample", "mean"] = "sample"
    center: float = 0.0
    features: int = 100
    kernel: Literal["squared_exponential", "matern52"] = "squared_exponential"
    length_scale: float = 0.1
    noise_variance: float = 1e-2

    def __post_init__(self) -> None:
        if not math.isfinite(self.center):
            raise ConfigError(f"method.message.center: expected a number, got {self.center}")
        if not self.features >= 1:
            raise ConfigError(f"method.message.features: expected at least 1, got {self.features}")
        for name in ("length_scale", "noise_variance"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise ConfigError(f"method.message.{name}: expected a number above 0, got {value}")


@dataclass(frozen=True, slots=True)
class PrivacySettings:
    """Settings of the subsampled Gaussian mechanism; see :mod:`fedsim.privacy.mechanism`.

    Attributes:
        sampling_rate: q, the probability with which an agent enters a release.
        noise_multiplier: z.
        clipping_norm: S, the largest norm of an agent's joint vector over all sub-regions.
        noise_only: replace the signal by zeros: the control that any use of the messages must
            beat.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    sampling_rate: float = 0.25
    noise_multiplier: float = 1.0
    clipping_norm: float = 11.0
    noise_only: bool = False


class DPFTSDE:
    """FTS, FTS-DE, DP-FTS and DP-FTS-DE.

    Args:
        context: the federation.
        subregions: P, at least 1.
        initial_points: points of each agent's initial design, at least 1.
        local_initial_design: whether an agent's initial design stays in its own sub-region.
        own_probability: p_t, t = 1, 2, ...: ``1 - 1/t``, ``1 - 1/sqrt(t)``, ``1 - 1/t^2`` or
            any other exponent, or a constant in [0, 1].
        share_until: the last query that may use the server's vectors; None: all.
        message: what agents send.
        weights: how the sub-regions' own agents are emphasised.
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
        local_initial_design: bool = True,
        own_probability: str | float = "1 - 1/sqrt(t)",
        share_until: int | None = None,
        message: MessageSettings = MessageSettings(),
        weights: WeightSchedule = WeightSchedule(),  # noqa: B008
        dp: PrivacySettings | None = PrivacySettings(),
        surrogate: LocalModelSettings = LocalModelSettings(),  # noqa: B008
    ) -> None:
        if not 1 <= subregions <= context.agents:
            raise ConfigError(
                f"method.subregions: expected 1 to the number of agents ({context.agents}), got "
                f"{subregions}"
            )
        if share_until is not None and not share_until >= 0:
            raise ConfigError(f"method.share_until: expected at least 0, got {share_until}")
        self._context = context
        self._weights = weights
        self._dp = dp
        self._surrogate = surrogate
        last = context.rounds if share_until is None else min(share_until, context.rounds)
        self._releases = last  # queries 1 .. last use releases 0 .. last - 1
        self._work = FederatedWork(context, message, subregions, surrogate)
        self._design = (check_initial_points(initial_points), local_initial_design)
        self._schedule = own_probability_schedule(own_probability)
        self._aggregator()  # checks the privacy settings

    def agent(self, agent: AgentId) -> AgentProgram:
        """Return a new program."""
        region = agent % len(self._work.boxes)
        local = self._design[1]
        box = self._work.boxes[region] if local else whole_cube(self._context.space.dimension)
        model = LocalModel(self._surrogate, self._work.shared)
        return _FederatedAgent(self._work, model, box, self._design[0], self._schedule)

    def server(self) -> ServerProgram:
        """Return a new server program."""
        return _FederatedServer(self._aggregator(), self._releases, self._context.rounds)

    def planned_costs(self) -> list[SubsampledGaussian]:
        """Return what a whole run's releases will cost; empty without privacy."""
        costs = (self._aggregator().cost(t) for t in range(self._releases))
        return [cost for cost in costs if cost is not None]

    def _aggregator(self) -> Aggregator:
        agents, features = self._context.agents, self._work.settings.features
        regions, dp = len(self._work.boxes), self._dp
        if dp is None:
            return WeightedAverage(agents, features, regions, self._weights)
        return SubsampledGaussianMechanism(
            agents,
            features,
            regions,
            dp.clipping_norm,
            dp.sampling_rate,
            dp.noise_multiplier,
            self._weights,
            dp.noise_only,
        )


class FederatedWork:
    """What the agents of one process share: public features and what follows from them.

    Args:
        context: the federation.
        settings: of the messages.
        subregions: P.
        surrogate: of the agents' own models, for the number of candidates.
    """

    def __init__(
        self,
        context: Context,
        settings: MessageSettings,
        subregions: int,
        surrogate: LocalModelSettings,
    ) -> None:
        kernel = Kernel(settings.kernel, (settings.length_scale,), 1.0)
        generator = rng(context.seed, "random-features", SERVER, 0)
        dimension = context.space.dimension
        self.settings = settings
        self.shared = SharedWork(context.space)
        self.boxes: tuple[Box, ...] = context.space.subregions(subregions)
        self.features: RandomFeatures = draw_features(
            kernel, dimension, settings.features, generator
        )
        self._surrogate = surrogate
        self._maximisers = Memo(4)

    def message(self, inputs: Array, outputs: Array, generator: np.random.Generator) -> Array:
        """Return an agent's vector omega_n,t, shape (M,); Eq. (2)."""
        centred = outputs - self.settings.center
        posterior = linear_posterior(
            self.features.matrix(inputs), centred, self.settings.noise_variance
        )
        return posterior.mean if self.settings.kind == "mean" else posterior.sample(generator)

    def maximiser(self, vectors: Array, keys: Keys) -> Array:
        """Return arg max of phi(x)^T omega^(i), i the sub-region of x; Alg. 2, line 8.

        All agents of a round have the same vectors and candidates, so that the first one's
        result serves the others of its process.

        Args:
            vectors: omega^(1..P), shape (P, M).
            keys: the agent's; only seed and step matter.
        """
        return self._maximisers.get(
            (keys.seed, keys.step, vectors.tobytes()), lambda: self._maximise(vectors, keys)
        )

    def _maximise(self, vectors: Array, keys: Keys) -> Array:
        space = self.shared.space
        candidates = self.shared.candidates(keys, self._surrogate.candidates)
        pieces = tuple(
            Piece(box, FeatureFunction(self.features, vector))
            for box, vector in zip(self.boxes, vectors, strict=True)
        )
        on_grid = space.grid is not None
        u, _ = maximize(pieces, candidates, starts=0 if on_grid else self._surrogate.starts)
        return space.snap(u)


class _FederatedAgent:
    """Algorithm 2."""

    def __init__(
        self,
        work: FederatedWork,
        model: LocalModel,
        box: Box,
        initial_points: int,
        own_probability: OwnProbability,
    ) -> None:
        self._work = work
        self._model = model
        self._box = box
        self._initial_points = initial_points
        self._own_probability = own_probability

    def propose(self, step: int, message: Broadcast | None, rng: Keys) -> Sequence[Proposal]:
        if step == 0:  # lines 1-2
            space: Space = self._work.shared.space
            return initial_design(space, self._box, self._initial_points, rng)
        r = 1.0 - rng("own-or-server").random()  # in (0, 1], so that p_1 = 0 means never; line 4
        if message is None or r <= self._own_probability(step):
            return [Proposal(self._model.propose(rng), "own")]  # line 6
        return [Proposal(self._work.maximiser(message.payload["vectors"], rng), "server")]  # line 8

    def observe(self, observations: Sequence[Observation]) -> None:
        self._model.observe(observations)

    def reply(self, request: Request, rng: Keys) -> Payload:
        if request.kind != POSTERIOR_MESSAGE.kind:
            raise RunError(f"DP-FTS-DE: agents do not know the request {request.kind!r}")
        inputs, outputs = self._model.inputs, self._model.outputs
        return {"vector": self._work.message(inputs, outputs, rng("posterior-message"))}  # line 10


class _FederatedServer:
    """Algorithm 1: releases 0 .. ``releases - 1``, queries 1 .. ``rounds``."""

    def __init__(self, aggregator: Aggregator, releases: int, rounds: int) -> None:
        self._aggregator = aggregator
        self._releases = releases
        self._rounds = rounds
        self._message: Broadcast | None = None

    def start(self, fleet: Fleet) -> None:
        """Do nothing: there is nothing before round 0."""

    def round(self, t: int, fleet: Fleet) -> RoundInfo:
        message = self._message
        self._message = None
        if t >= self._releases:  # the last query, or everybody alone from here on
            fleet.step(t, message)
            return {}
        release = fleet.step(t, message, then=POSTERIOR_MESSAGE, via=self._aggregator)
        assert isinstance(release, Release)
        if release.payload is not None:  # None: the privacy budget is spent
            self._message = Broadcast(release.payload)
        return {}

    def state(self) -> State:
        return {} if self._message is None else dict(self._message.payload)

    def restore(self, state: State) -> None:
        self._message = Broadcast(dict(state)) if state else None


@dataclass(frozen=True, slots=True)
class OwnProbability:
    """p_t: the probability that query t = 1, 2, ... comes from the agent's own model.

    Attributes:
        exponent: of p_t = 1 - t^-exponent, or None for the constant.
        constant: p_t if there is no exponent.
    """

    exponent: float | None
    constant: float = 0.0

    def __call__(self, t: int) -> float:
        """Return p_t, in [0, 1]."""
        return self.constant if self.exponent is None else 1.0 - float(t) ** -self.exponent


_POWER = re.compile(r"1-1/t(?:\^|\*\*)?(\d+\.?\d*|\.\d+|)")


def own_probability_schedule(text: str | float) -> OwnProbability:
    """Return p_t from what a configuration says: a constant, or ``1 - 1/t^e``.

    Raises:
        ConfigError: if it is neither.
    """
    expected = (
        "expected '1 - 1/t', '1 - 1/sqrt(t)', '1 - 1/t^2' or any other exponent, or a constant "
        f"in [0, 1], got {text!r}"
    )
    if isinstance(text, str):
        compact = text.replace(" ", "")
        if compact == "1-1/sqrt(t)":
            return OwnProbability(0.5)
        match = _POWER.fullmatch(compact)
        if match:
            exponent = float(match[1] or 1.0)
            if not 0 < exponent < math.inf:
                raise ConfigError(f"method.own_probability: {expected}")
            return OwnProbability(exponent)
        try:
            text = float(compact)
        except ValueError:
            raise ConfigError(f"method.own_probability: {expected}") from None
    if not 0 <= text <= 1:
        raise ConfigError(f"method.own_probability: {expected}")
    return OwnProbability(None, float(text))
