from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fedsim.scenarios import kernel_svm
from fedsim.scenarios.kernel_svm import by_libsvm, by_svc, rbf_kernel, squared_distances, train
from fedsim.space import Array

CASES = [(0.01, 0.02), (0.5, 1.0), (3.0, 0.1), (10.0, 10.0)]


def data(seed: int, samples: int = 60) -> tuple[Array, np.ndarray, Array]:
    """Return features (n, 4), labels (n,) and other points (9, 4)."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(samples) < 0.2).astype(np.uint8)
    labels[:2] = 0, 1
    return rng.normal(size=(samples, 4)) + labels[:, None], labels, rng.normal(size=(9, 4))


@pytest.fixture
def fresh() -> Iterator[None]:
    """The solver is chosen anew, before and after."""
    kernel_svm._solver.cache_clear()
    yield
    kernel_svm._solver.cache_clear()


def test_distances_and_kernel_by_their_definitions() -> None:
    X, _, Y = data(0)
    expected = np.square(X[:, None] - Y[None]).sum(axis=2)
    np.testing.assert_allclose(squared_distances(X, Y), expected, rtol=1e-12)
    np.testing.assert_allclose(rbf_kernel(expected, 0.3), np.exp(-0.3 * expected), rtol=1e-12)


@pytest.mark.parametrize("solver", [train, by_libsvm, by_svc])
@pytest.mark.parametrize(("C", "gamma"), CASES)
def test_the_decision_is_scikit_learns(solver: Any, C: float, gamma: float) -> None:
    # LIBSVM stops at a tolerance of 1e-3; from equal kernels up to rounding it takes equal steps.
    from sklearn.svm import SVC

    for seed in range(3):
        X, labels, Y = data(seed)
        X.setflags(write=False)
        labels.setflags(write=False)
        kernel = rbf_kernel(squared_distances(X, X), gamma)
        kernel.setflags(write=False)
        found = solver(kernel, labels, C).decision(rbf_kernel(squared_distances(Y, X), gamma))
        expected = SVC(C=C, gamma=gamma).fit(X, labels).decision_function(Y)
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_margin_is_where_it_must_be() -> None:
    # By hand: two points on a line with a linear kernel; the decision is 2 x - 1.
    machine = train(np.array([[0.0, 0.0], [0.0, 1.0]]), np.array([0, 1]), 1e3)
    x = np.array([-1.0, 0.0, 0.25, 0.5, 1.0])
    kernel = np.stack([0.0 * x, x], axis=1)
    np.testing.assert_allclose(machine.decision(kernel), 2.0 * x - 1.0, atol=2e-3)


@pytest.mark.parametrize("label", [0, 1])
def test_one_class_decides_everywhere(label: int) -> None:
    machine = train(np.eye(4), np.full(4, label, dtype=np.uint8), 1.0)
    assert machine.decision(np.ones((3, 4))).tolist() == [2.0 * label - 1] * 3


@pytest.mark.usefixtures("fresh")
def test_the_installed_scikit_learn_trains_directly() -> None:
    # If this fails for a new version: results stay right, but `platt` takes twice the time.
    assert kernel_svm._solver() is by_libsvm


def missing(*_: object, **__: object) -> Any:
    raise AttributeError("fit")


def changed(*given: Any, **settings: Any) -> Any:
    raise TypeError("fit() got an unexpected keyword argument 'kernel'")


def other_sign(kernel: Array, labels: np.ndarray, C: float) -> Any:
    return by_svc(kernel, 1 - labels, C)


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("other", [missing, changed, other_sign])
def test_where_the_direct_way_is_gone_svc_trains(
    other: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_svm, "by_libsvm", other)
    assert kernel_svm._solver() is by_svc
    X, labels, Y = data(5)
    kernel, across = (rbf_kernel(squared_distances(Z, X), 0.5) for Z in (X, Y))
    expected = by_svc(kernel, labels, 2.0).decision(across)
    np.testing.assert_array_equal(train(kernel, labels, 2.0).decision(across), expected)
