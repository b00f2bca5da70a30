"""What colluding parties get without one share: noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedsim.crypto.collusion import withhold_shares
from fedsim.errors import ConfigError


@pytest.mark.parametrize(("members", "scale", "withheld"), [(2, 1.0, 1), (6, 1e3, 1), (6, 1.0, 3)])
def test_what_decrypts_is_uniform_and_unrelated(members: int, scale: float, withheld: int) -> None:
    """Keys are new each time: the bounds are exceeded once in a million runs."""
    found = withhold_shares(members, 560, scale, withheld, trials=2)
    assert found.right == 0
    assert found.found == 2
    assert min(found.uniformity) > 1e-7
    assert max(map(abs, found.correlation)) < 5.5 / np.sqrt(560)
    # Uniform in +-2^31: the median of the magnitudes is 2^30, within 6 standard errors.
    assert found.median == pytest.approx(2.0**30, rel=6 / np.sqrt(2 * 560))
    assert found.true_median < 1e-3 * found.median


def test_with_all_shares_the_sum_is_right() -> None:
    found = withhold_shares(3, 44, 1.0, 0, trials=2)
    assert found.right == 88
    assert found.found == 0
    assert found.median == found.true_median
    assert found.correlation == pytest.approx((1.0, 1.0))
    assert max(found.uniformity) < 1e-6


def test_nobody_gives_a_share() -> None:
    assert withhold_shares(3, 44, 1.0, 3, trials=1).found == 1


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((0, 44, 1.0), "members"),
        ((1025, 44, 1.0), "members"),
        ((3, 0, 1.0), "numbers"),
        ((3, 8193, 1.0), "numbers"),
        ((3, 44, 0.0), "scale"),
        ((3, 44, 1e6), "scale"),
        ((3, 44, 1.0, 4), "withheld"),
        ((3, 44, 1.0, 1, 0), "trials"),
    ],
)
def test_arguments_are_checked(arguments: Any, name: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name}: expected"):
        withhold_shares(*arguments)
