"""A method with an aggregator of its own: agents vote, privately, where to look next.

The server draws some places. After every step each agent votes for the place nearest to its best
point; an aggregator counts the votes with Gaussian noise; the server adds up the counts and tells
the agents the leading place. See docs/extending.md.
"""

import numpy as np

from fedsim.acquisition import whole_cube
from fedsim.methods.common import initial_design
from fedsim.methods.local_model import LocalModel, LocalModelSettings
from fedsim.methods.own_probability import own_probability_schedule
from fedsim.methods.shared_work import SharedWork
from fedsim.privacy.events import SubsampledGaussian
from fedsim.protocol import Broadcast, Context, Proposal, Release, Request
from fedsim.rng import SERVER, rng
from fedsim.space import uniform_design


class Voting:
    """The method: its settings, and what agents and server share."""

    def __init__(
        self,
        context: Context,
        *,
        initial_points: int = 5,
        places: int = 20,
        noise_multiplier: float = 1.0,
        own_probability: str | float | dict = "1 - 1/sqrt(t)",
        surrogate: LocalModelSettings = LocalModelSettings(),
    ):
        self.context, self.initial_points, self.surrogate = context, initial_points, surrogate
        self.own_probability = own_probability_schedule(own_probability)  # p_t
        self.shared = SharedWork(context.space)
        self.cube = whole_cube(context.space.dimension)
        generator = rng(context.seed, "places", SERVER, 0)  # public: the same in every process
        self.places = uniform_design(context.space, self.cube, places, generator)
        self.noise_multiplier = noise_multiplier

    def agent(self, agent):
        return VotingAgent(self)

    def server(self):
        return VotingServer(self)

    def planned_costs(self):  # optional: fedsim run --dry-run shows their sum
        counts = NoisyCounts(len(self.places), self.noise_multiplier)
        return [counts.cost(t) for t in range(self.context.rounds)]


class VotingAgent:
    """Looks near the leading place, or where its own Gaussian process says."""

    def __init__(self, method):
        self.method = method
        self.model = LocalModel(method.surrogate, method.shared)

    def propose(self, step, message, rng):
        method, space = self.method, self.method.context.space
        if step == 0:
            return initial_design(space, method.cube, method.initial_points, rng)
        if message is None or rng("own-or-vote").random() < method.own_probability(step):
            return [Proposal(self.model.propose(rng), "own")]
        jump = 0.1 * rng("jump").standard_normal(space.dimension)
        return [Proposal(np.clip(message.payload["place"] + jump, 0, 1), "vote")]

    def observe(self, observations):
        self.model.observe(observations)

    def reply(self, request, rng):
        places, vote = request.payload["places"], np.zeros(len(request.payload["places"]))
        if len(self.model.outputs):  # else all of its evaluations have failed
            best = self.model.inputs[np.argmax(self.model.outputs)]
            vote[np.argmin(np.linalg.norm(places - best, axis=1))] = 1.0
        return {"vote": vote}


class NoisyCounts:
    """The aggregator: counts votes with Gaussian noise. It alone sees who voted for what."""

    def __init__(self, places, noise_multiplier):
        self.places, self.noise_multiplier = places, noise_multiplier

    def cost(self, t):  # all agents take part (q = 1), and each changes the counts by at most 1
        return SubsampledGaussian(1.0, self.noise_multiplier, self.noise_multiplier)

    def aggregate(self, t, replies, fleet, rng):
        counts = np.zeros(self.places)
        for reply in replies:  # one for every agent; an absent one is "missing"
            vote = reply.payload.get("vote")
            if vote is not None and vote.shape == counts.shape and np.isfinite(vote).all():
                counts += vote / max(1.0, np.linalg.norm(vote))  # nobody counts more than once
        noise = self.noise_multiplier * rng("noise").standard_normal(self.places)
        return Release({"counts": counts + noise}, self.cost(t))

    def state(self):
        return {}  # it remembers nothing

    def restore(self, state):
        pass


class VotingServer:
    """The server: remembers the counts, and never sees a vote."""

    def __init__(self, method):
        self.places, self.rounds = method.places, method.context.rounds
        self.counts = NoisyCounts(len(method.places), method.noise_multiplier)
        self.total = np.zeros(len(method.places))

    @property
    def aggregators(self):
        return {"counts": self.counts}

    def start(self, fleet):
        pass

    def round(self, t, fleet):
        leader = self.places[np.argmax(self.total)]
        message = Broadcast({"place": leader}) if t > 0 else None
        if t == self.rounds:  # the last query: nothing follows it
            fleet.step(t, message)
            return {}
        ballot = Request("vote", {"places": self.places})
        release = fleet.step(t, message, then=ballot, via=self.counts)
        if release.payload is not None:  # None: the budget does not allow it
            self.total = 0.8 * self.total + release.payload["counts"]
        return {"leaders_votes": self.total.max()}  # info.leaders_votes in rounds.parquet

    def state(self):
        return {"total": self.total}

    def restore(self, state):
        self.total = state["total"]


class Ramp:
    """A p_t of your own: rises evenly from 0 to 1 within some queries."""

    def __init__(self, queries: int = 10):
        self.queries = queries

    def __call__(self, t):  # t = 1, 2, ...: the agent's own queries
        return min(1.0, (t - 1) / self.queries)
