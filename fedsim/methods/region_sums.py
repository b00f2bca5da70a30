"""What the clients of FBO-FedGP with trust regions sum, and what follows from the sum.

For the method, see :mod:`fedsim.methods.fedgp_tr`. A client's vector:

=============  =============================================================  =========
name           what                                                           size
=============  =============================================================  =========
covariance     upper triangle of W_i (:mod:`fedsim.surrogates.pic`)           s (s+1)/2
means          v_i of its outputs x                                           s
misfit         x^T Lambda_i^-1 x                                              1
count          n_i                                                            1
fits, logs     1 and the logarithms of its own fitted length scales and eta;  1, p + 1
               zeros where it was not asked for a fit, or has none
=============  =============================================================  =========
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedsim.memo import Memo
from fedsim.methods.robust_outputs import robust
from fedsim.methods.summaries import Basis, averaged, from_upper_triangle, support_of
from fedsim.space import Array, Space
from fedsim.surrogates.dpitc import Summary, Support, white_summary
from fedsim.surrogates.fit import fit
from fedsim.surrogates.kernels import Family
from fedsim.surrogates.pic import best_variance

_EQUAL = 1e-12
"""Outputs x that differ by less than this are not fitted."""


@dataclass(frozen=True, slots=True, eq=False)
class RegionSum:
    """A sum of vectors.

    Attributes:
        summary: W and v.
        count: the number of observations.
        deviation: the most likely one of the outputs' prior, above 0.
        fits: how many clients fitted.
        logs: the sum of their logarithms, shape (p + 1,).
    """

    summary: Summary
    count: float
    deviation: float
    fits: float
    logs: Array


def prior_deviation(summary: Summary, count: float) -> float:
    """Return the most likely standard deviation of ``count`` outputs' prior, above 0."""
    return math.sqrt(best_variance(summary, max(count, 1.0))) or 1.0


class RegionSums:
    """Makes vectors and reads their sums; what the agents of a process share is computed once.

    Args:
        space: the search space.
        family: of the kernel.
        ard: whether there is one length scale per parameter.
        noise_floor: the least eta.
        minimum_fits: of fewer fits there is no average.
    """

    def __init__(
        self, space: Space, family: Family, ard: bool, noise_floor: float, minimum_fits: int
    ) -> None:
        self._space = space
        self._family = family
        self._ard = ard
        self._noise_floor = noise_floor
        self._minimum_fits = minimum_fits
        self._supports = Memo[Support](2)
        self._sums = Memo[RegionSum](2)

    @property
    def scales(self) -> int:
        """The number of length scales, p."""
        return sum(self._space.embedded_widths) if self._ard else 1

    def support(self, basis: Basis) -> Support:
        """Return the support set with the kernel on it."""
        return self._supports.get(basis.prior_key, lambda: support_of(basis, self._family))

    def sizes(self, s: int) -> dict[str, int]:
        """Return the size of each part of a vector, in order, for a support set of ``s`` points."""
        return {
            "covariance": s * (s + 1) // 2,
            "means": s,
            "misfit": 1,
            "count": 1,
            "fits": 1,
            "logs": self.scales + 1,
        }

    def length(self, s: int) -> int:
        """Return the length of a vector for a support set of ``s`` points."""
        return sum(self.sizes(s).values())

    def vector(self, basis: Basis, fits: bool, X: Array, outputs: Array) -> Array:
        """Return a client's vector, shape (length,).

        Args:
            basis: the round's.
            fits: whether hyper-parameters are fitted.
            X: its inputs, shape (n, D).
            outputs: y, shape (n,).
        """
        own = self.summary(basis, X, outputs)
        logs = self._fitted(X, robust(outputs, basis.units)) if fits else None
        parts = {
            "covariance": own.covariance[np.triu_indices(len(basis.points))],
            "means": own.means[:, 0],
            "misfit": own.misfits[0],
            "count": [len(X)],
            "fits": [0.0 if logs is None else 1.0],
            "logs": np.zeros(self.scales + 1) if logs is None else logs,
        }
        return np.concatenate([parts[name] for name in self.sizes(len(basis.points))])

    def summary(self, basis: Basis, X: Array, outputs: Array) -> Summary:
        """Return a client's own whitened summary; arguments as for :meth:`vector`."""
        x, Z = robust(outputs, basis.units), self._space.embed(X)
        return white_summary(self.support(basis), basis.eta, Z, x[:, None])

    def read(self, total: Array, s: int) -> RegionSum:
        """Return the sum that a vector of ``length`` numbers holds."""
        return self._sums.get((s, total.tobytes()), lambda: self._read(total, s))

    def _read(self, total: Array, s: int) -> RegionSum:
        sizes = self.sizes(s)
        pieces = np.split(total, np.cumsum([*sizes.values()])[:-1])
        parts = dict(zip(sizes, pieces, strict=True))
        covariance = from_upper_triangle(parts["covariance"], s)
        summary = Summary(covariance, parts["means"][:, None], parts["misfit"][:, None])
        count = float(parts["count"][0])
        deviation = prior_deviation(summary, count)
        return RegionSum(summary, count, deviation, float(parts["fits"][0]), parts["logs"])

    def next_logs(self, basis: Basis, total: RegionSum) -> Array:
        """Return the next round's logarithms, shape (p + 1,)."""
        found = averaged(total.logs, total.fits, self._minimum_fits, self._noise_floor)
        return basis.logs if found is None else found

    def _fitted(self, X: Array, x: Array) -> Array | None:
        """Return the most likely logarithms for one client; None if all outputs are equal."""
        if not len(x) or np.ptp(x) < _EQUAL:
            return None
        space = self._space
        centred, widths = x - x.mean(), space.embedded_widths
        found = fit(self._family, self._ard, space.embed(X), centred, widths)
        ratio = found.noise_variance / found.kernel.variance
        return np.log([*found.kernel.length_scales, ratio])
