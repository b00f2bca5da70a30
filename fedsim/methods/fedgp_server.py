"""The server's program of FBO-FedGP; see :mod:`fedsim.methods.fbo_fedgp`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedsim.crypto import SecureSum, upload_request
from fedsim.methods.fedgp_rounds import Carried, Constants, FitRounds
from fedsim.methods.summaries import Basis, Summaries
from fedsim.methods.support_sets import SupportSets
from fedsim.protocol import Aggregator, Broadcast, Fleet, Payload, Release, RoundInfo, State
from fedsim.space import Array


class Server:
    """Algorithm 2, lines 5-7 and 20-21."""

    def __init__(
        self,
        aggregator: SecureSum,
        summaries: Summaries,
        support_sets: SupportSets,
        fit_rounds: FitRounds,
        first: Constants,
        rounds: int,
    ) -> None:
        self._aggregator = aggregator
        self._summaries = summaries
        self._support_sets = support_sets
        self._fit_rounds = fit_rounds
        self._carried = Carried(first)
        self._rounds = rounds
        self._support: Array | None = None

    @property
    def aggregators(self) -> Mapping[str, Aggregator]:
        """The secure sum."""
        return {"sums": self._aggregator}

    def start(self, fleet: Fleet) -> None:
        """Do nothing before round 0."""

    def round(self, t: int, fleet: Fleet) -> RoundInfo:
        """Let clients query, and sum their summaries."""
        known = self._carried.message
        message = None if known is None else Broadcast({**known, "round": np.array(t)})
        if t == self._rounds:  # nothing follows the last query
            fleet.step(t, message)
            return {}
        shown, stepped = self._new_support(t, message, fleet)
        assert self._support is not None
        constants = self._carried.constants
        basis = Basis(self._support, constants.logs, constants.units)
        length = self._summaries.layout.length(len(basis.points))
        request = upload_request(length, basis.asked(self._fit_rounds.include(t)))
        if stepped:
            release = fleet.ask(t, request, via=self._aggregator)
        else:
            release = fleet.step(t, message, then=request, via=self._aggregator)
        assert isinstance(release, Release)
        return self._take(basis, release.payload) | shown

    def _new_support(
        self, t: int, message: Broadcast | None, fleet: Fleet
    ) -> tuple[dict[str, float], bool]:
        """Return what clients showed for a new support set, and whether they took a step."""
        if not self._support_sets.changes(t):
            return {}, False
        request = self._support_sets.centres_request(t)
        if request is None:
            self._support = self._support_sets.public(t)
            return {}, False
        replies = fleet.step(t, message, then=request)
        assert not isinstance(replies, Release)
        self._support = self._support_sets.clustered(t, replies)
        shown = sum(len(r.payload["centres"]) for r in replies if r.status == "ok")
        return {"centres_shown": float(shown)}, True

    def _take(self, basis: Basis, payload: Payload | None) -> dict[str, float]:
        """Keep a sum for the next round; return its diagnostics."""
        carried = self._carried
        if payload is None:
            carried.message = None
            return {"members": 0.0}
        carried.message = {**basis.payload(), "sum": payload["sum"]}
        model = self._summaries.model(basis, payload["sum"])
        carried.constants = Constants(model.logs, model.units)
        scales = np.exp(model.logs[:-1])
        return {
            "members": float(len(payload["members"])),
            "support": float(len(basis.points)),
            "length_scale": float(np.exp(np.log(scales).mean())),
            "noise_ratio": float(np.exp(model.logs[-1])),
            "prior_variance": model.variance,
        }

    def state(self) -> State:
        """Return the last sum, and what the next summaries have in common."""
        support = {} if self._support is None else {"support": self._support}
        return {**self._carried.state(), **support}

    def restore(self, state: State) -> None:
        """Restore a state."""
        self._carried.restore(state)
        self._support = state.get("support")
