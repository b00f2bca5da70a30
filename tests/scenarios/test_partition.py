import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.errors import ConfigError
from fedsim.scenarios.partition import dirichlet_label_skew


def deal(
    labels: np.ndarray, agents: int, concentration: float = 0.5, minimum: int = 1, seed: int = 0
) -> tuple[np.ndarray, ...]:
    generator = np.random.default_rng(seed)
    return dirichlet_label_skew(labels, agents, concentration, minimum, generator)


def mixes(hands: tuple[np.ndarray, ...], labels: np.ndarray) -> np.ndarray:
    """Return how many samples of each class each agent holds, shape (agents, K)."""
    return np.array([np.bincount(labels[hand], minlength=labels.max() + 1) for hand in hands])


LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 180))


class TestEveryDeal:
    @given(
        st.lists(st.integers(8, 60), min_size=2, max_size=6),
        st.integers(1, 4),
        st.floats(1e-3, 1e3),
        st.integers(0, 99),
    )
    def test_a_partition_with_two_classes_for_everybody(
        self, counts: list[int], minimum: int, concentration: float, seed: int
    ) -> None:
        labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
        blocks = np.array(counts) // minimum
        # The largest number of agents that can all have two classes: the guarantee must hold.
        agents = max(n for n in range(1, 200) if np.minimum(blocks, n).sum() >= 2 * n)
        hands = deal(labels, agents, concentration, minimum, seed)
        assert len(hands) == agents
        assert sorted(np.concatenate(hands)) == list(range(len(labels)))
        assert all(np.all(np.diff(hand) > 0) for hand in hands)
        assert ((mixes(hands, labels) >= minimum).sum(axis=1) >= 2).all()
        with pytest.raises(ConfigError, match=f"expected at most {agents}, got {agents + 1}"):
            deal(labels, agents + 1, concentration, minimum, seed)

    def test_labels_may_be_any_integers(self) -> None:
        by_digit, by_name = deal(LABELS, 5), deal(LABELS * 7 - 30, 5)
        assert all(np.array_equal(a, b) for a, b in zip(by_digit, by_name, strict=True))

    def test_equal_generators_give_equal_deals(self) -> None:
        first, again, other = deal(LABELS, 5), deal(LABELS, 5), deal(LABELS, 5, seed=1)
        assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
        assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))

    def test_one_agent_gets_everything(self) -> None:
        assert np.array_equal(deal(LABELS, 1)[0], np.arange(len(LABELS)))


class TestSkew:
    def test_large_concentrations_make_agents_alike(self) -> None:
        assert np.abs(mixes(deal(LABELS, 6, 1e6), LABELS) - 30).max() <= 2

    def test_small_concentrations_leave_few_classes(self) -> None:
        held = mixes(deal(LABELS, 20, 0.02, minimum=2), LABELS)
        assert np.median((held > 0).sum(axis=1)) <= 3
        assert held.sum(axis=1).max() > 2 * 90

    def test_shares_have_the_dirichlets_variance(self) -> None:
        # One share of N is Beta(a, (N - 1) a): variance (N - 1) / (N^2 (N a + 1)).
        agents, a = 8, 0.5
        held = np.concatenate([mixes(deal(LABELS, agents, a, 1, s), LABELS) for s in range(60)])
        expected = (agents - 1) / (agents**2 * (agents * a + 1))
        # One reserved sample per pair and rounding move shares by less than 2 %.
        assert np.var(held / 180) == pytest.approx(expected, rel=0.08)

    def test_the_guaranteed_classes_are_the_agents_own(self) -> None:
        # Where there is room, a larger guarantee does not change which classes agents hold most.
        little, much = (mixes(deal(LABELS, 10, 0.1, m), LABELS) for m in (1, 10))
        assert (little.argmax(axis=1) == much.argmax(axis=1)).mean() >= 0.9


@pytest.mark.parametrize(
    ("agents", "concentration", "minimum", "message"),
    [
        (5, 0.0, 1, "concentration: expected a number greater than 0, got 0.0"),
        (5, math.nan, 1, "concentration"),
        (5, math.inf, 1, "concentration"),
        (0, 0.5, 1, "expected at least 1, got agents 0 and minimum 1"),
        (5, 0.5, 0, "expected at least 1, got agents 5 and minimum 0"),
        (181, 0.5, 10, "at most 90, got 181: 1800 samples of 10 classes .* 10 samples"),
    ],
)
def test_refusals(agents: int, concentration: float, minimum: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        deal(LABELS, agents, concentration, minimum)


def test_one_class_serves_nobody() -> None:
    with pytest.raises(ConfigError, match="expected at most 0, got 1: 30 samples of 1 classes"):
        deal(np.zeros(30, dtype=int), 1)
