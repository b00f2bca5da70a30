"""Mean and variance of a posterior that follows from values at finitely many points.

Symbol   Meaning                                                   Shape
P        the points                                                (m, E)
a        weights of the mean                                       (m,)
G        what the data take from the variance                      (r, m)

    mean(u) = k_uP a,      variance(u) = k_uu - |G k_Pu|^2.

The variance is at least :data:`~fedsim.surrogates.exact_gp.SMALLEST_VARIANCE` times the prior's, so
that its root has a slope.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedsim.space import Array
from fedsim.surrogates.exact_gp import SMALLEST_VARIANCE
from fedsim.surrogates.kernels import Kernel


@dataclass(frozen=True, slots=True, eq=False)
class Marginals:
    """A posterior's law at every single point.

    Attributes:
        kernel: the prior's covariance function.
        points: P, shape (m, E).
        weights: a, shape (m,).
        root: G, shape (r, m).
    """

    kernel: Kernel
    points: Array
    weights: Array
    root: Array

    def moments(self, U: Array) -> tuple[Array, Array]:
        """Return mean and variance of the noiseless values at ``U`` (n, E), each (n,)."""
        k = self.kernel.matrix(U, self.points)
        return k @ self.weights, self._variances(k @ self.root.T)

    def moments_and_gradients(self, U: Array) -> tuple[Array, Array, Array, Array]:
        """Return :meth:`moments` and their gradients, each (n, E)."""
        kernel, P = self.kernel, self.points
        k, g = kernel.matrix_and_slopes(U, P)
        half = k @ self.root.T
        slopes = kernel.gradients(U, P, g * self.weights)
        variance_slopes = kernel.gradients(U, P, -2.0 * g * (half @ self.root))
        return k @ self.weights, self._variances(half), slopes, variance_slopes

    def in_units_of(self, deviation: float) -> Marginals:
        """Return the posterior of the same outputs in units of ``deviation``, above 0.

        The kernel stays as it is: it is that of the outputs in the new units.
        """
        return replace(self, weights=self.weights / deviation)

    def _variances(self, half: Array) -> Array:
        variance = self.kernel.variance
        left = variance - np.einsum("ij,ij->i", half, half)
        positive: Array = np.maximum(left, SMALLEST_VARIANCE * variance)
        return positive
