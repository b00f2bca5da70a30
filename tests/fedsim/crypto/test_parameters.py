"""What the parties of a session agree on."""

from __future__ import annotations

import numpy as np
import pytest

from fedsim.crypto.parameters import Layout, Parameters
from fedsim.errors import ConfigError


@pytest.mark.parametrize("decryptions", [0, -1, 2**16 + 1])
def test_a_key_allows_some_decryptions(decryptions: int) -> None:
    with pytest.raises(
        ConfigError, match=f"decryptions of a key: expected 1 to 65536, got {decryptions}"
    ):
        Parameters(40, decryptions)


def test_all_parameters_are_in_the_identifier() -> None:
    some = [Parameters(40), Parameters(41), Parameters(40, 1), Parameters(40, 2**16 - 1)]
    assert len({one.identifier for one in some}) == 4
    assert {len(one.identifier) for one in some} == {16}


@pytest.mark.parametrize(
    ("length", "shape"), [(1, (1, 40)), (8192, (1, 8192)), (8193, (2, 4097)), (20_000, (3, 6667))]
)
def test_a_vector_is_split_into_equal_parts_and_zeros(length: int, shape: tuple[int, int]) -> None:
    parts = Layout.of(length).split(np.arange(1, length + 1))
    assert parts.shape == shape
    assert parts.ravel()[:length].tolist() == list(range(1, length + 1))
    assert not parts.ravel()[length:].any()
