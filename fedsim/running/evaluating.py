"""One call of one agent's objective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedsim.arguments import WHOLE, check_arguments
from fedsim.config.construct import build_scenario
from fedsim.config.experiment import prepare
from fedsim.config.reading import require_assignments
from fedsim.config.ready import ready_names
from fedsim.errors import ConfigError
from fedsim.files import user_path
from fedsim.protocol import AgentId
from fedsim.rng import Keys
from fedsim.simulation.evaluation import build_objective, call_once
from fedsim.space import Value
from fedsim.workload import Evaluation


def evaluate_once(
    scenario: object,
    point: Mapping[str, Value] | Sequence[Value],
    *,
    agent: AgentId = 0,
    seed: int = 0,
    overrides: Sequence[str] = (),
    data_dir: str | Path | None = None,
) -> tuple[dict[str, Value], Evaluation]:
    """Call an agent's objective at a point.

    Args:
        scenario: a configuration, its file or ready name, or a scenario: its name, section, class
            or object.
        point: the parameters' values, by name or in order.
        agent: the agent.
        seed: the run's seed.
        overrides: ``dotted.key=value`` assignments.
        data_dir: the folder of the data sets; by default the environment's ``FEDSIM_DATA``.

    Returns:
        The point by name, and its evaluation.

    Raises:
        ConfigError: if the scenario, the point or the agent is wrong.
        UserCodeError: if the scenario or the objective raises.
    """
    check_arguments(agent=(agent, WHOLE), seed=(seed, WHOLE))
    minimal = {"scenario": scenario, "method": {"name": "random-search"}, "rounds": 1}
    source: Any = scenario if _is_configuration(scenario) else minimal
    require_assignments(overrides)
    experiment = prepare(source, [f"seeds={seed}", *overrides], data_dir)
    spec = experiment.spec(next(iter(experiment.variants.values())), seed)
    built = build_scenario(spec)
    if agent is None or not 0 <= agent < built.agents:
        raise ConfigError(f"agent: expected 0 to {built.agents - 1}, got {agent}")
    named = built.space.checked(point)
    objective = build_objective(spec, built, agent)
    where = f"agent {agent}, point {named}"
    return named, call_once(objective, named, Keys(seed, agent, 0)("objective"), where)


def _is_configuration(scenario: Any) -> bool:
    if isinstance(scenario, Mapping):
        return "scenario" in scenario
    if isinstance(scenario, (str, Path)):
        return str(scenario) in ready_names() or user_path(scenario).is_file()
    return False
