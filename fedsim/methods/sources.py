"""The models that helpers sent: normal laws with the random features that all agents share.

Paper: FTS (Dai, Low and Jaillet, NeurIPS 2020), Secs. 2 and 3.2, and App. B. With helper i's
message, nu_i and Sigma_i^-1 of Eq. (3), its function has at x the mean phi(x)^T nu_i and the
variance lambda phi(x)^T Sigma_i^-1 phi(x).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedsim.space import Array
from fedsim.space.cells import Indices
from fedsim.surrogates.exact_gp import SMALLEST_VARIANCE
from fedsim.surrogates.rff import RandomFeatures


@dataclass(frozen=True, slots=True, eq=False)
class Sources:
    """The models of H helpers, on the space's embedded coordinates.

    Attributes:
        features: phi.
        noise_variance: lambda.
        means: nu, shape (H, M).
        covariances: Sigma^-1, shape (H, M, M).
    """

    features: RandomFeatures
    noise_variance: float
    means: Array
    covariances: Array

    def of(self, rows: Indices) -> Sources:
        """Return those with these indices."""
        means, covariances = self.means[rows], self.covariances[rows]
        return Sources(self.features, self.noise_variance, means, covariances)

    def summed(self, weights: Array) -> Sources:
        """Return the one model of the weighted sum of independent functions, weights (H,).

        As all share the features, its mean and covariance are sums, and evaluating it costs as
        much as one helper's model, however many there are.
        """
        means = weights @ self.means
        covariances = np.tensordot(np.square(weights), self.covariances, 1)
        return Sources(self.features, self.noise_variance, means[None], covariances[None])

    def values(self, Z: Array) -> tuple[Array, Array]:
        """Return means (H, n) and joint covariances (H, n, n) at the rows of ``Z`` (n, E)."""
        phi = self.features.matrix(Z)
        return self.means @ phi.T, self.noise_variance * (phi @ self.covariances @ phi.T)

    def moments(self, Z: Array) -> tuple[Array, Array]:
        """Return means and variances at the rows of ``Z`` (n, E), each (H, n)."""
        means, variances, _ = self._moments(Z)
        return means, variances

    def moments_and_pulls(self, Z: Array) -> tuple[Array, Array, Array]:
        """Return :meth:`moments`, and lambda Sigma^-1 phi, shape (H, n, M), for :meth:`gradients`.

        Args:
            Z: points, shape (n, E).
        """
        return self._moments(Z)

    def gradients(self, Z: Array, pulls: Array, by_mean: Array, by_variance: Array) -> Array:
        """Return the gradient of a function of all moments at the rows of ``Z``, shape (n, E).

        Args:
            Z: points, shape (n, E).
            pulls: of :meth:`moments_and_pulls`.
            by_mean: the function's derivatives by the means, shape (H, n).
            by_variance: by the variances, shape (H, n).
        """
        weights = by_mean.T @ self.means + 2.0 * np.einsum("hn,hnm->nm", by_variance, pulls)
        return self.features.gradients(Z, weights)

    def _moments(self, Z: Array) -> tuple[Array, Array, Array]:
        phi = self.features.matrix(Z)
        pulls = self.noise_variance * (phi @ self.covariances)
        variances = np.einsum("hnm,nm->hn", pulls, phi)
        return self.means @ phi.T, np.maximum(variances, SMALLEST_VARIANCE), pulls
