"""How near climbs come to the maxima above their starts, and their CPU time, by routine.

Posterior samples (70 observations, 100 features, length scale 0.3) in 1 to 50 dimensions, climbed
from the best 4 of 400 candidates. What a climb misses is what a tight L-BFGS-B that goes on from
its end still gains, in multiples of the candidates' spread; its first step is made short, so that
it stays on the same hill.

Then the whole maximiser, on acquisition functions in 10 to 50 dimensions: of the posterior of one
client's 30 observations, and of the sparse one of ten clients', half of them near each one's best.
Its candidates are uniform, or Sobol points, the support points and perturbations of the client's
best points. What it misses is the distance to the best of 40 climbs from 6000 candidates, in
multiples of that one's distance to the median of uniform points.

Run it with ``python -m tests.benchmarks.refinement``: a few minutes.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.optimize import fmin_l_bfgs_b, fmin_tnc
from threadpoolctl import threadpool_limits

from fedsim.acquisition import Piece, best_apart, maximize, whole_cube
from fedsim.acquisition.candidates import perturbed, sobol_points
from fedsim.acquisition.functions import (
    LogExpectedImprovement,
    OfPosterior,
    Posterior,
    UpperConfidenceBound,
)
from fedsim.acquisition.refinement import NEWTON_DIMENSIONS, Differentiable, newton, quasi_newton
from fedsim.space import Array, Parameter, Space
from fedsim.surrogates.dpitc import sparse_posterior, summarise, support
from fedsim.surrogates.exact_gp import condition
from fedsim.surrogates.kernels import Family, Kernel
from fedsim.surrogates.paths import sample_path
from fedsim.surrogates.rff import draw_features
from tests.util.summed import total

DIMENSIONS = (1, 2, 3, 5, 10, 20, 50)
FAMILIES: tuple[Family, ...] = ("squared_exponential", "matern52")
SAMPLES = 25
SEARCHES = 10

Pair = tuple[Array, Array]


@dataclass(frozen=True)
class Hill:
    """A function to climb and where to start.

    Attributes:
        function: what.
        starts: shape (4, D).
        unit: about the distance between candidates.
        spread: of the function's values at the candidates.
    """

    function: Differentiable
    starts: Array
    unit: float
    spread: float


Routine = Callable[[Hill], tuple[Array, Array]]


def hill(family: Family, dimension: int, seed: int) -> Hill:
    """Return a sample of a Gaussian process posterior, whose data are a sample of the prior."""
    rng = np.random.default_rng(seed)
    kernel = Kernel(family, (0.3,), 1.0)
    truth = draw_features(kernel, dimension, 300, rng, normalised=False)
    X = rng.random((70, dimension))
    y = truth.matrix(X) @ rng.standard_normal(300)
    function = sample_path(condition(kernel, 1e-2, X, y, float(y.mean())), 100, 1.0, rng)
    candidates = rng.random((400, dimension))
    values = function.values(candidates)
    unit = len(candidates) ** (-1.0 / dimension)
    starts = candidates[best_apart(candidates, values, 4, unit)]
    return Hill(function, starts, unit, float(np.ptp(values)))


def by_newton(h: Hill) -> tuple[Array, Array]:
    """Climb by Newton's method."""
    return newton(h.function, whole_cube(h.starts.shape[1]), h.starts, h.unit, h.spread)


def by_quasi_newton(h: Hill) -> tuple[Array, Array]:
    """Climb by L-BFGS-B."""
    return quasi_newton(h.function, whole_cube(h.starts.shape[1]), h.starts, h.spread)


def by_truncated_newton(h: Hill) -> tuple[Array, Array]:
    """Climb by SciPy's TNC, with tolerances like those of L-BFGS-B."""
    # Its type stubs want a number where it takes a pair.
    descent: Any = descent_on(h, h.spread)
    bounds = [(0.0, 1.0)] * h.starts.shape[1]
    ends = np.array(
        [
            fmin_tnc(descent, start, bounds=bounds, ftol=1e-9, maxfun=2000, messages=0)[0]
            for start in h.starts
        ]
    )
    return ends, h.function.values(ends)


def descent_on(h: Hill, scale: float) -> Callable[..., tuple[float, Array]]:
    """Return what SciPy minimises: the negative function, divided by ``scale``."""

    def descent(u: Array) -> tuple[float, Array]:
        values, gradients = h.function.values_and_gradients(np.asarray(u)[None])
        return -float(values[0]) / scale, -gradients[0] / scale

    return descent


def missed(h: Hill, ends: Array, values: Array) -> list[float]:
    """Return what each climb left to gain, in multiples of the spread."""
    scale = 1e3 * h.spread
    descent, bounds = descent_on(h, scale), [(0.0, 1.0)] * h.starts.shape[1]
    return [
        (-scale * fmin_l_bfgs_b(descent, end, bounds=bounds, factr=0.0, pgtol=1e-9)[1] - value)
        / h.spread
        for end, value in zip(ends, values, strict=True)
    ]


ROUTINES: dict[str, Routine] = {
    "Newton": by_newton,
    "L-BFGS-B": by_quasi_newton,
    "TNC": by_truncated_newton,
}


def measure(routine: Routine, hills: list[Hill]) -> tuple[list[float], float]:
    """Return what the climbs missed, and the CPU time of one climb in milliseconds."""
    gaps, seconds = [], 0.0
    for h in hills:
        times = []
        for _ in range(2):
            start = time.process_time()
            ends, values = routine(h)
            times.append(time.process_time() - start)
        seconds += min(times) / len(h.starts)
        gaps += missed(h, ends, values)
    return gaps, 1e3 * seconds / len(hills)


@dataclass(frozen=True)
class Search:
    """An acquisition function, and what a client knows.

    Attributes:
        function: what to maximise.
        best_known: the client's four best points, shape (4, D).
        support: of a sparse posterior, shape (s, D); s may be 0.
    """

    function: OfPosterior
    best_known: Array
    support: Array


def observations(kernel: Kernel, dimension: int, clients: int, rng: Generator) -> list[Pair]:
    """Return each client's 30 observations of one function."""
    truth = draw_features(kernel, dimension, 500, rng, normalised=False)
    weights, found = rng.standard_normal(500), []
    for _ in range(clients):
        X = rng.random((30, dimension))
        best = X[np.argmax(truth.matrix(X) @ weights)]
        X[15:] = np.clip(best + 0.1 * rng.standard_normal((15, dimension)), 0.0, 1.0)
        found.append((X, truth.matrix(X) @ weights))
    return found


def search_of(name: str, dimension: int, shortness: float, seed: int) -> Search:
    """Return an acquisition function; ``name`` says of which posterior and which one."""
    rng = np.random.default_rng(seed)
    kernel = Kernel("matern52", (shortness * math.sqrt(dimension),), 1.0)
    clients = observations(kernel, dimension, 10, rng)
    X, y = clients[0]
    posterior: Posterior
    points = sobol_points(dimension, 32 if name.startswith("sparse") else 0, rng)
    if len(points):
        base = support(kernel, points)
        whole = total([summarise(base, 1e-3, X, y[:, None]) for X, y in clients])
        posterior = sparse_posterior(base, whole.covariance, whole.means[:, 0])
    else:
        posterior = condition(kernel, 1e-3, X, y)
    best = float(posterior.moments(X)[0].max())
    function = (
        OfPosterior(posterior, UpperConfidenceBound(1.0))
        if name.endswith("UCB")
        else OfPosterior(posterior, LogExpectedImprovement(best))
    )
    return Search(function, X[np.argsort(-y)[:4]], points)


def reference(search: Search, rng: Generator) -> tuple[float, float]:
    """Return the best of many climbs, and the median of uniform points."""
    D = search.best_known.shape[1]
    U = np.concatenate(
        [rng.random((4000, D)), perturbed(search.best_known, 2000, rng, whole_cube(D))]
    )
    values = search.function.values(U)
    starts = U[np.concatenate([np.argsort(-values)[:20], rng.integers(4000, size=20)])]
    _, ends = quasi_newton(search.function, whole_cube(D), starts, float(np.ptp(values)))
    return float(ends.max()), float(np.median(values[:4000]))


def candidates_of(kind: str, search: Search, rng: Generator) -> Array:
    """Return some 400 candidates."""
    D = search.best_known.shape[1]
    if kind == "uniform":
        return rng.random((400, D))
    near = perturbed(search.best_known, 128, rng, whole_cube(D))
    return np.concatenate([sobol_points(D, 256, rng), search.support, near])


def compare_searches() -> None:
    """Print what the maximiser misses, and its time, by candidates and starts."""
    ways = (("uniform", 4), ("uniform", 2), ("designed", 4), ("designed", 2), ("designed", 1))
    print(
        "\n  D  scale      function    candidates starts  within 1%   mean  worst      ms  of first"
    )
    for dimension, shortness, name in itertools.product(
        (10, 20, 50), (0.3, 0.1, 0.05), ("sparse UCB", "sparse EI", "own UCB", "own EI")
    ):
        found: dict[tuple[str, int], list[tuple[float, float]]] = {way: [] for way in ways}
        space = Space(tuple(Parameter(f"x{d}", 0.0, 1.0) for d in range(dimension)))
        for seed in range(SEARCHES):
            search, rng = search_of(name, dimension, shortness, seed), np.random.default_rng(seed)
            best, median = reference(search, rng)
            for kind, starts in ways:
                candidates = candidates_of(kind, search, rng)
                piece = Piece(whole_cube(dimension), search.function)
                start = time.process_time()
                _, value = maximize(space, (piece,), candidates, starts=starts)
                seconds = time.process_time() - start
                found[kind, starts].append(((best - value) / (best - median), seconds))
        first = np.mean([seconds for _, seconds in found[ways[0]]])
        for (kind, starts), results in found.items():
            gaps, seconds = np.array(results).T
            star = "*" if (kind, starts) == ("designed", 2) else " "
            print(
                f"{dimension:3d}  {shortness:4.2f} sqrt(D)  {name:<10} {kind:>10}{star} "
                f"{starts:5d} {np.mean(gaps <= 0.01):10.0%} {gaps.mean():6.3f} {gaps.max():6.3f} "
                f"{1e3 * seconds.mean():7.2f} {seconds.mean() / first:9.2f}"
            )


def main() -> None:
    """Print quality and time of each way; a star marks the one that fedsim uses."""
    print("  D  kernel               routine     within 1e-3  1e-6   worst      ms  of L-BFGS-B")
    with threadpool_limits(1):
        for dimension in DIMENSIONS:
            used = "Newton" if dimension <= NEWTON_DIMENSIONS else "L-BFGS-B"
            for family in FAMILIES:
                hills = [hill(family, dimension, seed) for seed in range(SAMPLES)]
                found = {name: measure(routine, hills) for name, routine in ROUTINES.items()}
                for name, (gaps, ms) in found.items():
                    fine, finer = (np.mean(np.array(gaps) <= bound) for bound in (1e-3, 1e-6))
                    print(
                        f"{dimension:3d}  {family:<20} {name:<9}{'*' if name == used else ' '} "
                        f"{fine:12.1%} {finer:5.0%} {max(gaps):7.0e} {ms:7.3f} "
                        f"{ms / found['L-BFGS-B'][1]:12.2f}"
                    )
        compare_searches()


if __name__ == "__main__":
    main()
