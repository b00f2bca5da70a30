"""Options and whole numbers reach hosts and tasks as they were written, whoever takes a step.

Messages have as many bytes as in one process.
"""

from pathlib import Path
from typing import Any

import pytest

import fedsim
from tests.util.mixed import MIXED
from tests.util.small import UserModule, body, small

METHODS: list[tuple[str, dict[str, Any]]] = [
    ("dp-fts-de", {"subregions": 3, "own_probability": 0.5}),
    ("dp-prior", {"releases": [0, 2]}),
    ("fed-warp", {"initial_points": 5, "surrogate": {"warp": "own"}}),
    ("fts-target", {"targets": [1], "helper_queries": 4, "renew": 1, "own_probability": 0.5}),
    ("rgpe", {"targets": [1], "helper_queries": 4, "renew": 1}),
    ("taf", {"targets": "all", "helper_queries": 3}),
]


def cases() -> list[Any]:
    """Return each method with hosts or with tasks in turn; the others are slow."""
    found = []
    for row, (method, settings) in enumerate(METHODS):
        for column, resources in enumerate((None, {"cpus": 1.0})):
            name = f"{method}-settings{row}-{'tasks' if resources else 'hosts'}"
            marks = [pytest.mark.slow] if (row + column) % 2 else []
            found.append(pytest.param(method, settings, resources, id=name, marks=marks))
    return found


@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize(("method", "settings", "resources"), cases())
def test_journals_are_those_of_one_process(
    method: str, settings: dict[str, Any], resources: Any, here: Path, user_module: UserModule
) -> None:
    # The objective checks the kinds of its values.
    scenario = {"name": f"{user_module(MIXED)}:Mixed", "agents": 3}
    config = small(method, scenario=scenario, rounds=3, availability=0.8)
    config["method"] |= settings
    serial, ray = (
        fedsim.run({**config, **more}, out=name)
        for name, more in (
            ("serial", {}),
            ("ray", {"backend": "ray", "resources": resources}),
        )
    )
    journals = [body(run.runs[0].folder.journal) for run in (serial, ray)]
    assert journals[0] == journals[1]
    bytes_of = [
        run.rounds[["mean_uploaded_bytes", "mean_downloaded_bytes"]] for run in (serial, ray)
    ]
    assert (bytes_of[0].iloc[-1] > 0.0).all()
    assert bytes_of[0].equals(bytes_of[1])
