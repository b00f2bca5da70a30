"""Results that are kept, so that they are not computed again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import numpy as np

Result = TypeVar("Result")


class Memo(Generic[Result]):
    """Remembers a pure function's most recent results, keyed by what they depend on.

    It saves work for agents that share a process, and never changes a result.

    Args:
        size: how many results are kept.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._results: OrderedDict[Hashable, Result] = OrderedDict()

    def get(self, key: Hashable, compute: Callable[[], Result]) -> Result:
        """Return the result for ``key``; compute it if needed. An array is read-only."""
        if key not in self._results:
            result = compute()
            if isinstance(result, np.ndarray):
                result.setflags(write=False)
            self._results[key] = result
            if len(self._results) > self._size:
                self._results.popitem(last=False)
        self._results.move_to_end(key)
        return self._results[key]
