"""Sweeps: every value with every other, or side by side, with labels that say which."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.config.experiment import prepare
from fedsim.config.model import Config, parse_config
from fedsim.config.sweeps import flattened, swept
from fedsim.config.variants import expand_variants
from fedsim.errors import ConfigError
from fedsim.files import slugify
from fedsim.usercode.sources import NO_CODE
from fedsim.yamltext import parse_yaml
from tests.util.small import small


def expand(raw: dict[str, Any]) -> dict[str, Config]:
    return expand_variants(parse_config(raw, NO_CODE), NO_CODE, raw)


SWEEP = """
    scenario: {name: synthetic, agents: 3, grid_size: 20, length_scale: 0.2}
    method: {name: dp-fts-de, initial_points: 2, message: {features: 8}}
    rounds: 2
    seeds: 0-4
    grid:
      method.dp.noise_multiplier: [0.5, 1.0, 2.0]
      method.subregions: [1, 2]
      method.dp.sampling_rate: [0.1, 0.25, 0.5]
"""


class TestGrid:
    def test_a_sweep_of_18_settings_and_5_seeds_in_a_few_lines(self) -> None:
        assert len(SWEEP.strip().splitlines()) <= 20
        found = expand(parse_yaml(SWEEP))
        told = {
            (
                v.method["dp"]["noise_multiplier"],
                v.method["subregions"],
                v.method["dp"]["sampling_rate"],
            )
            for v in found.values()
        }
        assert told == set(itertools.product([0.5, 1.0, 2.0], [1, 2], [0.1, 0.25, 0.5]))
        assert len(found) == 18
        assert next(iter(found)) == "noise_multiplier=0.5, subregions=1, sampling_rate=0.1"
        assert all(variant.seeds == [0, 1, 2, 3, 4] for variant in found.values())
        assert all(variant.method["message"]["features"] == 8 for variant in found.values())

    def test_the_resolved_configuration_has_the_variants_it_stands_for(self) -> None:
        resolved = parse_config(small(grid={"rounds": [1, 2]}), NO_CODE).model_dump(mode="json")
        assert resolved["variants"] == {"rounds=1": {"rounds": 1}, "rounds=2": {"rounds": 2}}
        assert (resolved["grid"], resolved["zip"]) == ({}, {})
        assert parse_config(resolved, NO_CODE).model_dump(mode="json") == resolved

    def test_methods_are_crossed_with_settings_that_all_have(self) -> None:
        grid = {"method.surrogate.beta": [1, 2], "method": ["ts", "fts"]}
        found = expand(small("fts", grid=grid))
        assert [(v.method["name"], v.method["surrogate"]["beta"]) for v in found.values()] == [
            ("ts", 1.0),
            ("fts", 1.0),
            ("ts", 2.0),
            ("fts", 2.0),
        ]
        assert next(iter(found)) == "beta=1, method=ts"

    def test_variants_are_swept_too(self) -> None:
        variants = {"alone": {"method": "ts"}, "together": {}}
        found = expand(small("fts", variants=variants, grid={"method.initial_points": [1, 2]}))
        assert [
            (label, v.method["name"], v.method["initial_points"]) for label, v in found.items()
        ] == [
            ("alone, initial_points=1", "ts", 1),
            ("alone, initial_points=2", "ts", 2),
            ("together, initial_points=1", "fts", 1),
            ("together, initial_points=2", "fts", 2),
        ]

    def test_keys_may_be_nested_as_on_the_command_line(self, here: Path) -> None:
        experiment = prepare(small("fts"), ["grid.method.surrogate.beta=[1, 2]"])
        assert list(experiment.variants) == ["beta=1", "beta=2"]

    def test_values_may_be_anything(self) -> None:
        values = [None, True, [0.5, 0.5, 1], "text", {"a": 1}]
        labels = list(swept({}, {"method.x": values}, {}))
        assert labels == ["x=null", "x=true", "x=[0.5,0.5,1]", "x=text", 'x={"a":1}']

    def test_a_setting_that_a_method_lacks_names_the_variant(self) -> None:
        grid = {"method": ["ts", "fts"], "method.subregions": [1]}
        expected = (
            "^grid.method.subregions: in the variant method=ts, subregions=1: unknown key; valid"
        )
        with pytest.raises(ConfigError, match=expected):
            expand(small("fts", grid=grid))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grid": {"rounds": [0, 3]}}, "grid.rounds: expected a number of at least 1, got 0"),
        ({"zip": {"rounds": ["x", 3]}}, "zip.rounds: expected a whole number, got 'x'"),
        (
            {"variants": {"a": {}}, "zip": {"rounds": [0, 3], "scenario.agents": [2, 3]}},
            "zip.rounds: in the variant a, rounds=0, agents=2: expected a number of at least 1",
        ),
        ({"grid": {"method": ["fts", "nope"]}}, "grid.method.name: unknown name 'nope'; valid "),
        ({"grid": {"method.dp.nois": [1]}}, "grid.method.dp.nois: fts fixes it at null, got "),
        (
            {"variants": {"a": {"rounds": 0}}, "grid": {"scenario.agents": [2]}},
            "grid: variant a, agents=2: rounds: expected a number of at least 1, got 0",
        ),
        (
            {"variants": {"a": {"rounds": 3}}, "zip": {"rounds.x": [2]}},
            "zip.rounds.x: in the variant a, x=2: rounds is 3 there, which has no keys",
        ),
        ({"zip": {"rounds": [3, 3]}}, "zip: two variants would be called rounds=3"),
        ({"grid": {"privacy": {"delta": [2]}}}, "grid.privacy.delta: expected a number below 1"),
        ({"variants": {"a": {"rounds": 0}}}, "variants.a: rounds: expected a number of at least"),
    ],
)
def test_what_is_wrong_is_named_as_it_was_written(
    here: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        prepare(small("fts", **changes))
    assert str(caught.value).startswith(message)


class TestZip:
    def test_lists_are_read_side_by_side(self) -> None:
        side = {"scenario.agents": [2, 3], "rounds": [5, 6]}
        found = expand(small(zip=side))
        assert [(v.scenario["agents"], v.rounds) for v in found.values()] == [(2, 5), (3, 6)]
        assert list(found) == ["agents=2, rounds=5", "agents=3, rounds=6"]

    def test_and_crossed_with_the_grid(self) -> None:
        found = swept({}, {"rounds": [1, 2]}, {"method.a": [3, 4], "method.b": [5, 6]})
        assert list(found.values()) == [
            {"rounds": rounds, "method": {"a": a, "b": b}}
            for rounds in (1, 2)
            for a, b in ((3, 5), (4, 6))
        ]


KEYS = st.lists(st.sampled_from(["rounds", "method.a", "method.b.c", "scenario.a"]), unique=True)


@given(KEYS, st.data())
def test_every_combination_is_there_once(keys: list[str], data: st.DataObject) -> None:
    values = st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True)
    grid = {key: data.draw(values) for key in keys}
    found = swept({"one": {"method": {"d": 1}}, "two": {}}, grid, {})
    expected = list(itertools.product(("one", "two"), *grid.values()))
    assert len(found) == len(expected)
    for changes, (label, *chosen) in zip(found.values(), expected, strict=True):
        told = flattened(changes)
        assert told.pop("method.d", None) == (1 if label == "one" else None)
        assert told == dict(zip(grid, chosen, strict=True))
    assert len({slugify(label) for label in found}) == len(found)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grid": {"rounds": 3}}, "grid.rounds: expected a list of values, got 3"),
        ({"grid": {"rounds": []}}, "grid.rounds: expected a list of values"),
        ({"grid": [1]}, "grid: expected a mapping"),
        ({"grid": {"round": [1]}}, "grid.round: unknown key; did you mean 'rounds'"),
        ({"zip": {"backend": ["ray"]}}, "zip.backend: unknown key"),
        ({"grid": {"seeds": [1]}}, "grid.seeds: every variant runs all seeds; use the key seeds"),
        ({"grid": {"rounds": [1]}, "zip": {"rounds": [1]}}, "zip.rounds: is in grid, too"),
        ({"zip": {"rounds": [1], "method.a": [1, 2]}}, "zip: expected lists of one length"),
        ({"grid": {"rounds": [1, 1]}}, "two variants would be called rounds=1"),
        ({"grid": {"rounds": [1, 2, 1.0]}}, "grid.rounds: 1 and 1.0 are the same; leave one out"),
        (
            {"zip": {"rounds": [1, 1.0], "method.a": [[2.0], [2]]}},
            r"zip.rounds, method.a: 1, \[2.0\] and 1.0, \[2\] are the same; leave one out",
        ),
        (
            {"grid": {"method.x": list(range(200)), "rounds": list(range(60))}},
            "most 10,000 .*12,000",
        ),
        ({"grid": {"rounds": {"a": [1]}}, "variants": {"x": {"rounds": 1}}}, "rounds is 1 there"),
        ({"grid": {"method.a": [1], "method": {"a": [1]}}}, "method.a: appears twice"),
        ({"gird": {"rounds": [1]}}, "gird: unknown key; did you mean 'grid'"),
    ],
)
def test_mistakes_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        expand(small(**changes))
