"""What a process needs to build its part of one run."""

from __future__ import annotations

from dataclasses import dataclass

from fedsim.config.schema import Settings
from fedsim.errors import require
from fedsim.fingerprints import fingerprint
from fedsim.resources import Resources
from fedsim.usercode.sources import NO_CODE, UserCode

Availability = float | tuple[float, ...]
"""The probability that an agent takes part in a round: one for all, or one per agent."""


def check_availability(availability: Availability, agents: int) -> None:
    """Check a list's length.

    Raises:
        ConfigError: if there is not one probability per agent.
    """
    if isinstance(availability, tuple):
        expected = f"one probability, or a list of {agents}: one per agent"
        require(len(availability) == agents, "availability", expected, list(availability))


@dataclass(frozen=True)
class RunSpec:
    """Everything that a process needs to build its part of one run.

    Attributes:
        scenario: the resolved ``scenario`` section, with its ``name``.
        method: the resolved ``method`` section, with its ``name``.
        rounds: number of queries after the initial design.
        seed: the run's seed.
        data_dir: the folder of the data sets, or None.
        code: the user's modules that ``module:Class`` names are imported from.
        availability: the probability that an agent takes part in a round; one, or one per agent.
        retries: how often a failed evaluation is tried again.
        skip_failures: whether an evaluation that fails on every try is skipped or stops the run.
        resources: resources of evaluations as separate tasks; None: as the objectives declare.
    """

    scenario: Settings
    method: Settings
    rounds: int
    seed: int
    data_dir: str | None
    code: UserCode = NO_CODE
    availability: Availability = 1.0
    retries: int = 0
    skip_failures: bool = False
    resources: Resources | None = None

    @property
    def fingerprint(self) -> str:
        """Identifies what a journal depends on: scenario, method, rounds, seed, availability."""
        return fingerprint(self.scenario, self.method, self.rounds, self.seed, self.availability)

    @property
    def scenario_name(self) -> str:
        """The scenario's name as configured."""
        return str(self.scenario["name"])

    @property
    def method_name(self) -> str:
        """The method's name as configured."""
        return str(self.method["name"])
