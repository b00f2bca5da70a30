"""A function that the server says all agents' functions resemble: their prior mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedsim.space import Array, Space
from fedsim.surrogates.prior_mean import MeanBasis
from fedsim.surrogates.rff import FeatureFunction
from fedsim.surrogates.scaling import mean_of, spread
from fedsim.surrogates.warping import Warp


@dataclass(frozen=True, slots=True, eq=False)
class SharedMean:
    """An agent's outputs are said to be about level + scale m(u).

    Attributes:
        function: m, of embedded coordinates.
        on_grid: its values on the space's grid, shape (points,); None: the space is no grid.
        scale: in the outputs' unit; None: every agent's own spread.
    """

    function: FeatureFunction
    on_grid: Array | None
    scale: float | None

    def basis(
        self,
        space: Space,
        warp: Warp,
        inputs: Array,
        outputs: Array,
        level: float | None,
        unit: float | None,
    ) -> MeanBasis:
        """Return m as the prior mean of outputs minus their level, in a unit.

        Args:
            space: the search space.
            warp: of the cube; the result is a function of what it makes of it.
            inputs: the agent's, shape (n, D).
            outputs: observed there, shape (n,).
            level: None: the outputs' own mean; then that of m at the inputs is subtracted from m.
            unit: None: the outputs' own spread around their level.
        """
        own = spread(outputs - mean_of(outputs))
        if unit is None:
            unit = own if level is None else spread(outputs - level)
        factor = (own if self.scale is None else self.scale) / unit if unit else 1.0
        columns = Warp(tuple(np.repeat(warp.strengths, space.embedded_widths).tolist()))
        offset = 0.0
        if level is None and len(inputs):
            offset = mean_of(self.function.values(space.embed(inputs)))
        return MeanBasis(self.function, columns, offset, factor)
