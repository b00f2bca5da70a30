"""What RGPE and TAF share: helpers send posteriors, a target maximises what it makes of them.

Paper: FTS (Dai, Low and Jaillet, NeurIPS 2020), Sec. 3.2. For the two methods, see
:mod:`fedsim.methods.rgpe` and :mod:`fedsim.methods.taf`.
"""

from __future__ import annotations

import numpy as np

from fedsim.acquisition import Piece, maximize, whole_cube
from fedsim.acquisition.candidates import perturbed
from fedsim.acquisition.refinement import Differentiable
from fedsim.errors import require
from fedsim.methods.helpers_first import Messages
from fedsim.methods.local_model import LocalModel, LocalModelSettings
from fedsim.methods.messages import FederatedWork, MessageSettings
from fedsim.methods.queries import best_points
from fedsim.methods.sources import Sources
from fedsim.protocol import AgentId, Context, Payload
from fedsim.rng import Keys
from fedsim.space import Array
from fedsim.space.cells import Indices

_NEAR = 100  # candidates near a target's own best points


class Transfer:
    """Makes messages and queries; what the agents of a process share is computed once.

    Args:
        context: the federation.
        message: of the helpers.
        surrogate: of the agents' own models; its ``candidates`` and ``starts`` are those of the
            search.

    Raises:
        ConfigError: if a setting is out of range.
    """

    def __init__(
        self, context: Context, message: MessageSettings, surrogate: LocalModelSettings
    ) -> None:
        require(
            message.kind == "sample",
            "method.message.kind",
            "no value, as helpers send whole posteriors",
            message.kind,
        )
        self.work = FederatedWork(context, message, 1, surrogate)
        self._surrogate = surrogate

    def message(self, model: LocalModel) -> Payload:
        """Return nu, shape (M,), and Sigma^-1, shape (M, M); Eq. (3)."""
        posterior = self.work.posterior(self.work.features_of(model.inputs), model.outputs)
        return {"mean": posterior.mean, "covariance": posterior.inverse_precision()}

    def sources(self, agent: AgentId, messages: Messages) -> tuple[Sources, Indices]:
        """Return the models of the helpers other than ``agent``, and which they are (H,)."""
        others = np.flatnonzero(messages.senders != agent)
        content, noise = messages.content, self.work.settings.noise_variance
        every = Sources(self.work.features, noise, content["mean"], content["covariance"])
        return (every if len(others) == len(messages.senders) else every.of(others)), others

    def maximiser(self, function: Differentiable, model: LocalModel, keys: Keys) -> Array:
        """Return where a logarithm of an improvement is highest, shape (D,)."""
        space, s = self.work.shared.space, self._surrogate
        candidates = self.work.shared.candidates(keys.seed, keys.step, s.candidates)
        if space.grid is None and len(model.outputs):
            centres = best_points(model.inputs, model.outputs)
            cube = whole_cube(space.dimension)
            near = perturbed(centres, _NEAR, keys("near-candidates"), cube)
            candidates = np.concatenate([candidates, space.snap(near)])
        starts = s.starts if space.grid is None else 0
        piece = Piece(whole_cube(space.dimension), function)
        return maximize(space, (piece,), candidates, starts=starts, largest_spread=1.0)[0]
