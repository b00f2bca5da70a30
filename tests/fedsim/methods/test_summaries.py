"""What the clients of FBO-FedGP sum, and the model that follows from it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fedsim.methods.summaries import Basis, Summaries, SummaryLayout
from fedsim.space import Array
from fedsim.surrogates.dpitc import sparse_posterior, summarise, support
from fedsim.surrogates.fit import best_variance
from fedsim.surrogates.kernels import Kernel
from tests.util.summed import total

BITS = 40
SIZES = [5, 1, 7]
POINTS = np.random.default_rng(0).random((6, 2))


def layout(shared: bool = True, moments: bool = True, scales: int = 1) -> SummaryLayout:
    return SummaryLayout("matern52", scales, shared, moments, 1e-4, BITS)


def basis(c: float = 0.0, r: float = 1.0) -> Basis:
    return Basis(POINTS, np.log([0.4, 0.01]), np.array([c, r]))


def data() -> list[tuple[Array, Array]]:
    rng = np.random.default_rng(1)
    return [(rng.random((n, 2)), 50.0 + 3.0 * rng.standard_normal(n)) for n in SIZES]


def rounded(vector: Array, bits: int = BITS) -> Array:
    return np.ldexp(np.rint(np.ldexp(vector, bits)), -bits)


def summed(
    s: SummaryLayout, b: Basis, clients: list[tuple[Array, Array]], logs: Array | None
) -> Array:
    vectors = [rounded(Summaries(s).vector(b, X, y, logs)) for X, y in clients]
    return np.asarray(np.sum(vectors, axis=0))


def expected_model(
    clients: list[tuple[Array, Array]], c: float, r: float, fit: bool
) -> tuple[Array, Array]:
    """Return mean and variance at a few points by standardising first, with everything at hand."""
    kernel = Kernel("matern52", (0.4,), 1.0)
    base = support(kernel, POINTS)
    whole = total([summarise(base, 0.01, X, ((y - c) / r)[:, None]) for X, y in clients])
    posterior = sparse_posterior(base, whole.covariance, whole.means[:, 0])
    v = best_variance(posterior.misfit(float(whole.misfits[0, 0])), sum(SIZES)) if fit else 1.0
    mean, variance = posterior.moments(np.random.default_rng(5).random((4, 2)))
    return mean / math.sqrt(v), variance


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("moments", [False, True])
@pytest.mark.parametrize("units", [(0.0, 1.0), (30.0, 7.0)])
def test_model_is_that_of_standardised_outputs(
    shared: bool, moments: bool, units: tuple[float, float]
) -> None:
    clients, s, b = data(), layout(shared, moments), basis(*units)
    y = np.concatenate([y for _, y in clients])
    model = Summaries(s).model(b, summed(s, b, clients, None))
    c, r = (y.mean(), y.std()) if moments else units
    np.testing.assert_allclose(model.units, [c, r], rtol=1e-8)
    found = model.posterior.moments(np.random.default_rng(5).random((4, 2)))
    np.testing.assert_allclose(found, expected_model(clients, c, r, shared), rtol=1e-6, atol=1e-6)
    assert (model.variance == 1.0) != shared
    np.testing.assert_array_equal(model.logs, b.logs)  # there was no fit


def test_vector_begins_with_the_papers_summary() -> None:
    (X, y), s, b = data()[0], layout(), basis()
    vector = Summaries(s).vector(b, X, y, None)
    summary = summarise(support(Kernel("matern52", (0.4,), 1.0), POINTS), 0.01, X, y[:, None])
    np.testing.assert_allclose(vector[:21], summary.covariance[np.triu_indices(6)], rtol=1e-9)
    np.testing.assert_allclose(vector[21:27], summary.means[:, 0], rtol=1e-9)


def test_public_constants_and_fixed_hyperparameters_send_nothing_else() -> None:
    s = layout(shared=False, moments=False)
    assert s.sizes(6) == {"covariance": 21, "means": 6}
    assert s.length(6) == 33  # the means twice: coarse parts
    vector = Summaries(s).vector(basis(), *data()[0], None)
    assert vector.shape == (33,)
    np.testing.assert_array_equal(vector[27:], np.zeros(6))  # ordinary outputs have no coarse part


@pytest.mark.parametrize("scales", [1, 2])
def test_fits_are_averaged_over_the_clients_that_have_one(scales: int) -> None:
    s, clients = layout(scales=scales), data()
    b = Basis(POINTS, np.log([*[0.4] * scales, 0.01]), np.array([0.0, 1.0]))
    fits = [np.full(scales + 1, -1.0), None, np.full(scales + 1, -2.0)]
    vectors = [
        Summaries(s).vector(b, X, y, logs) for (X, y), logs in zip(clients, fits, strict=True)
    ]
    model = Summaries(s).model(b, np.asarray(np.sum(vectors, axis=0)))
    np.testing.assert_allclose(model.logs, np.full(scales + 1, -1.5))


def test_fits_of_too_few_change_nothing() -> None:
    s, clients, b = replace(layout(), minimum_fits=2), data(), basis()
    for fitted, expected in ((1, b.logs), (2, [-1.0, -1.0])):
        vectors = [
            Summaries(s).vector(b, X, y, np.full(2, -1.0) if i < fitted else None)
            for i, (X, y) in enumerate(clients)
        ]
        model = Summaries(s).model(b, np.asarray(np.sum(vectors, axis=0)))
        np.testing.assert_allclose(model.logs, expected)


def test_averages_stay_within_bounds() -> None:
    s, b = layout(), basis()
    for logs, expected in ((-50.0, [0.02, 1e-4]), (50.0, [10.0, 10.0])):
        total = summed(s, b, data(), np.array([logs, logs]))
        np.testing.assert_allclose(np.exp(Summaries(s).model(b, total).logs), expected)


def test_equal_outputs_and_no_outputs() -> None:
    s, b = layout(), basis()
    clients = [(X, np.full(len(X), 7.0)) for X, _ in data()]
    model = Summaries(s).model(b, summed(s, b, clients, None))
    np.testing.assert_allclose(model.units, [7.0, 1.0])
    np.testing.assert_allclose(model.posterior.moments(POINTS)[0], np.zeros(6), atol=1e-6)
    nobody = summed(s, b, [(np.empty((0, 2)), np.empty(0))] * 3, None)
    model = Summaries(s).model(b, nobody)
    np.testing.assert_array_equal(model.units, b.units)
    np.testing.assert_array_equal(model.posterior.moments(POINTS), [np.zeros(6), np.ones(6)])


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e6, 1e11])
def test_outputs_of_any_size_are_summed(unit: float) -> None:
    clients = [(X, unit * y) for X, y in data()]
    s, b = layout(), basis()
    y = np.concatenate([y for _, y in clients])
    model = Summaries(s).model(b, summed(s, b, clients, None))
    np.testing.assert_allclose(model.units, [y.mean(), y.std()], rtol=1e-5)
    found = model.posterior.moments(np.random.default_rng(5).random((4, 2)))
    expected = expected_model(clients, y.mean(), y.std(), True)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("spread", [1e-6, 1e-8, 1e-11])
@pytest.mark.parametrize("mean", [0.0, 1e-5])
def test_outputs_too_small_for_the_fixed_point_are_found_in_a_few_rounds(
    spread: float, mean: float
) -> None:
    clients = [(X, mean + spread * (y - 50.0) / 3.0) for X, y in data()]
    y = np.concatenate([y for _, y in clients])
    s, b = layout(), basis()
    for _ in range(4):
        units = Summaries(s).model(b, summed(s, b, clients, None)).units
        b = Basis(b.points, b.logs, units)
    np.testing.assert_allclose(units, [y.mean(), y.std()], rtol=1e-4, atol=1e-4 * spread)
    model = Summaries(s).model(b, summed(s, b, clients, None))
    found = model.posterior.moments(np.random.default_rng(5).random((4, 2)))
    expected = expected_model(clients, y.mean(), y.std(), True)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_equal_outputs_leave_room_for_large_ones(scale: float) -> None:
    s = replace(layout(), output_scale=scale)
    b = basis(0.0, scale)
    equal = [(X, np.full(len(X), 7.0)) for X, _ in data()]
    for _ in range(5):
        b = Basis(b.points, b.logs, Summaries(s).model(b, summed(s, b, equal, None)).units)
    np.testing.assert_allclose(b.units, [7.0, scale * 2.0**-20], rtol=1e-9)
    large = [(X, 1e12 * scale * (y - 50.0) / 9.0) for X, y in data()]
    total = summed(s, b, large, None)
    assert np.abs(total).max() < 2.0 ** (61 - BITS)
    y = np.concatenate([y for _, y in large])
    np.testing.assert_allclose(Summaries(s).model(b, total).units, [y.mean(), y.std()], rtol=1e-5)


@given(
    st.lists(st.floats(-1e24, 1e24), min_size=6, max_size=6),
    st.lists(st.floats(-1e3, 1e3), min_size=21, max_size=21),
    st.integers(20, 60),
)
def test_packing_loses_nothing(means: list[float], covariance: list[float], bits: int) -> None:
    s = SummaryLayout("matern52", 1, False, False, 1e-4, bits)
    given_ = {"means": np.array(means), "covariance": np.array(covariance)}
    assume(max(np.abs(means)) < 2.0 ** (120 - bits))
    vector = s.pack(given_, 6)
    assert np.abs(vector[21:]).max() < 2.0 ** (61 - bits)  # both parts fit
    assert np.abs(vector[21:27]).max() <= 2.0 ** (59 - bits)
    found = s.unpack(vector, 6)
    np.testing.assert_array_equal(found["covariance"], given_["covariance"])
    np.testing.assert_array_equal(found["means"], given_["means"])


def parts_of(X: Array, x: Array) -> dict[str, Array]:
    """Return all parts of one client's vector."""
    base, columns = support(Kernel("matern52", (0.4,), 1.0), POINTS), np.stack([x, x**0], axis=1)
    summary = summarise(base, 1e-4, X, columns)
    return {
        "covariance": summary.covariance[np.triu_indices(6)],
        "means": summary.means[:, 0],
        "misfit": summary.misfits[:1, 0],
        "first": np.array([x.sum()]),
        "second": np.array([np.square(x).sum()]),
        "cross": summary.misfits[:1, 1],
        "ones": summary.means[:, 1],
        "norm": summary.misfits[1:, 1],
        "count": np.array([float(len(x))]),
        "fits": np.array([1.0]),
        "logs": np.array([-1.0, -2.0]),
    }


@pytest.mark.parametrize("bits", [30, 40, 44])
@pytest.mark.parametrize("unit", [1.0, 1e6, 1e11, 1e12])
def test_packing_of_outputs_up_to_1e12_is_exact_and_in_range(bits: int, unit: float) -> None:
    rng, n = np.random.default_rng(2), 6  # n / 1e-4 is below 2^(60 - bits)
    parts = parts_of(rng.random((n, 2)), unit * rng.uniform(-1.0, 1.0, n))
    s = SummaryLayout("matern52", 1, True, True, 1e-4, bits)
    vector = s.pack(parts, 6)
    assert vector.shape == (s.length(6),)
    assert np.abs(vector).max() < 2.0 ** (61 - bits)
    np.testing.assert_array_equal(rounded(vector[-14:], bits), vector[-14:])  # the coarse parts
    for name, part in s.unpack(vector, 6).items():
        np.testing.assert_array_equal(part, parts[name])


def test_models_are_computed_once_for_equal_sums() -> None:
    s, b = layout(), basis()
    summaries, total = Summaries(s), summed(s, b, data(), None)
    model = summaries.model(b, total)
    assert summaries.model(basis(), np.array(total)) is model
    assert summaries.model(basis(1.0), total) is not model
