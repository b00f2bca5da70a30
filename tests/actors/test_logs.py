"""What objectives and servers print on Ray is kept, and shown with their errors."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim.errors import LAST_OUTPUT, ObjectiveError, RunError, UserCodeError
from fedsim.record.logs import Printed, read_log

pytestmark = pytest.mark.usefixtures("ray_cluster")

ONE = {"agents_per_actor": "auto"}


@pytest.fixture
def talking(bowl: dict[str, Any]) -> dict[str, Any]:
    """A small run on two hosts, whose objectives print; ONE has them on one."""
    bowl["scenario"] = {"name": "workloads:Talking"}
    bowl["method"] = {"name": "random-search", "initial_points": 2}
    return {**bowl, "rounds": 2, "backend": "ray"}


def logs(folder: Path) -> dict[str, list[Printed]]:
    """Return what a run's logs hold, by the process's name."""
    found = sorted((folder / "seed-0" / "logs").rglob("*.log"))
    return {path.stem: list(read_log(path)) for path in found}


def everyones(printed: list[Printed]) -> None:
    """Check that all evaluations of the run are there, each under its agent's name."""
    counts = Counter[str]()
    for one in printed:
        assert one.whose.startswith("agent "), one
        agent, _ = one.whose.split(", ")
        line = f"{agent.removeprefix('agent ')} works\nas C does\n"
        assert one.text.removeprefix("built\n").replace(line, "") == ""
        counts[one.whose] += one.text.count(line)
    assert counts == {f"agent {a}, round {t}": 1 if t else 2 for a in range(6) for t in range(3)}


def test_hosts_prints_are_in_the_run_folder(talking: dict[str, Any], tmp_path: Path) -> None:
    fedsim.run(talking, out=tmp_path / "run")
    found = logs(tmp_path / "run")
    assert set(found) == {"host-0", "host-1"}
    everyones([*found["host-0"], *found["host-1"]])


def test_hosts_that_do_not_see_the_run_folder_send_them(
    talking: dict[str, Any], tmp_path: Path
) -> None:
    talking["scenario"] = {"name": "workloads:Far", "folder": str(tmp_path / "run" / "seed-0")}
    fedsim.run(talking, out=tmp_path / "run")
    found = logs(tmp_path / "run")
    everyones([*found["host-0"], *found["host-1"]])


@pytest.mark.parametrize("far", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_tasks_prints_are_in_the_run_folder(
    talking: dict[str, Any], tmp_path: Path, far: bool
) -> None:
    talking |= ONE
    talking["scenario"] |= {"cpus": 0.5}
    if far:
        talking["scenario"] |= {"name": "workloads:Far", "folder": str(tmp_path / "run" / "seed-0")}
    fedsim.run(talking, out=tmp_path / "run")
    found = logs(tmp_path / "run")
    everyones(found.pop("tasks"))
    if not far:
        assert found == {"objectives": [Printed("", "objectives", "built\n" * 6)]}


@pytest.mark.parametrize("cpus", [None, 0.5])
@pytest.mark.parametrize(
    ("trouble", "error"),
    [
        ("raise", ObjectiveError),
        pytest.param("hang", ObjectiveError, marks=pytest.mark.slow),
        pytest.param("segfault", RunError, marks=pytest.mark.slow),
    ],
)
def test_a_failure_shows_what_its_agent_printed_last(
    talking: dict[str, Any],
    tmp_path: Path,
    trouble: str,
    error: type[UserCodeError],
    cpus: float | None,
) -> None:
    talking |= ONE
    talking["scenario"] |= {"trouble": trouble, "cpus": cpus}
    talking["deadlines"]["evaluation"] = 2.0 if trouble == "hang" else 60.0
    with pytest.raises(error) as caught:
        fedsim.run(talking, out=tmp_path / "run")
    shown = caught.value.user_traceback.partition(LAST_OUTPUT)[2]
    if trouble == "segfault":  # many lines
        assert "Fatal Python error: Segmentation fault" in shown
        assert "workloads.py" in shown
    else:
        assert shown.removeprefix("\nbuilt").startswith("\n1 works\nas C does\n")
    assert "0 works" not in shown


def test_the_servers_prints_are_told_from_its_agents(
    talking: dict[str, Any], tmp_path: Path
) -> None:
    talking |= ONE
    talking["method"] = {"name": "workloads:Speaker", "fails": True}
    with pytest.raises(UserCodeError, match="the server is broken") as caught:
        fedsim.run(talking, out=tmp_path / "run")
    assert caught.value.user_traceback.endswith(f"{LAST_OUTPUT}\nafter 2\n")
    told = [
        (f"server, round {t}", f"{word} {t}\n") for t in range(3) for word in ("before", "after")
    ]
    assert [(one.whose, one.text) for one in logs(tmp_path / "run")["server"]] == told
