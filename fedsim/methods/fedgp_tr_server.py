"""The server's program of FBO-FedGP with trust regions; see :mod:`fedsim.methods.fedgp_tr`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedsim.crypto import SecureSum, upload_request
from fedsim.methods.queries import AcquisitionSettings, Queries
from fedsim.methods.region_sums import RegionSums, Sum
from fedsim.methods.summaries import Basis
from fedsim.methods.trust_regions import Region, RegionSettings, region_around
from fedsim.protocol import (
    Aggregator,
    Broadcast,
    Context,
    Fleet,
    Payload,
    Release,
    RoundInfo,
    State,
)
from fedsim.rng import SERVER, Keys, rng
from fedsim.space import Array
from fedsim.surrogates.pic import exact_with_summaries


class RegionServer:
    """Moves the region, and asks for a sum on a support set in it.

    Args:
        context: the federation.
        aggregator: the secure sum.
        sums: reads sums.
        regions: the widths.
        support_size: |S|.
        fit_every: clients fit hyper-parameters in every so many rounds; 0: never.
        logs: the first round's logarithms, shape (p + 1,).
        units: the first round's, shape (2,).
    """

    def __init__(
        self,
        context: Context,
        aggregator: SecureSum,
        sums: RegionSums,
        regions: RegionSettings,
        support_size: int,
        fit_every: int,
        logs: Array,
        units: Array,
    ) -> None:
        self._context = context
        self._aggregator = aggregator
        self._sums = sums
        self._regions = regions
        self._support_size = support_size
        self._fit_every = fit_every
        self._logs = logs
        self._units = units
        # Everyone's best is the posterior mean's, without a margin for what is not known.
        best = AcquisitionSettings(kind="ucb", beta=0.0, spread="none")
        self._searches = Queries(best, context.space)
        self._centre = context.space.snap(np.full((1, context.space.dimension), 0.5))[0]
        self._known: Payload | None = None

    @property
    def aggregators(self) -> Mapping[str, Aggregator]:
        """The secure sum."""
        return {"sums": self._aggregator}

    def start(self, fleet: Fleet) -> None:
        """Do nothing before round 0."""

    def round(self, t: int, fleet: Fleet) -> RoundInfo:
        """Let clients query, and sum their summaries."""
        width = self._regions.width(t, self._context.rounds) if t else 1.0
        message = None
        if self._known is not None:
            now = {"centre": self._centre, "width": np.array(width), "round": np.array(t)}
            message = Broadcast({**self._known, **now})
        if t == self._context.rounds:  # nothing follows the last query
            fleet.step(t, message)
            return {}
        region = region_around(self._context.space, self._centre, width)
        generator = rng(self._context.seed, "support-set", SERVER, t)
        points = region.fill(self._context.space, self._support_size, generator)
        basis = Basis(self._context.space.embed(points), self._logs, self._units)
        fits = self._fit_every > 0 and t % self._fit_every == 0
        asked = {
            **basis.payload(),
            "centre": self._centre,
            "width": np.array(width),
            "fit": np.array(fits),
        }
        request = upload_request(self._sums.length(len(points)), asked)
        release = fleet.step(t, message, then=request, via=self._aggregator)
        assert isinstance(release, Release)
        self._known = basis.payload()
        if release.payload is None:
            return {"members": 0.0, "width": width}
        self._known = {**self._known, **release.payload}
        total = self._sums.read(release.payload["sum"], len(points))
        self._centre = self._best_of(basis, region, total, t)
        self._logs, self._units = self._sums.next_basis(basis, total)
        return {
            "members": float(len(release.payload["members"])),
            "width": width,
            "in_region": float(total.moments[0]),
            "length_scale": float(np.exp(self._logs[:-1].mean())),
            "noise_ratio": float(np.exp(self._logs[-1])),
        }

    def _best_of(self, basis: Basis, region: Region, total: Sum, t: int) -> Array:
        """Return where in the region the posterior mean is highest, shape (D,)."""
        E, D = basis.points.shape[1], self._context.space.dimension
        none = np.empty((0, E)), np.empty(0)
        posterior = exact_with_summaries(
            self._sums.support(basis), basis.eta, total.summary, *none
        ).in_units_of(total.deviation)
        keys = Keys(self._context.seed, SERVER, t)
        return self._searches.choose(posterior, np.empty((0, D)), none[1], keys, t, region)

    def state(self) -> State:
        """Return the region's centre, what the next summaries have in common, and the last sum."""
        state = {"centre": self._centre, "logs": self._logs, "units": self._units}
        if self._known is not None:
            state |= {f"known/{name}": array for name, array in self._known.items()}
        return state

    def restore(self, state: State) -> None:
        """Restore a state."""
        self._centre, self._logs, self._units = state["centre"], state["logs"], state["units"]
        known = {n.removeprefix("known/"): a for n, a in state.items() if n.startswith("known/")}
        self._known = known or None
