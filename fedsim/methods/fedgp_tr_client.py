"""The client's program of FBO-FedGP with trust regions; see :mod:`fedsim.methods.fedgp_tr`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedsim.acquisition import whole_cube
from fedsim.crypto import SumClient
from fedsim.errors import RunError
from fedsim.methods.common import InitialDesign
from fedsim.methods.own_probability import Schedule, queries_own
from fedsim.methods.queries import Queries, best_points
from fedsim.methods.region_sums import RegionSums, prior_deviation
from fedsim.methods.robust_outputs import robust
from fedsim.methods.summaries import Basis, basis_of
from fedsim.methods.trust_regions import region_around
from fedsim.protocol import Broadcast, Context, Observation, Payload, Proposal, Request
from fedsim.rng import Keys
from fedsim.space import Array
from fedsim.surrogates.dpitc import Summary
from fedsim.surrogates.marginals import Marginals
from fedsim.surrogates.pic import exact_with_summaries


@dataclass(frozen=True, slots=True)
class RegionWork:
    """What the clients of a process share.

    Attributes:
        context: the federation.
        sums: makes vectors, and reads their sums.
        queries: chooses queries.
        design: each client's initial one.
    """

    context: Context
    sums: RegionSums
    queries: Queries
    design: InitialDesign


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
            return self._work.design.proposals(space, cube, rng)
        assert message is not None
        own = (
            queries_own(self._schedule, step, rng, "own-or-global") or "sum" not in message.payload
        )
        source, choose = ("own", self._own) if own else ("global", self._shared)
        return [Proposal(choose(message.payload, rng), source)]

    def _own(self, payload: Payload, rng: Keys) -> Array:
        """Return a query from own data, with what is shared of the prior, anywhere."""
        sums, basis = self._work.sums, basis_of(payload)
        if "sum" in payload:
            deviation = sums.read(payload["sum"], len(basis.points)).deviation
        else:
            deviation = prior_deviation(self._summary(basis), float(len(self._outputs)))
        posterior = self._given(basis, None).in_units_of(deviation)
        return self._work.queries.choose(posterior, self._inputs, self._outputs, rng, rng.step)

    def _shared(self, payload: Payload, rng: Keys) -> Array:
        """Return a query from own data and others' summaries, in a region."""
        basis, space = basis_of(payload), self._work.context.space
        total = self._work.sums.read(payload["sum"], len(basis.points))
        others = total.summary
        if self._agent in payload["members"]:
            others = _without(others, self._summary(basis))
        posterior = self._given(basis, others)
        # Own points may be better than the shared centre, which others know as little of.
        centres = np.vstack([payload["centre"], best_points(self._inputs, self._outputs)])
        means = posterior.moments(space.embed(centres))[0]
        region = region_around(space, centres[int(np.argmax(means))], float(payload["width"]))
        posterior = posterior.in_units_of(total.deviation)
        t = int(payload["round"])
        return self._work.queries.choose(posterior, self._inputs, self._outputs, rng, t, region)

    def _given(self, basis: Basis, others: Summary | None) -> Marginals:
        """Return the posterior of outputs x given own data and others' summaries."""
        x, Z = robust(self._outputs, basis.units), self._work.context.space.embed(self._inputs)
        return exact_with_summaries(self._work.sums.support(basis), basis.eta, others, Z, x)

    def _summary(self, basis: Basis) -> Summary:
        return self._work.sums.summary(basis, self._inputs, self._outputs)

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
        basis, fits = basis_of(payload), bool(payload["fit"])
        return self._work.sums.vector(basis, fits, self._inputs, self._outputs)


def _without(total: Summary, own: Summary) -> Summary:
    return replace(
        total, covariance=total.covariance - own.covariance, means=total.means - own.means
    )
