"""Maximising a sample of a model that works in warped coordinates.

The maximiser climbs along the parameters that vary continuously, and steps among the values of the
others. So it moves in warped coordinates along the first, where the sample is smooth: candidates
that are spread evenly there are the same for all agents. Parameters with finitely many values stay
in the cube's own coordinates, which say what the values are, and the sample is warped along them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedsim.acquisition import Piece, maximize, whole_cube
from fedsim.methods.shared_work import SharedWork
from fedsim.rng import Keys
from fedsim.space import Array, Space
from fedsim.surrogates.paths import PosteriorPath
from fedsim.surrogates.warping import Warp


def maximise_path(
    shared: SharedWork, path: PosteriorPath, warp: Warp, keys: Keys, *, candidates: int, starts: int
) -> Array:
    """Return the point of the space where a sample is highest, shape (D,).

    Args:
        shared: the process's shared work; knows the search space.
        path: the sample, in embedded coordinates of the warped cube.
        warp: of the cube.
        keys: choose the candidates.
        candidates: how many points are compared first.
        starts: how many of the best are refined.
    """
    space = shared.space
    climbed, stepped = _split(space, warp)
    columns = Warp(tuple(np.repeat(stepped.strengths, space.embedded_widths).tolist()))
    V = shared.candidates(keys.seed, keys.step, candidates, stepped)
    piece = Piece(
        whole_cube(space.dimension), path if columns.is_identity else Warped(path, columns)
    )
    ranking = path.ranking(columns.forward(space.embed(V)))
    v, _ = maximize(space, (piece,), V, starts=starts, ranking=ranking)
    u: Array = climbed.inverse(v[None])[0]
    return u


def _split(space: Space, warp: Warp) -> tuple[Warp, Warp]:
    """Return the warps of the continuous parameters alone, and of the others alone."""
    continuous = [p.cells is None for p in space.parameters]
    return (
        warp.changed({d: 0.0 for d, along in enumerate(continuous) if not along}),
        warp.changed({d: 0.0 for d, along in enumerate(continuous) if along}),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Warped:
    """The function z -> path(w(z)) of embedded coordinates.

    Attributes:
        path: the sample.
        warp: w, of the embedded coordinates.
    """

    path: PosteriorPath
    warp: Warp

    def values(self, Z: Array) -> Array:
        """Return the function at the rows of ``Z`` (k, E), shape (k,)."""
        return self.path.values(self.warp.forward(Z))

    def values_and_gradients(self, Z: Array) -> tuple[Array, Array]:
        """Return values, shape (k,), and gradients, shape (k, E)."""
        values, gradients = self.path.values_and_gradients(self.warp.forward(Z))
        return values, gradients * self.warp.slopes(Z)
