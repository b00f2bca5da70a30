"""Dotted keys of configurations."""

from __future__ import annotations

import pytest

from fedsim.keys import by_key, ends, short_names, value_text


def test_a_configuration_by_its_keys() -> None:
    config = {"rounds": 3, "method": {"name": "ts", "surrogate": {"beta": [1, 2]}}, "zip": {}}
    assert by_key(config) == {"rounds": 3, "method.name": "ts", "method.surrogate.beta": [1, 2]}


def test_ends_of_a_key() -> None:
    assert ends("a.b.c") == ["c", "b.c", "a.b.c"]


@pytest.mark.parametrize(
    ("value", "text"), [("F1", "F1"), (1e-3, "0.001"), ([1, 2], "[1,2]"), (None, "null")]
)
def test_values_are_written_as_labels_have_them(value: object, text: str) -> None:
    assert value_text(value) == text


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        (["method.dp.epsilon", "rounds"], ["epsilon", "rounds"]),
        (
            ["method.message.length_scale", "method.surrogate.length_scale"],
            ["message.length_scale", "surrogate.length_scale"],
        ),
        (["method.name", "scenario.name"], ["method", "scenario"]),
        (["method", "method.surrogate"], ["method", "surrogate"]),
        (["scenario.agents", "method.agents"], ["scenario.agents", "method.agents"]),
        (["method.a", "method.b.a"], ["method.a", "b.a"]),
    ],
)
def test_names_are_as_short_as_they_may_be(keys: list[str], names: list[str]) -> None:
    assert list(short_names(keys).values()) == names
