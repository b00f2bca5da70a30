"""Federated Bayesian optimisation with an encrypted, distributed sparse Gaussian process.

Paper: FBO-FedGP (under review, ICLR 2026), Algorithms 1 and 2, Eqs. (2)-(3), Secs. 4.1-4.3,
App. A (the surrogate, Eqs. (5)-(10), in :mod:`fedsim.surrogates.dpitc`) and App. C.7 (growth of
the support set). The sum is :mod:`fedsim.crypto`'s; what is summed is in
:mod:`fedsim.methods.summaries`, how a query is chosen in :mod:`fedsim.methods.queries`.

Clients summarise their data on a common support set, encrypt the summaries, the server adds them,
and all clients together decrypt the sum, from which each makes the global posterior. A query comes
from that or, with probability p_t, from the client's own Gaussian process.

=============  ==========================================================  =========
symbol         meaning                                                     shape
=============  ==========================================================  =========
M              clients
Z (S)          the support set, embedded                                   (s, E)
L_i            client i's summary (m_i, K_i), Eqs. (6)-(7)                 (s,), (s, s)
G              the sum of all summaries, Eq. (8)                           (s,), (s, s)
p_t            probability of a query from the client's own model
AF             acquisition function: UCB, EI, PI or a posterior sample
=============  ==========================================================  =========

Deviations from the paper:

- One aggregation in each round, for all clients that query from the global model, not one for every
  such client (Alg. 2, lines 13 and 19-21). All clients upload in every round, whatever they query
  from: two exact sums between which only one client's data changed would show that client's change.
- The sum is used in the round after its upload, so that every query uses all data observed before.
- The support set is by default public: points of a Sobol sequence. The paper's clustering
  (``support.kind: clustered``) shows local centres to the server, which are the data while there
  are few. It takes twice |S| / M local centres; the paper does not say how many.
- A client's own model is an exact Gaussian process, not a sparse one on Z: its data are few.
- Clients that share a posterior have different acquisition functions (:mod:`.queries`). With one
  for all, as in the paper, all of them would query the same point.
- Hyper-parameters: the paper does not say. By default each client fits its own by maximum marginal
  likelihood, in rounds that everyone knows (:class:`.fedgp_rounds.FitRounds`), and the logarithms'
  averages, through the same sum, are used from the next round on. The global prior's variance is
  the most likely one, in closed form.
- Outputs are standardised by their mean and spread over all clients, from the same sum, or by
  public constants. The paper does not say.
- p_t = 1 - t^-c must satisfy Eq. (3): the sum of 1 - p_t diverges, that of its square converges. So
  c is above 0.5 and at most 1. The paper's own choice, 0.5, is the boundary case, where the second
  sum diverges too; it is the default here, as in the paper's experiments, and nothing in the
  algorithm depends on the condition.
- Averages of fewer than ``minimum_members`` fits are not used.
- Where a round has no sum (too few clients, or one that goes missing during decryption), the next
  queries all come from the clients' own models.

What the sums reveal. A summary is no anonymisation. While all clients together have fewer
observations than the support set has points, the decrypted sum determines every input and output,
and which of them belong to one client; one client's summary does so while that client has fewer.
With more observations it is not so direct, but successive sums still locate some queries.

Sums are exact, so two of them can be subtracted, by anyone who sees them.

- Between sums of the same members in which one client's data alone changed, the difference is its
  change: so it is where ``on_error: skip`` left the others without a new observation.
- Between sums of different members (``availability`` below 1), it holds the summaries of those who
  joined or left, and what one new observation changed in each of the others'. Support set and
  hyper-parameters are often the same, and other units can be converted, as above. So nothing but
  the others' new observations covers the whole summary of a client that alone joined or left.
- Fits are in the sums of fit rounds only, and each is a new one, to all data. So no difference
  holds one client's fit alone, even where it alone joined or left: it also holds what the others'
  fits have moved by. That covers it no better than it is large, and not at all where they have not
  moved (at a bound of the search, say, or without a new observation).
- Where one client alone has a fit, as all outputs of every other are equal, ``fits`` is 1, and the
  logarithms are its own.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from fedsim.crypto import Encryption
from fedsim.errors import ConfigError, require
from fedsim.methods.common import DesignKind, InitialDesign, SilentServer
from fedsim.methods.fedgp_client import Client, Work
from fedsim.methods.fedgp_rounds import Constants, FitRounds
from fedsim.methods.fedgp_server import Server
from fedsim.methods.own_model import SurrogateSettings
from fedsim.methods.own_probability import (
    OwnProbability,
    Schedule,
    ScheduleSetting,
    own_probability_schedule,
)
from fedsim.methods.queries import AcquisitionSettings, Queries
from fedsim.methods.shared_work import SharedWork
from fedsim.methods.summaries import Summaries, SummaryLayout
from fedsim.methods.summing import (
    aggregator_of,
    check_output_constants,
    scheme_of,
    warnings_of_few_data,
)
from fedsim.methods.support_sets import SupportSets, SupportSettings
from fedsim.protocol import AgentId, AgentProgram, Context, ServerProgram
from fedsim.surrogates.fit import LENGTH_SCALE_BOUNDS, NOISE_RATIO_BOUNDS


class FBOFedGP:
    """FBO-FedGP.

    Args:
        context: the federation.
        encryption: how summaries are added: ``threshold`` (all clients together decrypt), ``ckks``
            (the clients share a key) or ``plain`` (not encrypted).
        minimum_members: with fewer clients there is no sum; below 3, a member of the sum learns
            the other's summary.
        strict_decryption: with ``threshold``, clients get all ciphertexts and decrypt only what is
            their sum, with their own in it; M times the traffic.
        support: the support set.
        initial_points: points of each client's initial design, at least 1.
        initial_design: ``uniform``, or ``corners`` first; see
            :class:`fedsim.methods.common.InitialDesign`.
        use: ``mixed``; ``local``: only the clients' own models, and no sums; ``global``: only the
            global one, where there is a sum.
        mixing: p_t, t = 1, 2, ...: what other methods name ``own_probability``, or a list of one
            for each client.
        acquisition: how a query is chosen.
        hyperparameters: ``shared``: length scales and noise ratio are averaged over the clients'
            fits, where at least ``minimum_members`` have one, and the variance is the most likely
            one; ``fixed``: as ``surrogate`` says.
        outputs: what the global model standardises outputs by: their mean and spread, from
            ``sums``, or the ``public`` constants.
        output_mean: public constant, in units where larger is better.
        output_scale: public constant, above 0: with ``public``, the outputs' standard deviation;
            with ``sums``, about the smallest difference that matters, at most 1e12 times smaller
            than the largest output. Smaller spreads are searched for:
            :mod:`fedsim.methods.pooled_units` says which are found.
        surrogate: the Gaussian processes.

    Raises:
        ConfigError: if a setting is out of range.
    """

    def __init__(
        self,
        context: Context,
        *,
        encryption: Encryption = "threshold",
        minimum_members: int = 3,
        strict_decryption: bool = False,
        support: SupportSettings = SupportSettings(),
        initial_points: int = 4,
        initial_design: DesignKind = "uniform",
        use: Literal["mixed", "local", "global"] = "mixed",
        mixing: ScheduleSetting | list[ScheduleSetting] = "1 - 1/sqrt(t)",
        acquisition: AcquisitionSettings = AcquisitionSettings(),
        hyperparameters: Literal["shared", "fixed"] = "shared",
        outputs: Literal["public", "sums"] = "sums",
        output_mean: float = 0.0,
        output_scale: float = 1.0,
        surrogate: SurrogateSettings = SurrogateSettings(),
    ) -> None:
        check_output_constants(output_mean, output_scale)
        if hyperparameters == "shared" and not surrogate.fit_every:
            raise ConfigError(
                "method.surrogate.fit_every: expected at least 1, as method.hyperparameters is "
                "'shared', got 0"
            )
        self._context = context
        self._design = InitialDesign(initial_points, initial_design)
        self._schedules = _schedules(use, mixing, context.agents)
        self._uses_sums = use != "local"
        space, shared = context.space, hyperparameters == "shared"
        floor = surrogate.noise_floor if shared else surrogate.noise_ratio
        # abs(K_i) is at most n / eta, and so is all else that is not sent in several parts, but the
        # number n and the logarithms of fits.
        n = initial_points + context.rounds
        bounds = (*LENGTH_SCALE_BOUNDS, *NOISE_RATIO_BOUNDS)
        most = 2.0 * max(n / floor, n, *(abs(math.log(bound)) for bound in bounds))
        self._scheme = scheme_of(encryption, most, minimum_members, strict_decryption)
        scales = sum(space.embedded_widths) if surrogate.ard else 1
        self._work = Work(
            context,
            surrogate,
            Summaries(
                SummaryLayout(
                    surrogate.kernel,
                    scales,
                    shared,
                    outputs == "sums",
                    floor,
                    self._scheme.fraction_bits,
                    minimum_fits=minimum_members,
                    output_scale=output_scale,
                )
            ),
            Queries(acquisition, space),
            SharedWork(space),
            surrogate.length_scale or 0.25 * math.sqrt(space.dimension),
        )
        self._support_sets = SupportSets(support, context)
        # A client that is always there fits to as many observations as its own model does.
        self._fit_rounds = FitRounds(surrogate.fit_every if shared else 0, initial_points)
        logs = [math.log(self._work.length_scale)] * scales
        logs.append(math.log(max(surrogate.noise_ratio, floor)))
        self._first = Constants(np.array(logs), np.array([output_mean, output_scale]))
        if self._uses_sums:
            aggregator_of(self._scheme, context.agents)  # checks their number

    def plan_warnings(self) -> list[str]:
        """Return until when a sum determines all observations."""
        context = self._context
        if not self._uses_sums:
            return []
        return warnings_of_few_data(
            context.agents, self._design.count, context.rounds, self._support_sets.size
        )

    def agent(self, agent: AgentId) -> AgentProgram:
        """Return a new program."""
        schedule = self._schedules[agent % len(self._schedules)]
        return Client(self._work, schedule, self._design, self._scheme.client(agent))

    def server(self) -> ServerProgram:
        """Return a new server program."""
        if not self._uses_sums:
            return SilentServer()
        return Server(
            aggregator_of(self._scheme, self._context.agents),
            self._work.summaries,
            self._support_sets,
            self._fit_rounds,
            self._first,
            self._context.rounds,
        )


def _schedules(
    use: str, mixing: ScheduleSetting | list[ScheduleSetting], agents: int
) -> list[Schedule]:
    """Return the clients' p_t: one for all, or one each."""
    if use != "mixed":
        return [OwnProbability(None, 1.0 if use == "local" else 0.0)]
    if not isinstance(mixing, list):
        return [own_probability_schedule(mixing, "method.mixing")]
    expected = f"one for all, or a list of {agents}, one for each client"
    require(len(mixing) == agents, "method.mixing", expected, f"{len(mixing)}")
    return [own_probability_schedule(p, f"method.mixing[{i}]") for i, p in enumerate(mixing)]
