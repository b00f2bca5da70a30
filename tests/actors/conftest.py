"""One Ray cluster for all of the engine's tests, and the runs that they share."""

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # for the helpers beside this file


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[str]:
    """The tests' own cluster, with one CPU: seeds run one after another."""
    import ray

    from fedsim.actors.cluster import terminal_and_signals_kept

    with terminal_and_signals_kept():
        ray.init(
            address="local",
            num_cpus=1,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            _system_config={"num_workers_soft_limit": 8},
        )
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()


@pytest.fixture
def bowl(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A small run on two hosts; its scenario is imported from this folder."""
    monkeypatch.chdir(HERE)
    return {
        "name": "bowl",
        "scenario": {"name": "workloads:Bowl"},
        "method": {"name": "random-search"},
        "rounds": 8,
        "agents_per_actor": 3,
        "deadlines": {"start": 300.0},
    }


@pytest.fixture
def one_host(bowl: dict[str, Any]) -> dict[str, Any]:
    """The same with one host, if a second is not needed: a process takes seconds to start."""
    return {**bowl, "agents_per_actor": "auto"}  # a host per CPU, and the tests' cluster has one
