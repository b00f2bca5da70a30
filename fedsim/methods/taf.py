"""TAF with random features: improvements that helpers' posteriors predict, beside a target's own.

Papers: Wistuba, Schilling and Schmidt-Thieme, "Scalable Gaussian process-based transfer surrogates
for hyperparameter optimization" (Machine Learning, 2018), its transfer acquisition function with
ranking-based weights; Dai, Low and Jaillet, "Federated Bayesian Optimization via Thompson Sampling"
(NeurIPS 2020), Sec. 3.2, for its federated form, a rival of FTS
(:mod:`fedsim.methods.fts_target`).

=============  ============================================================  ==========
symbol         meaning                                                       shape
=============  ============================================================  ==========
A, A_i         the target, and helper i of N
phi(x)         random Fourier features that all agents share                 (M,)
nu_i           A_i's message: the mean of its weights, Eq. (3)               (M,)
Sigma_i^-1     and their covariance, over lambda                             (M, M)
y_i*           and its incumbent: the best output it observed                scalar
w_i, w         weights of A_i's model and of the target's own                scalars
I_i, I         expected improvements on y_i* and on the target's best        functions
               output
=============  ============================================================  ==========

A query maximises (w I + sum of w_i I_i) / (w + sum of w_i). The weights are in
:mod:`fedsim.methods.ranking`, the helpers' models in :mod:`fedsim.methods.sources`, the schedule in
:mod:`fedsim.methods.helpers_first`. A message has M + M^2 + 1 numbers, as the paper counts; as
Sigma^-1 is symmetric, M (M + 3) / 2 + 1 would do.

Deviations:

- I_i is an expectation over A_i's posterior; the original has max(0, mu_i(x) - y*), and FTS's
  authors' code one random draw of the function at every evaluation, whose mean this is. (FTS's
  Sec. 3.2 says that both mean and variance are needed.)
- Incumbents are the helpers' own, as in FTS; the original has the best that the helper's model
  predicts at the target's inputs.
- The distance of rankings is the share of pairs in another order. The original's is the root of
  their number over n (n - 1), which shrinks as n grows, so that in the end all helpers are near.
- The target's ranking is that of its outputs, not of its model's means at them.
- What is maximised is the logarithm, which has slopes where improvements are tiny.
- Helpers standardise their outputs by default, and the target's own model is in the same units.
- Variances are those of functions, without noise.
- Without messages, the target does Thompson sampling, as helpers do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, softmax

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
from fedsim.methods.ranking import similarity_weights
from fedsim.methods.roles import Targets, roles_of
from fedsim.methods.sources import Sources
from fedsim.methods.transfer import Transfer
from fedsim.protocol import AgentId, AgentProgram, Context, Payload, Proposal, ServerProgram
from fedsim.rng import Keys
from fedsim.space import Array


class TAF:
    """TAF of target agents with helpers.

    Args:
        context: the federation.
        targets: as in :class:`fedsim.methods.fts_target.FTSTarget`, and so are the next six.
        initial_points: of an agent's initial design.
        initial_design: its kind.
        helper_queries: t_n.
        helper_design: how helpers query.
        renew: how often helpers send new messages.
        helpers_continue: whether they make queries in every round, with renewals.
        bandwidth: rho, above 0: a helper that has this share of the target's pairs in another
            order has no weight. 0.5: one that ranks no better than chance.
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
        bandwidth: float = 0.5,
        message: MessageSettings = MessageSettings(),
        surrogate: LocalModelSettings = LocalModelSettings(),
    ) -> None:
        require(0 < bandwidth < math.inf, "method.bandwidth", "a number above 0", bandwidth)
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
        rule = _TransferAcquisition(transfer, bandwidth)
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


class _TransferAcquisition:
    def __init__(self, transfer: Transfer, bandwidth: float) -> None:
        self._transfer = transfer
        self._bandwidth = bandwidth

    def message(self, model: LocalModel, keys: Keys) -> Payload:
        # Without observations, the prior's mean.
        outputs = self._transfer.work.in_message_units(model.outputs)
        best = np.array(outputs.max()) if len(outputs) else np.array(0.0)
        return {**self._transfer.message(model), "incumbent": best}

    def asks(self, t: int, keys: Keys) -> bool:
        return True

    def query(
        self, agent: AgentId, messages: Messages, model: LocalModel, used: set[str], keys: Keys
    ) -> Proposal | None:
        sources, helpers = self._transfer.sources(agent, messages)
        if not len(helpers) or not len(model.outputs):
            return None
        incumbents = messages.content["incumbent"][helpers]
        outputs = self._transfer.work.in_message_units(model.outputs)
        known = self._transfer.work.shared.space.embed(model.inputs)
        means, _ = sources.moments(known)
        weights = similarity_weights(means, outputs, self._bandwidth)
        alike = np.flatnonzero(weights[:-1])
        function = Improvements(
            sources.of(alike),
            incumbents[alike],
            model.law().in_units(outputs),
            float(outputs.max()),
            weights[[*alike, -1]] / weights.sum(),
        )
        return Proposal(self._transfer.maximiser(function, model, keys), "transfer")


@dataclass(frozen=True, slots=True, eq=False)
class Improvements:
    """The logarithm of the transfer acquisition function.

    Attributes:
        sources: the models of H helpers.
        incumbents: theirs, shape (H,).
        own: the target's law.
        incumbent: its own.
        weights: of the helpers and, last, of the target, above 0, shape (H + 1,).
    """

    sources: Sources
    incumbents: Array
    own: OwnLaw
    incumbent: float
    weights: Array

    def values(self, Z: Array) -> Array:
        """Return the function at the rows of ``Z`` (n, E), shape (n,)."""
        own = OfPosterior(self.own, LogExpectedImprovement(self.incumbent)).values(Z)
        means, variances = self.sources.moments(Z)
        logs = LogExpectedImprovement(0.0).values(*self._centred(means, variances))
        return self._summed(logs.reshape(means.shape), own)

    def values_and_gradients(self, Z: Array) -> tuple[Array, Array]:
        """Return values, shape (n,), and gradients, shape (n, E)."""
        rule = LogExpectedImprovement(self.incumbent)
        own, own_slopes = OfPosterior(self.own, rule).values_and_gradients(Z)
        means, variances, pulls = self.sources.moments_and_pulls(Z)
        logs, by_mean, by_variance = (
            each.reshape(means.shape)
            for each in LogExpectedImprovement(0.0).values_and_slopes(
                *self._centred(means, variances)
            )
        )
        every = np.vstack([logs, own]) + np.log(self.weights)[:, None]
        shares = softmax(every, axis=0)
        theirs = self.sources.gradients(Z, pulls, shares[:-1] * by_mean, shares[:-1] * by_variance)
        return self._summed(logs, own), theirs + shares[-1][:, None] * own_slopes

    def _centred(self, means: Array, variances: Array) -> tuple[Array, Array]:
        return (means - self.incumbents[:, None]).ravel(), variances.ravel()

    def _summed(self, logs: Array, own: Array) -> Array:
        summed: Array = logsumexp(np.vstack([logs, own]), axis=0, b=self.weights[:, None])
        return summed
