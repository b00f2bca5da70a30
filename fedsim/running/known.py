"""What a scenario knows about its results, for the experimenter only: optima and a baseline."""

from __future__ import annotations

import math
import numbers
from statistics import fmean
from typing import Any

from fedsim.errors import ConfigError, RunError
from fedsim.protocol import AgentId
from fedsim.usercode.calling import offers, user_code
from fedsim.workload import KnowsBaseline, KnowsOptimalPoint, KnowsOptimum, Scenario


def optima_of(scenario: Scenario) -> list[float] | None:
    """Return each agent's optimum, or None if the scenario does not know them all.

    Raises:
        UserCodeError: if the scenario raises.
        RunError: if an optimum is neither None nor a finite number.
    """
    agents = range(scenario.agents)
    if not offers(scenario, KnowsOptimum):
        return None
    optima: list[object] = []
    with user_code("the scenario failed to return its optima"):
        optima += [scenario.optimum(agent) for agent in agents]
    if None in optima:
        return None
    return [_finite(one, "optimum", agent) for agent, one in zip(agents, optima, strict=True)]


def optimal_points_of(scenario: Scenario) -> list[dict[str, Any]] | None:
    """Return where each agent's optimum is, or None if they are not all known.

    If all have the same point, it is returned once.

    Raises:
        UserCodeError: if the scenario raises.
        RunError: if one is not a point of the space.
    """
    space, agents = scenario.space, range(scenario.agents)
    if not offers(scenario, KnowsOptimalPoint):
        return None
    found: list[dict[str, Any]] = []
    for agent in agents:
        with user_code("the scenario failed to return its optimal points"):
            given = scenario.optimal_point(agent)
        if given is None:
            return None
        try:
            point = space.checked(given)
        except (ConfigError, TypeError) as error:
            raise RunError(f"the optimal point of agent {agent}: {error}") from None
        found.append(point)
    alike = all(point == found[0] for point in found)
    return found[:1] if alike else found


def baseline_of(scenario: Scenario) -> dict[str, Any] | None:
    """Return the name of what a scenario compares with, and its mean over agents, or None.

    Raises:
        UserCodeError: if the scenario raises.
        RunError: if a value is not a finite number.
    """
    agents = range(scenario.agents)
    found: list[object] = []
    with user_code("the scenario failed to return its baseline"):
        if not offers(scenario, KnowsBaseline):  # reads a property, which may raise
            return None
        name = str(scenario.baseline_name)
        found += [scenario.baseline(agent) for agent in agents]
    values = [_finite(one, "baseline", agent) for agent, one in enumerate(found)]
    return {"name": name, "mean": fmean(values)}


def _finite(value: object, what: str, agent: AgentId) -> float:
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not real or not math.isfinite(value):  # type: ignore[arg-type]
        raise RunError(f"the {what} of agent {agent}: expected a finite number, got {value!r}")
    return float(value)  # type: ignore[arg-type]
