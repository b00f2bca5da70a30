"""p_t as configured: a formula, a constant, or a user's class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim.errors import ConfigError, RunError, UserCodeError
from fedsim.methods.own_probability import own_probability_schedule
from fedsim.record.entries import observations
from fedsim.record.journal import read_journal
from tests.util.bowl import OURS
from tests.util.small import UserModule, small


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 - 1/t", [0.0, 0.5, 0.75]),
        ("1-1/sqrt(t)", [0.0, 1 - 2**-0.5, 0.5]),
        ("1 - 1/t^2", [0.0, 0.75, 0.9375]),
        ("1 - 1/t**0.25", [0.0, 1 - 2**-0.25, 1 - 4**-0.25]),
        ("1 - 1/max(t, 2)^2", [0.75, 0.75, 0.9375]),
        ("1-1/sqrt(max(t,2))", [1 - 2**-0.5, 1 - 2**-0.5, 0.5]),
        ("1 - 1/max(t, 3)", [2 / 3, 2 / 3, 0.75]),
        (0.3, [0.3, 0.3, 0.3]),
        ("1", [1.0, 1.0, 1.0]),
    ],
)
def test_own_probability(text: str | float, expected: list[float]) -> None:
    schedule = own_probability_schedule(text)
    assert [schedule(t) for t in (1, 2, 4)] == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
    "text",
    [
        "1/t",
        "1 - 2/t",
        "1 - 1/t^0",
        "1 - 1/t^.",
        "1 - 1/max(t, 0)",
        "1 - 1/max(t)",
        "",
        1.5,
        -0.1,
        float("nan"),
        "nan",
    ],
)
def test_own_probability_refuses(text: str | float) -> None:
    with pytest.raises(ConfigError, match="own_probability: expected"):
        own_probability_schedule(text)


CLASSES = """
    class Ramp:
        def __init__(self, queries: int = 3):
            self.queries = queries
        def __call__(self, t):
            return float(t > self.queries)

    class Fixed:
        def __init__(self, p: object = 0.5):
            self.p = p
        def __call__(self, t):
            if self.p == "raise":
                raise ValueError("mine")
            return self.p

    class Dumb:
        pass
"""


def run(own_probability: Any, **changes: Any) -> fedsim.Run:
    raw = small("fts-de", rounds=5, **changes)
    raw["method"] |= {"own_probability": own_probability, "subregions": 1}
    return fedsim.run(raw)


@pytest.mark.parametrize(("settings", "last"), [(None, 3), ({}, 3), ({"queries": 1}, 1)])
def test_a_class_of_the_users(
    here: Path, user_module: UserModule, settings: dict[str, Any] | None, last: int
) -> None:
    name = f"{user_module(CLASSES)}:Ramp"
    done = run(name if settings is None else {"name": name, **settings})
    entries = read_journal(done.runs[0].folder.journal)
    found = {(t, record.source) for t, record in observations(entries) if t > 0}
    assert found == {(t, "server" if t <= last else "own") for t in range(1, 6)}


@pytest.mark.parametrize(
    ("name", "settings", "error", "words"),
    [
        ("Fixed", {"p": 1.5}, RunError, r"Fixed: expected a probability .* for t = 1, got 1\.5"),
        ("Fixed", {"p": "text"}, RunError, "expected a probability .* got 'text'"),
        ("Fixed", {"p": None}, RunError, "expected a probability .* got None"),
        ("Fixed", {"p": "raise"}, UserCodeError, "Fixed failed for t = 1: ValueError: mine"),
        ("Fixed", {"q": 1}, ConfigError, "Fixed: its settings: got an unexpected .* 'q'"),
        ("Dumb", {}, ConfigError, r"Dumb: expected a class with __call__\(t\)"),
        ("Fxed", {}, ConfigError, "method.own_probability: .*did you mean 'Fixed'"),
    ],
)
def test_what_is_wrong_with_it_shows_before_the_run(
    here: Path,
    user_module: UserModule,
    name: str,
    settings: dict[str, Any],
    error: type[Exception],
    words: str,
) -> None:
    with pytest.raises(error, match=words) as caught:
        run({"name": f"{user_module(CLASSES)}:{name}", **settings})
    assert not list(here.glob("runs/*"))
    assert not OURS.search(getattr(caught.value, "user_traceback", ""))


def test_a_mapping_names_a_class(here: Path) -> None:
    for given in ({"queries": 3}, {"name": "1 - 1/t"}):
        with pytest.raises(ConfigError, match=r"own_probability\.name: expected a class of yours"):
            run(given)


@pytest.mark.parametrize(
    ("method", "setting"),
    [("fbo-fedgp", "mixing"), ("fbo-fedgp-tr", "own_probability")],
)
def test_all_methods_take_a_class_with_settings(
    here: Path, user_module: UserModule, method: str, setting: str
) -> None:
    config: dict[str, Any] = {
        "scenario": {"name": "functions", "function": "sphere", "dimension": 2, "agents": 3},
        "method": {
            "name": method,
            "encryption": "plain",
            setting: {"name": f"{user_module(CLASSES)}:Ramp", "queries": 1},
            "acquisition": {"candidates": 8, "near": 4, "starts": 1},
        },
        "rounds": 3,
        "backend": "serial",
    }
    table = fedsim.run(config).observations
    assert set(table[table["round"] == 1]["source"]) == {"global"}
    assert set(table[table["round"] > 1]["source"]) == {"own"}
