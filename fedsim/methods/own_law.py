"""What an agent knows of its own function, as a normal law at every point.

The law is that of a Gaussian process on the agent's own history, in any units that its outputs are
wanted in: those of other agents' messages, for example.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedsim.space import Array
from fedsim.surrogates.exact_gp import ExactGP
from fedsim.surrogates.warping import Warp


@dataclass(frozen=True, slots=True, eq=False)
class OwnLaw:
    """The law of an agent's own function, on the space's embedded coordinates.

    Attributes:
        posterior: of the function in units of the prior's standard deviation, in warped
            coordinates.
        outputs: the observed outputs in these units, shape (n,).
        warp: of the embedded coordinates.
        shift: the law is that of ``shift + factor g``, with g the function in these units.
        factor: above 0.
    """

    posterior: ExactGP
    outputs: Array
    warp: Warp
    shift: float = 0.0
    factor: float = 1.0

    def in_units(self, outputs: Array) -> OwnLaw:
        """Return the law in the units in which the observed outputs are these, shape (n,)."""
        y, factor = self.outputs, 1.0
        if len(y) and np.ptp(y) > 0.0:
            factor = float(np.ptp(outputs) / np.ptp(y))
        shift = float(np.mean(outputs - factor * y)) if len(y) else 0.0
        return replace(self, shift=shift, factor=factor)

    def moments(self, Z: Array) -> tuple[Array, Array]:
        """Return mean and variance at the rows of ``Z`` (k, E), each (k,)."""
        mean, variance = self.posterior.moments(self.warp.forward(Z))
        return self.shift + self.factor * mean, self.factor**2 * variance

    def moments_and_gradients(self, Z: Array) -> tuple[Array, Array, Array, Array]:
        """Return :meth:`moments` and their gradients, each (k, E)."""
        mean, variance, slopes, variance_slopes = self.posterior.moments_and_gradients(
            self.warp.forward(Z)
        )
        along, factor = self.warp.slopes(Z), self.factor
        return (
            self.shift + factor * mean,
            factor**2 * variance,
            factor * slopes * along,
            factor**2 * variance_slopes * along,
        )
