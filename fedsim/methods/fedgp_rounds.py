"""What both kinds of FBO-FedGP share from round to round.

For the methods, see :mod:`fedsim.methods.fbo_fedgp` and :mod:`fedsim.methods.fedgp_tr`.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedsim.protocol import Payload, State
from fedsim.space import Array


@dataclass(frozen=True, slots=True)
class FitRounds:
    """The rounds in which clients fit hyper-parameters, each to all of its data; public.

    Only in these does a client's vector hold its fit. A fit that is summed again, while the members
    change, shows by subtraction: so no client sends one that it has sent before. Between two of
    these rounds it has at least one new observation, that of the later round.

    Attributes:
        every: so many rounds are between two; 0: there are none.
        start: fits are due when ``start`` and the rounds so far make a multiple of ``every``, and
            in round 0 if ``start`` is at least ``every``.
    """

    every: int
    start: int = 0

    def include(self, t: int) -> bool:
        """Return whether round t = 0, 1, ... is one of them."""
        if not self.every:
            return False
        return (self.start + t) % self.every == 0 or (t == 0 and self.start >= self.every)


@dataclass(frozen=True, slots=True, eq=False)
class Constants:
    """What the clients' next summaries have in common, besides the support set.

    Attributes:
        logs: logarithms of length scales and eta, shape (p + 1,).
        units: c and r, shape (2,).
    """

    logs: Array
    units: Array


class Carried:
    """What a server has for the next round.

    Attributes:
        constants: of the next summaries.
        message: what clients get: the last sum, if there is one, and what it was made for.
    """

    def __init__(self, first: Constants) -> None:
        self.constants = first
        self.message: Payload | None = None

    def state(self) -> State:
        """Return it as arrays."""
        state = {"logs": self.constants.logs, "units": self.constants.units}
        return state | {f"sum/{name}": array for name, array in (self.message or {}).items()}

    def restore(self, state: State) -> None:
        """Restore it from a server's state, which may hold more."""
        self.constants = Constants(state["logs"], state["units"])
        message = {n.partition("/")[2]: array for n, array in state.items() if "/" in n}
        self.message = message or None
