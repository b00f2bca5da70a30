"""Classic test functions of optimisation, to be minimised.

Each takes points Z, shape (n, D), and returns their values, shape (n,). Unless its docstring says
otherwise, its minimum over all points is 0, at z = 0, and D is at least 1.

Sources: Suganthan et al., "Problem definitions and evaluation criteria for the CEC 2005 special
session on real-parameter optimization" (2005), for all but the last three; Liang, Qu and Suganthan,
"Problem definitions and evaluation criteria for the CEC 2013 special session" (2013), for Schwefel;
Laguna and Marti, "Experimental testing of advanced scatter search designs for global optimization
of multimodal functions" (2005), for Levy; Michalewicz, "Genetic algorithms + data structures =
evolution programs" (1992).

Deviation: Michalewicz's function is defined on [0, pi] in every coordinate and is repeated outside,
which is smooth because it and its slope are 0 at both ends.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from fedsim.space import Array

_SCHWEFEL = 420.96874635998202
"""Where u sin(sqrt(u)) is largest in [0, 500]."""


def sums(terms: Array) -> Array:
    """Return the sum of each row, shape (n,)."""
    totals: Array = np.sum(terms, axis=1)
    return totals


def sphere(Z: Array) -> Array:
    """Return the sum of squares."""
    return sums(Z**2)


def ellipsoid(Z: Array) -> Array:
    """Return the sum of squares with weights from 1 to 1e6, equal steps apart on a log scale."""
    weights = 10.0 ** np.linspace(0.0, 6.0, Z.shape[1])
    return sums(weights * Z**2)


def rosenbrock(Z: Array) -> Array:
    """Return Rosenbrock's function; its minimum is at z = 1 and D is at least 2."""
    a, b = Z[:, :-1], Z[:, 1:]
    return sums(100.0 * (a**2 - b) ** 2 + (a - 1.0) ** 2)


def rastrigin(Z: Array) -> Array:
    """Return Rastrigin's function."""
    return sums(Z**2 - 10.0 * np.cos(2.0 * np.pi * Z) + 10.0)


def griewank(Z: Array) -> Array:
    """Return Griewank's function."""
    roots = np.sqrt(np.arange(1.0, Z.shape[1] + 1.0))
    product: Array = np.prod(np.cos(Z / roots), axis=1)
    return sums(Z**2) / 4000.0 - product + 1.0


def ackley(Z: Array) -> Array:
    """Return Ackley's function."""
    spread = np.sqrt(sums(Z**2) / Z.shape[1])
    waves = sums(np.cos(2.0 * np.pi * Z)) / Z.shape[1]
    values: Array = -20.0 * np.exp(-0.2 * spread) - np.exp(waves) + 20.0 + math.e
    return values


def schwefel102(Z: Array) -> Array:
    """Return the sum of the squared partial sums z_1 + ... + z_i."""
    return sums(np.cumsum(Z, axis=1) ** 2)


def weierstrass(Z: Array) -> Array:
    """Return Weierstrass's function, cut after 21 waves."""
    k = np.arange(21)
    sizes, rates = 0.5**k, 2.0 * np.pi * 3.0**k
    waves = np.cos(rates * (Z[:, :, None] + 0.5)) @ sizes  # (n, D)
    values: Array = np.sum(waves, axis=1) - Z.shape[1] * (np.cos(rates * 0.5) @ sizes)
    return values


def griewank_of_rosenbrock(Z: Array) -> Array:
    """Return the sum of Griewank's function of Rosenbrock's, of neighbours in a ring.

    Its minimum is at z = 1.
    """
    following = np.roll(Z, -1, axis=1)
    t = 100.0 * (Z**2 - following) ** 2 + (Z - 1.0) ** 2
    return sums(t**2 / 4000.0 - np.cos(t) + 1.0)


def expanded_scaffer(Z: Array) -> Array:
    """Return the sum of Scaffer's F6, of neighbours in a ring."""
    squares = Z**2 + np.roll(Z, -1, axis=1) ** 2
    waves = np.sin(np.sqrt(squares)) ** 2 - 0.5
    return sums(0.5 + waves / (1.0 + 0.001 * squares) ** 2)


def schwefel(Z: Array) -> Array:
    """Return Schwefel's function, with CEC 2013's penalty outside its box.

    Its minimum is at z = 0: its own coordinate is u = z + 420.97, its box |u| <= 500.
    """
    U = Z + _SCHWEFEL
    size = np.abs(U)
    folded = np.where(size > 500.0, np.sign(U) * (500.0 - size % 500.0), U)
    penalty = np.maximum(size - 500.0, 0.0) ** 2 / (10_000.0 * Z.shape[1])
    largest = _schwefel_term(np.array(_SCHWEFEL))
    return sums(largest - _schwefel_term(folded) + penalty)


def _schwefel_term(u: Array) -> Array:
    term: Array = u * np.sin(np.sqrt(np.abs(u)))
    return term


def levy(Z: Array) -> Array:
    """Return Levy's function; its minimum is at z = 1."""
    W = 1.0 + (Z - 1.0) / 4.0
    inner, last = W[:, :-1], W[:, -1]
    middle = (inner - 1.0) ** 2 * (1.0 + 10.0 * np.sin(np.pi * inner + 1.0) ** 2)
    end = (last - 1.0) ** 2 * (1.0 + np.sin(2.0 * np.pi * last) ** 2)
    start: Array = np.sin(np.pi * W[:, 0]) ** 2
    return start + sums(middle) + end


def michalewicz(Z: Array) -> Array:
    """Return Michalewicz's function (m = 10), repeated outside [0, pi].

    Its minimum and where it is: see :func:`michalewicz_minimiser`.
    """
    return -sums(_michalewicz_terms(Z % np.pi))


def _michalewicz_terms(Z: Array) -> Array:
    i = np.arange(1.0, Z.shape[-1] + 1.0)
    return np.asarray(np.sin(Z) * np.sin(i * Z**2 / np.pi) ** 20)


@cache
def michalewicz_minimiser(dimension: int) -> tuple[float, ...]:
    """Return where Michalewicz's function is smallest, D coordinates in [0, pi].

    The function is a sum of one term for each coordinate. The i-th term is a product of sin(z) and
    a power of sin(i z^2 / pi), whose logarithm is concave between two zeros of the latter, so that
    there is one peak. Peaks whose upper bound, the largest sin(z), is below another peak's height
    are left out.
    """
    return tuple(_michalewicz_peak(i) for i in range(1, dimension + 1))


def _michalewicz_peak(i: int) -> float:
    # Imported here: it takes long to load, and most functions do not need it.
    from scipy.optimize import minimize_scalar

    def term(z: Array) -> Array:
        return np.asarray(np.sin(z) * np.sin(i * z**2 / np.pi) ** 20)

    zeros = np.pi * np.sqrt(np.arange(i + 1.0) / i)
    lower, upper = zeros[:-1], zeros[1:]
    highest = np.sin(np.clip(np.pi / 2.0, lower, upper))
    reached = term(np.sqrt((lower**2 + upper**2) / 2.0)).max()
    peaks = []
    for a, b in zip(lower[highest >= reached], upper[highest >= reached], strict=True):
        found = minimize_scalar(
            lambda z: -float(term(z)), bounds=(float(a), float(b)), options={"xatol": 1e-12}
        )
        peaks.append((float(found.fun), float(found.x)))
    return min(peaks)[1]
