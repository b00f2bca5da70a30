"""Which agents each host has, and its part of a call."""

from __future__ import annotations

from dataclasses import dataclass

from fedsim.actors.pool import Host
from fedsim.protocol import AgentId
from fedsim.simulation.calls import Task


@dataclass
class Share:
    """Some of the run's agents and their host.

    Attributes:
        agents: the agents, ascending.
        host: the host.
        assigned: whether the host has built them.
    """

    agents: tuple[AgentId, ...]
    host: Host
    assigned: bool = False


@dataclass
class Part:
    """A share's part of the current call.

    Attributes:
        share: the share.
        tasks: its agents' tasks.
        attempts: how often it was sent.
        hung: whether an objective hung before.
    """

    share: Share
    tasks: tuple[Task, ...]
    attempts: int = 0
    hung: bool = False

    @property
    def names(self) -> str:
        """The agents, for errors."""
        agents = self.share.agents
        told = [str(agent) for agent in agents]
        if len(told) > 4:
            told[2:-1] = ["..."]
        return f"agent{'s' * (len(agents) > 1)} {', '.join(told)}"


def deal(agents: int, hosts: int) -> list[tuple[AgentId, ...]]:
    """Return each host's agents, assigned in alternating order (hosts 0, 1, 2, 2, 1, 0, 0, ...).

    Neighbours often cost about the same, and costs often rise or fall with the agent's number.
    """
    hands: list[list[AgentId]] = [[] for _ in range(hosts)]
    for agent in range(agents):
        lap, place = divmod(agent, hosts)
        hands[hosts - 1 - place if lap % 2 else place].append(agent)
    return [tuple(hand) for hand in hands]
