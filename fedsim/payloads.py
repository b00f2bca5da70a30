"""Payloads in transit: read-only, as another process would get them, and as lists for records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedsim.errors import RunError
from fedsim.protocol import Payload
from fedsim.usercode.calling import expect


def frozen(payload: Payload, whose: str) -> Payload:
    """Return read-only copies of a payload's arrays, as they arrive from another process.

    Args:
        payload: named arrays of numbers.
        whose: its name in errors.

    Raises:
        RunError: if it is no mapping, or a value is not an array of numbers.
    """
    expect(isinstance(payload, Mapping), whose, "named arrays", payload)
    copies = {}
    for name, value in payload.items():
        copy = np.array(value)
        if copy.dtype.kind not in "biuf":
            raise RunError(f"{whose}: {name}: expected an array of numbers, got {type(value)}")
        copy.setflags(write=False)
        copies[name] = copy
    return copies


def as_lists(payload: Payload | None) -> dict[str, Any] | None:
    """Return a payload as nested lists, which can be compared with ``==`` and written as JSON.

    None stays None.
    """
    if payload is None:
        return None
    return {name: np.asarray(array).tolist() for name, array in payload.items()}
