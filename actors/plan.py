"""The resource plan of a run: actors, memory and start-up time, known before anything starts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from fedsim.config.model import Config
from fedsim.errors import ResourceError
from fedsim.resources import Resources, available_megabytes, usable_cpus

# Measured with Ray 2.60 on Linux, as proportional set sizes: an idle host with fedsim, numpy and
# scipy takes 93 MB (87 MB of them private), one with 500 agents after 20 rounds of DP-FTS-DE 112
# MB; a server about the same, what it needs to write tables, and what the scenario loads. A private
# cluster's own processes take 300 MB. Starting a process takes about 1.5 s of one CPU, a cluster
# about 5 s.
ACTOR_MEGABYTES = 112
TABLES_MEGABYTES = 40
CLUSTER_MEGABYTES = 300
ACTOR_CPU_SECONDS = 1.5
CLUSTER_SECONDS = 5.0


@dataclass(frozen=True)
class Plan:
    """What a run on Ray will start.

    Attributes:
        agents: agents per run.
        hosts: host actors per run.
        parallel: runs (seeds, variants) at a time.
        cpus: CPUs that the plan assumes.
        address: an existing cluster, or None for a private local one.
        evaluation: the resources of an evaluation that runs as a separate task; None:
            evaluations run in the hosts.
    """

    agents: int
    hosts: int
    parallel: int
    cpus: float
    address: str | None
    evaluation: Resources | None = None

    @property
    def actors(self) -> int:
        """The number of actors alive at a time: hosts and one server per run."""
        return self.parallel * (self.hosts + 1)

    @property
    def tasks(self) -> int:
        """The number of evaluations that may run as tasks at a time, each in its own process."""
        if self.evaluation is None:
            return 0
        return max(1, int(self.cpus / max(self.evaluation.cpus, 0.25)))

    @property
    def megabytes(self) -> float:
        """Estimated memory, in MB, without the objectives' own."""
        processes = self.actors + self.tasks
        tables = self.parallel * TABLES_MEGABYTES
        cluster = 0 if self.address else CLUSTER_MEGABYTES
        return processes * ACTOR_MEGABYTES + tables + cluster

    @property
    def start_seconds(self) -> float:
        """Estimated wall time until the first round."""
        return (0 if self.address else CLUSTER_SECONDS) + (
            self.actors * ACTOR_CPU_SECONDS / max(self.cpus, 1)
        )

    @property
    def cpus_per_host(self) -> float:
        """CPUs that each host actor asks Ray for: one, or an equal share if that is less.

        0 if evaluations are tasks: hosts then have little to do, and tasks need the CPUs.
        """
        if self.evaluation is not None:
            return 0.0
        share = self.cpus / (self.parallel * self.hosts)
        return 1.0 if share >= 1 else max(math.floor(share * 1e4) / 1e4, 1e-4)

    def describe(self) -> str:
        """Return the plan as one line of text."""
        where = f"the Ray cluster at {self.address}" if self.address else "a private Ray cluster"
        together = f", {self.parallel} runs at a time" if self.parallel > 1 else ""
        hosts = f"{self.hosts} host actor{'s' if self.hosts > 1 else ''}"
        tasks = ""
        if self.evaluation is not None:
            tasks = f", evaluations as tasks of {self.evaluation.describe()} each"
        return (
            f"{self.agents} agents in {hosts}{together}{tasks} on {where}: about "
            f"{self.megabytes / 1000:.1f} GB and {self.start_seconds:.0f} s to start"
        )

    def check_cpus(self) -> None:
        """Refuse evaluations that need more CPUs than this machine has.

        Raises:
            ResourceError: with the numbers.
        """
        if self.evaluation is not None and self.evaluation.cpus > self.cpus:
            raise ResourceError(
                f"an evaluation needs {self.evaluation.describe()}, this machine has "
                f"{self.cpus:g} CPUs; ask for less (resources), or use a cluster (address)"
            )

    def check_memory(self, available_megabytes: float) -> None:
        """Refuse a plan that does not fit.

        Raises:
            ResourceError: with the numbers.
        """
        tasks = f" and {self.tasks} evaluation tasks" if self.tasks else ""
        if self.megabytes > available_megabytes:
            raise ResourceError(
                f"the plan needs about {self.megabytes / 1000:.1f} GB ({self.actors} actors{tasks} "
                f"of {ACTOR_MEGABYTES} MB), but only {available_megabytes / 1000:.1f} GB are "
                "available; put more agents into one actor (agents_per_actor: auto packs them)"
            )


def plan_here(agents: int, jobs: int, config: Config, needs: Iterable[Resources | None]) -> Plan:
    """Return the checked plan of a run, before Ray is started.

    Args:
        agents: agents of the largest run.
        jobs: how many runs may go at a time, at least 1.
        config: the whole configuration.
        needs: the resources of each run's evaluations, if they are separate tasks.

    Raises:
        ResourceError: if it does not fit on this machine (an existing cluster is checked later).
    """
    plan = plan_for(agents, jobs, config, usable_cpus(), needs)
    if config.address is None:
        plan.check_cpus()
        plan.check_memory(available_megabytes())
    return plan


def plan_for(
    agents: int, jobs: int, config: Config, cpus: float, needs: Iterable[Resources | None]
) -> Plan:
    """Return the plan of a run on a number of CPUs; the other arguments as for plan_here."""
    evaluation = next((need for need in needs if need is not None), None)
    return make_plan(agents, config.agents_per_actor, jobs, cpus, config.address, evaluation)


def make_plan(
    agents: int,
    agents_per_actor: int | Literal["auto"],
    jobs: int,
    cpus: float,
    address: str | None,
    evaluation: Resources | None = None,
) -> Plan:
    """Return the plan for runs of ``agents`` agents each.

    Several runs go in parallel as long as each has a CPU; the hosts of one run share its CPUs.

    Args:
        agents: agents per run.
        agents_per_actor: how many share an actor; ``auto``: one actor per CPU of the run.
        jobs: how many runs may go at a time, at least 1.
        cpus: the number of CPUs.
        address: an existing cluster, or None for a private local one.
        evaluation: the resources of an evaluation that runs as a separate task, or None.
    """
    whole = max(1, int(cpus))
    parallel = min(jobs, whole)
    if agents_per_actor == "auto":
        hosts = min(agents, max(1, whole // parallel))
    else:
        hosts = math.ceil(agents / agents_per_actor)
    return Plan(agents, hosts, parallel, cpus, address, evaluation)
