"""What is text, a number or a truth in YAML, and that everything comes back as it was."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fedsim.yamltext import format_yaml, parse_yaml


@pytest.mark.parametrize("text", ["no", "on", "Yes", "OFF", "y", "1:30", "190:20:30", "1_000", "="])
def test_words_and_times_are_text(text: str) -> None:
    assert parse_yaml(f"a: {text}") == {"a": text}
    assert parse_yaml(f"{text}: a") == {text: "a"}


@pytest.mark.parametrize("text", ["2026-01-01", "2026-01-01 10:00:00", "1.2.3", "1e", "0o9", "1-2"])
def test_dates_and_what_almost_is_a_number_are_text(text: str) -> None:
    assert parse_yaml(text) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 1e-3),
        ("1.5e3", 1500.0),
        ("-1E+2", -100.0),
        ("+.5", 0.5),
        ("3.", 3.0),
        ("-.inf", -float("inf")),
        ("010", 10),
        ("-7", -7),
        ("0x1F", 31),
        ("0o17", 15),
        ("true", True),
        ("False", False),
        ("~", None),
        ("null", None),
        ("", None),
        ("{<<: {a: 1}, b: 2}", {"a": 1, "b": 2}),
    ],
)
def test_numbers_truths_and_nothing(text: str, value: Any) -> None:
    found = parse_yaml(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{a: 1, a: 2}", "the key 'a' appears twice"),
        ("{1: a, true: b}", "the key 'true' appears twice, as '1' before"),
        ("a: &it {x: *it}", "a value contains itself"),
        ("&it [*it]", "a value contains itself"),
        ("[" * 5000, "nested too deeply"),
        ("a: " + "9" * 5000, "a whole number of 5000 digits is too long"),
    ],
)
def test_what_cannot_be_read_says_why(text: str, message: str) -> None:
    with pytest.raises(yaml.YAMLError, match=message):
        parse_yaml(text)


def test_an_alias_may_be_used_twice() -> None:
    assert parse_yaml("a: &x [1]\nb: [*x, *x]") == {"a": [1], "b": [[1], [1]]}


def test_aliases_of_aliases_are_checked_in_no_time() -> None:
    lines = ["a0: &a0 [x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 40)]
    assert parse_yaml("\n".join(lines))["a39"][0][0]  # 9^39 leaves, of 40 lists


def test_merge_keys_may_be_overridden() -> None:
    assert parse_yaml("a: &x {p: 1, q: 1}\nb: {<<: *x, p: 2}")["b"] == {"p": 2, "q": 1}


PLAIN = st.text() | st.integers() | st.floats(allow_nan=False) | st.booleans() | st.none()
WORDS = st.text("0123456789eE.+-:_oxnyfal~=<,# \n", max_size=6)
VALUES = st.recursive(
    PLAIN | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.text() | WORDS, VALUES, max_size=3))
def test_what_is_written_is_read_back(value: dict[str, Any]) -> None:
    assert parse_yaml(format_yaml(value)) == value
    # And by programs that follow version 1.1, except for numbers that it does not know.
    assert yaml.safe_load(format_yaml({"a": "no", "b": "1:30"})) == {"a": "no", "b": "1:30"}


def test_who_changes_what_was_read_changes_nothing_else() -> None:
    text = "a: &it [1]\nb: *it"
    found = parse_yaml(text)
    assert found["a"] is found["b"]
    found["a"].append(2)
    assert parse_yaml(text) == {"a": [1], "b": [1]}
