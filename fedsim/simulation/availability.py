"""Simulated absence: which agents take part in a round.

An absent agent takes no step in that round and answers nothing; its reply is ``missing``. Absence
is part of the experiment, drawn by key, and unrelated to machine faults, which are repaired. Who is
present does not depend on data, and changes neither privacy accounting nor weights or denominators.
"""

from __future__ import annotations

from collections.abc import Sequence

from fedsim.config.spec import Availability
from fedsim.protocol import AgentId
from fedsim.rng import rng


def present(
    seed: int, t: int, agents: Sequence[AgentId], availability: Availability
) -> tuple[AgentId, ...]:
    """Return those of ``agents`` that take part in round ``t``; the same on every call.

    Before round 0, while a method prepares itself, all agents take part.
    """
    if t < 0:
        return tuple(agents)
    return tuple(
        agent
        for agent in agents
        if (p := _probability(agent, availability)) >= 1
        or rng(seed, "availability", agent, t).random() < p
    )


def _probability(agent: AgentId, availability: Availability) -> float:
    return availability[agent] if isinstance(availability, tuple) else availability
