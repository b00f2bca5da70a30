"""How near climbs come to the maxima above their starts, and their CPU time, by routine.

Posterior samples (70 observations, 100 features, length scale 0.3) in 1 to 50 dimensions, climbed
from the best 4 of 400 candidates. What a climb misses is what a tight L-BFGS-B that goes on from
its end still gains, in multiples of the candidates' spread; its first step is made short, so that
it stays on the same hill. Run it with ``python -m tests.benchmarks.refinement``: a minute or two.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import fmin_l_bfgs_b, fmin_tnc
from threadpoolctl import threadpool_limits

from fedsim.acquisition import best_apart, whole_cube
from fedsim.acquisition.refinement import NEWTON_DIMENSIONS, Differentiable, newton, quasi_newton
from fedsim.space import Array
from fedsim.surrogates.exact_gp import condition
from fedsim.surrogates.kernels import Family, Kernel
from fedsim.surrogates.paths import sample_path
from fedsim.surrogates.rff import draw_features

DIMENSIONS = (1, 2, 3, 5, 10, 20, 50)
FAMILIES: tuple[Family, ...] = ("squared_exponential", "matern52")
SAMPLES = 25


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


def main() -> None:
    """Print quality and time of each routine; a star marks the one that fedsim uses."""
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


if __name__ == "__main__":
    main()
