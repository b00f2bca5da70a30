"""``fedsim run --dry-run``: the resolved configuration, the plan and the privacy it will cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedsim.cli.summary import privacy_sentence
from fedsim.config.experiment import Experiment
from fedsim.config.model import delta_of
from fedsim.protocol import PrivacyEvent
from fedsim.running.placement import parse_jobs, place
from fedsim.running.preflight import check
from fedsim.yamltext import format_yaml


def planned(experiment: Experiment, jobs: str) -> dict[str, Any]:
    """Return the resolved configuration, the resource plan and the planned privacy loss."""
    parse_jobs(jobs)
    checks, placement = place(experiment, check(experiment), experiment.jobs, jobs)
    return {
        "config": experiment.config.model_dump(mode="json"),
        "backend": placement.backend,
        "plan": placement.plan,
        "epsilon": {
            label: _loss(checks[label].costs, delta_of(variant, checks[label].agents))
            for label, variant in experiment.variants.items()
        },
    }


def _loss(costs: Sequence[PrivacyEvent], delta: float) -> dict[str, Any]:
    """Return ε with all that is needed to interpret it; empty if nothing is private."""
    if not costs:
        return {}
    from fedsim.results.losses import epsilons  # the accountants take long to import

    return epsilons(costs, delta)


def print_plan(planned: dict[str, Any]) -> None:
    """Print what :func:`planned` returned; the text is a configuration, too."""
    print(format_yaml(planned["config"]), end="")
    print(f"# backend: {planned['backend']}\n# plan: {planned['plan']}")
    for label, epsilon in planned["epsilon"].items():
        print(
            f"# {label}: "
            + (f"privacy: {privacy_sentence(epsilon)}" if epsilon else "no privacy loss")
        )
