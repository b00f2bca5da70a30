"""Results that are kept."""

from __future__ import annotations

import numpy as np

from fedsim.memo import Memo
from fedsim.space import Array


def test_memo_keeps_the_most_recent() -> None:
    memo, computed = Memo[Array](2), []

    def get(key: int) -> Array:
        def compute() -> Array:
            computed.append(key)
            return np.array([float(key)])

        return memo.get(key, compute)

    for key in (1, 2, 1, 3, 1, 2):
        assert get(key)[0] == key
    assert computed == [1, 2, 3, 2]
    assert not get(1).flags.writeable


def test_any_result_may_be_kept() -> None:
    memo = Memo[tuple[int, ...] | None](1)
    pair = memo.get("a", lambda: (1, 2))
    assert memo.get("a", lambda: None) is pair
    assert memo.get("b", lambda: None) is None
    assert memo.get("b", lambda: (3,)) is None  # None is a result, too
