"""Runs of the ``Bowl`` of ``tests/actors/workloads.py``, with and without trouble."""

import re
from pathlib import Path
from typing import Any

import fedsim
from tests.util.small import body

ROOT = re.escape(str(Path(__file__).parents[2]))
OURS = re.compile(rf"{ROOT}/(actors|fedsim)/|site-packages/fedsim/|importlib|/ray/")
"""What no user's traceback shows."""


def journal(folder: Path) -> bytes:
    """Return the journal of seed 0 without its header, which knows of the trouble."""
    return body(folder / "seed-0" / "journal.jsonl")


def undisturbed(config: dict[str, Any], folder: Path) -> bytes:
    """Return the journal of the same run in one process, without any trouble."""
    alone = {"backend": "serial", "agents_per_actor": "auto"}
    fedsim.run({**config, "scenario": {"name": "workloads:Bowl"}, **alone}, out=folder)
    return journal(folder)


def troubled(config: dict[str, Any], trouble: str, **changes: Any) -> dict[str, Any]:
    """Return three rounds on Ray in which agent 1's objective misbehaves."""
    scenario = {**config["scenario"], "trouble": trouble, **changes}
    return {**config, "scenario": scenario, "rounds": 3, "backend": "ray"}
