import hashlib
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.errors import ConfigError
from fedsim.rng import SERVER, Keys, SystemKeys, rng

KEYS = st.tuples(
    st.integers(0, 2**128 - 1),  # seed
    st.sampled_from(["noise", "design", "", "prior sample"]),
    st.integers(SERVER, 10_000),
    st.integers(0, 10_000),
    st.integers(0, 1_000),
)


@given(KEYS)
def test_a_key_repeats_its_numbers(key: tuple[int, str, int, int, int]) -> None:
    assert np.array_equal(rng(*key).random(4), rng(*key).random(4))


@given(KEYS, KEYS)
def test_different_keys_give_different_numbers(
    one: tuple[int, str, int, int, int], other: tuple[int, str, int, int, int]
) -> None:
    same = np.array_equal(rng(*one).random(4), rng(*other).random(4))
    assert same == (one == other)


@pytest.mark.parametrize("part", range(5))
def test_every_part_of_the_key_counts(part: int) -> None:
    base = (7, "noise", 3, 2, 1)
    changed = (8, "design", 4, 3, 2)
    other = list[Any](base)
    other[part] = changed[part]
    assert not np.array_equal(rng(*base).random(4), rng(*other).random(4))


def test_parts_do_not_trade_places() -> None:
    assert not np.array_equal(rng(0, "a", 1, 2, 3).random(4), rng(0, "a", 3, 2, 1).random(4))
    assert not np.array_equal(rng(0, "a", SERVER, 1).random(4), rng(0, "a", 0, 0).random(4))


def test_numbers_are_the_same_in_every_version() -> None:
    # Recorded runs depend on these: a change here breaks every run folder.
    agent = rng(0, "noise", 0, 0).integers(2**32, size=3)
    assert agent.tolist() == [1786006593, 877232297, 2246718130]
    server = rng(5, "features", SERVER, 2, 1).integers(2**32, size=3)
    assert server.tolist() == [3185711710, 1853455266, 1311771203]


WORDS = st.one_of(st.integers(0, 20), st.integers(2**32 - 3, 2**32 + 2), st.integers(0, 2**70))


@given(
    seed=st.one_of(st.integers(0, 10), st.integers(2**31, 2**33), st.integers(0, 2**300)),
    purpose=st.text(max_size=8),
    agent=st.one_of(st.just(SERVER), WORDS),
    step=WORDS,
    index=WORDS,
    call=WORDS,
)
def test_a_key_is_numpys_spawn_key(
    seed: int, purpose: str, agent: int, step: int, index: int, call: int
) -> None:
    # Exact: the faster way to the same stream, also for what is spawned or sent elsewhere.
    word = int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:4], "little")
    key = (word, agent + 1, step, index, *([call] if call else []))
    expected = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
    found = rng(seed, purpose, agent, step, index, call)
    assert found.bit_generator.state == expected.bit_generator.state
    for one, other in zip(found.spawn(2), expected.spawn(2), strict=True):
        assert one.bit_generator.state == other.bit_generator.state
    sent = pickle.loads(pickle.dumps(found))
    assert sent.bit_generator.state == expected.bit_generator.state
    assert sent.spawn(1)[0].random() == expected.spawn(1)[0].random()


@pytest.mark.parametrize("part", ["agent", "step", "index", "call"])
def test_a_negative_part_is_refused(part: str) -> None:
    key = {"seed": 0, "purpose": "noise", "agent": 1, "step": 1, part: -2}
    with pytest.raises(ValueError, match="negative"):
        rng(**key)  # type: ignore[arg-type]


def test_neighbouring_keys_are_uncorrelated() -> None:
    draws = np.array([rng(0, "noise", agent, 0).standard_normal(500) for agent in range(40)])
    correlations = np.corrcoef(draws)[np.triu_indices(40, 1)]
    # 780 correlations of standard deviation 1 / sqrt(500): 5 of them is beyond all of them.
    assert np.abs(correlations).max() < 5 / np.sqrt(500)
    assert correlations.std() == pytest.approx(1 / np.sqrt(500), rel=0.1)


def test_keys_are_the_function_with_its_arguments_filled_in() -> None:
    keys = Keys(seed=3, agent=2, step=5)
    assert np.array_equal(keys("noise").random(4), rng(3, "noise", 2, 5).random(4))
    assert np.array_equal(keys("noise", 6).random(4), rng(3, "noise", 2, 5, 6).random(4))


def test_system_keys_never_repeat() -> None:
    keys = SystemKeys()
    draws = {keys("noise").random() for _ in range(50)} | {SystemKeys()("noise").random()}
    assert len(draws) == 51


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ConfigError, match="seeds: expected an integer of at least 0, got -1"):
        rng(-1, "noise", 0, 0)
