"""The resources of a cluster's nodes, and why Ray lost an actor or a task."""

from __future__ import annotations

import re
from dataclasses import dataclass

import ray
from ray.exceptions import RayError, RayTaskError

from fedsim.errors import ResourceError, UserCodeError
from fedsim.resources import Resources
from fedsim.usercode.calling import words_of

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Node:
    """A node that is alive.

    Attributes:
        name: its host name.
        total: its total resources.
    """

    name: str
    total: Resources

    def holds(self, needs: Resources) -> bool:
        """Return whether one evaluation fits on this node when nothing else runs."""
        return (
            needs.cpus <= self.total.cpus
            and needs.gpus <= self.total.gpus
            and needs.memory_megabytes <= self.total.memory_megabytes
        )


def nodes() -> list[Node]:
    """Return the cluster's nodes that are alive."""
    return [
        Node(node["NodeManagerHostname"], _resources(node["Resources"]))
        for node in ray.nodes()
        if node["Alive"]
    ]


def check_room(needs: Resources, what: str) -> None:
    """Refuse resources that no node has.

    Args:
        needs: the resources of one evaluation.
        what: its name in the error, e.g. ``an evaluation``.

    Raises:
        ResourceError: with the resources needed and those of every node.
    """
    there = nodes()
    if not any(node.holds(needs) for node in there):
        have = "; ".join(f"{node.name}: {node.total.describe()}" for node in there)
        raise ResourceError(
            f"{what} needs {needs.describe()} on one node, but no node has that ({have}); add a "
            "node, or ask for less (resources)"
        )


def free_words(needs: Resources) -> str:
    """Return how much of the needed resources is free right now, in words."""
    free, total = ray.available_resources(), ray.cluster_resources()
    kinds = [
        "CPU",
        *(["GPU"] if needs.gpus else []),
        *(["memory"] if needs.memory_megabytes else []),
    ]
    return ", ".join(f"{free.get(kind, 0):g} of {total.get(kind, 0):g} {kind}" for kind in kinds)


def reason(error: RayError) -> str:
    """Return why Ray lost an actor or a task, in one line."""
    lines = [line.strip() for line in _COLOURS.sub("", str(error)).splitlines() if line.strip()]
    lines = lines or [type(error).__name__]
    told = next((line for line in lines if line.startswith("The actor is dead because")), lines[0])
    return told.partition(" There are some potential root causes")[0].partition(". ")[0]


def unforeseen(what: str, error: RayTaskError) -> UserCodeError:
    """Return the error of a task, or of an actor, that failed as nobody foresaw; it shows where.

    Args:
        what: what failed, as the start of the message.
        error: as Ray raised it.
    """
    summary = f"{what} failed: {words_of(error.cause)}"
    return UserCodeError(summary, _COLOURS.sub("", str(error.traceback_str)))


def _resources(found: dict[str, float]) -> Resources:
    return Resources(found.get("CPU", 0.0), found.get("GPU", 0.0), found.get("memory", 0.0) / 1e6)
