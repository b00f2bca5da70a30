"""Decides where a run's jobs run: in this process, in several of them, or on Ray."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from fedsim.config.experiment import Experiment
from fedsim.config.model import Config
from fedsim.config.targets import overspent
from fedsim.errors import ConfigError, listed
from fedsim.resources import available_megabytes, usable_cpus
from fedsim.running.jobs import Listener
from fedsim.running.preflight import Checks, most_agents, settled

METHOD_SECONDS = 0.003
"""CPU time of an agent and round, apart from its objective: that of Thompson sampling."""

PROCESS_SECONDS = 2.0
"""Wall time to start processes and to load everything in them, with a CPU for each."""

PROCESS_MEGABYTES = 150

HOSTS_EFFICIENCY = 0.8
"""How much of their time hosts work: in each round, they wait for the slowest."""

WORTH_IT = 1.25
"""Something else is started only if this process alone would take this much longer."""


@dataclass(frozen=True)
class Placement:
    """Where the jobs run.

    Attributes:
        backend: ``serial`` or ``ray``.
        at_a_time: how many jobs run at a time: one runs in this process, several serial ones in
            processes of their own.
        plan: the same in words.
    """

    backend: Literal["serial", "ray"]
    at_a_time: int
    plan: str


def parse_jobs(value: int | str) -> int | None:
    """Return how many jobs may run at a time, or None for ``auto``.

    Raises:
        ConfigError: if it is neither ``auto`` nor a whole number of at least 1.
    """
    text = str(value)
    if text == "auto":
        return None
    if isinstance(value, bool) or not text.isdecimal() or int(text) < 1:
        raise ConfigError(f"jobs: expected auto or a whole number of at least 1, got {value!r}")
    return int(text)


def place(
    experiment: Experiment,
    checks: Checks,
    left: int,
    jobs: int | str = "auto",
    listener: Listener | None = None,
) -> tuple[Checks, Placement]:
    """Decide where an experiment's jobs run.

    Where that depends on what an evaluation costs, the first one is measured.

    Args:
        experiment: what to run.
        checks: the result of :func:`fedsim.running.preflight.check`.
        left: how many of its jobs are not done, at least 1.
        jobs: how many may run at a time, or ``auto``.
        listener: told if measuring takes long.

    Returns:
        The checks, with the evaluation if it was measured, and the placement.

    Raises:
        ConfigError: if ``jobs`` is wrong.
        UserCodeError: if the evaluation misses its deadline.
        ResourceError: if the plan does not fit.
    """
    config, limit, cpus = experiment.config, parse_jobs(jobs), usable_cpus()
    wants_ray = config.address is not None or config.agents_per_actor != "auto"
    decided = config.backend == "ray" or (config.backend == "auto" and wants_ray)
    decided |= config.backend == "serial" and (left == 1 or limit is not None)
    checks = settled(checks, cpus > 1 and not decided, listener or Listener())
    wants_ray |= any(found.evaluation is not None for found in checks.values())
    if config.backend == "ray" or (config.backend == "auto" and wants_ray):
        found = _on_ray(experiment, checks, min(limit or left, left))
    else:
        found = _quickest(experiment, checks, left, limit, cpus)
        found = replace(found, plan=found.plan + _without_effect(config))
    told = [overspent(experiment.variants), *_warnings(checks)]
    return checks, replace(found, plan="; ".join(filter(None, [found.plan, *told])))


def _warnings(checks: Checks) -> list[str]:
    """Return what methods warn of: each once, with the variants that it is about."""
    about: dict[str, list[str]] = {}
    for label, found in checks.items():
        for text in found.warnings:
            about.setdefault(text, []).append(label)
    return [
        f"warning: {text}" if len(checks) == 1 else f"warning: {listed(labels)}: {text}"
        for text, labels in about.items()
    ]


def _without_effect(config: Config) -> str:
    """Return which settings a serial run ignores, to be added to its plan."""
    given = {
        "address": config.address is not None,
        "agents_per_actor": config.agents_per_actor != "auto",
        "resources": config.resources is not None,
    }
    names = [name for name, is_given in given.items() if is_given]
    return f"; no effect with backend: serial: {', '.join(names)}" if names else ""


def _quickest(
    experiment: Experiment, checks: Checks, left: int, limit: int | None, cpus: int
) -> Placement:
    """Return the placement that takes the least time; a simpler one if it is nearly as good."""
    agents, seconds, why = most_agents(checks), *_work(experiment, checks, left)
    options: list[tuple[float, Placement]] = []
    if left == 1 or limit in (None, 1):
        words = f"{agents} agents in this process, one after another{why}"
        options.append((seconds, Placement("serial", 1, words)))
    room = max(1, int(available_megabytes() / PROCESS_MEGABYTES))
    several = min(left, limit or min(cpus, room))
    if several > 1:
        words = f"{left} jobs in processes of their own, {several} at a time{why}"
        needed = PROCESS_SECONDS + seconds * _laps(left, several)
        options.append((needed, Placement("serial", several, words)))
    if experiment.config.backend == "auto" and cpus > 1:
        from fedsim.actors.plan import plan_for

        plan = plan_for(agents, min(limit or left, left), experiment.config, cpus, ())
        needed = plan.start_seconds + seconds * _laps(left, plan.parallel) / (
            plan.hosts * HOSTS_EFFICIENCY
        )
        if plan.megabytes <= available_megabytes():
            options.append((needed, _on_ray(experiment, checks, plan.parallel, why)))
    least = min(needed for needed, _ in options)
    return next(option for needed, option in options if needed <= WORTH_IT * least)


def _on_ray(experiment: Experiment, checks: Checks, at_a_time: int, why: str = "") -> Placement:
    from fedsim.actors.plan import plan_here

    needs = [found.evaluation for found in checks.values()]
    plan = plan_here(most_agents(checks), at_a_time, experiment.config, needs)
    return Placement("ray", at_a_time, plan.describe() + why)


def _work(experiment: Experiment, checks: Checks, left: int) -> tuple[float, str]:
    """Return how long the jobs that are left take in one process, and that in words."""
    first = next((found.first for found in checks.values() if found.first is not None), None)
    cost, design = (0.0, 1) if first is None else (first.seconds, first.design)
    total, jobs = 0.0, 0
    for label, variant in experiment.variants.items():
        rounds, seeds = variant.rounds, len(variant.seeds)
        of_agent = (design + rounds) * cost + (1 + rounds) * METHOD_SECONDS
        total += of_agent * checks[label].agents * seeds
        jobs += seeds
    total *= left / jobs
    if first is None:
        return total, ""
    return total, f": an evaluation takes {_about(cost)}, so about {_about(total)} in one process"


def _laps(jobs: int, at_a_time: int) -> float:
    """Return how long jobs take together, relative to one after another."""
    return math.ceil(jobs / at_a_time) / jobs


def _about(seconds: float) -> str:
    """Return a time with two digits."""
    for size, unit in ((3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms")):
        if seconds >= size:
            return f"{float(f'{seconds / size:.2g}'):g} {unit}"
    return "less than 1 ms"
