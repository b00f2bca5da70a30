"""Payloads share nothing with their sender."""

from __future__ import annotations

import numpy as np

from fedsim.payloads import frozen


def test_frozen_payloads_share_nothing() -> None:
    given = {"a": np.arange(3), "b": [1.0, 2.0], "c": 5}
    copies = frozen(given, "x")  # type: ignore[arg-type]
    given["a"][0] = 9  # type: ignore[index]
    assert {n: a.tolist() for n, a in copies.items()} == {"a": [0, 1, 2], "b": [1, 2], "c": 5}
    assert not any(a.flags.writeable for a in copies.values())
