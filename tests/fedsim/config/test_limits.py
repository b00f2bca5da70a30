"""Counts with too many zeros, and the memory that others need at least."""

from __future__ import annotations

from typing import Any

import pytest

from fedsim.config.construct import section_schema
from fedsim.config.experiment import prepare
from fedsim.config.limits import LARGEST, check_counts, largest_need
from fedsim.config.model import Config
from fedsim.config.registry import METHODS, SCENARIOS
from fedsim.config.words import places_of
from fedsim.errors import ConfigError
from fedsim.usercode.sources import NO_CODE
from tests.util.small import small


@pytest.mark.parametrize("key", LARGEST)
def test_every_limit_is_of_a_setting(key: str) -> None:
    section, _, rest = key.partition(".")
    names: Any = SCENARIOS if section == "scenario" else METHODS
    schemas = [section_schema(section, name, NO_CODE) for name in names]
    last = rest.rpartition(".")[2]
    assert any(key in places_of(last, one, section) for one in schemas)


@pytest.mark.parametrize("key", LARGEST)
def test_what_is_above_is_refused(key: str) -> None:
    section, _, rest = key.partition(".")

    def settings(value: int) -> dict[str, Any]:
        group, _, last = rest.rpartition(".")
        return {group: {last: value}} if group else {last: value}

    check_counts(section, settings(LARGEST[key]))
    for value in (LARGEST[key] + 1, 10**9, 10**400):
        with pytest.raises(ConfigError, match=rf"^{key}: expected at most [0-9,]+, got [0-9,]+"):
            check_counts(section, settings(value))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"scenario": {"name": "synthetic", "agents": 10**9}},
            "scenario.agents: expected at most 1,000,000, got 1,000,000,000",
        ),
        (
            {"grid": {"method.message.features": [10**9]}},
            "grid.method.message.features: expected at most 1,000,000, got 1,000,000,000",
        ),
        (
            {"variants": {"a": {"scenario": {"grid_size": 10**9}}}},
            "variants.a: scenario.grid_size: expected at most 10,000,000, got 1,000,000,000",
        ),
    ],
)
def test_the_key_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        prepare(small("fts", **changes))
    assert str(caught.value) == message


def config(**method: Any) -> dict[str, Any]:
    sections = Config.model_validate(
        {"scenario": "s", "method": {"name": "m", **method}, "rounds": 1}
    )
    return {"scenario": sections.scenario, "method": sections.method}


def test_the_largest_need_is_told_with_its_numbers() -> None:
    few = largest_need(config(), 10, 3)
    assert (few.megabytes, few.words) == (0.01, "10 agents")
    messages = largest_need(config(message={"features": 50_000}), 1_000, 3)
    assert messages.megabytes == 8 * 50_000 * 1_000 / 1e6
    assert messages.words == "a table of 1,000 agents and 50,000 (method.message.features)"
    square = largest_need(config(support={"size": 20_000}), 10, 3)
    assert square.megabytes == 3_200
    assert square.words == "a table of 20,000 (method.support.size)"
