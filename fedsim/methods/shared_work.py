"""Work that agents of one process share, so that it is done once; it never changes a result."""

from __future__ import annotations

import math

import numpy as np

from fedsim.acquisition import draw_candidates
from fedsim.errors import ConfigError
from fedsim.memo import Memo
from fedsim.rng import SERVER, rng
from fedsim.space import Array, Space
from fedsim.space.cells import Indices
from fedsim.surrogates.kernels import Kernel
from fedsim.surrogates.paths import grid_factor
from fedsim.surrogates.trend import Trend
from fedsim.surrogates.warping import Warp


class SharedWork:
    """Work shared by the agents of one process; a method object owns one.

    Args:
        space: the search space.
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self._candidates = Memo[Array](2)
        self._factors = Memo[Array](16)

    def candidates(self, seed: int, step: int, count: int, warp: Warp | None = None) -> Array:
        """Return points to compare, the same for all agents, shape (count, D).

        Args:
            seed: the run's seed.
            step: the agent's own step for its own model, which is all that it knows when it
                prepares; the round for what all agents of a round maximise together.
            count: how many; on a grid, all of its points are returned.
            warp: the points are spread evenly in what it makes of them; None: in the cube.
        """

        def draw() -> Array:
            generator = rng(seed, "candidates", SERVER, step)
            if warp is None or warp.is_identity or self.space.grid is not None:
                return draw_candidates(self.space, count, generator)
            even = generator.random((count, self.space.dimension))
            return self.space.snap(warp.inverse(even))

        strengths = None if warp is None or warp.is_identity else warp.strengths
        return self._candidates.get((seed, step, count, strengths), draw)

    def grid_factor(self, kernel: Kernel, warp: Warp, trend: Trend | None) -> Array | None:
        """Return the factor of the prior's covariance on the warped grid, shape (points, rank).

        None if the space is no grid, or its factor with this kernel is too large.
        """
        grid = self.space.grid
        if grid is None:
            return None

        def factorise() -> Array:
            points = self.space.embed(warp.forward(grid))
            factor = grid_factor(kernel, points)
            if factor is None or trend is None:
                return np.empty((0, 0)) if factor is None else factor
            return np.hstack([factor, math.sqrt(kernel.variance) * trend.matrix(points)])

        found = self._factors.get((kernel, warp, trend), factorise)
        return found if len(found) else None


def grid_indices(space: Space, inputs: Array) -> Indices:
    """Return the indices of ``inputs`` (n, D) in ``space.grid``, shape (n,).

    Raises:
        ConfigError: if one is not on the grid.
    """
    indices = space.grid_indices(inputs)
    assert space.grid is not None
    if not np.allclose(space.grid[indices], inputs, rtol=0.0, atol=1e-9):
        raise ConfigError("surrogate: expected observations on the space's grid, got one off it")
    return indices
