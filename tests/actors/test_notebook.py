"""A newcomer's notebook, executed: a class in a cell, both backends, and a mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

CELLS = (
    """
import fedsim
from fedsim.space import Parameter, Space

CENTER = 0.3

def bowl(x):
    return -((x - CENTER) ** 2)
""",
    """
class Mine:
    space = Space((Parameter("a", 0, 1),))
    direction = "maximize"

    def __init__(self, agents: int = 3):
        self.agents = agents

    def objective(self, agent):
        return lambda point, rng: bowl(point["a"]) + 0.01 * rng.standard_normal()
""",
    """
config = {"scenario": Mine, "method": "random-search", "rounds": 3, "address": ADDRESS}
runs = [fedsim.run({**config, "backend": b}, out=b) for b in ("serial", "ray")]
runs[0]
""",
    """
fedsim.run({**config, "backend": "serial"}, scenario=Mine(agents=2), out="object")
""",
    """
def bowl(x):
    return 1 / (x - x)  # the mistake
""",
    'fedsim.run({**config, "backend": "serial"}, out="wrong-serial")',
    'fedsim.run({**config, "backend": "ray"}, out="wrong-ray")',
    """
tasks = {**config, "backend": "ray", "resources": {"cpus": 0.5}}
fedsim.run(tasks, scenario=Mine(agents=2), out="wrong-task")
""",
    'fedsim.run({**config, "backend": "serial", "seeds": [0, 1]}, jobs=2, out="wrong-jobs")',
)


@pytest.fixture(scope="module")
def notebook(ray_cluster: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    """The folder of the executed notebook, and its cells."""
    import nbclient
    import nbformat

    cells = [cell.strip().replace("ADDRESS", repr(ray_cluster)) for cell in CELLS]
    folder = tmp_path_factory.mktemp("notebook")
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = nbclient.NotebookClient(
        made,
        timeout=300,
        startup_timeout=120,
        kernel_name="python3",
        allow_errors=True,
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute()
    return folder, made.cells


def errors(cell: Any) -> list[Any]:
    return [output for output in cell.outputs if output.output_type == "error"]


def text_of(cell: Any) -> str:
    return "".join(str(output.get("text", output.get("data", ""))) for output in cell.outputs)


class TestNotebook:
    def test_its_runs_work_and_both_backends_give_the_same(
        self, notebook: tuple[Path, list[Any]]
    ) -> None:
        folder, cells = notebook
        for cell in cells[:5]:
            assert not errors(cell), errors(cell)
        journals = [folder / run / "seed-0" / "journal.jsonl" for run in ("serial", "ray")]
        assert journals[0].read_bytes() == journals[1].read_bytes()

    def test_a_run_is_shown(self, notebook: tuple[Path, list[Any]]) -> None:
        _, cells = notebook
        shown = [o for o in cells[2].outputs if o.output_type == "execute_result"]
        assert "text/html" in shown[0].data
        text = text_of(cells[2])
        assert "plan" in text  # progress, in a notebook too
        assert text.count("3/3") == 2
        assert "ipywidgets" not in text

    def test_the_record_keeps_the_class_and_what_it_uses(
        self, notebook: tuple[Path, list[Any]]
    ) -> None:
        folder, _ = notebook
        (kept,) = (folder / "serial" / "code").iterdir()
        text = kept.read_text()
        assert text.startswith("class Mine:")
        assert "def objective(self, agent):" in text
        assert "def bowl(x):" in text

    @pytest.mark.parametrize("cell", [5, 6, 7, 8])
    def test_a_mistake_shows_its_own_line_and_little_of_ours(
        self, notebook: tuple[Path, list[Any]], cell: int
    ) -> None:
        _, cells = notebook
        (error,) = errors(cells[cell])
        assert error.ename == "ObjectiveError"
        shown = "\n".join(error.traceback)
        assert "# the mistake" in shown
        assert "ZeroDivisionError" in shown
        assert shown.count("/fedsim/") <= 1
