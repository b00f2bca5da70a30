"""A function and its gradient for routines that ask for one after the other."""

from __future__ import annotations

from collections.abc import Callable

from fedsim.space import Array


class Evaluations:
    """A function that is evaluated once at every point, value and gradient together.

    SciPy's routines ask for the two separately, and again where a search starts or is started
    again.

    Args:
        function: returns its value and gradient, shape (D,), at a point, shape (D,).
    """

    def __init__(self, function: Callable[[Array], tuple[float, Array]]) -> None:
        self._function = function
        self._known: dict[bytes, tuple[float, Array]] = {}

    def value(self, u: Array) -> float:
        """Return the function's value at ``u``, shape (D,)."""
        return self._at(u)[0]

    def gradient(self, u: Array) -> Array:
        """Return the function's gradient at ``u``, shape (D,)."""
        return self._at(u)[1]

    def _at(self, u: Array) -> tuple[float, Array]:
        key = u.tobytes()
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._function(u)
        return found
