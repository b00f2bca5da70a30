from __future__ import annotations

import math

import numpy as np
import pytest

from fedsim.errors import ConfigError
from fedsim.surrogates.kernels import Family, Kernel, squared_differences

FAMILIES: tuple[Family, ...] = ("squared_exponential", "matern52")
KERNELS = [
    Kernel(family, scales, 1.7) for family in FAMILIES for scales in ((0.3,), (0.2, 0.5, 1.1))
]


def test_exact_values() -> None:
    a, b = np.array([[0.0, 0.0]]), np.array([[0.3, 0.4]])  # distance 0.5
    assert Kernel("squared_exponential", (0.5,), 2.0).matrix(a, b)[0, 0] == pytest.approx(
        2.0 * math.exp(-0.5)
    )
    z = math.sqrt(5.0)
    assert Kernel("matern52", (0.5,), 2.0).matrix(a, b)[0, 0] == pytest.approx(
        2.0 * (1.0 + z + 5.0 / 3.0) * math.exp(-z)
    )
    ard = Kernel("squared_exponential", (0.3, 0.2), 1.0).matrix(a, b)[0, 0]
    assert ard == pytest.approx(math.exp(-0.5 * (1.0 + 4.0)))


@pytest.mark.parametrize("kernel", KERNELS)
def test_matrix_is_symmetric_with_its_diagonal(kernel: Kernel) -> None:
    X = np.random.default_rng(0).random((6, 3))
    K = kernel.matrix(X, X)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_array_equal(K.diagonal(), kernel.diagonal(X))
    assert np.linalg.eigvalsh(K).min() > 0


@pytest.mark.parametrize("kernel", KERNELS)
def test_single_precision_agrees(kernel: Kernel) -> None:
    rng = np.random.default_rng(0)
    U, X = rng.random((7, 3)), rng.random((5, 3))
    single = kernel.single_matrix(U, X)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, kernel.matrix(U, X), atol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
def test_input_gradients(kernel: Kernel) -> None:
    rng = np.random.default_rng(1)
    U, X, w = rng.random((4, 3)), rng.random((9, 3)), rng.standard_normal(9)
    values, gradients = kernel.sums_and_gradients(U, X, w)
    np.testing.assert_allclose(values, kernel.matrix(U, X) @ w)
    h = 1e-6
    for d in range(3):
        step = h * np.eye(3)[d]
        slope = (kernel.matrix(U + step, X) - kernel.matrix(U - step, X)) @ w / (2 * h)
        np.testing.assert_allclose(gradients[:, d], slope, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kernel", KERNELS)
def test_gradient_is_finite_at_a_centre(kernel: Kernel) -> None:
    X = np.full((1, 3), 0.5)
    _, gradients = kernel.sums_and_gradients(X, X, np.ones(1))
    np.testing.assert_array_equal(gradients, np.zeros((1, 3)))


@pytest.mark.parametrize("kernel", KERNELS)
def test_log_length_scale_gradients(kernel: Kernel) -> None:
    X = np.random.default_rng(2).random((6, 3))
    differences = squared_differences(X, ard=len(kernel.length_scales) > 1)
    K, dK = kernel.matrix_and_log_gradients(differences)
    np.testing.assert_allclose(K, kernel.matrix(X, X), rtol=1e-12)
    h = 1e-6
    for i in range(len(kernel.length_scales)):

        def moved(by: float, i: int = i) -> Kernel:
            scales = list(kernel.length_scales)
            scales[i] *= math.exp(by)
            return Kernel(kernel.family, tuple(scales), kernel.variance)

        slope = (moved(h).matrix(X, X) - moved(-h).matrix(X, X)) / (2 * h)
        np.testing.assert_allclose(dK[i], slope, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("family", "scales", "variance"),
    [
        ("squared_exponential", (), 1.0),
        ("squared_exponential", (0.0,), 1.0),
        ("matern52", (0.1, math.nan), 1.0),
        ("matern52", (0.1,), -1.0),
        ("matern52", (0.1,), math.nan),
        ("periodic", (0.1,), 1.0),
    ],
)
def test_bad_values_are_refused(family: Family, scales: tuple[float, ...], variance: float) -> None:
    with pytest.raises(ConfigError, match="kernel"):
        Kernel(family, scales, variance)


def test_wrong_dimension_is_refused() -> None:
    kernel = Kernel("squared_exponential", (0.1, 0.2), 1.0)
    with pytest.raises(ConfigError, match="expected 1 or 3 length_scales, got 2"):
        kernel.matrix(np.zeros((1, 3)), np.zeros((1, 3)))
