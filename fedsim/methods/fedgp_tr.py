"""FBO-FedGP with trust regions: encrypted sums about the part of the space that looks best.

Paper: FBO-FedGP (under review, ICLR 2026), whose sums and surrogate this keeps
(:mod:`fedsim.methods.fbo_fedgp`); Eriksson et al., TuRBO (NeurIPS 2019), for regions; Snelson and
Ghahramani (AISTATS 2007), for own data beside summaries.

A support set spread over ten or more dimensions is far from everything. Here it fills a region that
shrinks around the best point that all clients' data together show, so that late sums describe that
part in detail. What is different from FBO-FedGP:

- **Region.** Its width follows a public schedule (:mod:`fedsim.methods.trust_regions`). Its centre
  is where, in the region before, the mean of the global posterior is highest: anyone who sees the
  sums can compute it.
- **Own data are exact.** A client takes its own summary out of the sum, and adds its own data as
  they are (:mod:`fedsim.surrogates.pic`). Where one of its own best points has a higher posterior
  mean than the shared centre, it searches around that.
- **Robust outputs** (:mod:`fedsim.methods.robust_outputs`), in units that follow from the global
  posterior in the region.
- Sums hold whitened summaries (:mod:`fedsim.methods.region_sums`), which a small region needs.
- Hyper-parameters are fitted in rounds that everyone knows, by all clients, so that sums of
  different members do not show one client's fit, but where few have one.
- A client queries with probability p_t from its own data, in all of the space, with the shared
  hyper-parameters and units: p_t does not rise to 1, as the shared posterior holds its data anyway.

The server sees what it sees of FBO-FedGP: the ciphertexts and the decrypted sum, which holds the
summaries, the number of all observations, and in some rounds the hyper-parameters. Centre, units
and all else that is shared follow from that. The support sets are closer to the data here, and sums
in several regions tell more about them than the same sum again. As there, a sum is no
anonymisation: of fewer observations than support points, it determines every input and output.

=============  ==========================================================  =========
symbol         meaning                                                     shape
=============  ==========================================================  =========
S              the support set, embedded; fills the region                 (s, E)
W, v           the sums of whitened summaries                              (s, s), (s,)
p_t            probability of a query from the client's own data alone
L_t            the region's width
eta            the ratio of noise to prior variance
E              coordinates of embedded points
=============  ==========================================================  =========
"""

from __future__ import annotations

import math

import numpy as np

from fedsim.crypto import Encryption
from fedsim.errors import ConfigError, require
from fedsim.methods.common import DesignKind, InitialDesign
from fedsim.methods.fedgp_rounds import Constants, FitRounds
from fedsim.methods.fedgp_tr_client import RegionClient, RegionWork
from fedsim.methods.fedgp_tr_server import RegionServer
from fedsim.methods.own_model import SurrogateSettings
from fedsim.methods.own_probability import ScheduleSetting, own_probability_schedule
from fedsim.methods.queries import AcquisitionSettings, Queries
from fedsim.methods.region_sums import RegionSums
from fedsim.methods.robust_outputs import LARGEST
from fedsim.methods.summing import (
    aggregator_of,
    check_output_constants,
    scheme_of,
    warnings_of_few_data,
)
from fedsim.methods.trust_regions import RegionSettings
from fedsim.protocol import AgentId, AgentProgram, Context, ServerProgram


class FBOFedGPTrustRegions:
    """FBO-FedGP with trust regions.

    Args:
        context: the federation.
        encryption: how summaries are added, as for ``fbo-fedgp``.
        minimum_members: with fewer clients there is no sum; below 3, a member of the sum learns
            the other's summary.
        strict_decryption: as for ``fbo-fedgp``.
        support_size: points of the support set |S|, at least 2.
        region: the widths of the region.
        initial_points: points of each client's initial design, at least 1.
        initial_design: ``uniform``, or ``corners`` first; see
            :class:`fedsim.methods.common.InitialDesign`.
        own_probability: p_t, t = 1, 2, ..., as for ``fts``.
        acquisition: how a query is chosen; not ``thompson``.
        output_mean: public constant: the outputs' centre in the first round, in units where larger
            is better.
        output_scale: public constant, above 0: about the outputs' spread, in the first round. Far
            from it, the first rounds search for it.
        surrogate: the Gaussian process. ``fit_every`` counts rounds.

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
        support_size: int = 32,
        region: RegionSettings = RegionSettings(),
        initial_points: int = 4,
        initial_design: DesignKind = "uniform",
        own_probability: ScheduleSetting = 0.3,
        acquisition: AcquisitionSettings = AcquisitionSettings(beta=0.5),
        output_mean: float = 0.0,
        output_scale: float = 1.0,
        surrogate: SurrogateSettings = SurrogateSettings(),
    ) -> None:
        require(support_size >= 2, "method.support_size", "at least 2", support_size)
        check_output_constants(output_mean, output_scale)
        if acquisition.kind == "thompson":
            raise ConfigError(
                "method.acquisition.kind: expected ucb, ei or pi, got 'thompson'; fbo-fedgp has it"
            )
        self._context = context
        self._support_size = support_size
        self._region = region
        self._schedule = own_probability_schedule(own_probability)
        self._fit_rounds = FitRounds(surrogate.fit_every)
        sums = RegionSums(
            context.space, surrogate.kernel, surrogate.ard, surrogate.noise_floor, minimum_members
        )
        queries = Queries(acquisition, context.space)
        design = InitialDesign(initial_points, initial_design)
        self._work = RegionWork(context, sums, queries, design)
        scale = surrogate.length_scale or 0.25 * math.sqrt(context.space.dimension)
        ratio = max(surrogate.noise_ratio, surrogate.noise_floor)
        logs = np.log([*[scale] * sums.scales, ratio])
        self._first = Constants(logs, np.array([output_mean, output_scale]))
        # abs(W_i), v_i and the misfit are at most n x^2 / eta.
        most = 2.0 * (initial_points + context.rounds) * LARGEST**2 / surrogate.noise_floor
        self._scheme = scheme_of(encryption, most, minimum_members, strict_decryption)
        aggregator_of(self._scheme, context.agents)  # checks their number

    def plan_warnings(self) -> list[str]:
        """Return until when a sum determines all observations."""
        context, size = self._context, self._support_size
        return warnings_of_few_data(
            context.agents, self._work.design.count, context.rounds, lambda t: size
        )

    def agent(self, agent: AgentId) -> AgentProgram:
        """Return a new program."""
        return RegionClient(agent, self._work, self._schedule, self._scheme.client(agent))

    def server(self) -> ServerProgram:
        """Return a new server program."""
        return RegionServer(
            self._context,
            aggregator_of(self._scheme, self._context.agents),
            self._work.sums,
            self._region,
            support_size=self._support_size,
            fit_rounds=self._fit_rounds,
            first=self._first,
        )
