"""What the parties of a session agree on."""

from __future__ import annotations

import pytest

from fedsim.crypto.parameters import Parameters
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
