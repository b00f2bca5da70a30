"""The server's program of FBO-FedGP with trust regions; see :mod:`fedsim.methods.fedgp_tr`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedsim.acquisition.candidates import sobol_points
from fedsim.crypto import SecureSum, upload_request
from fedsim.methods.fedgp_rounds import Carried, Constants, FitRounds
from fedsim.methods.queries import AcquisitionSettings, Queries
from fedsim.methods.region_sums import RegionSum, RegionSums
from fedsim.methods.robust_outputs import next_units
from fedsim.methods.summaries import Basis
from fedsim.methods.trust_regions import Region, RegionSettings, region_around
from fedsim.protocol import (
    Aggregator,
    Broadcast,
    Context,
    Fleet,
    Release,
    RoundInfo,
    State,
)
from fedsim.rng import SERVER, Keys, rng
from fedsim.surrogates.pic import exact_with_summaries


class RegionServer:
    """Moves the region, and asks for a sum on a support set in it.

    Args:
        context: the federation.
        aggregator: the secure sum.
        sums: reads sums.
        regions: the widths.
        support_size: |S|.
        fit_rounds: when clients fit hyper-parameters.
        first: what the first round's summaries have in common.
    """

    def __init__(
        self,
        context: Context,
        aggregator: SecureSum,
        sums: RegionSums,
        regions: RegionSettings,
        support_size: int,
        fit_rounds: FitRounds,
        first: Constants,
    ) -> None:
        self._context = context
        self._aggregator = aggregator
        self._sums = sums
        self._regions = regions
        self._support_size = support_size
        self._fit_rounds = fit_rounds
        self._carried = Carried(first)
        # Everyone's best is the posterior mean's, without a margin for what is not known.
        best = AcquisitionSettings(kind="ucb", beta=0.0, spread="none")
        self._searches = Queries(best, context.space)
        self._centre = context.space.snap(np.full((1, context.space.dimension), 0.5))[0]

    @property
    def aggregators(self) -> Mapping[str, Aggregator]:
        """The secure sum."""
        return {"sums": self._aggregator}

    def start(self, fleet: Fleet) -> None:
        """Do nothing before round 0."""

    def round(self, t: int, fleet: Fleet) -> RoundInfo:
        """Let clients query, and sum their summaries."""
        width = self._regions.width(t, self._context.rounds)
        message = None
        if self._carried.message is not None:
            now = {"centre": self._centre, "width": np.array(width), "round": np.array(t)}
            message = Broadcast({**self._carried.message, **now})
        if t == self._context.rounds:  # nothing follows the last query
            fleet.step(t, message)
            return {}
        region = region_around(self._context.space, self._centre, width)
        generator = rng(self._context.seed, "support-set", SERVER, t)
        spread = sobol_points(region.centre.size, self._support_size - 1, generator)
        points = region.fill(self._context.space, spread)
        constants = self._carried.constants
        basis = Basis(self._context.space.embed(points), constants.logs, constants.units)
        asked = basis.asked(self._fit_rounds.include(t))
        request = upload_request(self._sums.length(len(points)), asked)
        release = fleet.step(t, message, then=request, via=self._aggregator)
        assert isinstance(release, Release)
        self._carried.message = {**basis.payload(), **(release.payload or {})}
        if release.payload is None:
            return {"members": 0.0, "width": width}
        self._take(basis, region, self._sums.read(release.payload["sum"], len(points)), t)
        logs = self._carried.constants.logs
        return {
            "members": float(len(release.payload["members"])),
            "width": width,
            "length_scale": float(np.exp(logs[:-1].mean())),
            "noise_ratio": float(np.exp(logs[-1])),
        }

    def _take(self, basis: Basis, region: Region, total: RegionSum, t: int) -> None:
        """Move the region's centre, and note what the next summaries have in common."""
        E, D = basis.points.shape[1], self._context.space.dimension
        support, nobody = self._sums.support(basis), (np.empty((0, E)), np.empty(0))
        posterior = exact_with_summaries(support, basis.eta, total.summary, *nobody)
        keys, none = Keys(self._context.seed, SERVER, t), (np.empty((0, D)), np.empty(0))
        scaled = posterior.in_units_of(total.deviation)
        self._centre = self._searches.choose(scaled, *none, keys, t, region)
        means, variances = posterior.moments(basis.points)
        units = next_units(basis.units, means, total.deviation**2 * variances)
        self._carried.constants = Constants(self._sums.next_logs(basis, total), units)

    def state(self) -> State:
        """Return the region's centre, what the next summaries have in common, and the last sum."""
        return {**self._carried.state(), "centre": self._centre}

    def restore(self, state: State) -> None:
        """Restore a state."""
        self._carried.restore(state)
        self._centre = state["centre"]
