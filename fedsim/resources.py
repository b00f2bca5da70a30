"""What one evaluation needs if it runs as a separate task, and what this process may use."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ClassVar, Protocol, runtime_checkable

from fedsim.errors import ConfigError, require
from fedsim.usercode.calling import offers
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


def is_host_and_port(address: str) -> bool:
    """Return whether an address has the form HOST:PORT."""
    host, _, port = address.rpartition(":")
    return bool(host) and "/" not in host and port.isdecimal()


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


ROOT = Path("/")

BATCH_VARIABLES = (
    ("SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE"),
    ("NCPUS", "PBS_NUM_PPN"),
    ("LSB_DJOB_NUMPROC",),
    ("NSLOTS",),
)
"""What Slurm, PBS, LSF and Grid Engine tell a job about its CPUs; the first that is set counts."""


def usable_cpus(root: Path = ROOT, variables: Mapping[str, str] = os.environ) -> int:
    """Return the number of CPUs that this process may use, which may be fewer than there are.

    The smallest of: its affinity, the quotas of its control groups (a container's, for example,
    rounded up), and what the batch system tells it.

    Args:
        root: the folder that holds ``proc`` and ``sys``.
        variables: the environment.
    """
    limits = [_affinity(), *_quotas(root)]
    for names in BATCH_VARIABLES:
        told = [int(variables[n]) for n in names if variables.get(n, "").isdigit()]
        limits += [count for count in told[:1] if count > 0]
    return max(1, math.ceil(min(limits)))


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quotas(root: Path) -> Iterator[float]:
    """Yield how many CPUs each control group allows, where it sets a limit."""
    for group in _control_groups(root, "cpu"):
        first, _, second = _read(group / "cpu.max").partition(" ")  # version 2
        quota = first or _read(group / "cpu.cfs_quota_us")  # version 1
        period = second or _read(group / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit():  # else "max" or -1: no limit
            yield int(quota) / int(period)


def available_megabytes(root: Path = ROOT) -> float:
    """Return the available memory of this machine, or what its control groups allow, in MB.

    Args:
        root: the folder that holds ``proc`` and ``sys``.
    """
    known = [line for line in _read(root / "proc/meminfo").splitlines() if ":" in line]
    entries = dict(line.split(":", 1) for line in known)
    if "MemAvailable" in entries:
        available = float(entries["MemAvailable"].split()[0]) / 1e3
    else:
        available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e6
    for group in _control_groups(root, "memory"):
        for limit, used, cache in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            allowed, taken = _read(group / limit), _read(group / used)
            if allowed.isdigit() and taken.isdigit():
                lines = (line.split() for line in _read(group / "memory.stat").splitlines())
                freed = int(dict(lines).get(cache, 0))  # files read before: given back on demand
                available = min(available, (int(allowed) - int(taken) + freed) / 1e6)
    return available


def _control_groups(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of the control groups that this process is in, innermost first.

    In a container, the path of its own group may not be visible; its limits are then at the top.
    """
    mounted = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            top = mounted  # version 2
        elif controller in controllers.split(","):
            top = mounted / controllers  # version 1
        else:
            continue
        own = PurePosixPath(path.lstrip("/"))
        yield from (top / group for group in (own, *own.parents))


def _read(path: Path) -> str:
    """Return a file's text without surrounding space, or an empty string if there is none."""
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""
