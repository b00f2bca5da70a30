"""Checks before anything is written or started."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from fedsim.config.construct import build_method, build_scenario, plan_warnings, planned_costs
from fedsim.config.experiment import Experiment
from fedsim.config.limits import MOST_JOBS, largest_need
from fedsim.config.model import Config, private_delta_of
from fedsim.config.registry import METHODS
from fedsim.config.spec import RunSpec, check_availability
from fedsim.errors import ConfigError, ResourceError
from fedsim.privacy.ledger import Ledger
from fedsim.protocol import PrivacyEvent
from fedsim.resources import Resources, available_megabytes
from fedsim.running.jobs import Listener
from fedsim.running.measuring import FirstEvaluation, measure
from fedsim.simulation.agents import AgentGroup
from fedsim.simulation.calls import Activity
from fedsim.simulation.evaluation import LocalEvaluator
from fedsim.streams import streams_kept
from fedsim.workload import Scenario


@dataclass(frozen=True)
class Checked:
    """What the check of a variant found out, for its first seed.

    Attributes:
        agents: the number of agents.
        evaluation: what an evaluation needs, if it runs as a task of its own, or None.
        costs: what all releases will cost, as far as the method knows.
        measure: measures the first evaluation, or None: not that of the first variant, or it is
            to run as a task of its own. It keeps what was built.
        first: the first evaluation, if it was measured and did not fail.
        warnings: what the method warns of.
    """

    agents: int
    evaluation: Resources | None
    costs: Sequence[PrivacyEvent]
    measure: Callable[[Listener], FirstEvaluation | None] | None = None
    first: FirstEvaluation | None = None
    warnings: Sequence[str] = ()


Checks = Mapping[str, Checked]
"""By variant."""


@streams_kept()
def check(experiment: Experiment) -> Checks:
    """Build every variant's scenario, method and first agent once; evaluate nothing.

    Mistakes are then reported before anything is written, started or evaluated.

    Raises:
        ConfigError: if a setting is out of range.
        ResourceError: if a variant cannot fit into memory.
        UserCodeError: if a user's code raises.
    """
    if experiment.jobs > MOST_JOBS:
        raise ConfigError(
            f"seeds: expected at most {MOST_JOBS:,} jobs (variants times seeds), got "
            f"{experiment.jobs:,}"
        )
    found = {
        label: _checked(experiment.spec(variant, variant.seeds[0]), variant, first=place == 0)
        for place, (label, variant) in enumerate(experiment.variants.items())
    }
    _check_budgets(experiment, found)
    return found


def settled(checks: Checks, measuring: bool, listener: Listener) -> Checks:
    """Return checks that no longer keep what was built.

    Args:
        checks: what :func:`check` returned.
        measuring: whether to measure the first variant's first evaluation before, unless it is to
            run as a task of its own.
        listener: told if that takes long.

    Raises:
        UserCodeError: if the evaluation misses its deadline.
    """
    return {
        label: replace(
            found,
            measure=None,
            first=found.measure(listener) if measuring and found.measure else None,
        )
        for label, found in checks.items()
    }


def _check_budgets(experiment: Experiment, found: Checks) -> None:
    """Refuse a budget that no variant can spend; of a user's method, only it may know."""
    useless: dict[float, list[str]] = {}
    useful = set[float]()
    for label, variant in experiment.variants.items():
        budget, name = variant.privacy.budget, str(variant.method["name"])
        if budget is None:
            continue
        if found[label].costs or name not in METHODS:
            useful.add(budget)
        else:
            useless.setdefault(budget, []).append(name)
    for budget in useless.keys() - useful:
        names = ", ".join(dict.fromkeys(useless[budget]))
        raise ConfigError(
            f"privacy.budget: expected a variant that makes private releases, got {budget:g} for "
            f"{names} alone; choose a private method, such as dp-fts-de, or leave the budget out"
        )


def _checked(spec: RunSpec, variant: Config, first: bool) -> Checked:
    privacy, scenario = variant.privacy, build_scenario(spec)
    check_availability(spec.availability, scenario.agents)
    if variant.address is None:
        _check_memory(spec, scenario)
    method, activity = build_method(spec, scenario), Activity()
    evaluator = LocalEvaluator(spec, scenario, activity)
    group = AgentGroup(spec, scenario, method, evaluator, activity)
    group.program(0)
    costs = planned_costs(method)
    if costs:
        private_delta_of(variant, scenario.agents)
    if privacy.budget is not None:
        from fedsim.privacy.accountants import check_supported, make_accountant

        check_supported(Ledger.from_events(costs), make_accountant(privacy.accountant))
    needs, deadline = evaluator.needs(0), variant.deadlines.evaluation
    found = Checked(int(scenario.agents), needs, costs, warnings=plan_warnings(method))
    if not first or (needs is not None and variant.backend != "serial"):
        return found
    return replace(
        found,
        measure=lambda listener: measure(spec, group, evaluator, activity, deadline, listener),
    )


def _check_memory(spec: RunSpec, scenario: Scenario) -> None:
    """Refuse what cannot fit into this machine, before it is allocated.

    Raises:
        ResourceError: with the numbers.
    """
    sections = {"scenario": spec.scenario, "method": spec.method}
    need = largest_need(sections, scenario.agents, scenario.space.dimension)
    available = available_megabytes()
    if need.megabytes > available:
        raise ResourceError(
            f"the plan needs at least {need.megabytes / 1000:,.1f} GB for {need.words}, but only "
            f"{available / 1000:,.1f} GB are available; make these numbers smaller"
        )


def most_agents(checks: Checks) -> int:
    """Return the number of agents of the largest variant."""
    return max(found.agents for found in checks.values())
