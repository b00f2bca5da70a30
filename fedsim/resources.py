"""The resources that one evaluation of an objective needs, if it runs as a separate task."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from fedsim.errors import ConfigError, require
from fedsim.imports import offers
from fedsim.workload import Objective


@dataclass(frozen=True)
class Resources:
    """The resources of a node that one evaluation needs; for the scheduler, not a limit.

    Attributes:
        cpus: CPUs, at least 0; numerical libraries still use one thread.
        gpus: GPUs, at least 0; a fraction shares a GPU.
        memory_megabytes: memory, at least 0.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    cpus: float = 1.0
    gpus: float = 0.0
    memory_megabytes: float = 0.0

    def __post_init__(self) -> None:
        for name in ("cpus", "gpus", "memory_megabytes"):
            value = getattr(self, name)
            valid = value == 0 or 1e-4 <= value < math.inf
            require(valid, f"resources.{name}", "0, or a number of at least 0.0001", value)
        whole = self.gpus <= 1 or self.gpus == int(self.gpus)
        require(whole, "resources.gpus", "a whole number, or a fraction of one", self.gpus)

    def describe(self) -> str:
        """Return the resources in words."""
        parts = [f"{self.cpus:g} CPU{'s' * (self.cpus != 1)}"]
        parts += [f"{self.gpus:g} GPU{'s' * (self.gpus != 1)}"] if self.gpus else []
        parts += [f"{self.memory_megabytes:.0f} MB"] if self.memory_megabytes else []
        return ", ".join(parts)


@runtime_checkable
class NeedsResources(Protocol):
    """An expensive objective, to be evaluated as Ray tasks.

    Either all objectives of a run declare resources, or none does.
    """

    @property
    def resources(self) -> Resources | None:
        """The resources of one evaluation; None: it runs in its agent's process."""
        ...


def declared_resources(objective: Objective) -> Resources | None:
    """Return the resources that an objective declares, or None if it runs in its agent's process.

    Raises:
        ConfigError: if its ``resources`` is anything else.
    """
    resources: object = objective.resources if offers(objective, NeedsResources) else None
    if resources is not None and not isinstance(resources, Resources):
        raise ConfigError(
            f"{type(objective).__name__}.resources: expected fedsim.resources.Resources or None, "
            f"got {resources!r}"
        )
    return resources
