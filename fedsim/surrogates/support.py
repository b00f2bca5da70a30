"""Support sets for sparse Gaussian processes: public ones, and the paper's clustering.

Paper: FBO-FedGP, Algorithm 1 (k-means++: Arthur and Vassilvitskii, 2007; farthest-first:
Gonzalez, 1985) and App. C.7.

Public sets depend on the seed alone and show nothing of anyone's data. Larger ones begin with the
smaller ones, so that a set can grow. Algorithm 1 shows the clients' local centres to the server,
and where a client has few points, its centres are its points.

Symbol     Meaning                                            Shape
X          a client's inputs                                  (n, E)
theta      a client's local centres                           (k, E)
Z          the support set                                    (s, E)

Deviation: a cluster that loses all of its points keeps its centre.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.spatial.distance import cdist

from fedsim.acquisition.candidates import sobol_points
from fedsim.space import Array, Space

_STEPS = 100  # of Lloyd's algorithm, at most: T_max
_STILL = 1e-6  # it ends when no centre moves further: epsilon


def sobol_support(space: Space, size: int, generator: np.random.Generator) -> Array:
    """Return the first points of a scrambled Sobol sequence, embedded, shape (size, E)."""
    return space.embed(space.snap(sobol_points(space.dimension, size, generator)))


def random_support(space: Space, size: int, generator: np.random.Generator) -> Array:
    """Return uniform points, embedded, shape (size, E)."""
    return space.embed(space.snap(generator.random((size, space.dimension))))


def local_centres(X: Array, count: int, generator: np.random.Generator) -> Array:
    """Return a client's centres; Alg. 1, lines 1-14.

    Args:
        X: its inputs, shape (n, E).
        count: k; with fewer different inputs, there are as many centres as those.
        generator: of the k-means++ seeding; consumed.

    Returns:
        theta, shape (at most k, E).
    """
    centres = np.empty((0, X.shape[1]))
    nearest = np.ones(len(X))  # squared distances to the nearest centre; at first all alike
    while len(centres) < count and nearest.any():
        chosen = generator.choice(len(X), p=nearest / nearest.sum())
        centres = np.vstack([centres, X[chosen]])
        nearest = cdist(X, centres, "sqeuclidean").min(axis=1)
    return _lloyd(X, centres)


def global_centres(groups: Sequence[Array], size: int, generator: np.random.Generator) -> Array:
    """Return the support set; Alg. 1, lines 15-27.

    Args:
        groups: each client's centres, shapes (k_i, E), at least one centre together.
        size: |S|; with fewer different centres, there are as many points as those.
        generator: chooses the client to start with; consumed.

    Returns:
        Z, shape (at most size, E).
    """
    groups = [group for group in groups if len(group)]
    C = np.concatenate(groups)
    Q = groups[generator.integers(len(groups))][:size]
    while len(Q) < size:
        nearest = cdist(C, Q).min(axis=1)
        if not nearest.any():
            break
        Q = np.vstack([Q, C[np.argmax(nearest)]])
    return _lloyd(C, Q)


def _lloyd(points: Array, centres: Array) -> Array:
    """Return where k-means' centres end, from these."""
    if not len(centres):
        return centres
    for _ in range(_STEPS):
        owner = cdist(points, centres).argmin(axis=1)
        moved = np.array(
            [
                points[owner == r].mean(axis=0) if (owner == r).any() else centre
                for r, centre in enumerate(centres)
            ]
        )
        still = np.abs(moved - centres).max() < _STILL
        centres = moved
        if still:
            break
    return centres
