"""Support sets: public ones and Algorithm 1."""

from __future__ import annotations

import numpy as np
import pytest

from fedsim.space import Array, Choice, Parameter, Space
from fedsim.surrogates.support import (
    global_centres,
    local_centres,
    random_support,
    sobol_support,
)

SPACE = Space((Parameter("a", 0.0, 1.0), Parameter("b", 0.0, 1.0)))
MIXED = Space((Parameter("a", 0.0, 1.0), Choice("c", ("x", "y", "z"))))


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("draw", [sobol_support, random_support])
def test_public_sets_grow_and_depend_on_the_key(draw: object) -> None:
    assert callable(draw)
    whole = draw(SPACE, 20, generator())
    assert whole.shape == (20, 2)
    np.testing.assert_array_equal(draw(SPACE, 7, generator()), whole[:7])
    assert not np.array_equal(draw(SPACE, 20, generator(1)), whole)


@pytest.mark.parametrize("draw", [sobol_support, random_support])
def test_public_sets_hold_points_of_the_space(draw: object) -> None:
    assert callable(draw)
    points = draw(MIXED, 16, generator())
    assert points.shape == (16, 4)
    np.testing.assert_allclose(np.sort(points[:, 1:]), [[0.0, 0.0, np.sqrt(0.5)]] * 16)


def clusters(seed: int) -> Array:
    rng = generator(seed)
    middles = np.array([[0.1, 0.1], [0.9, 0.1], [0.5, 0.9]])
    return np.concatenate([m + 0.01 * rng.standard_normal((20, 2)) for m in middles])


def test_local_centres_are_the_means_of_clusters() -> None:
    X = clusters(0)
    centres = local_centres(X, 3, generator(1))
    expected = X.reshape(3, 20, 2).mean(axis=1)
    found = centres[np.argsort(centres @ [1.0, 3.0])]
    np.testing.assert_allclose(found, expected[np.argsort(expected @ [1.0, 3.0])], atol=1e-9)


def test_few_points_are_their_own_centres() -> None:
    # What the security note says: the centres are the points.
    X = generator().random((4, 3))
    for count in (4, 9):
        centres = local_centres(X, count, generator(1))
        np.testing.assert_allclose(np.sort(centres, axis=0), np.sort(X, axis=0), atol=1e-15)


def test_repeated_points_are_one_centre() -> None:
    centres = local_centres(np.full((5, 2), 0.3), 3, generator())
    np.testing.assert_allclose(centres, [[0.3, 0.3]])
    assert local_centres(np.empty((0, 2)), 3, generator()).shape == (0, 2)


def test_global_centres_by_hand() -> None:
    # From the only client with centres (0 and 4), the farthest is 10; then k-means moves them.
    groups = [np.empty((0, 1)), np.array([[0.0], [4.0]])]
    np.testing.assert_allclose(global_centres(groups, 2, generator()), [[0.0], [4.0]])
    groups = [np.array([[0.0], [1.0], [10.0]]), np.empty((0, 1)), np.empty((0, 1))]
    np.testing.assert_allclose(global_centres(groups, 1, generator()), [[11.0 / 3.0]])
    groups = [np.array([[0.0]]), np.array([[1.0], [10.0]])]
    found = {tuple(np.sort(global_centres(groups, 2, generator(s))[:, 0])) for s in range(20)}
    # Client 0 first: 0, then the farthest, 10; client 1 first: 1 and 10. Both end at 1/2 and 10.
    assert found == {(0.5, 10.0)}


def test_farthest_first_covers_distant_centres() -> None:
    groups = [clusters(1)[:20], clusters(1)[20:40], clusters(1)[40:]]
    Z = global_centres([g[:2] for g in groups], 4, generator())
    assert Z.shape == (4, 2)
    for group in groups:
        assert np.linalg.norm(Z - group[0], axis=1).min() < 0.1


def test_no_more_points_than_different_centres() -> None:
    groups = [np.zeros((2, 2)), np.zeros((1, 2)), np.ones((1, 2))]
    Z = global_centres(groups, 5, generator())
    np.testing.assert_allclose(np.unique(Z, axis=0), [[0.0, 0.0], [1.0, 1.0]])
    assert len(Z) <= 3
