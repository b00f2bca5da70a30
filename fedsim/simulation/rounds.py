"""What a server program may do in a round: one step for every agent, and at least one call.

Scores, budgets and comparisons count queries by round, so an agent that steps twice in one would
have more of them than others, unnoticed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from fedsim.errors import ProtocolError, RunError
from fedsim.protocol import AgentId


@dataclass
class CurrentRound:
    """The round that a server program is in.

    Attributes:
        t: the only round that calls may name, or None: any; -1: those before round 0.
        stepped: the agents that were told to take a step in it.
        called: whether anybody was, even if the list was empty.
    """

    t: int | None = None
    stepped: set[AgentId] = field(default_factory=set)
    called: bool = False

    def begin(self, t: int) -> None:
        """Enter a round."""
        self.t, self.stepped, self.called = t, set(), False

    def check(self, t: int) -> None:
        """Check the round that a call names.

        Raises:
            ProtocolError: if it is another.
        """
        if self.t is not None and max(t, -1) != self.t:
            expected = (
                f"round {self.t}" if self.t >= 0 else "a round below 0, such as -1, in start()"
            )
            raise ProtocolError(f"t: expected {expected}, got {t}")

    def step(self, t: int, agents: Collection[AgentId]) -> None:
        """Note that agents are told to take a step.

        Raises:
            ProtocolError: if one of them has been told already.
        """
        self.called = True
        if self.t is None or self.t < 0:
            return  # preparations may take any number of steps
        again = self.stepped & set(agents)
        if again:
            raise ProtocolError(
                f"to: expected agents that have taken no step in round {t}, got {sorted(again)} "
                "again; a round has one query per agent: call fleet.step once for each of them, "
                "and use fleet.ask for further questions"
            )
        self.stepped |= set(agents)

    def end(self) -> None:
        """Leave the round.

        Raises:
            ProtocolError: if nobody was told to take a step.
        """
        if self.t is not None and self.t >= 0 and not self.called:
            raise ProtocolError(
                f"expected a call of fleet.step in round {self.t}, got none; let the agents take a "
                "step in every round from 0 (the initial design) on, or pass to=[] if none shall"
            )


@contextmanager
def servers_fault() -> Iterator[None]:
    """Say of an error of the block that a server program or an aggregator made it."""
    try:
        yield
    except RunError as error:
        raise ProtocolError(str(error)) from None
