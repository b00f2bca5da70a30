"""Which variants are the same method on different problems."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fedsim.errors import ConfigError
from fedsim.results.design import Design, arranged
from fedsim.results.entrants import entrants
from tests.util.runs import made_run


def design(
    here: Path, *runs: Mapping[str, Any], labels: list[str] | None = None, **keys: Any
) -> Design:
    """Return the design of runs whose variants have these configurations, by label."""
    made = [
        made_run(
            here / f"r-{i}", dict.fromkeys(configs, lambda seed, t: {}), configs=configs, seeds=1
        )
        for i, configs in enumerate(runs)
    ]
    return arranged(entrants(made, labels)[0], named=labels is not None, **keys)


def config(function: str, name: str, **changes: Any) -> dict[str, Any]:
    scenario = {"name": "cec", "function": function, **changes.pop("scenario", {})}
    settings = {"name": name, **changes.pop("method", {})}
    return {"scenario": scenario, "method": settings, "rounds": 4, "seeds": [0], **changes}


def where(found: Design) -> dict[tuple[str, str], list[str]]:
    return {place: [one.variant for one in own] for place, own in found.cells.items()}


def test_a_grid_of_functions_and_methods(tmp_path: Path) -> None:
    grid = {
        f"function={f}, method={m}": config(f, m)
        for f in ("F1", "F10", "F2")
        for m in ("fts", "ts")
    }
    found = design(tmp_path, grid)
    assert (found.problems, found.methods) == (("F1", "F10", "F2"), ("fts", "ts"))
    assert found.keys == ("scenario.function",)
    assert where(found)["F10", "ts"] == ["function=F10, method=ts"]
    assert found.comparable


def test_labels_name_methods(tmp_path: Path) -> None:
    swept = {
        f"{label}, function={f}": config(f, "fts", method={"beta": beta})
        for f in ("F1", "F2")
        for label, beta in (("Bold", 2), ("Shy", 1))
    }
    assert design(tmp_path, swept).methods == ("Bold", "Shy")


def test_labels_that_name_problems_too_are_replaced_by_settings(tmp_path: Path) -> None:
    configs = {
        "first": config("F1", "fts", method={"beta": 1}),
        "second": config("F1", "fts", method={"beta": 2}),
        "third": config("F2", "fts", method={"beta": 1}),
        "fourth": config("F2", "fts", method={"beta": 2}),
    }
    found = design(tmp_path, configs)
    assert found.methods == ("beta=1", "beta=2")
    assert where(found)["F2", "beta=1"] == ["third"]


def test_a_run_for_each_method_or_problem(tmp_path: Path) -> None:
    runs = [{m: config(f, m)} for f in ("F1", "F2") for m in ("fts", "ts")]
    found = design(tmp_path, *runs)
    assert (found.problems, found.methods) == (("F1", "F2"), ("fts", "ts"))


def test_what_changes_from_problem_to_problem_belongs_to_it(tmp_path: Path) -> None:
    """Table 3 of FBO-FedGP: each data set has its own number of clients."""
    configs = {
        f"dataset={d}, agents={n}, size={size}": config(
            "-", "fbo", scenario={"dataset": d, "agents": n}, method={"size": size}, rounds=n
        )
        for d, n in (("credit", 30), ("support", 9))
        for size in (8, 16)
    }
    found = design(tmp_path, configs)
    assert (found.problems, found.methods) == (("credit", "support"), ("size=8", "size=16"))
    assert found.notes == ("rounds changes from problem to problem",)
    same = design(tmp_path / "again", configs, problem=["scenario.dataset"])
    assert where(same) == where(found)


def test_problems_of_several_keys_name_them(tmp_path: Path) -> None:
    configs = {
        f"{f} {d} {m}": config(f, m, scenario={"dimension": d})
        for f in ("F1", "F2")
        for d in (2, 10)
        for m in ("fts", "ts")
    }
    found = design(tmp_path, configs)
    assert found.problems[:2] == ("function=F1, dimension=2", "function=F1, dimension=10")
    assert found.methods == ("fts", "ts")
    halves = design(tmp_path / "again", configs, problem=["scenario.function"])
    assert halves.problems == ("F1", "F2")
    assert set(halves.methods) == {f"{m}, dimension={d}" for m in ("fts", "ts") for d in (2, 10)}


def test_other_scenarios_are_other_problems(tmp_path: Path) -> None:
    other = {"scenario": {"name": "landmine"}, "rounds": 4}
    configs = {
        "fts": config("F1", "fts"),
        "ts": config("F1", "ts"),
        "fts2": {**other, "method": {"name": "fts"}},
        "ts2": {**other, "method": {"name": "ts"}},
    }
    assert design(tmp_path, configs).problems == ("cec", "landmine")


def test_settings_that_follow_the_problem_may_be_left_out(tmp_path: Path) -> None:
    configs = {
        f"{f} {m}": config(f, m, method={"scale": scale} if m == "fts" else {})
        for f, scale in (("F1", 10), ("F2", 20))
        for m in ("fts", "ts")
    }
    assert not design(tmp_path, configs).comparable
    found = design(tmp_path / "again", configs, method=["method.name"])
    assert (found.methods, found.comparable) == (("fts", "ts"), True)


def test_the_same_seeds_in_two_runs_are_two_methods(tmp_path: Path) -> None:
    run = {f"function={f}": config(f, "fts") for f in ("F1", "F2")}
    assert design(tmp_path, run, run).methods == ("fts (r-0)", "fts (r-1)")
    named = design(tmp_path / "again", run, run, labels=["old", "new"])
    assert (named.methods, named.comparable) == (("old", "new"), True)


def test_one_problem_is_no_design(tmp_path: Path) -> None:
    assert not design(tmp_path, {m: config("F1", m) for m in ("fts", "ts")}).comparable


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"problem": ["scenario.functio"]}, "did you mean 'scenario.function'"),
        ({"method": ["method.betta"]}, "method: no variant has the key 'method.betta'"),
        ({"method": ["method.name"]}, "would be the same method on the same problem"),
    ],
)
def test_mistakes_are_explained(tmp_path: Path, keys: dict[str, Any], message: str) -> None:
    configs = {
        f"{f} {b}": config(f, "fts", method={"beta": b}) for f in ("F1", "F2") for b in (1, 2)
    }
    with pytest.raises(ConfigError, match=message):
        design(tmp_path, configs, **keys)
