"""RGPE with random features: helpers send their posteriors, and a target weighs them by ranking.

Papers: Feurer, Letham and Bakshy, "Scalable Meta-Learning for Bayesian Optimization using
Ranking-Weighted Gaussian Process Ensembles" (AutoML workshop at ICML 2018); Dai, Low and Jaillet,
"Federated Bayesian Optimization via Thompson Sampling" (NeurIPS 2020), Sec. 3.2, for its federated
form, a rival of FTS (:mod:`fedsim.methods.fts_target`).

=============  ============================================================  ==========
symbol         meaning                                                       shape
=============  ============================================================  ==========
A, A_i         the target, and helper i of N
phi(x)         random Fourier features that all agents share                 (M,)
nu_i           A_i's message: the mean of its weights, Eq. (3)               (M,)
Sigma_i^-1     and their covariance, over lambda                             (M, M)
w_i, w         weights of A_i's model and of the target's own                scalars
mu, var        the ensemble's: sum of w_i mu_i, sum of w_i^2 var_i           functions
=============  ============================================================  ==========

A query maximises the ensemble's expected improvement. The weights are in
:mod:`fedsim.methods.ranking`, the helpers' models in :mod:`fedsim.methods.sources`, the schedule in
:mod:`fedsim.methods.helpers_first`. A message has M + M^2 numbers, as the paper counts; as
Sigma^-1 is symmetric, M (M + 3) / 2 would do.

Deviations:

- An improvement is what exceeds the best mean of the ensemble at the target's own inputs, not the
  best output: outputs are noisy, and the ensemble's units need not be the target's.
- With fewer than three observations all weights are equal: there are no rankings to tell models
  apart. Models with equal losses share a draw's weight.
- Helpers standardise their outputs by default, and the target's own model is in the same units.
- As all helpers have the same features, the sum of their models is one model of M features. So
  one evaluation costs the same for any N; summing and ranking grow with N.
- The variance is that of the function, without noise.
- Without messages, the target does Thompson sampling, as helpers do.
"""

from __future__ import annotations

import numpy as np

from fedsim.acquisition.functions import LogExpectedImprovement, OfPosterior
from fedsim.errors import require
from fedsim.methods.common import DesignKind, InitialDesign
from fedsim.methods.helped_agent import Programs
from fedsim.methods.helpers_first import (
    HelperDesign,
    Messages,
    Renewal,
    Schedule,
)
from fedsim.methods.local_model import LocalModel, LocalModelSettings
from fedsim.methods.messages import MessageSettings
from fedsim.methods.own_law import OwnLaw
from fedsim.methods.ranking import (
    enough_to_rank,
    ensemble_weights,
    joint_losses,
    left_out_losses,
)
from fedsim.methods.roles import Targets, roles_of
from fedsim.methods.sources import Sources
from fedsim.methods.transfer import Transfer
from fedsim.protocol import AgentId, AgentProgram, Context, Payload, Proposal, ServerProgram
from fedsim.rng import Keys
from fedsim.space import Array


class RGPE:
    """RGPE of target agents with helpers.

    Args:
        context: the federation.
        targets: as in :class:`fedsim.methods.fts_target.FTSTarget`, and so are the next six.
        initial_points: of an agent's initial design.
        initial_design: its kind.
        helper_queries: t_n.
        helper_design: how helpers query.
        renew: how often helpers send new messages.
        helpers_continue: whether they make queries in every round, with renewals.
        samples: draws of the ranking losses, 1 to 100,000.
        message: the shared features, and the units of the messages; ``kind`` does not apply.
        surrogate: the agents' own Gaussian processes.

    Raises:
        ConfigError: if a setting is out of range.
    """

    def __init__(
        self,
        context: Context,
        *,
        targets: Targets = [0],  # noqa: B006 - never changed
        initial_points: int = 3,
        initial_design: DesignKind = "uniform",
        helper_queries: int = 50,
        helper_design: HelperDesign = "thompson",
        renew: Renewal = "never",
        helpers_continue: bool = True,
        samples: int = 100,
        message: MessageSettings = MessageSettings(),
        surrogate: LocalModelSettings = LocalModelSettings(),
    ) -> None:
        require(1 <= samples <= 100_000, "method.samples", "1 to 100,000", samples)
        schedule = Schedule(
            roles_of(targets, context.agents),
            context.rounds,
            InitialDesign(initial_points, initial_design),
            helper_queries,
            helper_design,
            renew,
            helpers_continue,
        )
        transfer = Transfer(context, message, surrogate)
        rule = _Ensembles(transfer, samples)
        self._programs = Programs(schedule, surrogate, transfer.work.shared, rule)

    @property
    def target_agents(self) -> tuple[AgentId, ...]:
        """The agents whose results count."""
        return self._programs.schedule.roles.targets

    def agent(self, agent: AgentId) -> AgentProgram:
        """Return a new program."""
        return self._programs.agent(agent)

    def server(self) -> ServerProgram:
        """Return a new server program."""
        return self._programs.server()


class _Ensembles:
    def __init__(self, transfer: Transfer, samples: int) -> None:
        self._transfer = transfer
        self._samples = samples

    def message(self, model: LocalModel, keys: Keys) -> Payload:
        return self._transfer.message(model)

    def asks(self, t: int, keys: Keys) -> bool:
        return True

    def query(
        self, agent: AgentId, messages: Messages, model: LocalModel, used: set[str], keys: Keys
    ) -> Proposal | None:
        sources, helpers = self._transfer.sources(agent, messages)
        if not len(helpers) or not len(model.outputs):
            return None
        outputs = self._transfer.work.in_message_units(model.outputs)
        own = model.law().in_units(outputs)
        known = self._transfer.work.shared.space.embed(model.inputs)
        weights = self._weights(sources, own, known, outputs, keys)
        ensemble = Ensemble.of(sources, own, weights)
        best = float(ensemble.moments(known)[0].max())
        function = OfPosterior(ensemble, LogExpectedImprovement(best))
        return Proposal(self._transfer.maximiser(function, model, keys), "ensemble")

    def _weights(
        self, sources: Sources, own: OwnLaw, known: Array, outputs: Array, keys: Keys
    ) -> Array:
        count = len(sources.means) + 1
        if not enough_to_rank(outputs):
            return np.full(count, 1.0 / count)
        target = left_out_losses(own, self._samples, keys("target-losses"))
        means, covariances = sources.values(known)
        drawn = joint_losses(means, covariances, outputs, self._samples, keys("source-losses"))
        return ensemble_weights(drawn, target)


class Ensemble:
    """The ensemble's law: a weighted sum of the helpers' functions and of the target's.

    Args:
        sources: the weighted sum of the helpers' models, one; None: they have no weight.
        own: the target's.
        weight: w, of the target's.
    """

    def __init__(self, sources: Sources | None, own: OwnLaw, weight: float) -> None:
        self._sources = sources
        self._own = own
        self._weight = weight

    @classmethod
    def of(cls, sources: Sources, own: OwnLaw, weights: Array) -> Ensemble:
        """Return the ensemble with the helpers' weights and, last, the target's, (H + 1,)."""
        used = np.flatnonzero(weights[:-1])
        summed = sources.of(used).summed(weights[used]) if len(used) else None
        return cls(summed, own, float(weights[-1]))

    def moments(self, Z: Array) -> tuple[Array, Array]:
        """Return mean and variance at the rows of ``Z`` (n, E), each (n,)."""
        mean, variance, w = np.zeros(len(Z)), np.zeros(len(Z)), self._weight
        if w:
            own_mean, own_variance = self._own.moments(Z)
            mean, variance = w * own_mean, w**2 * own_variance
        if self._sources is not None:
            means, variances = self._sources.moments(Z)
            mean, variance = mean + means[0], variance + variances[0]
        return mean, variance

    def moments_and_gradients(self, Z: Array) -> tuple[Array, Array, Array, Array]:
        """Return :meth:`moments` and their gradients, each (n, E)."""
        w = self._weight
        mean, variance = np.zeros(len(Z)), np.zeros(len(Z))
        slopes, variance_slopes = np.zeros_like(Z), np.zeros_like(Z)
        if w:
            mean, variance, slopes, variance_slopes = self._own.moments_and_gradients(Z)
            mean, variance = w * mean, w**2 * variance
            slopes, variance_slopes = w * slopes, w**2 * variance_slopes
        if self._sources is not None:
            means, variances, pulls = self._sources.moments_and_pulls(Z)
            one, none = np.ones((1, len(Z))), np.zeros((1, len(Z)))
            mean, variance = mean + means[0], variance + variances[0]
            slopes = slopes + self._sources.gradients(Z, pulls, one, none)
            variance_slopes = variance_slopes + self._sources.gradients(Z, pulls, none, one)
        return mean, variance, slopes, variance_slopes
