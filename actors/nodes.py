"""What a cluster's nodes have, and why Ray lost something."""

from __future__ import annotations

from dataclasses import dataclass

import ray
from ray.exceptions import RayError

from fedsim.errors import ResourceError
from fedsim.resources import Resources


@dataclass(frozen=True)
class Node:
    """A living node.

    Attributes:
        name: its host name.
        total: everything that it has.
    """

    name: str
    total: Resources

    def holds(self, needs: Resources) -> bool:
        """Tell whether one evaluation fits here when nothing else runs."""
        return (
            needs.cpus <= self.total.cpus
            and needs.gpus <= self.total.gpus
            and needs.memory_megabytes <= self.total.memory_megabytes
        )


def nodes() -> list[Node]:
    """Return the living nodes of the cluster."""
    return [
        Node(node["NodeManagerHostname"], _resources(node["Resources"]))
        for node in ray.nodes()
        if node["Alive"]
    ]


def check_room(needs: Resources, what: str) -> None:
    """Refuse what no node can ever hold.

    Args:
        needs: what one evaluation needs.
        what: names it, e.g. ``an evaluation``.

    Raises:
        ResourceError: with what is wanted and what every node has.
    """
    there = nodes()
    if not any(node.holds(needs) for node in there):
        have = "; ".join(f"{node.name}: {node.total.describe()}" for node in there)
        raise ResourceError(
            f"{what} needs {needs.describe()} on one node, and none has that ({have}); add a "
            "node, or ask for less (resources)"
        )


def free_words(needs: Resources) -> str:
    """Say what is free just now, of what is needed."""
    free, total = ray.available_resources(), ray.cluster_resources()
    kinds = [
        "CPU",
        *(["GPU"] if needs.gpus else []),
        *(["memory"] if needs.memory_megabytes else []),
    ]
    return ", ".join(f"{free.get(kind, 0):g} of {total.get(kind, 0):g} {kind}" for kind in kinds)


def reason(error: RayError) -> str:
    """Return why Ray lost an actor or a task, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    lines = lines or [type(error).__name__]
    told = next((line for line in lines if line.startswith("The actor is dead because")), lines[0])
    return told.partition(" There are some potential root causes")[0].partition(". ")[0]


def _resources(found: dict[str, float]) -> Resources:
    return Resources(found.get("CPU", 0.0), found.get("GPU", 0.0), found.get("memory", 0.0) / 1e6)
