"""The interfaces between a method, its agents, its server and the transport of their messages.

A method consists of two programs: the agent's (:class:`AgentProgram`) and the server's
(:class:`ServerProgram`). The server reaches the agents through a :class:`Fleet`; with an
:class:`Aggregator`, it sees only the release made from their replies. None of them knows whether
it runs in one process or on a cluster.
"""

from fedsim.protocol.messages import (
    AgentId,
    Broadcast,
    Cost,
    Observation,
    Payload,
    PrivacyEvent,
    Proposal,
    Release,
    Replies,
    Reply,
    Request,
    Uncharged,
)
from fedsim.protocol.programs import (
    AgentProgram,
    AggregatingServer,
    Aggregator,
    Context,
    Fleet,
    HasTargets,
    Method,
    PlansCosts,
    PreparingAgent,
    Respondents,
    RoundInfo,
    RunsAtServer,
    SecretHolder,
    ServerProgram,
    State,
    Stateful,
    WarnsOfPlan,
)

__all__ = [
    "AgentId",
    "AgentProgram",
    "AggregatingServer",
    "Aggregator",
    "Broadcast",
    "Context",
    "Cost",
    "Fleet",
    "HasTargets",
    "Method",
    "Observation",
    "Payload",
    "PlansCosts",
    "PreparingAgent",
    "PrivacyEvent",
    "Proposal",
    "Release",
    "Replies",
    "Reply",
    "Request",
    "Respondents",
    "RoundInfo",
    "RunsAtServer",
    "SecretHolder",
    "ServerProgram",
    "State",
    "Stateful",
    "Uncharged",
    "WarnsOfPlan",
]
