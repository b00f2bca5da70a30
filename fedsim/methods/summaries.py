"""What the clients of FBO-FedGP sum, and the model that everyone makes of the sum.

For the method, see :mod:`fedsim.methods.fbo_fedgp`. A client's vector holds its summary, for a
prior of variance 1 and noise variance eta (means do not depend on the prior's variance, so it is
chosen after the sum), with its outputs in units that all clients share, x = (y - c) / r:

=============  ===============================================  =========  ====================
name           what                                             size       if
=============  ===============================================  =========  ====================
covariance     upper triangle of K_i, row by row                s (s+1)/2
means          m_i of x                                         s
misfit         x^T Lambda_i^-1 x                                1          shared, not fixed
first, second  sums of x and of x^2                             1, 1       outputs from sums
cross          x^T Lambda_i^-1 1                                1          both
ones           m_i of outputs 1                                 s          outputs from sums
norm           1^T Lambda_i^-1 1                                1          both
count          n_i                                              1          any of the two
fits, logs     1 and the logarithms of its own fitted length    1, p + 1   shared, not fixed
               scales and eta; zeros where it was not
               asked for a fit, or has none
=============  ===============================================  =========  ====================

From the sums of n, x and x^2 follow the outputs' mean c' and spread r'
(:mod:`fedsim.methods.pooled_units`); summaries are linear in the outputs, so that the sum is
converted to x' = (y - c') / r' exactly, and the next round's clients use c' and r'. The prior's
variance has the value at which all outputs are most likely, in closed form
(:func:`fedsim.surrogates.fit.best_variance`). The averaged logarithms are the next round's length
scales and eta.

Numbers of the size of outputs may be huge; they, and those of the size of squared outputs, are sent
in parts (:mod:`fedsim.methods.wide_numbers`), of order 1 and 2. As f, the number of fraction bits,
leaves room for 2 n / eta, x may be as large as 2^60, whatever f is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedsim.memo import Memo
from fedsim.methods.pooled_units import pooled_units
from fedsim.methods.wide_numbers import in_parts, joined
from fedsim.protocol import Payload
from fedsim.space import Array
from fedsim.surrogates.dpitc import (
    SparsePosterior,
    Support,
    sparse_posterior,
    summarise,
    support,
)
from fedsim.surrogates.fit import LENGTH_SCALE_BOUNDS, NOISE_RATIO_BOUNDS, best_variance
from fedsim.surrogates.kernels import Family, Kernel

_COARSE_PARTS = {"means": 1, "misfit": 2, "first": 1, "second": 2, "cross": 1}


@dataclass(frozen=True, slots=True)
class SummaryLayout:
    """What is summed, and how; public.

    Attributes:
        family: of the kernel.
        scales: p, the number of length scales: 1 or E.
        shared: whether hyper-parameters come from sums.
        moments: whether the outputs' mean and spread come from sums.
        noise_floor: the least eta.
        fraction_bits: f.
        minimum_fits: with fewer, the hyper-parameters stay as they are.
        output_scale: the first r.
    """

    family: Family
    scales: int
    shared: bool
    moments: bool
    noise_floor: float
    fraction_bits: int
    minimum_fits: int = 1
    output_scale: float = 1.0

    def sizes(self, s: int) -> dict[str, int]:
        """Return the size of each part of a vector, in order, for a support set of ``s`` points."""
        both = self.shared and self.moments
        sizes = {
            "covariance": s * (s + 1) // 2,
            "means": s,
            "misfit": self.shared,
            "first": self.moments,
            "second": self.moments,
            "cross": both,
            "ones": s * self.moments,
            "norm": both,
            "count": self.shared or self.moments,
            "fits": self.shared,
            "logs": (self.scales + 1) * self.shared,
        }
        return {name: int(size) for name, size in sizes.items() if size}

    def length(self, s: int) -> int:
        """Return the length of a vector for a support set of ``s`` points."""
        sizes = self.sizes(s)
        return sum(size * (1 + _COARSE_PARTS.get(name, 0)) for name, size in sizes.items())

    def pack(self, parts: Mapping[str, Array], s: int) -> Array:
        """Return a vector of the parts, shape (length,)."""
        exact, coarse = [], []
        for name in self.sizes(s):
            part, order = np.atleast_1d(parts[name]), _COARSE_PARTS.get(name, 0)
            rest, coarser = in_parts(part, order, self.fraction_bits)
            exact.append(rest)
            coarse += coarser
        return np.concatenate([*exact, *coarse])

    def unpack(self, vector: Array, s: int) -> dict[str, Array]:
        """Return the parts of a vector, or of a sum of vectors."""
        sizes = self.sizes(s)
        orders = {name: _COARSE_PARTS.get(name, 0) for name in sizes}
        widths = [*sizes.values(), *(sizes[name] for name in sizes for _ in range(orders[name]))]
        pieces = iter(np.split(vector, np.cumsum(widths)[:-1]))
        exact = {name: next(pieces) for name in sizes}
        return {
            name: joined(rest, list(itertools.islice(pieces, orders[name])))
            for name, rest in exact.items()
        }


@dataclass(frozen=True, slots=True, eq=False)
class Basis:
    """What a round's summaries are made for; public.

    Attributes:
        points: the support set, embedded, shape (s, E).
        logs: logarithms of the length scales and of eta, shape (p + 1,).
        units: c and r, shape (2,).
    """

    points: Array
    logs: Array
    units: Array

    def payload(self) -> Payload:
        """Return it as a payload."""
        return {"support": self.points, "logs": self.logs, "units": self.units}

    def asked(self, fit: bool) -> Payload:
        """Return the payload that asks for a summary, and for a fit or none."""
        return {**self.payload(), "fit": np.array(fit)}

    @property
    def prior_key(self) -> bytes:
        """What the support set and the prior depend on."""
        return self.points.tobytes() + self.logs.tobytes()

    @property
    def eta(self) -> float:
        """The ratio of noise to prior variance."""
        return math.exp(self.logs[-1])

    def in_units(self, outputs: Array) -> Array:
        """Return outputs in the clients' common units."""
        scaled: Array = (outputs - self.units[0]) / self.units[1]
        return scaled


def basis_of(payload: Payload) -> Basis:
    """Return the basis in a payload."""
    return Basis(payload["support"], payload["logs"], payload["units"])


def support_of(basis: Basis, family: Family) -> Support:
    """Return the support set with the kernel on it."""
    return support(Kernel(family, tuple(np.exp(basis.logs[:-1]).tolist()), 1.0), basis.points)


def from_upper_triangle(entries: Array, s: int) -> Array:
    """Return the symmetric matrix (s, s) with an upper triangle that is given row by row."""
    matrix = np.zeros((s, s))
    matrix[np.triu_indices(s)] = entries
    matrix += np.triu(matrix, 1).T
    return matrix


def averaged(logs: Array, fits: float, minimum_fits: int, noise_floor: float) -> Array | None:
    """Return the average of fitted logarithms inside their bounds, shape (p + 1,).

    Args:
        logs: their sum, shape (p + 1,).
        fits: how many.
        minimum_fits: of fewer there is no average: None.
        noise_floor: the least eta.
    """
    if fits < minimum_fits - 0.5:
        return None
    lower = [math.log(LENGTH_SCALE_BOUNDS[0])] * (len(logs) - 1)
    upper = [math.log(LENGTH_SCALE_BOUNDS[1])] * (len(logs) - 1)
    lower.append(math.log(noise_floor))
    upper.append(math.log(NOISE_RATIO_BOUNDS[1]))
    return np.clip(logs / fits, lower, upper)


@dataclass(frozen=True, slots=True, eq=False)
class GlobalModel:
    """The model that follows from a sum.

    Attributes:
        posterior: of the outputs, centred and in units of the prior's standard deviation.
        units: c' and r', shape (2,).
        logs: the next round's logarithms, shape (p + 1,).
        variance: the prior's, in units of r'^2.
    """

    posterior: SparsePosterior
    units: Array
    logs: Array
    variance: float


class Summaries:
    """Makes vectors and models; what the agents of a process share is computed once.

    Args:
        layout: what is summed.
    """

    def __init__(self, layout: SummaryLayout) -> None:
        self.layout = layout
        self._supports = Memo[Support](2)
        self._models = Memo[GlobalModel](1)

    def vector(self, basis: Basis, X: Array, outputs: Array, logs: Array | None) -> Array:
        """Return a client's vector.

        Args:
            basis: the round's.
            X: its inputs, embedded, shape (n, E).
            outputs: y, shape (n,).
            logs: of its own fit, shape (p + 1,), if there is one.
        """
        s, x = len(basis.points), basis.in_units(outputs)
        columns = np.stack([x, np.ones(len(x))], axis=1)
        summary = summarise(self._support_of(basis), basis.eta, X, columns)
        return self.layout.pack(
            {
                "covariance": summary.covariance[np.triu_indices(s)],
                "means": summary.means[:, 0],
                "misfit": summary.misfits[0, 0],
                "first": x.sum(),
                "second": np.square(x).sum(),
                "cross": summary.misfits[0, 1],
                "ones": summary.means[:, 1],
                "norm": summary.misfits[1, 1],
                "count": np.array(float(len(x))),
                "fits": np.array(0.0 if logs is None else 1.0),
                "logs": np.zeros(self.layout.scales + 1) if logs is None else logs,
            },
            s,
        )

    def model(self, basis: Basis, total: Array) -> GlobalModel:
        """Return the model that follows from the sum of vectors, shape (length,)."""
        key = basis.prior_key + basis.units.tobytes() + total.tobytes()
        return self._models.get(key, lambda: self._model_of(basis, total))

    def _model_of(self, basis: Basis, total: Array) -> GlobalModel:
        s, layout = len(basis.points), self.layout
        parts = layout.unpack(total, s)
        covariance = from_upper_triangle(parts["covariance"], s)
        units, means = basis.units, parts["means"]
        misfit = float(parts["misfit"][0]) if layout.shared else 0.0
        if layout.moments:
            units = pooled_units(
                basis.units,
                *(float(parts[name][0]) for name in ("count", "first", "second")),
                fraction_bits=layout.fraction_bits,
                output_scale=layout.output_scale,
            )
            shift, factor = (units[0] - basis.units[0]) / basis.units[1], basis.units[1] / units[1]
            means = factor * (means - shift * parts["ones"])
            if layout.shared:
                cross, norm = float(parts["cross"][0]), float(parts["norm"][0])
                misfit = factor**2 * (misfit - 2.0 * shift * cross + shift**2 * norm)
        posterior = sparse_posterior(self._support_of(basis), covariance, means)
        if not layout.shared:
            return GlobalModel(posterior, units, basis.logs, 1.0)
        count = max(float(parts["count"][0]), 1.0)
        variance = best_variance(posterior.misfit(misfit), count) or 1.0
        posterior = posterior.in_units_of(math.sqrt(variance))
        fits = float(parts["fits"][0])
        found = averaged(parts["logs"], fits, layout.minimum_fits, layout.noise_floor)
        logs = basis.logs if found is None else found
        return GlobalModel(posterior, units, logs, variance)

    def _support_of(self, basis: Basis) -> Support:
        return self._supports.get(basis.prior_key, lambda: support_of(basis, self.layout.family))
