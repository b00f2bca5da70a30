"""A run's manifest: public facts about the run, its start and end, and its environment."""

from __future__ import annotations

import math
import platform
import sys
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Literal

from fedsim.privacy.accountants import AccountantName
from fedsim.privacy.ledger import Accounting
from fedsim.record.runfolder import RunFolder
from fedsim.record.tally import Tally


@dataclass(frozen=True)
class Facts:
    """What is known about a run before it starts, and needed to read its record.

    A run that never started has no facts.

    Attributes:
        seed: the run's seed.
        rounds: the number of rounds after the initial design.
        agents: the number of agents.
        direction: ``maximize`` or ``minimize``.
        optima: each agent's best noiseless value, or None if they are not known; for the
            experimenter only.
        delta: δ of the reported ε.
        accountant: the accountant whose ε is reported while the run is running.
        accounting: ``paper`` or ``exact``, the noise multiplier that is charged.
    """

    seed: int
    rounds: int
    agents: int
    direction: Literal["maximize", "minimize"]
    optima: tuple[float, ...] | None
    delta: float
    accountant: AccountantName
    accounting: Accounting

    @classmethod
    def of(cls, folder: RunFolder) -> Facts:
        """Read the facts from a folder's manifest.

        Raises:
            RunFolderError: if one is missing.
        """
        config, manifest = folder.config(), folder.manifest()
        # Manifests of earlier versions held agents and direction only.
        known = {
            "seed": int(folder.path.name.removeprefix("seed-")) if "seed" not in manifest else 0,
            "rounds": config["rounds"],
            "optima": None,
            **{name: config["privacy"][name] for name in ("delta", "accountant", "accounting")},
            **manifest,
        }
        if known["delta"] is None:
            known["delta"] = math.pow(known["agents"], -1.1)
        if known["optima"] is not None:
            known["optima"] = tuple(known["optima"])
        return cls(**{field.name: known[field.name] for field in fields(cls)})

    @property
    def sign(self) -> float:
        """1 where larger values are better, else -1."""
        return 1.0 if self.direction == "maximize" else -1.0

    def tally(self) -> Tally:
        """Return an empty tally of the run."""
        return Tally(self.agents, self.direction == "maximize", self.optima)


def now() -> str:
    """Return the current time: UTC, ISO 8601, in seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def environment() -> dict[str, str]:
    """Return the versions and machine that the last digits of results may depend on."""
    packages = ("fedsim", "numpy", "scipy", "scikit-learn", "ray")
    found = {"python": platform.python_version(), "system": sys.platform, "processor": _processor()}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
