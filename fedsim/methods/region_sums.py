"""What the clients of FBO-FedGP with trust regions sum, and what follows from the sum.

For the method, see :mod:`fedsim.methods.fedgp_tr`. A client's vector:

=============  =============================================================  =========
name           what                                                           size
=============  =============================================================  =========
covariance     upper triangle of W_i (:mod:`fedsim.surrogates.pic`)           s (s+1)/2
means          v_i of its outputs x                                           s
misfit         x^T Lambda_i^-1 x                                              1
count          n_i                                                            1
inside         how many of its observations lie in the region                 1
first, second  sums of x and of x^2 over these, without what lies far out     1, 1
fits, logs     1 and the logarithms of its own fitted length scales and eta;  1, p + 1
               zeros where it was not asked for a fit, or has none
=============  =============================================================  =========
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedsim.methods.robust_outputs import moments, next_units, robust
from fedsim.methods.summaries import Basis, within_bounds
from fedsim.methods.trust_regions import Region
from fedsim.space import Array, Space
from fedsim.surrogates.dpitc import Summary, Support, support, white_summary
from fedsim.surrogates.fit import fit
from fedsim.surrogates.kernels import Family, Kernel
from fedsim.surrogates.pic import best_variance


@dataclass(frozen=True, slots=True, eq=False)
class Sum:
    """A sum of vectors, or one client's vector.

    Attributes:
        summary: W and v; for all clients together.
        count: the number of observations.
        moments: the number of observations in the region, the sums of x and of x^2, shape (3,).
        fits: how many clients fitted.
        logs: the sum of their logarithms, shape (p + 1,).
    """

    summary: Summary
    count: float
    moments: Array
    fits: float
    logs: Array

    @property
    def deviation(self) -> float:
        """The prior's most likely standard deviation, above 0."""
        return math.sqrt(best_variance(self.summary, max(self.count, 1.0))) or 1.0


@dataclass(frozen=True, slots=True)
class RegionSums:
    """Makes vectors and reads their sums.

    Attributes:
        space: the search space.
        family: of the kernel.
        ard: whether there is one length scale per parameter.
        noise_floor: the least eta.
        minimum_fits: of fewer fits there is no average.
    """

    space: Space
    family: Family
    ard: bool
    noise_floor: float
    minimum_fits: int

    def length(self, s: int) -> int:
        """Return the length of a vector for a support set of ``s`` points."""
        return s * (s + 1) // 2 + s + 6 + self.scales + 1

    @property
    def scales(self) -> int:
        """The number of length scales, p."""
        return sum(self.space.embedded_widths) if self.ard else 1

    def support(self, basis: Basis) -> Support:
        """Return the support set with the kernel on it."""
        kernel = Kernel(self.family, tuple(np.exp(basis.logs[:-1]).tolist()), 1.0)
        return support(kernel, basis.points)

    def vector(self, basis: Basis, region: Region, fits: bool, X: Array, outputs: Array) -> Array:
        """Return a client's vector, shape (length,).

        Args:
            basis: the round's.
            region: where outputs count for their units.
            fits: whether hyper-parameters are fitted.
            X: its inputs, shape (n, D).
            outputs: y, shape (n,).
        """
        x = robust(outputs, basis.units)
        own = self.own(basis, X, outputs).summary
        logs = self._fitted(X, x) if fits else None
        return np.concatenate(
            [
                own.covariance[np.triu_indices(len(basis.points))],
                own.means[:, 0],
                own.misfits[0],
                [len(x)],
                moments(x[region.box.contains(X)]),
                [0.0 if logs is None else 1.0],
                np.zeros(self.scales + 1) if logs is None else logs,
            ]
        )

    def own(self, basis: Basis, X: Array, outputs: Array) -> Sum:
        """Return a client's own summary and count, without the rest."""
        x, Z = robust(outputs, basis.units), self.space.embed(X)
        summary = white_summary(self.support(basis), basis.eta, Z, x[:, None])
        return Sum(summary, float(len(x)), np.zeros(3), 0.0, np.zeros(self.scales + 1))

    def read(self, total: Array, s: int) -> Sum:
        """Return the sum that a vector of ``length`` numbers holds."""
        triangle = s * (s + 1) // 2
        parts = np.split(total, np.cumsum([triangle, s, 1, 1, 3, 1]))
        upper, means, misfit, count, moments, fits, logs = parts
        covariance = np.zeros((s, s))
        covariance[np.triu_indices(s)] = upper
        covariance += np.triu(covariance, 1).T
        summary = Summary(covariance, means[:, None], misfit[:, None])
        return Sum(summary, float(count[0]), moments, float(fits[0]), logs)

    def next_basis(self, basis: Basis, total: Sum) -> tuple[Array, Array]:
        """Return the next round's logarithms, shape (p + 1,), and units, shape (2,)."""
        enough = total.fits > self.minimum_fits - 0.5
        logs = basis.logs
        if enough:
            logs = within_bounds(total.logs / total.fits, self.noise_floor)
        return logs, next_units(basis.units, total.moments)

    def _fitted(self, X: Array, x: Array) -> Array | None:
        """Return the most likely logarithms for one client; None if all outputs are equal."""
        residuals = x - x.mean() if len(x) else x
        if not residuals.any():
            return None
        widths = self.space.embedded_widths
        found = fit(self.family, self.ard, self.space.embed(X), residuals, widths)
        ratio = found.noise_variance / found.kernel.variance
        return np.log([*found.kernel.length_scales, ratio])
