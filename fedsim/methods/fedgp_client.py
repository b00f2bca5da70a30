"""The client's program of FBO-FedGP; see :mod:`fedsim.methods.fbo_fedgp`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsim.acquisition import whole_cube
from fedsim.crypto import SumClient, TooLargeError
from fedsim.errors import RunError, SettingError
from fedsim.methods.common import InitialDesign
from fedsim.methods.own_model import OwnModel, SurrogateSettings
from fedsim.methods.own_probability import Schedule, queries_own
from fedsim.methods.queries import Queries
from fedsim.methods.shared_work import SharedWork
from fedsim.methods.summaries import Summaries, basis_of
from fedsim.methods.support_sets import CENTRES
from fedsim.protocol import Broadcast, Context, Observation, Payload, Proposal, Request
from fedsim.rng import Keys
from fedsim.space import Array
from fedsim.surrogates.dpitc import SparsePosterior
from fedsim.surrogates.exact_gp import ExactGP
from fedsim.surrogates.support import local_centres


@dataclass(frozen=True, slots=True)
class Work:
    """What the clients of a process share.

    Attributes:
        context: the federation.
        surrogate: settings of the clients' own models.
        length_scale: of those, until the first fit.
        summaries: makes vectors, and models of their sums.
        queries: chooses queries.
        shared: for the clients' own models.
    """

    context: Context
    surrogate: SurrogateSettings
    summaries: Summaries
    queries: Queries
    shared: SharedWork
    length_scale: float


class Client:
    """Algorithm 2, lines 2-4 and 14-26."""

    def __init__(
        self, work: Work, schedule: Schedule, design: InitialDesign, sums: SumClient
    ) -> None:
        self._work = work
        self._schedule = schedule
        self._design = design
        self._sums = sums
        self._model = OwnModel(work.surrogate, work.length_scale, work.shared)
        self._prepared: tuple[Keys, Array] | None = None

    @property
    def holds_secrets(self) -> bool:
        """Whether it holds keys."""
        return self._sums.holds_secrets

    def propose(self, step: int, message: Broadcast | None, rng: Keys) -> Sequence[Proposal]:
        """Return the initial design, or a query from the own or the global model."""
        work = self._work
        if step == 0:  # line 2
            space = work.context.space
            cube = whole_cube(space.dimension)
            return self._design.proposals(space, cube, rng)
        if message is None or self._is_own(step, rng):  # lines 14-17
            self._prepare(rng)
            assert self._prepared is not None
            return [Proposal(self._prepared[1], "own")]
        basis, t = basis_of(message.payload), int(message.payload["round"])
        posterior = work.summaries.model(basis, message.payload["sum"]).posterior  # line 22
        return [Proposal(self._choose(posterior, rng, t), "global")]  # line 23

    def prepare(self, step: int, rng: Keys) -> None:
        """Choose a query from the own model ahead."""
        if step > 0 and self._is_own(step, rng):
            self._prepare(rng)

    def _is_own(self, step: int, rng: Keys) -> bool:
        return queries_own(self._schedule, step, rng, "own-or-global")

    def _prepare(self, rng: Keys) -> None:
        if self._prepared is None or self._prepared[0] != rng:
            self._prepared = rng, self._choose(self._model.posterior(), rng, rng.step)

    def _choose(self, posterior: ExactGP | SparsePosterior, rng: Keys, t: int) -> Array:
        model = self._model
        return self._work.queries.choose(posterior, model.inputs, model.outputs, rng, t)

    def observe(self, observations: Sequence[Observation]) -> None:
        """Add evaluations to the history."""
        self._prepared = None
        self._model.observe(observations)  # lines 25-26

    def reply(self, request: Request, rng: Keys) -> Payload:
        """Answer the secure sum, or return local centres.

        Raises:
            RunError: if the request is neither's.
            SettingError: if an output is too large.
        """
        if self._sums.knows(request):  # line 19
            try:
                return self._sums.reply(request, self._vector)
            except TooLargeError as error:
                raise self._too_large(str(error).partition(":")[0]) from None
        if request.kind != CENTRES:
            raise RunError(f"FBO-FedGP: clients do not know the request {request.kind!r}")
        inputs = self._work.context.space.embed(self._model.inputs)
        count = int(request.payload["count"])
        return {"centres": local_centres(inputs, count, rng("local-centres"))}  # line 3

    def _too_large(self, who: str) -> SettingError:
        largest = float(np.abs(self._model.outputs).max())
        key, scale = "method.output_scale", self._work.summaries.layout.output_scale
        least = largest / 1e12
        return SettingError(
            f"{key}: {scale:g} is too small: {who} observed a value of magnitude {largest:.3g}, "
            "and sums have no room for values so much larger than this, or than the spread of "
            f"earlier ones; start a new run with a larger {key}"
            + (f", at least {least:.1g}" if least > scale else "")
            + ": resuming this one ends in the same error"
        )

    def _vector(self, payload: Payload) -> Array:
        work, model = self._work, self._model
        inputs = work.context.space.embed(model.inputs)
        logs = model.fitted() if payload["fit"] else None
        return work.summaries.vector(basis_of(payload), inputs, model.outputs, logs)
