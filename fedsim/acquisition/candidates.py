"""Points to compare before climbs: evenly spread over the cube, and near good points.

In ten or more dimensions some hundreds of points leave the cube empty, and far from all data a
surrogate is nearly flat: a climb from the best of them often ends on a low hill. The highest
values mostly lie near what is known to be good. So some candidates are perturbations of the best
points known, as in Hutter, Hoos and Leyton-Brown (SMAC, LION 2011), Sec. 4.3, and Eriksson et al.
(TuRBO, NeurIPS 2019). With them, 384 candidates and two climbs find what hundreds of climbs find:
``python -m tests.benchmarks.refinement`` compares.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import qmc

from fedsim.space import Array, Box

NEAREST, FARTHEST = 0.01, 0.3
"""Standard deviations of perturbations, in multiples of the edges: log-uniform between these."""


def sobol_points(dimension: int, count: int, generator: np.random.Generator) -> Array:
    """Return the first ``count`` points of a scrambled Sobol sequence, shape (count, D).

    Fewer points of the same key are the first of more.

    Args:
        dimension: D.
        count: how many.
        generator: of the scrambling; consumed.
    """
    # A number, as versions of SciPy name the argument for generators differently.
    seed = int(generator.integers(2**31))
    power = max(0, math.ceil(math.log2(max(count, 1))))
    points: Array = qmc.Sobol(dimension, scramble=True, seed=seed).random_base2(power)
    return points[:count]


def perturbed(centres: Array, count: int, generator: np.random.Generator, box: Box) -> Array:
    """Return normal perturbations of given points, clipped to a box, shape (count, D).

    Args:
        centres: the points, shape (k, D), k at least 1; each has its share of the result.
        count: how many.
        generator: consumed.
        box: where; perturbations are in multiples of its edges.
    """
    logs = generator.uniform(math.log(NEAREST), math.log(FARTHEST), (count, 1))
    shifts = np.exp(logs) * generator.standard_normal((count, centres.shape[1]))
    edges = np.array(box.upper) - np.array(box.lower)
    return box.clip(centres[np.arange(count) % len(centres)] + edges * shifts)
