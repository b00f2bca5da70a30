"""The server's program of FBO-FedGP; see :mod:`fedsim.methods.fbo_fedgp`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedsim.crypto import SecureSum, upload_request
from fedsim.methods.summaries import Basis, Summaries
from fedsim.methods.support_sets import SupportSets
from fedsim.protocol import Aggregator, Broadcast, Fleet, Payload, Release, RoundInfo, State
from fedsim.space import Array


@dataclass(frozen=True, slots=True, eq=False)
class Constants:
    """What the clients' next summaries have in common, besides the support set.

    Attributes:
        logs: logarithms of length scales and eta, shape (p + 1,).
        units: c and r, shape (2,).
    """

    logs: Array
    units: Array


class Server:
    """Algorithm 2, lines 5-7 and 20-21."""

    def __init__(
        self,
        aggregator: SecureSum,
        summaries: Summaries,
        support_sets: SupportSets,
        first: Constants,
        rounds: int,
    ) -> None:
        self._aggregator = aggregator
        self._summaries = summaries
        self._support_sets = support_sets
        self._constants = first
        self._rounds = rounds
        self._support: Array | None = None
        self._sum: Payload | None = None

    @property
    def aggregators(self) -> Mapping[str, Aggregator]:
        """The secure sum."""
        return {"sums": self._aggregator}

    def start(self, fleet: Fleet) -> None:
        """Do nothing before round 0."""

    def round(self, t: int, fleet: Fleet) -> RoundInfo:
        """Let clients query, and sum their summaries."""
        message = None if self._sum is None else Broadcast({**self._sum, "round": np.array(t)})
        if t == self._rounds:  # nothing follows the last query
            fleet.step(t, message)
            return {}
        shown, stepped = self._new_support(t, message, fleet)
        assert self._support is not None
        basis = Basis(self._support, self._constants.logs, self._constants.units)
        length = self._summaries.layout.length(len(basis.points))
        request = upload_request(length, basis.payload())
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
        if payload is None:
            self._sum = None
            return {"members": 0.0}
        self._sum = {**basis.payload(), "sum": payload["sum"]}
        model = self._summaries.model(basis, payload["sum"])
        self._constants = Constants(model.logs, model.units)
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
        state = {"logs": self._constants.logs, "units": self._constants.units}
        if self._support is not None:
            state["support"] = self._support
        if self._sum is not None:
            state |= {f"sum/{name}": array for name, array in self._sum.items()}
        return state

    def restore(self, state: State) -> None:
        """Restore a state."""
        self._constants = Constants(state["logs"], state["units"])
        self._support = state.get("support")
        taken = {n.removeprefix("sum/"): a for n, a in state.items() if n.startswith("sum/")}
        self._sum = taken or None
