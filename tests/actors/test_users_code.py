"""A user's modules, classes and objects on Ray: the same journals as in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

import fedsim
from fedsim.resources import Resources
from fedsim.space import Parameter, Space
from tests.util.small import small

pytestmark = pytest.mark.usefixtures("ray_cluster")

MODULE = """
from fedsim.resources import Resources
from fedsim.space import Parameter, Space
from helper_3 import BASE

class Black:
    def __init__(self, resources):
        self.resources = resources

    def __call__(self, point, rng):
        from late_3 import PART
        return BASE + PART + point["x"] + 0.01 * rng.standard_normal()

class Mine:
    direction, agents, space = "maximize", 2, Space((Parameter("x", 0, 1),))

    def __init__(self, tasks: bool = False):
        self.tasks = tasks

    def objective(self, agent):
        return Black(Resources(0.5) if self.tasks else None)
"""


def write(folder: Path, base: int) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "mine_3.py").write_text(MODULE)
    (folder / "helper_3.py").write_text(f"BASE = {base}")
    (folder / "late_3.py").write_text(f"PART = {base}")
    return folder


def journals(raw: dict[str, Any], out: str, **arguments: Any) -> list[bytes]:
    found = []
    for backend in ("serial", "ray"):
        run = fedsim.run({**raw, "backend": backend}, out=f"{out}-{backend}", **arguments)
        found.append(run.runs[0].folder.journal.read_bytes())
    return found


def test_processes_that_know_another_module_of_the_name_use_the_runs(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller's cluster keeps its tasks' processes: two folders, an edited file, then hosts."""
    for folder, base, tasks in (
        ("a", 10, True),
        ("b", 50, True),
        ("a", 70, True),
        ("b", 90, False),
    ):
        raw = small(scenario={"name": "mine_3:Mine", "tasks": tasks})
        write(here / folder, base)
        monkeypatch.chdir(here / folder)
        serial, ray = journals(raw, f"run-{base}")
        assert serial == ray
        observed = fedsim.load(f"run-{base}-ray").observations["y"]
        assert int(observed.median()) == 2 * base


def shifted(x: float) -> float:
    return 10.0 + x


class Black:
    resources = Resources(0.5)

    def __call__(self, point: Any, rng: Any) -> float:
        return shifted(point["x"])


class Mine:
    direction: Literal["maximize"] = "maximize"
    space = Space((Parameter("x", 0, 1),))

    def __init__(self, agents: int = 2, tasks: bool = False) -> None:
        self.agents = agents
        self.tasks = tasks

    def objective(self, agent: int) -> Any:
        return Black() if self.tasks else lambda point, rng: shifted(point["x"])


@pytest.mark.parametrize(
    ("kind", "tasks"),
    [
        ("class", True),
        ("object", False),
        # As in test_notebook.py.
        pytest.param("class", False, marks=pytest.mark.slow),
        pytest.param("object", True, marks=pytest.mark.slow),
    ],
)
def test_classes_and_objects_that_only_this_process_knows(
    here: Path, kind: str, tasks: bool
) -> None:
    thing = {"name": Mine, "tasks": tasks} if kind == "class" else Mine(tasks=tasks)
    raw = {key: value for key, value in small().items() if key != "scenario"}
    serial, ray = journals(raw, "given", scenario=thing)
    assert serial == ray
