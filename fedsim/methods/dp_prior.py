"""The private average of the agents' functions as the prior mean of each agent's own model.

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
nu_n           agent n's message: the mean of its linear posterior          (M,)
r_k            release k: the average of the clipped messages, with noise   (M,)
w, v           discounted average of the releases so far, its noise         (M,)
=============  ==========================================================  =========

- After some rounds (``releases``), agents send nu_n, and the subsampled Gaussian mechanism releases
  their average. In all other rounds nothing is asked, and nothing is charged.
- The server broadcasts w and v (:mod:`fedsim.methods.release_average`); that, and all below, is
  post-processing, and free.
- Agents shrink w by Wiener's factor, and take m(x) = phi(x)^T w as the prior mean. How much of it
  they believe follows from their own observations: see :mod:`fedsim.surrogates.prior_mean`.
- Before the first release, and if there was none, it is Thompson sampling
  (:mod:`fedsim.methods.thompson`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedsim.acquisition import whole_cube
from fedsim.errors import ConfigError, RunError, require
from fedsim.memo import Memo
from fedsim.methods.averaging import FewReleasesSettings, averaging
from fedsim.methods.common import DesignKind, InitialDesign
from fedsim.methods.dp_fts_de import POSTERIOR_MESSAGE
from fedsim.methods.local_model import LocalModel, LocalModelSettings
from fedsim.methods.messages import FederatedWork, MeanMessageSettings
from fedsim.methods.release_average import DiscountedAverage, release_rounds, wiener_factor
from fedsim.methods.shared_mean import SharedMean
from fedsim.privacy.mechanism import VECTORS, SubsampledGaussianMechanism, WeightedAverage
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
from fedsim.surrogates.rff import FeatureFunction


class DPPrior:
    """Thompson sampling around a private average of all agents' functions.

    Args:
        context: the federation.
        initial_points: points of each agent's initial design, 1 to 10,000.
        initial_design: ``uniform``, or ``corners`` first; see
            :class:`fedsim.methods.common.InitialDesign`.
        releases: after which rounds there is a release, ascending, 0 being the initial design; or
            how many: after rounds 0, 1, 2, 4, 8, ... What is not before the last query is left out.
        discount: d, in [0, 1]: 0 uses the last release alone, 1 all of them alike.
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
        discount: float = 0.8,
        message: MeanMessageSettings = MeanMessageSettings(),
        dp: FewReleasesSettings | None = FewReleasesSettings(),
        surrogate: LocalModelSettings = LocalModelSettings(),
    ) -> None:
        require(0 <= discount <= 1, "method.discount", "a number in [0, 1]", discount)
        if surrogate.mean == "zero" and message.center is None:
            raise ConfigError(
                "method.surrogate.mean: expected 'observed' without method.message.center, got "
                "'zero': agents then send their outputs minus their own mean"
            )
        self._context = context
        self._releases = release_rounds(releases, context.rounds)
        self._discount = discount
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
        return _PriorServer(self._aggregator(), self._releases, self._discount)

    def planned_costs(self) -> list[PrivacyEvent]:
        """Return the costs of all releases of a run; empty without privacy."""
        aggregator = self._aggregator()
        costs = (aggregator.cost(t) for t in self._releases)
        return [cost for cost in costs if not isinstance(cost, Uncharged)]

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

    def mean(self, vector: Array, noise_variance: float) -> SharedMean:
        """Return the prior mean that a broadcast stands for."""
        key = (vector.tobytes(), noise_variance)
        return self._means.get(key, lambda: self._mean(vector, noise_variance))

    def _mean(self, vector: Array, noise_variance: float) -> SharedMean:
        federated = self.federated
        shrunk = wiener_factor(vector, noise_variance) * vector
        function = FeatureFunction(federated.features, shrunk)
        grid, s = federated.shared.space.grid, federated.settings
        return SharedMean(
            function,
            None if grid is None else federated.features_of(grid) @ shrunk,
            None if s.center is None else s.scale,
        )


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
        noise_variance = float(message.payload["noise_variance"])
        mean = self._work.mean(message.payload["vector"], noise_variance)
        return [Proposal(self._model.propose(rng, mean), "prior")]

    def prepare(self, step: int, rng: Keys) -> None:
        if step > 0:
            self._model.hyperparameters()  # which do not depend on the message

    def observe(self, observations: Sequence[Observation]) -> None:
        self._model.observe(observations)

    def reply(self, request: Request, rng: Keys) -> Payload:
        if request.kind != POSTERIOR_MESSAGE.kind:
            raise RunError(f"dp-prior: agents do not know the request {request.kind!r}")
        federated, model = self._work.federated, self._model
        features = federated.features_of(model.inputs)
        generator = rng("posterior-message")
        return {"vector": federated.message(features, model.outputs, generator)}


class _PriorServer:
    def __init__(
        self,
        aggregator: SubsampledGaussianMechanism | WeightedAverage,
        releases: Sequence[int],
        discount: float,
    ) -> None:
        self._aggregator = aggregator
        self._releases = frozenset(releases)
        self._discount = discount
        self._average = DiscountedAverage()

    @property
    def aggregators(self) -> Mapping[str, Aggregator]:
        return {"releases": self._aggregator}

    def start(self, fleet: Fleet) -> None:
        """Do nothing before round 0."""

    def round(self, t: int, fleet: Fleet) -> RoundInfo:
        message, vector = None, self._average.vector
        if vector is not None:
            noise_variance = np.array(self._average.noise_variance)
            message = Broadcast({"vector": vector, "noise_variance": noise_variance})
        if t not in self._releases:
            fleet.step(t, message)
            return {}
        release = fleet.step(t, message, then=POSTERIOR_MESSAGE, via=self._aggregator)
        assert isinstance(release, Release)
        if release.payload is not None:  # None: the budget is spent, or nobody answered
            self._fold(t, release.payload[VECTORS][0])
        return {}

    def _fold(self, t: int, vector: Array) -> None:
        aggregator, variance = self._aggregator, 0.0
        if isinstance(aggregator, SubsampledGaussianMechanism):
            variance = float(aggregator.noise_scale(t)[0]) ** 2
        self._average = self._average.with_release(vector, variance, self._discount)

    def state(self) -> State:
        average = self._average
        if average.total is None:
            return {}
        numbers = np.array([average.weight, average.variance])
        return {"total": average.total, "numbers": numbers}

    def restore(self, state: State) -> None:
        self._average = DiscountedAverage()
        if state:
            weight, variance = np.asarray(state["numbers"]).tolist()
            self._average = DiscountedAverage(np.asarray(state["total"]), weight, variance)
