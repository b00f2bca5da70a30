"""Plans that cannot fit are refused before anything is allocated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim.cli.main import run_command
from fedsim.config.experiment import prepare
from fedsim.errors import ConfigError, ResourceError
from fedsim.running import preflight
from fedsim.running.preflight import check
from tests.util.small import small, write

MANY = """
    from fedsim.space import Parameter, Space
    from fedsim.workload import Evaluation

    class Many:
        direction, agents = "maximize", 10**9
        space = Space((Parameter("x", 0.0, 1.0),))

        def objective(self, agent):
            return lambda point, rng: Evaluation(point["x"])
"""


def test_too_many_agents_of_the_users_own(
    here: Path, user_module: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "available_megabytes", lambda: 4_000.0)
    raw = small(scenario={"name": f"{user_module(MANY)}:Many"})
    words = r"at least 1,000\.0 GB for 1,000,000,000 agents, but only 4\.0 GB are available"
    with pytest.raises(ResourceError, match=words):
        fedsim.run(raw)
    assert not Path("runs").exists()
    assert run_command(["run", write(raw), "--dry-run"]) == 4


def test_tables_that_do_not_fit(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "available_megabytes", lambda: 15.9)
    method: dict[str, Any] = {"name": "fts", "message": {"features": 1_000_000}}
    scenario = {"name": "synthetic", "agents": 2, "grid_size": 20}
    raw = {**small(), "method": method, "scenario": scenario}
    with pytest.raises(ResourceError, match=r"2 agents and 1,000,000 \(method.message.features\)"):
        check(prepare(raw))
    raw["address"] = "10.0.0.1:6379"  # then this machine's memory says nothing
    raw["method"]["message"]["features"] = 100
    monkeypatch.setattr(preflight, "available_megabytes", lambda: 0.0)
    check(prepare(raw))


def test_too_many_jobs() -> None:
    raw = small(seeds="0-9999", grid={"rounds": [*range(1, 102)]})
    with pytest.raises(ConfigError, match=r"at most 1,000,000 jobs .*, got 1,010,000"):
        check(prepare(raw))
