"""The objectives of a run whose evaluations are Ray tasks: built once, sent by reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from fedsim.actors.nodes import check_room, reason
from fedsim.config.construct import build_scenario
from fedsim.config.model import DeadlinesConfig
from fedsim.config.spec import RunSpec
from fedsim.errors import FedsimError, RunError, UserCodeError
from fedsim.protocol import AgentId
from fedsim.record.capture import captured
from fedsim.record.logfolder import LogFolder
from fedsim.resources import Resources, declared_resources
from fedsim.simulation.evaluation import build_objective
from fedsim.usercode.calling import words_of


@dataclass(frozen=True)
class Objectives:
    """The objectives in Ray's object store.

    Attributes:
        needs: what an evaluation of each agent needs.
        code: a reference to the user's code.
        references: a reference to each agent's objective.
    """

    needs: list[Resources]
    code: Any
    references: list[Any]

    def parts(self, agent: AgentId) -> list[Any]:
        """Return references to what a task needs: the user's code and the agent's objective."""
        return [self.code, self.references[agent]]


def objectives_of(
    spec: RunSpec, agents: tuple[AgentId, ...], deadlines: DeadlinesConfig, logs: LogFolder
) -> Objectives:
    """Build all objectives in one task on this node, where the data are.

    Args:
        spec: the run.
        agents: all agents.
        deadlines: how long to wait.
        logs: where the task keeps what it prints.

    Raises:
        FedsimError: if one cannot be built or sent, or needs more than any node has.
    """
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    count = 1 + len(agents)
    # Ray's type stubs do not know several returns.
    task: Any = build_objectives.options(num_returns=count, scheduling_strategy=here)
    found, *references = task.remote(spec, agents, logs)
    patience = deadlines.start + deadlines.evaluation
    try:
        # Also get the first objective, to check that objectives can be sent at all.
        needs, _ = ray.get([found, references[0]], timeout=patience)
    except GetTimeoutError:
        raise RunError(
            f"the objectives were not built within {patience:g} s; deadlines.start and "
            "deadlines.evaluation set the limit"
        ) from None
    except RayTaskError as error:
        if isinstance(error.cause, FedsimError):
            raise error.cause from None
        raise RunError(
            f"the objectives cannot be sent to Ray tasks: {words_of(error.cause)}; objectives that "
            "declare resources must be picklable"
        ) from None
    except RayError as error:
        raise RunError(f"building the objectives failed: {reason(error)}") from None
    for agent, need in zip(agents, needs, strict=True):
        check_room(need, f"an evaluation of agent {agent}")
    return Objectives(needs, ray.put(spec.code), references)


@ray.remote(num_cpus=0, max_retries=-1)
def build_objectives(spec: RunSpec, agents: tuple[AgentId, ...], logs: LogFolder) -> Any:
    """Return a list of all objectives' resources, followed by each objective as its own value.

    Raises:
        FedsimError: if the scenario or an objective cannot be built.
    """
    with captured(logs.open("objectives")) as log:
        try:
            return _build(spec, agents)
        except UserCodeError as error:
            error.add_output(log.last_lines())
            raise


def _build(spec: RunSpec, agents: tuple[AgentId, ...]) -> list[Any]:
    scenario = build_scenario(spec)
    objectives = [build_objective(spec, scenario, agent) for agent in agents]
    needs = [spec.resources or declared_resources(objective) for objective in objectives]
    for agent, need in zip(agents, needs, strict=True):
        if need is None:
            raise RunError(
                f"scenario {spec.scenario_name!r}: the objective of agent {agent} declares no "
                "resources, agent 0's does; either all objectives of a run must, or none"
            )
    return [needs, *objectives]
