"""What may change when a run is resumed."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from fedsim.config.changes import BUDGET, FREE, as_records, changes
from fedsim.config.experiment import prepare
from fedsim.config.model import Config
from fedsim.config.reading import apply_overrides
from fedsim.errors import ConfigError
from tests.util.small import small

RAW = small("dp-fts-de", seeds=[0, 1], privacy={"budget": 3.0})

ALLOWED: dict[str, tuple[Any, Any]] = {
    "backend=ray": ("serial", "ray"),
    "agents_per_actor=2": ("auto", 2),
    "address=auto": (None, "auto"),
    "on_error=skip": ("stop", "skip"),
    "deadlines.evaluation=5": (600.0, 5.0),
    "seeds=[1, 0, 2]": ([0, 1], [1, 0, 2]),
    "privacy.budget=3.5": (3.0, 3.5),
    "privacy.budget=null": (3.0, None),
}
REFUSED = {
    "name=other": "name: cannot change",
    "scenario.agents=4": "scenario: cannot change when a run is resumed: what is recorded so far",
    "method.initial_points=3": "method: cannot change",
    "rounds=9": "rounds: cannot change.*: methods know the number of rounds from the start",
    "seeds=1-3": r"seeds: expected the run's own and more, got \[1, 2, 3\] without \[0\]",
    "availability=0.5": "availability: cannot change",
    "variants={a: {}}": "variants: cannot change",
    "grid={rounds: [1, 2]}": "variants: cannot change",
    "zip={rounds: [1, 2]}": "variants: cannot change",
    "noise_control=true": "noise_control: cannot change",
    "transcript=true": "transcript: cannot change.*: what the server received so far",
    "privacy.budget=2": "privacy.budget: expected more than 3.0, or null for no limit, got 2.0",
    "privacy.delta=0.01": "privacy.delta: cannot change",
    "privacy.noise_source=system": "privacy.noise_source: cannot change",
    "privacy.accountant=rdp": "privacy.accountant: cannot change",
    "privacy.accounting=exact": "privacy.accounting: cannot change",
}


def configs(assignment: str) -> tuple[Config, Config]:
    return prepare(deepcopy(RAW)).config, prepare(apply_overrides(RAW, [assignment])).config


def key_of(assignment: str) -> str:
    return assignment.partition("=")[0]


@pytest.mark.parametrize("assignment", ALLOWED)
def test_what_may_change(assignment: str) -> None:
    expected = ALLOWED[assignment]
    assert changes(*configs(assignment)) == {key_of(assignment): expected}


@pytest.mark.parametrize("assignment", ["resources={cpus: 1}", "on_error={retry: 2}"])
def test_settings_with_keys_of_their_own_may_change(assignment: str) -> None:
    (key,) = changes(*configs(assignment))
    assert key == key_of(assignment).split(".")[0]


@pytest.mark.parametrize("assignment", REFUSED)
def test_what_may_not(assignment: str) -> None:
    with pytest.raises(ConfigError, match=REFUSED[assignment]):
        changes(*configs(assignment))


def test_a_budget_cannot_come_later() -> None:
    before, after = (prepare(small("dp-fts-de", privacy=p)).config for p in ({}, {"budget": 9.0}))
    with pytest.raises(ConfigError, match=r"expected null, got 9\.0: the run started without one"):
        changes(before, after)


def test_every_key_is_decided() -> None:
    keys = {key for key in Config.model_fields if key != "privacy"}
    keys |= {f"privacy.{key}" for key in Config.model_fields["privacy"].default.model_dump()}
    looked_at = {key_of(one) for one in (*ALLOWED, *REFUSED)}
    looked_at = {key if key.startswith("privacy") else key.split(".")[0] for key in looked_at}
    assert keys == looked_at | set(FREE)


def test_the_same_value_is_no_change() -> None:
    assert changes(*configs("rounds=2")) == {}


def test_as_records() -> None:
    found = {BUDGET: (1.0, None)}
    expected = [{"at": "now", "key": "privacy.budget", "from": 1.0, "to": None}]
    assert as_records(found, "now") == expected
