"""A workload of your own: every agent minimises a Branin function shifted by its own amount."""

from math import cos, pi

from fedsim.space import Parameter, Space


class Branin:
    """The search space and one black box per agent."""

    space = Space((Parameter("a", -5, 10), Parameter("b", 0, 15)))
    direction = "minimize"

    def __init__(self, agents: int = 8):
        self.agents = agents

    def objective(self, agent: int):
        """Return the agent's black box; its shift is up to half a unit."""

        def branin(point, rng):
            a, b = point["a"] + 0.5 * agent / self.agents, point["b"]
            valley = b - 5.1 * (a / (2 * pi)) ** 2 + 5 * a / pi - 6
            return valley**2 + 10 * (1 - 1 / (8 * pi)) * cos(a) + 10 + rng.normal(0, 0.1)

        return branin
