"""The messages of federated Thompson sampling: weights of random features that all agents share.

Papers: FTS (NeurIPS 2020), Sec. 2 and Appendix A; DP-FTS-DE (NeurIPS 2021), Eq. (2) and Alg. 2,
lines 8 and 10. For the notation and the deviations see :mod:`fedsim.methods.dp_fts_de`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fedsim.acquisition import Piece, maximize
from fedsim.errors import require
from fedsim.memo import Memo
from fedsim.methods.local_model import LocalModelSettings
from fedsim.methods.shared_work import SharedWork
from fedsim.protocol import Context
from fedsim.rng import SERVER, rng
from fedsim.space import Array, Box
from fedsim.surrogates.kernels import Kernel
from fedsim.surrogates.linear import LinearPosterior, linear_posterior
from fedsim.surrogates.rff import FeatureFunction, RandomFeatures, draw_features
from fedsim.surrogates.scaling import standardised


@dataclass(frozen=True, slots=True)
class MessageSettings:
    """What agents send: a vector of weights of the shared random features.

    Attributes:
        kind: ``sample`` of the posterior, as in the paper, or its ``mean``.
        center: public constant subtracted from outputs, in units where larger is better; None:
            every agent standardises its own outputs, so that messages do not depend on units.
        scale: public constant that outputs minus ``center`` are divided by, above 0; not used
            without ``center``.
        features: the number of random features M, at least 1.
        kernel: family of the shared kernel.
        length_scale: of the shared kernel, in unit-cube coordinates; public.
        noise_variance: the regularisation lambda, above 0; public.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    kind: Literal["sample", "mean"] = "sample"
    center: float | None = None
    features: int = 100
    kernel: Literal["squared_exponential", "matern52"] = "squared_exponential"
    length_scale: float = 0.1
    noise_variance: float = 1e-2
    scale: float = 1.0

    def __post_init__(self) -> None:
        where = "method.message"
        if self.center is not None:
            require(math.isfinite(self.center), f"{where}.center", "a number", self.center)
        require(self.features >= 1, f"{where}.features", "at least 1", self.features)
        for name in ("length_scale", "noise_variance", "scale"):
            value = getattr(self, name)
            require(0 < value < math.inf, f"{where}.{name}", "a number above 0", value)


@dataclass(frozen=True, slots=True)
class MeanMessageSettings:
    """What agents send: posterior means, as weights of the shared random features.

    Attributes: as of :class:`fedsim.methods.messages.MessageSettings`.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    center: float | None = None
    scale: float = 1.0
    features: int = 50
    kernel: Literal["squared_exponential", "matern52"] = "squared_exponential"
    length_scale: float = 0.1
    noise_variance: float = 1e-2

    def __post_init__(self) -> None:
        self.complete()

    def complete(self) -> MessageSettings:
        """Return these settings with the kind of the message."""
        return MessageSettings(
            "mean",
            self.center,
            self.features,
            self.kernel,
            self.length_scale,
            self.noise_variance,
            self.scale,
        )


class FederatedWork:
    """Work shared by the agents of one process: public features and what follows from them.

    Args:
        context: the federation.
        settings: of the messages.
        subregions: P.
        surrogate: of the agents' own models, for the number of candidates.
    """

    def __init__(
        self,
        context: Context,
        settings: MessageSettings,
        subregions: int,
        surrogate: LocalModelSettings,
    ) -> None:
        kernel = Kernel(settings.kernel, (settings.length_scale,), 1.0)
        generator = rng(context.seed, "random-features", SERVER, 0)
        self.settings = settings
        self.shared = SharedWork(context.space)
        self.boxes: tuple[Box, ...] = context.space.subregions(subregions)
        columns = sum(context.space.embedded_widths)
        self.features: RandomFeatures = draw_features(kernel, columns, settings.features, generator)
        self._seed = context.seed
        self._surrogate = surrogate
        self._maximisers = Memo[Array](4)

    def features_of(self, U: Array) -> Array:
        """Return phi at points ``U`` (n, D) of the space, shape (n, M)."""
        return self.features.matrix(self.shared.space.embed(U))

    def message(self, features: Array, outputs: Array, generator: np.random.Generator) -> Array:
        """Return an agent's vector omega_n,t, shape (M,); Eq. (2).

        Args:
            features: of its inputs, shape (n, M).
            outputs: observed there, shape (n,).
            generator: consumed by a sample.
        """
        posterior = self.posterior(features, outputs)
        return posterior.mean if self.settings.kind == "mean" else posterior.sample(generator)

    def posterior(self, features: Array, outputs: Array) -> LinearPosterior:
        """Return the posterior of the weights, for outputs in the messages' units."""
        y = self.in_message_units(outputs)
        return linear_posterior(features, y, self.settings.noise_variance)

    def in_message_units(self, outputs: Array) -> Array:
        """Return an agent's outputs, shape (n,), as its message describes them."""
        s = self.settings
        if s.center is None:
            return standardised(outputs)
        scaled: Array = (outputs - s.center) / s.scale
        return scaled

    def maximiser(self, vectors: Array, t: int) -> Array:
        """Return arg max of phi(x)^T omega^(i), i the sub-region of x; Alg. 2, line 8.

        All agents of a round have the same vectors and candidates, so the result is computed once
        per process, and is the same for agents that have missed rounds.

        Args:
            vectors: omega^(1..P), shape (P, M).
            t: the round; chooses the candidates.
        """
        return self._maximisers.get((t, vectors.tobytes()), lambda: self._maximise(vectors, t))

    def _maximise(self, vectors: Array, t: int) -> Array:
        space = self.shared.space
        candidates = self.shared.candidates(self._seed, t, self._surrogate.candidates)
        pieces = tuple(
            Piece(box, FeatureFunction(self.features, vector))
            for box, vector in zip(self.boxes, vectors, strict=True)
        )
        starts = self._surrogate.starts if space.grid is None else 0
        return maximize(space, pieces, candidates, starts=starts)[0]
