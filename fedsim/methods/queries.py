"""Where to query next, given a posterior: acquisition functions and their maximisation.

Posteriors here are in units of the prior's standard deviation, and larger is better.

Clients that share one posterior would all query the same point. So each has a number of its own,
drawn anew for every query: beta of the upper confidence bound comes from an exponential
distribution (Hutter, Hoos and Leyton-Brown, Parallel Algorithm Configuration, LION 2012), from
nearly pure exploitation to much exploration, and what an improvement must exceed lies above the
best known mean by such a number. Thompson sampling draws its own functions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fedsim.acquisition import Piece, maximize, whole_cube
from fedsim.acquisition.candidates import perturbed, sobol_points
from fedsim.acquisition.functions import (
    LogExpectedImprovement,
    LogProbabilityOfImprovement,
    OfPosterior,
    Rule,
    UpperConfidenceBound,
)
from fedsim.errors import require
from fedsim.memo import Memo
from fedsim.methods.trust_regions import Region
from fedsim.rng import SERVER, Keys, rng
from fedsim.space import Array, Box, Space
from fedsim.surrogates.dpitc import SparsePosterior
from fedsim.surrogates.exact_gp import ExactGP
from fedsim.surrogates.marginals import Marginals
from fedsim.surrogates.paths import (
    PosteriorPath,
    feature_count,
    sample_path,
    sample_sparse_path,
)

Posterior = ExactGP | SparsePosterior | Marginals
"""Of a client's own data, of all data, or of both, as its law at every point."""

_CENTRES = 4  # best points of the client's own that candidates are drawn around
_SPARSE_FEATURES = 400  # of a sparse posterior's samples


@dataclass(frozen=True, slots=True)
class AcquisitionSettings:
    """How a query is chosen.

    Attributes:
        kind: ``ucb``, ``ei``, ``pi`` or ``thompson``.
        beta: of ``ucb``: multiplies the standard deviation; of ``thompson``: multiplies that of a
            sample; at least 0.
        margin: of ``ei`` and ``pi``: what counts as an improvement exceeds the best known mean by
            this many of the prior's standard deviations; at least 0.
        spread: ``exponential``: every client multiplies ``beta`` of ``ucb``, or ``margin``, by a
            number drawn from an exponential distribution of mean 1, anew for every query;
            ``none``: all clients have the same.
        candidates: points all over the space at which functions are compared, at least 1.
        near: further ones near the client's own best points, at least 0.
        starts: how many of the best are refined, at least 1.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    kind: Literal["ucb", "ei", "pi", "thompson"] = "ucb"
    beta: float = 1.0
    margin: float = 0.05
    spread: Literal["exponential", "none"] = "exponential"
    candidates: int = 256
    near: int = 128
    starts: int = 2

    def __post_init__(self) -> None:
        where = "method.acquisition"
        for name in ("beta", "margin"):
            value = getattr(self, name)
            require(0 <= value < math.inf, f"{where}.{name}", "a number of at least 0", value)
        for name, least in (("candidates", 1), ("near", 0), ("starts", 1)):
            value = getattr(self, name)
            require(value >= least, f"{where}.{name}", f"at least {least}", value)


def best_points(X: Array, y: Array) -> Array:
    """Return the inputs X (n, D) of the best outputs y (n,), best first, shape (at most 4, D)."""
    return X[np.argsort(-y, kind="stable")[:_CENTRES]]


class Queries:
    """Chooses queries; what the agents of a process share is computed once.

    Args:
        settings: how.
        space: where.
    """

    def __init__(self, settings: AcquisitionSettings, space: Space) -> None:
        self._settings = settings
        self._space = space
        self._spread = Memo[Array](2)
        self._candidates = Memo[Array](2)
        self._moments = Memo[tuple[Array, Array]](1)

    def choose(
        self,
        posterior: Posterior,
        X: Array,
        y: Array,
        keys: Keys,
        t: int,
        region: Region | None = None,
    ) -> Array:
        """Return the point to query, shape (D,).

        Args:
            posterior: of the outputs, in units of the prior's standard deviation.
            X: the client's own inputs, shape (n, D).
            y: its outputs, shape (n,).
            keys: the client's.
            t: chooses the candidates that clients have in common.
            region: where; None: anywhere. In a region, further candidates are near its centre, not
                near the client's own best points.
        """
        s, space = self._settings, self._space
        starts = s.starts if space.grid is None else 0
        box = whole_cube(space.dimension) if region is None else region.box
        common, near = self._candidates_for(posterior, X, y, keys, t, region)
        candidates = np.concatenate([common, near])
        function: PosteriorPath | OfPosterior
        if s.kind == "thompson":
            assert not isinstance(posterior, Marginals)
            function = self._path(posterior, keys)
            compare = function.ranking if starts else function.values
            ranking = compare(space.embed(candidates))
        else:
            rule = self._rule(posterior, X, keys)
            function = OfPosterior(posterior, rule)
            shared, own = (
                self._moments_at(posterior, common, t),
                posterior.moments(space.embed(near)),
            )
            ranking = rule.values(*map(np.append, shared, own))
        piece = Piece(box, function)
        return maximize(
            space,
            (piece,),
            candidates,
            starts=starts,
            ranking=ranking,
            largest_spread=1.0 if s.kind in ("ei", "pi") else math.inf,  # those are logarithms
        )[0]

    def _rule(self, posterior: Posterior, X: Array, keys: Keys) -> Rule:
        s = self._settings
        drawn = 1.0 if s.spread == "none" else float(keys("acquisition").exponential())
        if s.kind == "ucb":
            return UpperConfidenceBound(s.beta * drawn)
        known = self._space.embed(X)
        if isinstance(posterior, SparsePosterior):
            known = np.concatenate([known, posterior.support.points])
        elif isinstance(posterior, Marginals):
            known = posterior.points
        best = float(posterior.moments(known)[0].max()) + s.margin * drawn
        if s.kind == "ei":
            return LogExpectedImprovement(best)
        return LogProbabilityOfImprovement(best)

    def _path(self, posterior: ExactGP | SparsePosterior, keys: Keys) -> PosteriorPath:
        generator, beta = keys("posterior-sample"), self._settings.beta
        if isinstance(posterior, ExactGP):
            count = feature_count(posterior.noise_variance)
            return sample_path(posterior, count, beta, generator)
        return sample_sparse_path(posterior, _SPARSE_FEATURES, beta, generator)

    def _candidates_for(
        self, posterior: Posterior, X: Array, y: Array, keys: Keys, t: int, region: Region | None
    ) -> tuple[Array, Array]:
        """Return candidates that clients have in common, and the client's own near good points."""
        if region is None:
            cube = whole_cube(self._space.dimension)
            near = self._near(best_points(X, y), cube, keys)
            return self._common(posterior, keys.seed, t), near
        near = self._near(region.centre[None], region.box, keys)
        return self._in_region(region, keys.seed, t), near

    def _near(self, centres: Array, box: Box, keys: Keys) -> Array:
        """Return candidates of a box near some of its points (k, D), shape (m, D)."""
        space, count = self._space, self._settings.near
        if space.grid is not None or not count or not len(centres):
            return np.empty((0, space.dimension))
        return space.snap(perturbed(centres, count, keys("near-candidates"), box))

    def _in_region(self, region: Region, seed: int, t: int) -> Array:
        """Return candidates all over a region, its centre first, shape (m, D)."""
        if self._space.grid is not None:
            return self._space.grid[region.box.contains(self._space.grid)]
        return region.fill(self._space, self._evenly(seed, t)[: self._settings.candidates - 1])

    def _evenly(self, seed: int, t: int) -> Array:
        """Return points all over the cube, shape (candidates, D)."""
        count, dimension = self._settings.candidates, self._space.dimension

        def draw() -> Array:
            return sobol_points(dimension, count, rng(seed, "candidates", SERVER, t))

        return self._spread.get((seed, t), draw)

    def _common(self, posterior: Posterior, seed: int, t: int) -> Array:
        """Return the candidates that all clients with this posterior compare, shape (m, D)."""
        space = self._space
        if space.grid is not None:
            return space.grid
        spread = self._candidates.get((seed, t), lambda: space.snap(self._evenly(seed, t)))
        if not isinstance(posterior, SparsePosterior) or max(space.embedded_widths) > 1:
            return spread
        # The shared posterior knows most at the support points.
        return np.concatenate([spread, space.snap(posterior.support.points)])

    def _moments_at(self, posterior: Posterior, common: Array, t: int) -> tuple[Array, Array]:
        """Return the posterior's moments at the common candidates, each (m,)."""

        def moments() -> tuple[Array, Array]:
            return posterior.moments(self._space.embed(common))

        if not isinstance(posterior, SparsePosterior):
            return moments()
        return self._moments.get((posterior, t), moments)
