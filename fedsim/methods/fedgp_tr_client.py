"""The client's program of FBO-FedGP with trust regions; see :mod:`fedsim.methods.fedgp_tr`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedsim.acquisition import whole_cube
from fedsim.crypto import SumClient
from fedsim.errors import RunError
from fedsim.methods.common import initial_design
from fedsim.methods.own_probability import Schedule
from fedsim.methods.queries import Queries, best_points
from fedsim.methods.region_sums import RegionSums
from fedsim.methods.robust_outputs import robust
from fedsim.methods.summaries import basis_of
from fedsim.methods.trust_regions import region_around
from fedsim.protocol import Broadcast, Context, Observation, Payload, Proposal, Request
from fedsim.rng import Keys
from fedsim.space import Array
from fedsim.surrogates.dpitc import Summary
from fedsim.surrogates.pic import exact_with_summaries


@dataclass(frozen=True, slots=True)
class RegionWork:
    """What the clients of a process share.

    Attributes:
        context: the federation.
        sums: makes vectors, and reads their sums.
        queries: chooses queries.
        initial_points: of each client's initial design.
    """

    context: Context
    sums: RegionSums
    queries: Queries
    initial_points: int


class RegionClient:
    """One client."""

    def __init__(self, agent: int, work: RegionWork, schedule: Schedule, sums: SumClient) -> None:
        self._agent = agent
        self._work = work
        self._schedule = schedule
        self._sums = sums
        self._inputs = np.empty((0, work.context.space.dimension))
        self._outputs = np.empty(0)

    @property
    def holds_secrets(self) -> bool:
        """Whether it holds keys."""
        return self._sums.holds_secrets

    def propose(self, step: int, message: Broadcast | None, rng: Keys) -> Sequence[Proposal]:
        """Return the initial design, or a query from the region or from all of the space."""
        space = self._work.context.space
        if step == 0:
            cube = whole_cube(space.dimension)
            return initial_design(space, cube, self._work.initial_points, rng)
        assert message is not None
        own = 1.0 - rng("own-or-global").random() <= self._schedule(step)  # p_1 = 0 means never
        if own or "sum" not in message.payload:
            return [Proposal(self._own_query(message.payload, rng), "own")]
        return [Proposal(self._shared_query(message.payload, rng), "global")]

    def _own_query(self, payload: Payload, rng: Keys) -> Array:
        """Return a query from own data alone, anywhere."""
        work, basis = self._work, basis_of(payload)
        x, Z = robust(self._outputs, basis.units), work.context.space.embed(self._inputs)
        if "sum" in payload:
            scale = work.sums.read(payload["sum"], len(basis.points)).deviation
        else:
            scale = work.sums.own(basis, self._inputs, self._outputs).deviation
        support = work.sums.support(basis)
        posterior = exact_with_summaries(support, basis.eta, None, Z, x).in_units_of(scale)
        return work.queries.choose(posterior, self._inputs, self._outputs, rng, rng.step)

    def _shared_query(self, payload: Payload, rng: Keys) -> Array:
        """Return a query from own data and others' summaries, in a region."""
        work, basis = self._work, basis_of(payload)
        x, Z = robust(self._outputs, basis.units), work.context.space.embed(self._inputs)
        total = work.sums.read(payload["sum"], len(basis.points))
        others = total.summary
        if self._agent in payload["members"]:
            others = _without(others, work.sums.own(basis, self._inputs, self._outputs).summary)
        support = work.sums.support(basis)
        posterior = exact_with_summaries(support, basis.eta, others, Z, x)
        # Own points may be better than the shared centre, which others know as little of.
        centres = np.vstack([payload["centre"], best_points(self._inputs, self._outputs)])
        means = posterior.moments(work.context.space.embed(centres))[0]
        width = float(payload["width"])
        region = region_around(work.context.space, centres[int(np.argmax(means))], width)
        posterior = posterior.in_units_of(total.deviation)
        t = int(payload["round"])
        return work.queries.choose(posterior, self._inputs, self._outputs, rng, t, region)

    def observe(self, observations: Sequence[Observation]) -> None:
        """Add evaluations to the history."""
        self._inputs = np.vstack([self._inputs, *(o.u[None] for o in observations)])
        self._outputs = np.append(self._outputs, [o.y for o in observations])

    def reply(self, request: Request, rng: Keys) -> Payload:
        """Answer the secure sum.

        Raises:
            RunError: if the request is another's.
        """
        if not self._sums.knows(request):
            raise RunError(f"FBO-FedGP: clients do not know the request {request.kind!r}")
        return self._sums.reply(request, self._vector)

    def _vector(self, payload: Payload) -> Array:
        space = self._work.context.space
        region = region_around(space, payload["centre"], float(payload["width"]))
        return self._work.sums.vector(
            basis_of(payload), region, bool(payload["fit"]), self._inputs, self._outputs
        )


def _without(total: Summary, own: Summary) -> Summary:
    return replace(
        total, covariance=total.covariance - own.covariance, means=total.means - own.means
    )
