"""The costs of encryption: sizes are exact, times are positive, and whole rounds really sum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedsim.crypto.measuring import Rounds, ckks_costs, numbers_of, threshold_costs


@pytest.mark.parametrize(("support", "numbers"), [(8, 44), (16, 152), (32, 560), (64, 2144)])
def test_numbers_of_a_support_set(support: int, numbers: int) -> None:
    assert numbers_of(support) == numbers


def test_operations() -> None:
    own = threshold_costs(3, 32, repeats=1)
    assert (own.ciphertext_bytes, own.share_bytes) == (210_048, 13_440)
    other = ckks_costs(3, 32, repeats=1)
    assert 200_000 < other.ciphertext_bytes < 300_000
    for costs in (own, other):
        times = (costs.key, costs.encrypt, costs.aggregate, costs.decrypt)
        assert min(times) > 0


@pytest.mark.parametrize("encryption", ["threshold", "ckks", "plain"])
def test_whole_rounds(encryption: Any) -> None:
    federation, plain = Rounds(encryption, 3, 44), Rounds("plain", 3, 44)
    for t in range(2):
        assert np.array_equal(federation.run(t), plain.run(t))
    assert plain.bytes_sent == {"to clients": 2 * 3 * 8, "to the server": 2 * 3 * 44 * 8}
    if encryption == "threshold":
        upload, share = (8192 + 44) * 24 + 100, 44 * 24 + 100
        key = 8192 * 24 + 100 + 32 + 3 * 32
        assert federation.bytes_sent["to the server"] == 3 * (2 * upload + 2 * share + key)
