"""Support vector machines trained on a kernel matrix, for objectives that train several at once.

The kernel matrices of all machines on one data set, whatever C and gamma, follow from its squared
distances, which are computed once.

scikit-learn's ``SVC`` spends more time on checking its arguments than on training with a few
hundred samples. So its solver, LIBSVM, is called directly. That function is not public: where it is
missing, or does not do the same on a small problem, ``SVC`` is used, with the same results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from fedsim.space import Array

Indices = NDArray[np.intp]
Labels = NDArray[np.integer]


@dataclass(frozen=True, slots=True)
class Machine:
    """A trained support vector machine for two classes.

    Attributes:
        support: the training samples that count, shape (s,).
        coefficients: of their kernel values, shape (s,).
        intercept: of the decision function.
    """

    support: Indices
    coefficients: Array
    intercept: float

    def decision(self, kernel: Array) -> Array:
        """Return the decision function, above 0 for class 1, shape (m,).

        Args:
            kernel: between the points (m) and all training samples (n), shape (m, n).
        """
        values: Array = kernel[:, self.support] @ self.coefficients + self.intercept
        return values


def squared_distances(X: Array, Y: Array) -> Array:
    """Return the squared Euclidean distances between rows of X (m, D) and Y (n, D), (m, n)."""
    return cdist(X, Y, "sqeuclidean")


def rbf_kernel(distances: Array, gamma: float) -> Array:
    """Return exp(-gamma d) for squared distances d, of the same shape."""
    return np.exp(-gamma * distances)


def train(kernel: Array, labels: Labels, C: float) -> Machine:
    """Train a support vector machine.

    Args:
        kernel: of the training samples, shape (n, n).
        labels: 1 or 0, shape (n,).
        C: the penalty parameter, above 0.

    Returns:
        If all labels are equal, a machine that decides for them everywhere, with 1 or -1.
    """
    if labels.min() == labels.max():
        return Machine(np.empty(0, np.intp), np.empty(0), 2.0 * float(labels[0]) - 1.0)
    return _solver()(kernel, labels, C)


def by_svc(kernel: Array, labels: Labels, C: float) -> Machine:
    """Train by ``SVC``; arguments and result as :func:`train`, labels not all equal."""
    from sklearn.svm import SVC

    model = SVC(C=C, kernel="precomputed").fit(kernel, labels)
    return Machine(model.support_, model.dual_coef_[0], float(model.intercept_[0]))


def by_libsvm(kernel: Array, labels: Labels, C: float) -> Machine:
    """Train by scikit-learn's own LIBSVM; arguments and result as :func:`by_svc`."""
    from sklearn.svm import _libsvm

    found = _libsvm.fit(kernel, labels.astype(np.float64), kernel="precomputed", C=C)
    support, _, _, coefficients, intercepts = found[:5]
    return Machine(support.astype(np.intp), -coefficients[0], -float(intercepts[0]))


@cache
def _solver() -> Callable[[Array, Labels, float], Machine]:
    """Return :func:`by_libsvm` if it works as expected, else :func:`by_svc`."""
    X = np.array([[0.0], [0.1], [0.5], [0.7], [1.0], [1.4], [2.0]])
    labels = np.array([1, 0, 1, 1, 0, 0, 0])
    kernel = rbf_kernel(squared_distances(X, X), 2.0)
    expected = by_svc(kernel, labels, 1.5).decision(kernel)
    try:
        found = by_libsvm(kernel, labels, 1.5).decision(kernel)
    except (ImportError, AttributeError, TypeError, ValueError, IndexError):
        return by_svc
    return by_libsvm if np.allclose(found, expected, rtol=0.0, atol=1e-12) else by_svc
