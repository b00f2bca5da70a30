"""Checks and decisions before anything is written or started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedsim.config.construct import build_method, build_scenario
from fedsim.config.experiment import Experiment
from fedsim.config.model import PrivacyConfig
from fedsim.config.spec import RunSpec, check_availability
from fedsim.errors import ConfigError
from fedsim.imports import offers, user_code
from fedsim.privacy.ledger import Ledger
from fedsim.protocol import Method, PlansCosts, PrivacyEvent
from fedsim.resources import Resources
from fedsim.simulation.agents import AgentGroup
from fedsim.simulation.calls import Activity
from fedsim.simulation.evaluation import LocalEvaluator

WORTH_RAY = 20_000
"""``backend: auto`` uses Ray from this many agent-rounds (all seeds together): below it,
starting Ray takes longer than it saves."""


@dataclass(frozen=True)
class Checked:
    """What the check of a variant found out, for its first seed.

    Attributes:
        agents: the number of agents.
        evaluation: what an evaluation needs, if it runs as a task of its own, or None.
        costs: what all releases will cost, as far as the method knows.
    """

    agents: int
    evaluation: Resources | None
    costs: Sequence[PrivacyEvent]


Checks = Mapping[str, Checked]
"""By variant."""


def check(experiment: Experiment) -> Checks:
    """Build every variant's scenario, method and first agent once, and forget them.

    Mistakes are then reported before anything is written or started.

    Raises:
        ConfigError: if a setting is out of range.
        UserCodeError: if a user's code raises.
    """
    return {
        label: _checked(experiment.spec(variant, variant.seeds[0]), variant.privacy)
        for label, variant in experiment.variants.items()
    }


def _checked(spec: RunSpec, privacy: PrivacyConfig) -> Checked:
    scenario = build_scenario(spec)
    check_availability(spec.availability, scenario.agents)
    method, activity = build_method(spec, scenario), Activity()
    evaluator = LocalEvaluator(spec, scenario, activity)
    AgentGroup(spec, scenario, method, evaluator, activity).program(0)
    costs = planned_costs(method)
    if costs and privacy.delta is None and scenario.agents < 2:
        raise ConfigError(
            "privacy.delta: the default N^-1.1 is 1 for one agent; set it to a number below 1"
        )
    if privacy.budget is not None:
        from fedsim.privacy.accountants import check_supported, make_accountant

        check_supported(Ledger.from_events(costs), make_accountant(privacy.accountant))
    return Checked(scenario.agents, evaluator.needs(0), costs)


def planned_costs(method: Method) -> Sequence[PrivacyEvent]:
    """Return the costs of a whole run's releases, as far as the method knows."""
    if not offers(method, PlansCosts):
        return ()
    with user_code("the method failed to return its planned costs"):
        return method.planned_costs()


def choose_backend(experiment: Experiment, checks: Checks, jobs: int) -> tuple[str, str]:
    """Return the backend to use and the plan in words.

    Args:
        experiment: what to run.
        checks: the result of :func:`check`.
        jobs: how many seeds of all variants are still to be run.

    Raises:
        ResourceError: if the plan does not fit.
    """
    config, variants = experiment.config, experiment.variants
    agents = most_agents(checks)
    work = sum(checks[n].agents * c.rounds * len(c.seeds) for n, c in variants.items())
    needs = [found.evaluation for found in checks.values()]
    tasks = any(need is not None for need in needs)
    wants_ray = tasks or config.address is not None or config.agents_per_actor != "auto"
    backend = config.backend
    if backend == "auto":
        backend = "ray" if wants_ray or work >= WORTH_RAY else "serial"
    if backend == "serial":
        return backend, f"{agents} agents in this process, one after another"
    from fedsim.actors.launch import plan_for

    return backend, plan_for(agents, jobs, config, needs).describe()


def most_agents(checks: Checks) -> int:
    """Return the number of agents of the largest variant."""
    return max(found.agents for found in checks.values())
