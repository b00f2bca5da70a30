"""A run's manifest: public facts about the run, its start and end, and its environment."""

from __future__ import annotations

import json
import math
import platform
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from functools import cache, cached_property
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from fedsim.errors import FedsimError, RunFolderError
from fedsim.files import RESTORE
from fedsim.privacy.accountants import AccountantName
from fedsim.privacy.ledger import Accounting
from fedsim.protocol import AgentId
from fedsim.record.remedies import REMAKE
from fedsim.record.runfolder import RunFolder
from fedsim.record.tally import Tally
from fedsim.space import Choice, Parameter, Space
from fedsim.space.parameters import AnyParameter

PARAMETERS: dict[str, type[AnyParameter]] = {kind.__name__: kind for kind in (Parameter, Choice)}
"""The classes of parameters, by the name that a manifest has for them."""


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
        parameters: of the search space, see :func:`described`; None if an earlier version of
            fedsim started the run.
        optimal_points: where each agent's optimum is, or one point, if it is the same for all;
            None if they are not known.
        targets: the agents whose results count, ascending; None: all.
    """

    seed: int
    rounds: int
    agents: int
    direction: Literal["maximize", "minimize"]
    optima: tuple[float, ...] | None
    delta: float
    accountant: AccountantName
    accounting: Accounting
    parameters: tuple[Mapping[str, Any], ...] | None = None
    optimal_points: tuple[Mapping[str, Any], ...] | None = None
    targets: tuple[int, ...] | None = None

    @classmethod
    def of(cls, folder: RunFolder) -> Facts:
        """Read the facts from a folder's manifest.

        Raises:
            RunFolderError: if one is missing or wrong.
        """
        manifest = folder.manifest()
        names = {one.name for one in fields(cls)}
        try:
            if not names - {"parameters", "optimal_points", "targets"} <= manifest.keys():
                manifest = {**_earlier_facts(folder), **manifest}
            if manifest["delta"] is None:
                manifest["delta"] = math.pow(manifest["agents"], -1.1)
            known = {name: value for name, value in manifest.items() if name in names}
            return _facts_type().validate_python(known)
        except ValidationError as error:
            first, path = error.errors()[0], folder.path / "manifest.json"
            where = ".".join(map(str, first["loc"]))
            raise RunFolderError(
                f"{path}: damaged: {where}: {first['msg']}, got {first['input']!r}; {REMAKE}"
            ) from error
        except (LookupError, TypeError, ValueError) as error:
            raise RunFolderError(
                f"{folder.path}: config.yaml or manifest.json is damaged ({error!r}); {RESTORE}"
            ) from error

    @property
    def sign(self) -> float:
        """1 where larger values are better, else -1."""
        return 1.0 if self.direction == "maximize" else -1.0

    def tally(self) -> Tally:
        """Return an empty tally of the run."""
        return Tally(self.agents, self.direction == "maximize", self.optima, self.targets)

    def is_target(self, agent: AgentId) -> bool:
        """Return whether an agent's results count."""
        return self.targets is None or agent in self._targets

    @cached_property
    def _targets(self) -> frozenset[AgentId]:
        return frozenset(self.targets or ())

    def space(self) -> Space | None:
        """Return the search space; None if it is not known.

        Raises:
            RunFolderError: if it is of another version of fedsim.
        """
        if self.parameters is None:
            return None
        try:
            return Space(tuple(map(_parameter, self.parameters)))
        except (FedsimError, LookupError, TypeError) as error:
            raise RunFolderError(
                f"seed {self.seed}: the parameters in manifest.json are damaged, or of another "
                f"version of fedsim ({error})"
            ) from error


def _earlier_facts(folder: RunFolder) -> dict[str, Any]:
    """Return what manifests of earlier versions lacked: they had agents and direction only."""
    config = folder.config()
    return {
        "seed": int(folder.path.name.removeprefix("seed-")),
        "rounds": config["rounds"],
        "optima": None,
        **{name: config["privacy"][name] for name in ("delta", "accountant", "accounting")},
    }


@cache
def _facts_type() -> TypeAdapter[Facts]:
    return TypeAdapter(Facts)


def described(space: Space) -> tuple[Mapping[str, Any], ...]:
    """Return a space's parameters for a manifest: each with its ``kind`` and its settings."""
    found = [{"kind": type(one).__name__, **asdict(one)} for one in space.parameters]
    # Users also give numpy's numbers, which JSON does not know.
    return tuple(json.loads(json.dumps(found, default=lambda number: number.item())))


def _parameter(described: Mapping[str, Any]) -> AnyParameter:
    settings = dict(described)
    return PARAMETERS[settings.pop("kind")](**settings)


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


def _processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    with suppress(OSError):  # there is none on macOS, and not in every container
        for line in cpuinfo.read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
