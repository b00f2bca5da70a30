import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.errors import ConfigError
from fedsim.scenarios.partition import (
    Partition,
    by_column,
    deal,
    dirichlet_label_skew,
    iid,
    quantity_skew,
    require_two_classes,
    stratified_halves,
)


def skewed(
    labels: np.ndarray, agents: int, concentration: float = 0.5, minimum: int = 1, seed: int = 0
) -> tuple[np.ndarray, ...]:
    generator = np.random.default_rng(seed)
    return dirichlet_label_skew(labels, agents, concentration, minimum, generator)


def mixes(hands: tuple[np.ndarray, ...], labels: np.ndarray) -> np.ndarray:
    """Return how many samples of each class each agent holds, shape (agents, K)."""
    return np.array([np.bincount(labels[hand], minlength=labels.max() + 1) for hand in hands])


def sizes(hands: tuple[np.ndarray, ...]) -> np.ndarray:
    return np.array([len(hand) for hand in hands])


def is_partition(hands: tuple[np.ndarray, ...], samples: int) -> bool:
    """Return whether every index is there once, ascending for every agent."""
    whole = sorted(np.concatenate(hands)) == list(range(samples))
    return whole and all(np.all(np.diff(hand) > 0) for hand in hands)


def same(first: tuple[np.ndarray, ...], second: tuple[np.ndarray, ...]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 180))
LABELS.setflags(write=False)


class TestDirichlet:
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
        hands = skewed(labels, agents, concentration, minimum, seed)
        assert len(hands) == agents
        assert is_partition(hands, len(labels))
        assert ((mixes(hands, labels) >= minimum).sum(axis=1) >= 2).all()
        with pytest.raises(ConfigError, match=f"expected at most {agents}, got {agents + 1}"):
            skewed(labels, agents + 1, concentration, minimum, seed)

    def test_labels_may_be_any_integers(self) -> None:
        assert same(skewed(LABELS, 5), skewed(LABELS * 7 - 30, 5))

    def test_equal_generators_give_equal_deals(self) -> None:
        first, again, other = skewed(LABELS, 5), skewed(LABELS, 5), skewed(LABELS, 5, seed=1)
        assert same(first, again)
        assert not same(first, other)

    def test_one_agent_gets_everything(self) -> None:
        assert np.array_equal(skewed(LABELS, 1)[0], np.arange(len(LABELS)))

    def test_the_deal_of_one_seed_is_fixed(self) -> None:
        """A run resumed with a later fedsim has the same agents."""
        labels = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2])
        hands = [list(hand) for hand in skewed(labels, 3, 0.5, 1, seed=0)]
        assert hands == [[5, 6], [7, 8, 11], [0, 1, 2, 3, 4, 9, 10]]

    def test_large_concentrations_make_agents_alike(self) -> None:
        assert np.abs(mixes(skewed(LABELS, 6, 1e6), LABELS) - 30).max() <= 2

    def test_small_concentrations_leave_few_classes(self) -> None:
        held = mixes(skewed(LABELS, 20, 0.02, minimum=2), LABELS)
        assert np.median((held > 0).sum(axis=1)) <= 3
        assert held.sum(axis=1).max() > 2 * 90

    def test_shares_have_the_dirichlets_variance(self) -> None:
        # One share of N is Beta(a, (N - 1) a): variance (N - 1) / (N^2 (N a + 1)).
        agents, a = 8, 0.5
        held = np.concatenate([mixes(skewed(LABELS, agents, a, 1, s), LABELS) for s in range(60)])
        expected = (agents - 1) / (agents**2 * (agents * a + 1))
        # One reserved sample per pair and rounding move shares by less than 2 %.
        assert np.var(held / 180) == pytest.approx(expected, rel=0.08)

    def test_the_guaranteed_classes_are_the_agents_own(self) -> None:
        # Where there is room, a larger guarantee does not change which classes agents hold most.
        little, much = (mixes(skewed(LABELS, 10, 0.1, m), LABELS) for m in (1, 10))
        assert (little.argmax(axis=1) == much.argmax(axis=1)).mean() >= 0.9


@pytest.mark.parametrize(
    ("agents", "concentration", "minimum", "message"),
    [
        (5, 0.0, 1, "concentration: expected a number greater than 0, at most 1e[+]09, got 0.0"),
        (5, math.nan, 1, "concentration"),
        (5, math.inf, 1, "concentration"),
        (5, 1e308, 1, "concentration"),  # the sum of five gammas would overflow
        (0, 0.5, 1, "scenario.agents: expected at least 1, got 0"),
        (5, 0.5, 0, "scenario.partition.minimum: expected at least 1, got 0"),
        (181, 0.5, 10, "at most 90, got 181: 1800 samples of 10 classes .* 10 samples"),
    ],
)
def test_refusals_of_label_skew(
    agents: int, concentration: float, minimum: int, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        skewed(LABELS, agents, concentration, minimum)


def test_one_class_serves_nobody() -> None:
    with pytest.raises(ConfigError, match="expected at most 0, got 1: 30 samples of 1 classes"):
        skewed(np.zeros(30, dtype=int), 1)


class TestQuantity:
    @given(
        st.integers(1, 30), st.integers(1, 9), st.integers(0, 200), st.floats(1e-3, 1e9), st.data()
    )
    def test_a_partition_in_which_everybody_has_the_minimum(
        self, agents: int, minimum: int, more: int, concentration: float, data: st.DataObject
    ) -> None:
        seed = data.draw(st.integers(0, 99))
        samples = agents * minimum + more
        generator = np.random.default_rng(seed)
        hands = quantity_skew(samples, agents, concentration, minimum, generator)
        assert len(hands) == agents
        assert is_partition(hands, samples)
        assert sizes(hands).min() >= minimum

    @pytest.mark.parametrize("concentration", [0.1, 0.5, 5.0])
    def test_sizes_have_the_dirichlets_spread(self, concentration: float) -> None:
        # Over 2000 deals; rounding moves sizes of about 250 by less than 1.
        agents, samples, minimum = 8, 2000, 50
        generator = np.random.default_rng(0)
        drawn = np.array(
            [
                sizes(quantity_skew(samples, agents, concentration, minimum, generator))
                for _ in range(2000)
            ]
        )
        rest = samples - agents * minimum
        spread = rest * math.sqrt((agents - 1) / (agents * concentration + 1)) / agents
        assert drawn.std() == pytest.approx(spread, rel=0.03)
        # Each agent's mean is known to spread / sqrt(2000); five times that among eight.
        assert np.abs(drawn.mean(axis=0) - 250).max() < 5 * spread / math.sqrt(2000)

    def test_labels_are_mixed(self) -> None:
        # Hypergeometric: the standardised counts of all agents and classes have variance 1.
        agents, concentration = 6, 2.0
        generator = np.random.default_rng(1)
        squares = []
        for _ in range(100):
            held = mixes(quantity_skew(1800, agents, concentration, 50, generator), LABELS)
            n = held.sum(axis=1, keepdims=True)
            variance = n * 0.1 * 0.9 * (1800 - n) / 1799
            squares.append(((held - 0.1 * n) ** 2 / variance).mean())
        # 100 means of 60 squares, of which about 45 are free: the standard error is 0.02.
        assert np.mean(squares) == pytest.approx(1.0, abs=0.08)

    def test_equal_generators_give_equal_deals(self) -> None:
        first, again, other = (
            quantity_skew(100, 5, 0.5, 1, np.random.default_rng(seed)) for seed in (0, 0, 1)
        )
        assert same(first, again)
        assert not same(first, other)

    @pytest.mark.parametrize(
        ("agents", "concentration", "minimum", "message"),
        [
            (0, 0.5, 1, "scenario.agents: expected at least 1, got 0"),
            (
                4,
                0.5,
                3,
                "scenario.agents: expected 1 to 3 .11 samples, 3 or more for each agent.*4",
            ),
            (2, math.nan, 1, "scenario.partition.concentration: .* got nan"),
            (2, 0.5, 0, "scenario.partition.minimum: expected at least 1, got 0"),
        ],
    )
    def test_refusals(self, agents: int, concentration: float, minimum: int, message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            quantity_skew(11, agents, concentration, minimum, np.random.default_rng(0))


class TestIID:
    @given(st.integers(1, 40), st.integers(0, 200), st.integers(0, 99))
    def test_a_partition_into_equal_sizes(self, agents: int, more: int, seed: int) -> None:
        hands = iid(agents + more, agents, np.random.default_rng(seed))
        assert len(hands) == agents
        assert is_partition(hands, agents + more)
        assert np.ptp(sizes(hands)) <= 1

    def test_any_two_samples_may_meet(self) -> None:
        # Of six samples, 0 has each of the others beside it in 1/5 of the deals of pairs.
        generator = np.random.default_rng(0)
        pairs = [hand for _ in range(2000) for hand in iid(6, 3, generator) if hand[0] == 0]
        met = np.bincount([pair[1] for pair in pairs], minlength=6)[1:]
        assert np.abs(met / 2000 - 0.2).max() < 5 * math.sqrt(0.2 * 0.8 / 2000)

    @pytest.mark.parametrize("agents", [0, 4])
    def test_refusals(self, agents: int) -> None:
        with pytest.raises(ConfigError, match=f"scenario.agents: expected 1 to 3 .*, got {agents}"):
            iid(3, agents, np.random.default_rng(0))


class TestByColumn:
    def test_one_agent_per_value_in_ascending_order(self) -> None:
        column = np.array([30, -7, 30, 12, -7, 30])
        assert [list(hand) for hand in by_column(column, 3)] == [[1, 4], [3], [0, 2, 5]]
        assert [list(hand) for hand in by_column(column, 2)] == [[1, 4], [3]]

    def test_values_may_be_text(self) -> None:
        column = np.array(["walker", "anna", "walker"])
        assert [list(hand) for hand in by_column(column, 2)] == [[1], [0, 2]]

    @given(st.lists(st.integers(-5, 5), min_size=1, max_size=40), st.data())
    def test_an_agents_samples_are_those_of_its_value(
        self, values: list[int], data: st.DataObject
    ) -> None:
        column = np.array(values)
        column.setflags(write=False)
        owners = sorted(set(values))
        agents = data.draw(st.integers(1, len(owners)))
        hands = by_column(column, agents)
        assert len(hands) == agents
        for owner, hand in zip(owners, hands, strict=False):
            assert list(hand) == [i for i, value in enumerate(values) if value == owner]
        assert is_partition(by_column(column, len(owners)), len(values))

    @pytest.mark.parametrize("agents", [0, 4])
    def test_refusals_say_what_is_there(self, agents: int) -> None:
        words = f"scenario.agents: expected 1 to 3, got {agents}: .* the values 10, 20, 30$"
        with pytest.raises(ConfigError, match=words):
            by_column(np.array([20, 10, 20, 30]), agents)

    def test_many_values_are_not_all_shown(self) -> None:
        with pytest.raises(ConfigError, match=r"1 to 50, got 51: .* 6, 7, \.\.\.$"):
            by_column(np.arange(50), 51)


class TestDeal:
    """The configuration chooses among the functions above."""

    def test_the_kinds(self) -> None:
        column = np.arange(1800) % 7
        expected = {
            "dirichlet": skewed(LABELS, 5, 0.3, 4, seed=2),
            "quantity": quantity_skew(1800, 5, 0.3, 4, np.random.default_rng(2)),
            "iid": iid(1800, 5, np.random.default_rng(2)),
            "natural": by_column(column, 5),
        }
        for kind, hands in expected.items():
            partition = Partition(kind, 0.3, 4)  # type: ignore[arg-type]
            assert same(deal(partition, LABELS, 5, np.random.default_rng(2), column), hands)

    def test_natural_needs_a_column(self) -> None:
        words = "scenario.partition.kind: expected dirichlet, quantity or iid, got natural"
        with pytest.raises(ConfigError, match=words):
            deal(Partition("natural"), LABELS, 5, np.random.default_rng(0))

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"kind": "even"}, "scenario.partition.kind: expected one of dirichlet, .*, got even"),
            ({"concentration": 0.0}, "scenario.partition.concentration: expected a number greater"),
            ({"concentration": math.nan}, "scenario.partition.concentration"),
            ({"concentration": 1.1e9}, "scenario.partition.concentration: .* at most 1e[+]09"),
            ({"minimum": 0}, "scenario.partition.minimum: expected at least 1, got 0"),
        ],
    )
    def test_refusals(self, settings: dict[str, Any], message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            Partition(**settings)


class TestHalves:
    def test_halves_share_every_class(self) -> None:
        labels = np.array([0] * 10 + [1] * 5 + [2] * 4)
        samples = np.arange(19)
        samples.setflags(write=False)
        train, validation = stratified_halves(samples, labels, np.random.default_rng(0))
        counts = np.bincount(labels[train]), np.bincount(labels[validation])
        assert np.abs(counts[0] - counts[1]).max() <= 1
        assert sorted([*train, *validation]) == list(range(19))

    @pytest.mark.parametrize(
        ("third", "got"),
        [
            (([2, 3], [0]), "got 2 .classes: 7. and 1;"),
            (([2], []), "got 1 .classes: 7. and 0;"),
            (([0, 2], []), "got 2 .classes: 4, 7. and 0;"),
            (([], []), "got 0 .classes: none. and 0;"),
        ],
    )
    def test_an_agent_without_two_classes_is_named(
        self, third: tuple[list[int], list[int]], got: str
    ) -> None:
        labels = np.array([4, 4, 7, 7])
        whole = (np.array([0, 2]), np.array([1]))
        bad = (np.array(third[0], dtype=np.intp), np.array(third[1], dtype=np.intp))
        require_two_classes([whole, whole], labels)
        words = f"agent 2: expected samples of two classes to train with .* {got} use fewer agents"
        with pytest.raises(ConfigError, match=words):
            require_two_classes([whole, whole, bad, bad], labels)
