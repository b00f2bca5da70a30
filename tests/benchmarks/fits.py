"""How near hyper-parameter fits come to the best likelihood found, and what they cost.

Fits with one length scale per dimension, of four kinds of data in 2 to 10 dimensions, and with one
for all. What a fit misses is its negative log likelihood minus the smallest that 36 searches with
tight tolerances reach, in nats. The cost is counted in likelihoods. Run it with
``python -m tests.benchmarks.fits``: two minutes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from unittest.mock import patch

import numpy as np
from scipy.optimize import fmin_l_bfgs_b
from threadpoolctl import threadpool_limits

from fedsim.space import Array
from fedsim.surrogates import fit as module
from fedsim.surrogates.fit import LENGTH_SCALE_BOUNDS, NOISE_RATIO_BOUNDS, fit
from fedsim.surrogates.kernels import Family, Kernel, squared_differences
from fedsim.surrogates.scaling import standardised

SIZES = ((2, 20), (2, 60), (5, 20), (5, 50), (10, 30), (10, 70))
FAMILIES: tuple[Family, ...] = ("squared_exponential", "matern52")
SEEDS = 3


def data(dimension: int, count: int, seed: int) -> Iterator[tuple[Array, Array]]:
    """Yield inputs (n, D) and standardised outputs (n,): four kinds of functions, and noise."""
    rng = np.random.default_rng([seed, dimension, count])
    X = rng.random((count, dimension))
    noise = rng.standard_normal(count)
    scales = tuple(np.exp(rng.uniform(math.log(0.1), math.log(5.0), dimension)))
    covariance = Kernel("matern52", scales, 1.0).matrix(X, X) + 1e-2 * np.eye(count)
    yield X, standardised(np.linalg.cholesky(covariance) @ noise)
    yield X, standardised(np.sin(5.0 * X[:, 0]) + 0.1 * noise)
    mixed = np.sin(6.0 * X[:, 0]) + np.cos(4.0 * X[:, 1] * X[:, 0])
    yield X, standardised(mixed + np.square(X[:, 2 % dimension] - 0.3) + 0.05 * noise)
    best = rng.random(dimension)
    X = X.copy()
    X[count // 2 :] = np.clip(best + 0.1 * rng.standard_normal(X[count // 2 :].shape), 0.0, 1.0)
    bowl = np.square(X - best) @ np.exp(rng.uniform(-2.0, 1.0, dimension))
    yield X, standardised(-bowl + 0.2 * np.sin(7.0 * X[:, 0]) + 0.02 * noise)


def theta_of(family: Family, ard: bool, X: Array, r: Array) -> Array:
    """Return what :func:`fit` finds, as its search's variables."""
    found = fit(family, ard, X, r)
    ratio = found.noise_variance / found.kernel.variance
    return np.log([*found.kernel.length_scales, ratio])


def best_cost(family: Family, differences: Array, r: Array) -> float:
    """Return the smallest negative log likelihood of many tight searches."""
    count, rng, best = len(differences), np.random.default_rng(0), math.inf
    log_scales, log_ratios = np.log(LENGTH_SCALE_BOUNDS), np.log(NOISE_RATIO_BOUNDS)
    bounds = [tuple(log_scales)] * count + [tuple(log_ratios)]
    starts = [np.log([s] * count + [e]) for s in (0.3, 1.0, 3.0) for e in (1e-4, 1e-2)]
    for _ in range(30):
        scales = rng.uniform(math.log(0.05), math.log(8.0), count)
        starts.append(np.append(scales, rng.uniform(math.log(1e-5), 0.0)))

    def cost(theta: Array) -> tuple[float, Array]:
        return module.negative_log_likelihood(theta, family, differences, r)

    for start in starts:
        reached = fmin_l_bfgs_b(cost, start, bounds=bounds, factr=1e5, pgtol=1e-4)[1]
        best = min(best, float(reached))
    return best


def main() -> None:
    """Print shares and means by dimension, and costs."""
    print("length scales      D    n  fits  > 1 nat  > 0.1 nat    mean  likelihoods")
    with threadpool_limits(1):
        for ard in (False, True):
            for dimension, count in SIZES:
                gaps, calls = [], 0
                for family in FAMILIES:
                    for seed in range(SEEDS):
                        for X, r in data(dimension, count, seed):
                            differences = squared_differences(X, ard)
                            theta, used = counted(family, ard, X, r)
                            calls += used
                            reached = module.negative_log_likelihood(theta, family, differences, r)
                            gaps.append(reached[0] - best_cost(family, differences, r))
                gap = np.array(gaps)
                print(
                    f"{'one per dimension' if ard else 'one for all':17} {dimension:2d} {count:4d} "
                    f"{len(gap):5d} {np.mean(gap > 1):8.1%} {np.mean(gap > 0.1):10.1%} "
                    f"{np.maximum(gap, 0).mean():7.3f} {calls / len(gap):12.0f}"
                )


def counted(family: Family, ard: bool, X: Array, r: Array) -> tuple[Array, int]:
    """Return what :func:`fit` finds, and how many likelihoods it computed."""
    name = "negative_log_likelihood"
    with patch.object(module, name, wraps=module.negative_log_likelihood) as likelihood:
        return theta_of(family, ard, X, r), likelihood.call_count


if __name__ == "__main__":
    main()
