"""A method of your own: every agent climbs from its best point; see docs/extending.md."""

import numpy as np

from fedsim.acquisition import whole_cube
from fedsim.methods.common import SilentServer, initial_design
from fedsim.protocol import Context, Proposal


class HillClimbing:
    """Settings are the constructor's keyword arguments; `context` is supplied."""

    def __init__(self, context: Context, *, initial_points: int = 5, width: float = 0.1):
        self.space, self.initial_points, self.width = context.space, initial_points, width

    def agent(self, agent):
        return HillAgent(self)

    def server(self):
        return SilentServer()


class HillAgent:
    def __init__(self, method):
        self.method, self.best = method, None

    def propose(self, step, message, rng):  # message.payload: read-only arrays of the server
        space = self.method.space
        if step == 0:
            cube = whole_cube(space.dimension)
            return initial_design(space, cube, self.method.initial_points, rng)
        jump = self.method.width * rng("jump").standard_normal(space.dimension)  # a fresh Generator
        return [Proposal(np.clip(self.best.u + jump, 0, 1), "near the best")]

    def observe(self, observations):
        known = [*observations] if self.best is None else [self.best, *observations]
        self.best = max(known, key=lambda o: o.y)

    def reply(self, request, rng):
        return {}  # named arrays; nobody asks here
