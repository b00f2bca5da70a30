"""Federated Thompson sampling as its own paper has it: helpers' messages to target agents.

Paper: Dai, Low and Jaillet, "Federated Bayesian Optimization via Thompson Sampling" (NeurIPS
2020), Sec. 3.1 and Algorithm 1. (:mod:`fedsim.methods.dp_fts_de` has the variant with a server
that averages the messages of all agents in every round.)

===========  ==============================================================  ==========
symbol       meaning                                                         shape
===========  ==============================================================  ==========
A, A_n       the target, and helper n of N
phi(x)       random Fourier features that all agents share                   (M,)
t_n          helper n's observations before it sends its message
omega_n      its message: a sample of its posterior weights, Eq. (2)         (M,)
p_t          probability that query t comes from the target's own model
P_N          the distribution that a target draws a helper from              (N,)
===========  ==============================================================  ==========

The schedule is in :mod:`fedsim.methods.helpers_first`, the target's own model in
:mod:`fedsim.methods.local_model`, the messages in :mod:`fedsim.methods.messages`, P_N in
:mod:`fedsim.methods.preferences`.

Deviations from the paper:

- Every helper standardises its outputs by default; the paper's are about that size as they are
  (``message.center: 0`` takes them so).
- ``message.kind: mean`` sends the posterior mean.
- A message has one maximiser: all targets that use it compare it at the same candidates.
- The paper does not say how a helper that misses a renewal counts: here its former message stays.
- The paper's preferences are given; here they may also be learned.
- A target's source of a query names the message: ``agent 7``, and from the second on
  ``agent 7, message 2``. A message is used once by each target.
"""

from __future__ import annotations

from typing import Literal

from fedsim.methods.common import DesignKind, InitialDesign
from fedsim.methods.helped_agent import Programs
from fedsim.methods.helpers_first import (
    HelperDesign,
    Messages,
    Renewal,
    Schedule,
)
from fedsim.methods.local_model import LocalModel, LocalModelSettings
from fedsim.methods.messages import FederatedWork, MessageSettings
from fedsim.methods.own_probability import Schedule as OwnProbability
from fedsim.methods.own_probability import (
    ScheduleSetting,
    own_probability_schedule,
    queries_own,
)
from fedsim.methods.preferences import Preferences, preferences_of
from fedsim.methods.roles import Targets, roles_of
from fedsim.protocol import AgentId, AgentProgram, Context, Payload, Proposal, ServerProgram
from fedsim.rng import Keys
from fedsim.space import Array


class FTSTarget:
    """FTS of target agents with helpers.

    Args:
        context: the federation.
        targets: the agents whose results count, or ``all``; the others are their helpers. If all
            are targets, they help one another.
        initial_points: points of an agent's initial design, 1 to 10,000.
        initial_design: ``uniform``, or ``corners`` first; see
            :class:`fedsim.methods.common.InitialDesign`.
        helper_queries: t_n, a helper's observations before its first message, its initial design
            included: 0 to 10,000. 0: no messages, and helpers do nothing.
        helper_design: ``thompson``: helpers' own Thompson sampling; ``random``: random points.
        own_probability: p_t, as in :class:`fedsim.methods.dp_fts_de.DPFTSDE`. The paper's
            sequences begin with p_1 = p_2, which ``max(t, 2)`` in place of t says.
        preferences: P_N: ``uniform``; weights, one per agent in a list, or by agent, without those
            of weight 0; or ``learned`` from the target's own observations.
        renew: ``never``: one message of each helper; or the number of rounds after which all send
            new ones.
        helpers_continue: with renewals: whether helpers make a query in every round.
        message: the helpers' messages.
        surrogate: the agents' own Gaussian processes.

    Raises:
        ConfigError: if a setting is out of range.
    """

    def __init__(
        self,
        context: Context,
        *,
        targets: Targets = [0],  # noqa: B006 - never changed
        initial_points: int = 3,
        initial_design: DesignKind = "uniform",
        helper_queries: int = 50,
        helper_design: HelperDesign = "thompson",
        own_probability: ScheduleSetting = "1 - 1/sqrt(max(t, 2))",
        preferences: Literal["uniform", "learned"] | list[float] | dict[int, float] = "uniform",
        renew: Renewal = "never",
        helpers_continue: bool = True,
        message: MessageSettings = MessageSettings(),
        surrogate: LocalModelSettings = LocalModelSettings(),
    ) -> None:
        roles = roles_of(targets, context.agents)
        schedule = Schedule(
            roles,
            context.rounds,
            InitialDesign(initial_points, initial_design),
            helper_queries,
            helper_design,
            renew,
            helpers_continue,
        )
        work = FederatedWork(context, message, 1, surrogate)
        rule = _FederatedSampling(
            work,
            own_probability_schedule(own_probability),
            preferences_of(preferences, roles),
        )
        self._programs = Programs(schedule, surrogate, work.shared, rule)

    @property
    def target_agents(self) -> tuple[AgentId, ...]:
        """The agents whose results count."""
        return self._programs.schedule.roles.targets

    def agent(self, agent: AgentId) -> AgentProgram:
        """Return a new program."""
        return self._programs.agent(agent)

    def server(self) -> ServerProgram:
        """Return a new server program."""
        return self._programs.server()


class _FederatedSampling:
    """Algorithm 1: what helpers send, and how a target uses it."""

    def __init__(
        self, work: FederatedWork, own_probability: OwnProbability, preferences: Preferences
    ) -> None:
        self._work = work
        self._own_probability = own_probability
        self._preferences = preferences

    def message(self, model: LocalModel, keys: Keys) -> Payload:
        features = self._work.features_of(model.inputs)
        generator = keys("posterior-message")
        return {"weights": self._work.message(features, model.outputs, generator)}

    def asks(self, t: int, keys: Keys) -> bool:
        return not queries_own(self._own_probability, t, keys, "own-or-helper")  # lines 2-3

    def query(
        self, agent: AgentId, messages: Messages, model: LocalModel, used: set[str], keys: Keys
    ) -> Proposal | None:
        weights, senders = messages.content["weights"], messages.senders.astype(int).tolist()
        sources = [_source(*pair) for pair in zip(senders, messages.numbers, strict=True)]

        def values() -> Array:
            found: Array = weights @ self._work.features_of(model.inputs).T
            return found

        preferred = self._preferences(senders, values, model.outputs)
        for i, source in enumerate(sources):
            if senders[i] == agent or source in used:
                preferred[i] = 0.0
        if not preferred.sum() > 0.0:
            return None
        chosen = keys("helper").choice(len(senders), p=preferred / preferred.sum())  # line 6
        number = int(messages.numbers[chosen])
        return Proposal(self._work.maximiser(weights[[chosen]], number), sources[chosen])


def _source(sender: int, number: int) -> str:
    return f"agent {sender}" if number == 1 else f"agent {sender}, message {number}"
