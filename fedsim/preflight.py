"""Checks and decisions before anything is written or started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedsim.config.construct import build_method
from fedsim.config.experiment import Experiment
from fedsim.config.model import delta_of
from fedsim.config.spec import check_availability
from fedsim.errors import ConfigError
from fedsim.imports import user_code
from fedsim.protocol import Method, PlansCosts, PrivacyEvent
from fedsim.resources import Resources
from fedsim.simulation.agents import AgentGroup
from fedsim.simulation.calls import Activity
from fedsim.simulation.evaluation import LocalEvaluator

WORTH_RAY = 20_000
"""``backend: auto`` uses Ray from this many agent-rounds (all seeds together): below it,
starting Ray takes longer than it saves."""

Needs = Mapping[str, Resources | None]
"""The resources that an evaluation of each variant needs, if it runs as a separate task."""


def check(experiment: Experiment) -> Needs:
    """Build every variant's scenario, method and first agent once.

    Mistakes are then reported before anything is written or started.

    Raises:
        ConfigError: if a setting is out of range.
        UserCodeError: if a user's code raises.
    """
    needs: dict[str, Resources | None] = {}
    for label, variant in experiment.variants.items():
        spec, scenario = experiment.first(variant)
        check_availability(spec.availability, scenario.agents)
        method, activity = build_method(spec, scenario), Activity()
        evaluator = LocalEvaluator(spec, scenario, activity)
        AgentGroup(spec, scenario, method, evaluator, activity).program(0)
        needs[label] = evaluator.needs(0)
        if planned_costs(method) and not delta_of(variant, scenario.agents) < 1:
            raise ConfigError(
                "privacy.delta: the default N^-1.1 is 1 for one agent; set it to a number below 1"
            )
    return needs


def planned_costs(method: Method) -> Sequence[PrivacyEvent]:
    """Return the costs of a whole run's releases, as far as the method knows."""
    if not isinstance(method, PlansCosts):
        return ()
    with user_code("the method failed to return its planned costs"):
        return method.planned_costs()


def choose_backend(experiment: Experiment, needs: Needs) -> tuple[str, str]:
    """Return the backend to use and the plan in words.

    Args:
        experiment: what to run.
        needs: the result of :func:`check`.

    Raises:
        ResourceError: if the plan does not fit.
    """
    config = experiment.config
    variants = experiment.variants.values()
    agents = [experiment.first(variant)[1].agents for variant in variants]
    work = sum(n * c.rounds * len(c.seeds) for n, c in zip(agents, variants, strict=True))
    tasks = any(need is not None for need in needs.values())
    wants_ray = tasks or config.address is not None or config.agents_per_actor != "auto"
    backend = config.backend
    if backend == "auto":
        backend = "ray" if wants_ray or work >= WORTH_RAY else "serial"
    if backend == "serial":
        return backend, f"{max(agents)} agents in this process, one after another"
    from fedsim.actors.launch import plan_for

    jobs = sum(len(variant.seeds) for variant in experiment.variants.values())
    return backend, plan_for(max(agents), jobs, config, list(needs.values())).describe()
