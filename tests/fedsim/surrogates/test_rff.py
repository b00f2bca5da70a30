from __future__ import annotations

import math

import numpy as np
import pytest

from fedsim.errors import ConfigError
from fedsim.surrogates.kernels import Family, Kernel
from fedsim.surrogates.rff import FeatureFunction, RandomFeatures, draw_features

FAMILIES: tuple[Family, ...] = ("squared_exponential", "matern52")


def test_paper_formula_by_hand() -> None:
    features = RandomFeatures(np.array([[1.0, 2.0], [0.5, -1.0]]), np.array([0.1, 0.2]), 4.0)
    u = np.array([[0.3, 0.6]])
    raw = np.array([math.cos(1.6), math.cos(0.15 - 0.6 + 0.2)])  # sqrt(2 / 2) = 1
    expected = 2.0 * raw / np.linalg.norm(raw)
    np.testing.assert_allclose(features.matrix(u)[0], expected, rtol=1e-14)


@pytest.mark.parametrize("family", FAMILIES)
def test_norm_is_the_kernels_standard_deviation(family: Family) -> None:
    rng = np.random.default_rng(0)
    features = draw_features(Kernel(family, (0.1,), 2.5), 3, 20, rng)
    np.testing.assert_allclose(
        np.linalg.norm(features.matrix(rng.random((50, 3))), axis=1), math.sqrt(2.5), rtol=1e-12
    )


@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scales", [(0.4,), (0.3, 0.8)])
def test_inner_products_approximate_the_kernel(
    family: Family, scales: tuple[float, ...], normalised: bool
) -> None:
    # 20,000 features: standard deviation of an inner product at most 2 * 2 / sqrt(20000) = 0.03.
    rng = np.random.default_rng(1)
    kernel = Kernel(family, scales, 2.0)
    features = draw_features(kernel, 2, 20_000, rng, normalised=normalised)
    U = rng.random((12, 2))
    Phi = features.matrix(U)
    np.testing.assert_allclose(Phi @ Phi.T, kernel.matrix(U, U), atol=0.08)


@pytest.mark.parametrize("normalised", [True, False])
def test_values_and_gradients(normalised: bool) -> None:
    rng = np.random.default_rng(2)
    features = draw_features(Kernel("matern52", (0.2, 0.5), 1.3), 2, 30, rng, normalised=normalised)
    function = FeatureFunction(features, rng.standard_normal(30))
    U = rng.random((5, 2))
    values, gradients = function.values_and_gradients(U)
    np.testing.assert_allclose(values, features.matrix(U) @ function.weights, rtol=1e-12)
    np.testing.assert_allclose(values, function.values(U), rtol=1e-12)
    h = 1e-6
    for d in range(2):
        step = h * np.eye(2)[d]
        slope = (function.values(U + step) - function.values(U - step)) / (2 * h)
        np.testing.assert_allclose(gradients[:, d], slope, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("size", [0.0, 1e-150, 1.0, 1e150])
def test_single_precision_sums_agree_in_any_unit(normalised: bool, size: float) -> None:
    rng = np.random.default_rng(2)
    U, w = rng.random((5, 2)), rng.standard_normal(30)
    for kernel, weights in (
        (Kernel("matern52", (0.2, 0.5), 1.3 * size**2 or 1.0), w),
        (Kernel("matern52", (0.2, 0.5), 1.3), size * w),
    ):
        features = draw_features(kernel, 2, 30, rng, normalised=normalised)
        single = features.single_sums(U, weights)
        expected = features.matrix(U) @ weights
        np.testing.assert_allclose(single, expected, atol=1e-4 * (np.abs(expected).max() or 1.0))


def test_same_generator_same_features_and_inputs_untouched() -> None:
    kernel = Kernel("matern52", (0.2,), 1.0)
    a = draw_features(kernel, 2, 8, np.random.default_rng(3))
    b = draw_features(kernel, 2, 8, np.random.default_rng(3))
    U, w = np.random.default_rng(4).random((3, 2)), np.ones(8)
    for array in (U, w, a.frequencies, a.phases):
        array.setflags(write=False)
    np.testing.assert_array_equal(a.matrix(U), b.matrix(U))
    a.sums_and_gradients(U, w)


def test_no_features_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least 1, got 0"):
        draw_features(Kernel("matern52", (0.2,), 1.0), 2, 0, np.random.default_rng(0))
