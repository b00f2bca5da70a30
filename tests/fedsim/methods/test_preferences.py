"""P_N: given weights, and those that a target learns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.errors import ConfigError
from fedsim.methods.local_model import LocalModelSettings
from fedsim.methods.messages import FederatedWork, MessageSettings
from fedsim.methods.preferences import concordance, learned, preferences_of
from fedsim.methods.roles import roles_of
from fedsim.protocol import Context
from fedsim.scenarios.synthetic import Synthetic
from fedsim.space import Array

ROLES = roles_of([0], 4)


def weights(given: Any, senders: list[int]) -> list[float]:
    found = preferences_of(given, ROLES)(senders, lambda: np.empty((0, 0)), np.empty(0))
    return [float(weight) for weight in found]


def test_given_weights_belong_to_agents() -> None:
    assert weights("uniform", [1, 3]) == [1.0, 1.0]
    assert weights([9, 1, 2, 3], [1, 3]) == [1.0, 3.0]
    assert weights({3: 0.5}, [1, 3]) == [0.0, 0.5]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([1, 2, 3], "expected 4 weights, one per agent, got 3"),
        ([1, -1, 1, 1], "expected finite weights of at least 0"),
        ({1: float("inf")}, "expected finite weights of at least 0"),
        ({4: 1.0}, r"expected agents 0 to 3, got \[4\]"),
        ({0: 1.0}, "expected a weight above 0 for some helper"),
        ([1, 0, 0, 0], "expected a weight above 0 for some helper"),
    ],
)
def test_refusals(given: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^method.preferences: {message}"):
        preferences_of(given, ROLES)


class TestConcordance:
    def test_by_hand(self) -> None:
        one = np.array([1.0, 2.0, 3.0])
        assert concordance(one, one) == 1.0
        assert concordance(one, -one) == 0.0
        assert concordance(one, np.array([1.0, 3.0, 2.0])) == pytest.approx(2 / 3)
        assert concordance(one, np.zeros(3)) == 0.5

    @given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=8, unique=True))
    def test_only_the_order_counts(self, values: list[float]) -> None:
        one, order = np.array(values), np.arange(float(len(values)))
        ranks = np.argsort(np.argsort(one)).astype(float)
        assert concordance(one, order) == concordance(ranks, order)


def example() -> tuple[Array, Array]:
    return np.array([[1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 4.0, 3.0], [4.0, 3.0, 2.0, 1.0]]), np.array(
        [1.0, 2.0, 3.0, 4.0]
    )


class TestLearned:
    def test_it_is_the_likelihood_by_numerical_integration(self) -> None:
        values, outputs = example()
        theta = np.linspace(0.5, 1.0, 200_001)
        expected = []
        for s in (1.0, 5 / 6, 0.0):
            density = theta ** (3 * s) * (1 - theta) ** (3 * (1 - s))
            expected.append(np.trapezoid(density, theta))
        found = learned(range(3), lambda: values, outputs)
        assert found == pytest.approx(np.array(expected) / expected[0], rel=1e-6)

    @pytest.mark.parametrize("n", [0, 1])
    def test_without_a_pair_it_is_uniform(self, n: int) -> None:
        found = learned(range(2), lambda: np.zeros((2, n)), np.zeros(n))
        assert found.tolist() == [1.0, 1.0]

    def test_equal_outputs_tell_nothing(self) -> None:
        values, _ = example()
        assert learned(range(3), lambda: values, np.full(4, 2.0)).tolist() == [1.0] * 3

    def test_units_and_outliers_do_not_matter(self) -> None:
        values, outputs = example()
        found = learned(range(3), lambda: values, outputs)
        other = learned(
            range(3), lambda: 5.0 * values + 7.0, np.where(outputs == 4.0, 1e300, outputs)
        )
        assert other.tolist() == found.tolist()

    def test_long_histories_do_not_overflow(self) -> None:
        values = np.stack([np.arange(300.0), -np.arange(300.0), np.arange(300.0) % 7])
        found = learned(range(3), lambda: values, np.arange(300.0))
        assert found[0] == 1.0
        assert np.isfinite(found).all()
        assert found[1] < 1e-12
        assert 0.0 <= found[2] < 1e-6

    def test_close_helpers_are_told_from_hostile_ones(self) -> None:
        # Statistical: half of 20 helpers have d_n = 0.02 and half 1.2. Over 100 such draws, the
        # close ones' share of the weights was 0.69 (standard deviation 0.11) with 5 observations
        # and 0.93 (0.06) with 20; means of 10 draws are tested with 4 standard errors to spare.
        shares = {n: np.mean([share(seed, n) for seed in range(10)]) for n in (5, 20)}
        assert shares[5] > 0.55
        assert shares[20] > 0.85


def share(seed: int, n: int) -> float:
    """Return the close helpers' share of the weights that a target learns."""
    scenario = Synthetic(
        agents=21, perturbation=(0.02, 1.2), unchanged=(0,), grid_size=500, seed=seed
    )
    assert scenario.space.grid is not None
    message = MessageSettings(center=0, features=50, length_scale=0.03, noise_variance=0.01)
    work = FederatedWork(Context(scenario.space, 21, 9, seed), message, 1, LocalModelSettings())
    generator = np.random.default_rng(seed)

    def observed(agent: int, count: int) -> tuple[Array, Array]:
        chosen = generator.integers(0, 500, count)
        phi = work.features_of(np.asarray(scenario.space.grid)[chosen])
        return phi, scenario.values(agent)[chosen] + 0.1 * generator.standard_normal(count)

    omega = np.array([work.message(*observed(agent, 60), generator) for agent in range(1, 21)])
    phi, y = observed(0, n)
    found = learned(range(20), lambda: np.asarray(omega @ phi.T), y)
    return float(found[1::2].sum() / found.sum())
