"""A private average of the agents' functions as the prior mean of each agent's own model.

Ours, from the parts of DP-FTS-DE (Dai, Low and Jaillet, NeurIPS 2021, see
:mod:`fedsim.methods.dp_fts_de`). There, with probability 1 - p_t, an agent queries where the
server's function is highest. Here that function is the prior mean of the agent's own Gaussian
process, which weighs it against the agent's own observations, and all queries are Thompson
sampling. So a release is worth something in all later rounds, and a few are enough.

=============  ==========================================================  =========
symbol         meaning                                                     shape
=============  ==========================================================  =========
N, M           agents, random features
phi(x)         random Fourier features that all agents share               (M,)
w, m(x)        what the server broadcasts, and phi(x)^T w                   (M,)
nu_n           agent n's message                                           (M,)
r_k            release k: the average of the clipped messages, with noise   (M,)
=============  ==========================================================  =========

- After some rounds (``releases``), agents send nu_n, the mean of the linear posterior of what m
  leaves of their outputs: y - m(x), or y before the first release. The subsampled Gaussian
  mechanism releases the average. In all other rounds nothing is asked, and nothing is charged.
- The server adds r_k to w, and shrinks the sum by what it knows of the noise
  (:mod:`fedsim.methods.releases`). That, and all below, is post-processing, and free: w, which the
  request carries, follows from earlier releases.
- Agents take m as the prior mean. How much of it they believe follows from their own observations:
  see :mod:`fedsim.surrogates.prior_mean`.
- Before the first release, and if there was none, it is Thompson sampling
  (:mod:`fedsim.methods.thompson`).

So messages are not those of DP-FTS-DE, which describe all of an agent's function. Their average is
too near zero where few agents have observations, as the others' posterior means are zero there;
agents that follow it look elsewhere, and it stays so. Our messages, too, are about zero where an
agent knows nothing, but there this says: leave m as it is. So do absent agents, which count as
zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedsim.acquisition import whole_cube
from fedsim.errors import ConfigError, RunError
from fedsim.memo import Memo
from fedsim.methods.averaging import FewReleasesSettings, averaging, warnings_of_noise
from fedsim.methods.common import DesignKind, InitialDesign
from fedsim.methods.dp_fts_de import POSTERIOR_MESSAGE
from fedsim.methods.local_model import LocalModel, LocalModelSettings
from fedsim.methods.messages import FederatedWork, MeanMessageSettings
from fedsim.methods.releases import ReleaseSum, release_rounds
from fedsim.methods.shared_mean import SharedMean
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
    Uncharged,
)
from fedsim.rng import Keys
from fedsim.space import Array
from fedsim.surrogates.linear import linear_posterior
from fedsim.surrogates.rff import FeatureFunction
from fedsim.surrogates.scaling import mean_of


class DPPrior:
    """Thompson sampling around a private average of all agents' functions.

    Args:
        context: the federation.
        initial_points: points of each agent's initial design, 1 to 10,000.
        initial_design: ``uniform``, or ``corners`` first; see
            :class:`fedsim.methods.common.InitialDesign`.
        releases: after which rounds there is a release, ascending, 0 being the initial design; or
            how many: after rounds 0, 1, 2, 4, 8, ... What is not before the last query is left out.
        message: the agents' messages.
        dp: the privacy mechanism, or None for a plain average.
        surrogate: the agents' own Gaussian processes. With ``message.center``, its mean ``zero``
            stands for that center; without, it must be ``observed``.

    Raises:
        ConfigError: if a setting is out of range.
    """

    def __init__(
        self,
        context: Context,
        *,
        initial_points: int = 10,
        initial_design: DesignKind = "uniform",
        releases: int | list[int] = 5,
        message: MeanMessageSettings = MeanMessageSettings(),
        dp: FewReleasesSettings | None = FewReleasesSettings(),
        surrogate: LocalModelSettings = LocalModelSettings(),
    ) -> None:
        if surrogate.mean == "zero" and message.center is None:
            raise ConfigError(
                "method.surrogate.mean: expected 'observed' without method.message.center, got "
                "'zero': agents then send their outputs minus their own mean"
            )
        self._context = context
        self._releases = release_rounds(releases, context.rounds)
        self._dp = dp
        self._surrogate = surrogate
        self._work = _PriorWork(FederatedWork(context, message.complete(), 1, surrogate))
        self._design = InitialDesign(initial_points, initial_design)
        self._aggregator()  # checks the privacy settings

    def agent(self, agent: AgentId) -> AgentProgram:
        """Return a new program."""
        federated = self._work.federated
        model = LocalModel(self._surrogate, federated.shared, federated.settings.center or 0.0)
        return _PriorAgent(self._work, model, self._design)

    def server(self) -> ServerProgram:
        """Return a new server program."""
        return _PriorServer(self._aggregator(), self._releases)

    def planned_costs(self) -> list[PrivacyEvent]:
        """Return the costs of all releases of a run; empty without privacy."""
        aggregator = self._aggregator()
        costs = (aggregator.cost(t) for t in self._releases)
        return [cost for cost in costs if not isinstance(cost, Uncharged)]

    def plan_warnings(self) -> list[str]:
        """Return whether noise drowns the releases."""
        return warnings_of_noise(self._aggregator(), self._releases[-1]) if self._releases else []

    def _aggregator(self) -> SubsampledGaussianMechanism | WeightedAverage:
        dp = None if self._dp is None else self._dp.complete()
        features = self._work.federated.settings.features
        return averaging(dp, self._context.agents, features, 1, WeightSchedule("uniform"))


@dataclass(frozen=True, slots=True)
class _PriorWork:
    """Work shared by the agents of one process.

    Attributes:
        federated: the shared features.
    """

    federated: FederatedWork
    _means: Memo[SharedMean] = field(default_factory=lambda: Memo[SharedMean](2))

    def mean(self, vector: Array) -> SharedMean:
        """Return the prior mean that a broadcast w, shape (M,), stands for."""
        return self._means.get(vector.tobytes(), lambda: self._mean(vector))

    def _mean(self, vector: Array) -> SharedMean:
        federated = self.federated
        grid, s = federated.shared.space.grid, federated.settings
        return SharedMean(
            FeatureFunction(federated.features, vector),
            None if grid is None else federated.features_of(grid) @ vector,
            None if s.center is None else s.scale,
        )

    def message(self, inputs: Array, outputs: Array, vector: Array | None) -> Array:
        """Return nu_n, shape (M,).

        Args:
            inputs: the agent's, shape (n, D).
            outputs: observed there, shape (n,).
            vector: w, shape (M,); None: there was no release.
        """
        federated, settings = self.federated, self.federated.settings
        features, y = federated.features_of(inputs), federated.in_message_units(outputs)
        if vector is not None:
            m = features @ vector
            # Outputs that an agent centred itself say nothing of m's level.
            y = y - (m - mean_of(m) if settings.center is None else m)
        return linear_posterior(features, y, settings.noise_variance).mean


class _PriorAgent:
    def __init__(self, work: _PriorWork, model: LocalModel, design: InitialDesign) -> None:
        self._work = work
        self._model = model
        self._design = design

    def propose(self, step: int, message: Broadcast | None, rng: Keys) -> Sequence[Proposal]:
        if step == 0:
            space = self._work.federated.shared.space
            return self._design.proposals(space, whole_cube(space.dimension), rng)
        if message is None:
            return [Proposal(self._model.propose(rng), "own")]
        mean = self._work.mean(message.payload[VECTOR])
        return [Proposal(self._model.propose(rng, mean), "prior")]

    def prepare(self, step: int, rng: Keys) -> None:
        if step > 0:
            self._model.hyperparameters()  # which do not depend on the message

    def observe(self, observations: Sequence[Observation]) -> None:
        self._model.observe(observations)

    def reply(self, request: Request, rng: Keys) -> Payload:
        if request.kind != POSTERIOR_MESSAGE.kind:
            raise RunError(f"dp-prior: agents do not know the request {request.kind!r}")
        model, vector = self._model, request.payload.get(VECTOR)
        return {VECTOR: self._work.message(model.inputs, model.outputs, vector)}


class _PriorServer:
    def __init__(
        self, aggregator: SubsampledGaussianMechanism | WeightedAverage, releases: Sequence[int]
    ) -> None:
        self._aggregator = aggregator
        self._releases = frozenset(releases)
        self._sum: ReleaseSum | None = None  # None: there was no release

    @property
    def aggregators(self) -> Mapping[str, Aggregator]:
        return {"releases": self._aggregator}

    def start(self, fleet: Fleet) -> None:
        """Do nothing before round 0."""

    def round(self, t: int, fleet: Fleet) -> RoundInfo:
        known = {} if self._sum is None else {VECTOR: self._sum.vector}
        message = Broadcast(known) if known else None
        if t not in self._releases:
            fleet.step(t, message)
            return {}
        request = Request(POSTERIOR_MESSAGE.kind, known)
        release = fleet.step(t, message, then=request, via=self._aggregator)
        assert isinstance(release, Release)
        if release.payload is not None:  # None: the budget is spent, or nobody answered
            self._fold(t, release.payload[VECTORS][0])
        return {}

    def _fold(self, t: int, vector: Array) -> None:
        aggregator, variance = self._aggregator, 0.0
        if isinstance(aggregator, SubsampledGaussianMechanism):
            variance = float(aggregator.noise_scale(t)[0]) ** 2
        before = self._sum or ReleaseSum(np.zeros_like(vector), 0.0)
        self._sum = before.with_release(vector, variance)

    def state(self) -> State:
        if self._sum is None:
            return {}
        return {VECTOR: self._sum.vector, "variance": np.array(self._sum.noise_variance)}

    def restore(self, state: State) -> None:
        self._sum = None
        if state:
            self._sum = ReleaseSum(np.asarray(state[VECTOR]), float(state["variance"]))
