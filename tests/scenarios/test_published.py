"""The published tables, each beside what its ready configuration makes."""

from __future__ import annotations

from pathlib import Path

import pytest

import fedsim
from fedsim.cli.main import run_command
from fedsim.config.experiment import prepare
from fedsim.results.published import read_published

TIMES = {2: "tabular-agents", 3: "tabular-support", 4: "tabular-mixing"}
"""Ready configurations by the number of FBO-FedGP's table of times."""

FEW = [
    "method.initial_points=1",
    "rounds=1",
    "scenario.rows=40",
    "method.encryption=plain",
    "backend=serial",
]
SMALLER = {
    2: ["grid={scenario.agents: [10], method.support.size: [8, 16, 32]}"],
    3: ["scenario.agents=3", "variants.landmine.scenario.agents=3"],
    4: ["scenario.agents=3", "variants.landmine.scenario.agents=3"],
}


@pytest.mark.parametrize("number", TIMES)
def test_our_times_stand_beside_those_published(
    number: int, tiny: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = [*FEW, *SMALLER[number]]
    run = fedsim.run(TIMES[number], overrides=settings, data_dir=tiny, jobs=1)
    name = f"fbo-fedgp-table-{number}"
    found, table = fedsim.compare_problems(run, published=name), read_published(name)
    assert found.beside is not None
    assert found.metric.name == "seconds"
    # Every one of our cells has a published one, which is that of its row and column.
    assert found.cells.keys() == found.beside.values.keys()
    assert {
        (problem, method.rpartition("=")[2]): value
        for (problem, method), value in found.beside.values.items()
    } == {
        (row, column): value
        for row, own in table.values.items()
        if row in found.problems
        for column, value in own.items()
    }
    assert all(one.score > 0 for one in found.cells.values())
    capsys.readouterr()
    assert run_command(["compare", str(run.folder), "--published", name]) == 0
    out = capsys.readouterr().out
    assert out.startswith("wall seconds of the whole run")
    assert f"published: FBO-FedGP, Table {number}." in out


def test_table_1_stands_beside_ours(tiny: Path, here: Path) -> None:
    fewer = ["scenario.agents=3", "scenario.dimension=2", "grid={scenario.function: [F1, F5]}"]
    settings = [*(one for one in FEW if "rows" not in one), *fewer, "seeds=0"]
    run = fedsim.run("cec2005-all", overrides=settings, data_dir=tiny, jobs=1)
    found = fedsim.compare_problems(run, baseline="FBO-FedGP", published="fbo-fedgp-table-1")
    assert (found.metric.name, found.metric.best_agent) == ("best_noiseless", True)
    assert found.problems == ("F1", "F5")
    assert found.methods == ("random search", "GP-UCB", "FTS", "FBO-FedGP", "FBO-FedGP-TR")
    assert found.beside is not None
    ours = {place: one for place, one in found.beside.values.items() if place in found.cells}
    assert ours == {
        ("F1", "FTS"): 143.14,
        ("F1", "FBO-FedGP"): -268.49,
        ("F5", "FTS"): 1.69e4,
        ("F5", "FBO-FedGP"): 1.12e3,
    }


def test_the_files_have_all_that_is_published() -> None:
    """In numbers of clients, rounds and support points; what is smaller above is whole here."""
    cells = {
        number: [
            (str(one.scenario.get("dataset", one.scenario["name"])), one.scenario["agents"], one)
            for one in prepare(name, (), None).variants.values()
        ]
        for number, name in TIMES.items()
    }
    assert all(one.rounds == 50 for found in cells.values() for _, _, one in found)
    sizes = (8, 16, 32)
    two, three, four = cells.values()
    found = {(name, agents, one.method["support"]["size"]) for name, agents, one in two}
    assert found == {("cdc_diabetes", agents, size) for agents in (10, 20, 30) for size in sizes}
    # None is the usual number: 30, 30 and 9, as in the paper; tested in test_tabular.
    clients = {"credit_default": None, "cdc_diabetes": None, "support2": None, "landmine": 29}
    found = {(name, agents, one.method["support"]["size"]) for name, agents, one in three}
    assert found == {(name, agents, size) for name, agents in clients.items() for size in sizes}
    schedules = read_published("fbo-fedgp-table-4").values["landmine"]
    mixed = {(name, agents, one.method["mixing"]) for name, agents, one in four}
    assert mixed == {(name, agents, p) for name, agents in clients.items() for p in schedules}
