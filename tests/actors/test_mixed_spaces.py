"""Options and whole numbers reach hosts and tasks as they were written, whoever takes a step."""

from pathlib import Path
from typing import Any

import pytest

import fedsim
from tests.util.mixed import MIXED
from tests.util.small import UserModule, body, small


@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize("resources", [None, {"cpus": 1.0}], ids=["hosts", "tasks"])
@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("dp-fts-de", {"subregions": 3, "own_probability": 0.5}),
        ("dp-prior", {"releases": [0, 2]}),
        ("fed-warp", {"initial_points": 5, "surrogate": {"warp": "own"}}),
        ("fts-target", {"targets": [1], "helper_queries": 4, "renew": 1, "own_probability": 0.5}),
        ("rgpe", {"targets": [1], "helper_queries": 4, "renew": 1}),
        ("taf", {"targets": "all", "helper_queries": 3}),
    ],
)
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
