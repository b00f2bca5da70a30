"""What a user may write in a configuration, and how it is read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim.config.experiment import prepare
from fedsim.config.model import Config, parse_config, parse_seeds
from fedsim.config.reading import apply_overrides, read_config
from fedsim.config.ready import ready_names
from fedsim.config.registry import METHODS
from fedsim.config.variants import expand_variants
from fedsim.errors import ConfigError
from fedsim.files import NOISE_CONTROL
from fedsim.running.evaluating import evaluate_once
from fedsim.usercode.sources import NO_CODE
from fedsim.yamltext import format_yaml, parse_yaml
from tests.util.small import small


def parse(raw: dict[str, Any]) -> Config:
    return parse_config(raw, NO_CODE)


def expand(raw: dict[str, Any]) -> dict[str, Config]:
    return expand_variants(parse(raw), NO_CODE)


class TestResolved:
    @pytest.mark.parametrize("name", ["synthetic", "digits-svm"])
    def test_ready_configurations_are_accepted_again_unchanged(self, name: str) -> None:
        first = parse(read_config(name)).model_dump(mode="json")
        assert parse(first).model_dump(mode="json") == first

    @pytest.mark.parametrize("method", METHODS)
    def test_every_method_is_accepted_again_unchanged(self, method: str) -> None:
        first = parse(small(method)).model_dump(mode="json")
        assert parse(first).model_dump(mode="json") == first
        assert first["method"]["initial_points"] == 2

    def test_every_default_is_there(self) -> None:
        resolved = parse(small("dp-fts-de")).model_dump(mode="json")
        assert resolved.keys() == Config.model_fields.keys()
        assert resolved["deadlines"] == {"evaluation": 600.0, "start": 180.0, "answer": 60.0}
        assert resolved["method"]["dp"]["sampling_rate"] == 0.25
        assert resolved["method"]["surrogate"]["candidates"] == 20
        assert resolved["seeds"] == [0]

    def test_the_name_is_the_scenarios_if_left_out(self) -> None:
        raw = small()
        del raw["name"]
        assert parse(raw).name == "synthetic"

    def test_what_is_given_is_not_changed(self) -> None:
        raw = small("fts", variants={"a": {"method": {"name": "ts"}}})
        before = repr(raw)
        expand(raw)
        assert repr(raw) == before


class TestSeeds:
    @pytest.mark.parametrize(
        ("text", "seeds"),
        [(3, [3]), ("3", [3]), ("0-3", [0, 1, 2, 3]), ("1, 4,7-8", [1, 4, 7, 8]), ([5, 2], [5, 2])],
    )
    def test_ways_to_write_them(self, text: Any, seeds: list[int]) -> None:
        assert parse_seeds(text) == seeds
        assert parse(small(seeds=text)).seeds == seeds

    @pytest.mark.parametrize("text", ["-1", "a", "1-", "1-x", "", "3-1", "1.5", "--1", "²"])
    def test_what_is_no_seed(self, text: str) -> None:
        with pytest.raises(ConfigError, match="seeds: "):
            parse(small(seeds=text))

    @pytest.mark.parametrize("value", [True, -1, [0, -1], [1.5], [], {"a": 1}, None, [True]])
    def test_other_values(self, value: Any) -> None:
        with pytest.raises(ConfigError, match="seeds"):
            parse(small(seeds=value))

    @pytest.mark.parametrize("value", [10**18, str(10**18), [0, 10**30], f"0-{10**18}", "9" * 5000])
    def test_too_large_ones_are_refused(self, value: Any) -> None:
        words = r"^seeds(\.1)?: expected .*at most 999,999,999,999,999,999, got "
        with pytest.raises(ConfigError, match=words):
            parse(small(seeds=value))

    def test_the_largest_seed_is_read_again(self, here: Path) -> None:
        largest = 10**18 - 1
        run = fedsim.run(small(seeds=largest))
        assert fedsim.load(run.folder).rounds["seed"].unique().tolist() == [largest]

    def test_repeated_ones_are_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"seeds: expected different seeds, got \[1, 1\]"):
            parse(small(seeds="1,1"))


class TestOverrides:
    @pytest.mark.parametrize(
        ("assignment", "value"),
        [
            ("a.b=2", 2),
            ("a.b=1e-3", 1e-3),
            ("a.b=x=y", "x=y"),
            ("a.b=null", None),
            ("a.b=", None),
            ("a.b=[1, 2]", [1, 2]),
            ("a.b={c: 1}", {"c": 1}),
            ("a.b='3'", "3"),
            (" a.b =1 - 1/t", "1 - 1/t"),
        ],
    )
    def test_values_are_yaml(self, assignment: str, value: Any) -> None:
        assert apply_overrides({"a": {"b": 1, "d": 4}}, [assignment]) == {"a": {"b": value, "d": 4}}

    def test_sections_are_made(self) -> None:
        assert apply_overrides({"a": None}, ["a.b.c=1"]) == {"a": {"b": {"c": 1}}}

    @pytest.mark.parametrize("key", ["method", "scenario.name", "variants.a.method"])
    def test_a_module_without_a_class_is_a_name(self, key: str) -> None:
        found: Any = apply_overrides({}, [f"{key}= mine: "])
        for part in key.split("."):
            found = found[part]
        assert found == "mine:"

    def test_other_mappings_stay(self) -> None:
        assert apply_overrides({}, ["method={a: }", "x=y:"]) == {
            "method": {"a": None},
            "x": {"y": None},
        }

    @pytest.mark.parametrize("key", ["a..b", ".a", "a.", "a. .b"])
    def test_names_without_letters(self, key: str) -> None:
        with pytest.raises(ConfigError, match="expected names with one dot between them"):
            apply_overrides({"a": {"b": 1}}, [f"{key}=1"])

    def test_the_last_one_wins_and_the_original_stays(self) -> None:
        raw = {"a": 1}
        assert apply_overrides(raw, ["a=2", "a=3"]) == {"a": 3}
        assert raw == {"a": 1}

    @pytest.mark.parametrize(
        ("assignment", "message"),
        [
            ("a", "expected key=value, got 'a'"),
            ("=1", "expected key=value, got '=1'"),
            ("a.b.c=1", "a.b.c: 'b' has no keys of its own"),
            ("a.b=[1", "a.b: cannot read the value"),
            ("a.b={c: 1, c: 2}", "a.b: cannot read the value"),
        ],
    )
    def test_what_is_wrong(self, assignment: str, message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            apply_overrides({"a": {"b": 1}}, [assignment])

    @pytest.mark.parametrize("given", ["rounds=2", {"rounds": 2}, ["rounds=2", 3], None])
    def test_they_are_a_list_of_texts(self, given: Any) -> None:
        told = re.escape("null" if given is None else repr(given))
        words = rf"overrides: expected a list of texts .* such as \['rounds=2'\], got {told}$"
        with pytest.raises(ConfigError, match=words):
            apply_overrides({}, given)
        with pytest.raises(ConfigError, match=words):
            evaluate_once("synthetic", [0.5], overrides=given)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"rounds": True}, "rounds: expected a number, got true"),
        ({"rounds": None}, "rounds: expected a whole number, got null"),
        ({"seeds": True}, "seeds: expected .*, got true"),
        ({"scenario": {"name": False}}, "scenario.name: expected a name, got false"),
        ({"grid": {"rounds": True}}, "grid.rounds: expected a list of values, got true"),
    ],
)
def test_booleans_are_told_as_yaml_has_them(raw: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(small(**raw))


class TestWhatIsWrong:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"raunds": 3}, "raunds: unknown key; did you mean 'rounds'"),
            ({"privacy": {"detla": 0.1}}, "privacy.detla: unknown key; did you mean 'delta'"),
            ({"deadlines": {"x": 1}}, "deadlines.x: unknown key; valid names: answer, eval"),
            ({"rounds": 0}, "rounds: expected a number of at least 1, got 0"),
            ({"rounds": True}, "rounds: expected a number, got true"),
            ({"rounds": None}, "rounds: expected a whole number, got null"),
            ({"rounds": float("nan")}, "rounds: .*finite number, got nan"),
            ({"privacy": {"delta": 1}}, "privacy.delta: expected a number below 1, got 1"),
            ({"privacy": {"delta": float("nan")}}, "privacy.delta: .*got nan"),
            ({"privacy": {"budget": float("inf")}}, "privacy.budget: .*finite number, got inf"),
            ({"deadlines": {"evaluation": 0}}, "deadlines.evaluation: expected a number above 0"),
            ({"deadlines": None}, "deadlines: .*got null"),
            ({"backend": "dask"}, "backend: expected 'auto', 'serial' or 'ray', got 'dask'"),
            ({"rounds": 10**20}, "rounds: expected a number of at most 1,000,000, got 1000"),
            (
                {"agents_per_actor": 0},
                "agents_per_actor: expected 'auto', or a number of at least 1, got 0",
            ),
            ({"scenario": 3}, "scenario: expected a name, or a mapping with a name, got 3"),
            ({"scenario": {}}, "scenario.name: missing"),
            ({"method": {"name": 5}}, "method.name: expected a name, got 5"),
            ({"method": {"name": None}}, "method.name: missing"),
            ({"variants": {"a": 3}}, "variants.a: .*got 3"),
            ({"variants": {0.5: {}, "0.5": {}}}, "variants: two have the label 0.5"),
            ({"variants": {"a": {"seeds": 3}}}, "variants.a: seeds: unknown key; valid names: "),
            (
                {"variants": {"a": {"method": 3}}},
                "variants.a: method: expected a name, or a map.*3",
            ),
            ({"variants": {"a": {"method": {"x": 1}}}}, "variants.a: method.x: unknown key"),
            ({"variants": {"a": {"rounds": 0}}}, "variants.a: rounds: .*got 0"),
            ({"variants": {"a b": {}, "A-b": {}}}, "'a b' and 'A-b' would share the folder A-b"),
            ({"variants": {"a": {"method.dp": 1}}}, r"variants.a: method.dp: .* method: \{dp: 1\}"),
            ({1: 2}, "1: expected text as a key, got 1"),
        ],
    )
    def test_is_named(self, changes: dict[Any, Any], message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            expand({**small(), **changes})

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"metod": "ts"}, "metod: unknown key; did you mean 'method'?"),
            ({"method.name": "ts"}, 'method.name: unknown key; .* write method: {name: "ts"}'),
            (
                {"algorithm": "ts"},
                "method: missing; it has no default; got 'algorithm' in its place",
            ),
            ({"method": {"nam": "ts"}}, "method.nam: unknown key; did you mean 'name'?"),
            (
                {"method": {"initial_points": 1}},
                "method.name: missing; .*; got 'initial_points' .*",
            ),
            ({"method": "ts", "on_error": {"rety": 2}}, "on_error.rety: .* did you mean 'retry'?"),
        ],
    )
    def test_a_misspelt_key_that_is_required_is_what_was_got(
        self, changes: dict[str, Any], message: str
    ) -> None:
        raw = {key: value for key, value in small().items() if key != "method"}
        with pytest.raises(ConfigError) as caught:
            parse({**raw, **changes})
        assert re.fullmatch(re.sub(r"([?{}])", r"\\\1", message), str(caught.value))

    @pytest.mark.parametrize(
        ("changes", "nested"),
        [
            ({"method.dp.epsilon": 3}, "method: {dp: {epsilon: 3}}"),
            ({"privacy.budget": None}, "privacy: {budget: null}"),
            ({"method": {"name": "dp-fts-de", "dp.epsilon": 3}}, "dp: {epsilon: 3} in method"),
            ({"privacy.budget": Path("x")}, f"privacy: {{budget: {Path('x')!r}}}"),
            ({"agents": 9}, "scenario: {agents: 9}"),
            ({"budget": 9}, "privacy: {budget: 9}"),
            ({"method": "dp-fts-de", "epsilon": 2}, "method: {dp: {epsilon: 2}}"),
            ({"method": "ts", "beta": 2}, "method: {surrogate: {beta: 2}}"),
        ],
    )
    def test_keys_with_dots_or_out_of_place_show_how_to_nest(
        self, changes: dict[str, Any], nested: str
    ) -> None:
        with pytest.raises(ConfigError) as caught:
            parse({**small(), **changes})
        assert str(caught.value).lower().endswith(f" write {nested.lower()}")

    @pytest.mark.parametrize("key", ["iterations", "parameters", "objective", "jobs"])
    def test_only_near_names_are_suggested(self, key: str) -> None:
        with pytest.raises(ConfigError, match=f"{key}: unknown key; valid names: address, agents_"):
            parse({**small(), key: 1})

    @pytest.mark.parametrize("text", ["1_000", "1__0", "0x_f", "1:30", "१०", "1,000", "'1_0'"])
    def test_whole_numbers_are_those_of_yaml_1_2(self, here: Path, text: str) -> None:
        words = r"rounds: expected a whole number, got "
        Path("mine.yaml").write_text(format_yaml(small()).replace("rounds: 2", f"rounds: {text}"))
        for given in (
            {"source": "mine.yaml"},
            {"source": small(), "overrides": [f"rounds={text}"]},
            {"source": small(rounds=text.strip("'"))},
            {"source": small(variants={"a": {"rounds": text.strip("'")}})},
        ):
            with pytest.raises(ConfigError, match=words):
                prepare(**given)

    @pytest.mark.parametrize(
        ("key", "text", "meant"),
        [
            ("rounds", "1_000", "; did you mean 1000?"),
            ("deadlines.answer", "1_0.5", "; did you mean 10.5?"),
            ("privacy.delta", "1_0e-3", "; did you mean 0.01?"),
            ("scenario.agents", "1_0", "; did you mean 10?"),
        ],
    )
    def test_numbers_that_only_python_reads_show_what_is_meant(
        self, here: Path, key: str, text: str, meant: str
    ) -> None:
        kind = "a number" if "." in text or "e" in text else "a whole number"
        with pytest.raises(ConfigError) as caught:
            prepare(small(), [f"{key}={text}"])
        assert str(caught.value) == f"{key}: expected {kind}, got {text!r}{meant}"

    def test_quoted_numbers_are_understood(self, here: Path) -> None:
        given = ["rounds='7'", "deadlines.answer=' 2.5 '", "scenario.agents=0x3", "seeds=['4']"]
        config = prepare(small(), given).config
        found = config.rounds, config.deadlines.answer, config.scenario["agents"], config.seeds
        assert found == (7, 2.5, 3, [4])
        assert prepare(small(rounds=1_000)).config.rounds == 1000  # in Python

    @pytest.mark.parametrize("value", ["yes", "on", "y", "no", "off", "1", 1, 0, 0.0])
    def test_booleans_are_those_of_yaml_1_2(self, value: Any) -> None:
        meant = "false" if value in ("no", "off", 0) else "true"
        with pytest.raises(ConfigError) as caught:
            parse(small(transcript=value))
        assert str(caught.value) == (
            f"transcript: expected true or false, got {value!r}; did you mean {meant}?"
        )
        settings = {"name": "dp-fts-de", "dp": {"noise_only": value}}
        with pytest.raises(ConfigError, match=r"method.dp.noise_only: expected true or false"):
            parse({**small(), "method": settings})

    @pytest.mark.parametrize(("text", "value"), [("true", True), ("False", False), ("TRUE", True)])
    def test_quoted_booleans_are_understood_like_quoted_numbers(
        self, text: str, value: bool
    ) -> None:
        found = parse(small(transcript=text, rounds="7"))
        assert (found.transcript, found.rounds) == (value, 7)

    WRONG: tuple[tuple[str, tuple[Any, ...]], ...] = (
        ("seeds", ([], None, 1.5, {"a": 1}, [1.5], ["x"], [-1])),
        ("on_error", ("retry", None, {"retry": 0}, {"retry": "x"}, 3)),
        ("rounds", (0, 1.5, "ten", None, 2_000_000, [1, 2], {})),
        ("agents_per_actor", (0, "many", None, 1.5)),
        ("address", (10, {"a": 1})),
        ("privacy", (3, None, [], {"delta": 1}, {"budget": "much"}, {"accountant": "x"})),
        ("deadlines", (60, {"start": 0}, {"answer": "1m"})),
        ("resources", (2, [], {"cpus": "x"})),
        ("availability", (2, [], [0.5, 2], "x", {0: 1}, None)),
        ("variants", (["a"], "a", {"a": 3}, {"a": {"rounds": "x"}})),
        ("name", ([1], {"a": 1})),
        *((key, (3,)) for key in ("grid", "zip", "noise_control", "transcript", "method")),
    )

    @pytest.mark.parametrize(
        ("key", "value"), [(key, value) for key, values in WRONG for value in values]
    )
    def test_messages_say_what_was_expected_in_the_words_of_a_configuration(
        self, key: str, value: Any
    ) -> None:
        with pytest.raises(ConfigError, match=r": expected .*, got ") as caught:
            expand({**small(), key: value})
        jargon = r"input|valid|string|integer|dict|instance|parse|item|validation|Config|type"
        assert not re.search(jargon, str(caught.value))

    def test_a_missing_section(self) -> None:
        raw = small()
        del raw["method"]
        with pytest.raises(ConfigError, match="method: missing; it has no default"):
            parse(raw)

    def test_only_configurations_are_valid_names(self, here: Path) -> None:
        for name, text in (("mine", "scenario: synthetic"), ("broken", "{"), ("other", "a: 1")):
            Path(f"{name}.yaml").write_text(text)
        with pytest.raises(ConfigError, match=r"nofile: neither .*valid names: ") as caught:
            read_config("nofile")
        assert "mine.yaml" in str(caught.value)
        assert not {"broken.yaml", "other.yaml"} & set(re.split(r"[ ,]+", str(caught.value)))

    def test_a_ready_name_that_does_not_exist(self) -> None:
        with pytest.raises(
            ConfigError, match=r"syntetic: neither a file .* did you mean 'synthetic'"
        ):
            read_config("syntetic")
        assert "synthetic" in ready_names()


class TestWords:
    """What YAML would read as something else, and what people write for short."""

    def test_a_name_stands_for_a_section(self) -> None:
        raw = {**small(), "scenario": "synthetic", "method": "fts"}
        found = expand({**raw, "variants": {"a": {"method": "ts"}}})["a"]
        assert found.scenario == parse(small(scenario={"name": "synthetic"})).scenario
        assert found.method == parse({**small(), "method": {"name": "ts"}}).method

    def test_labels_may_look_like_numbers(self) -> None:
        text = "{0.5: {rounds: 1}, 2: {rounds: 2}, no: , true: , null: , 学习: , 联邦: }"
        found = expand(small(variants=parse_yaml(text)))
        assert list(found) == ["0.5", "2", "no", "true", "null", "学习", "联邦"]
        assert [found[label].rounds for label in ("0.5", "2", "no")] == [1, 2, 2]

    @pytest.mark.parametrize("name", ["no", "2026-01-01", "3", "1:30"])
    def test_names_may_look_like_anything(self, name: str) -> None:
        raw = {**small(), **parse_yaml(f"name: {name}")}
        assert parse(raw).name == name

    @pytest.mark.parametrize(
        ("source", "message"),
        [
            ("Synthetic", "did you mean 'synthetic'"),
            ("sub/sweep.yml", r"sub/sweep\.yml: neither a file .*did you mean 'sub/sweep\.yaml'"),
            ("obj.py", "obj.py: a Python file; expected a configuration, .* may be obj:Class"),
        ],
    )
    def test_a_source_that_is_none_shows_the_nearest(
        self, here: Path, source: str, message: str
    ) -> None:
        (here / "sub").mkdir()
        (here / "sub" / "sweep.yaml").touch()
        with pytest.raises(ConfigError, match=message):
            read_config(source)

    def test_a_tilde_is_the_users_folder(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(here))
        (here / "mine.yaml").write_text("rounds: 3")
        assert read_config("~/mine.yaml") == {"rounds": 3}


class TestVariants:
    def test_without_variants_there_is_one_curve_named_like_its_method(self) -> None:
        (label,) = expand(small("fts"))
        assert label == "fts"

    def test_overrides_are_merged_deeply(self) -> None:
        variants = {"few": {"method": {"message": {"features": 4}}, "rounds": 7}, "base": {}}
        found = expand(small("dp-fts-de", variants=variants))
        assert list(found) == ["few", "base"]
        assert found["few"].method["message"]["features"] == 4
        assert found["few"].method["surrogate"] == found["base"].method["surrogate"]
        assert (found["few"].rounds, found["base"].rounds) == (7, 2)
        assert found["few"].variants == {}

    def test_another_method_inherits_what_it_knows(self) -> None:
        found = expand(small("fts", variants={"ts": {"method": {"name": "ts"}}}))["ts"].method
        assert found["initial_points"] == 2
        assert found["surrogate"]["candidates"] == 20
        assert "dp" not in found

    def test_groups_of_another_kind_are_not_inherited(self) -> None:
        """``surrogate`` of FBO-FedGP and of FTS have the name in common, not the settings."""
        variants = {name: {"method": {"name": name}} for name in ("fbo-fedgp", "fts")}
        for base in variants:
            found = expand(small(base, variants=variants))
            assert "noise_ratio" in found["fbo-fedgp"].method["surrogate"]
            assert "noise_variance" in found["fts"].method["surrogate"]
            assert found["fts"].method["initial_points"] == 2

    def test_what_the_names_fix_is_not_inherited(self) -> None:
        """A private variant of a method without privacy is private."""
        variants = {name: {"method": {"name": name}} for name in ("fts", "fts-de", "dp-fts-de")}
        for base in variants:
            found = expand(small(base, variants=variants))
            assert (found["fts"].method["subregions"], found["fts"].method["dp"]) == (1, None)
            assert (found["fts-de"].method["subregions"], found["fts-de"].method["dp"]) == (2, None)
            assert found["dp-fts-de"].method["subregions"] == 2
            assert found["dp-fts-de"].method["dp"]["noise_multiplier"] == 1.0

    def test_another_scenario_inherits_what_it_knows(self) -> None:
        other = {"scenario": {"name": "digits-svm", "partition": {"minimum": 2}}}
        found = expand(small(variants={"svm": other}))["svm"].scenario
        partition = {"kind": "dirichlet", "concentration": 0.5, "minimum": 2}
        assert found == {"name": "digits-svm", "agents": 3, "scale": "log", "partition": partition}


class TestNoiseControl:
    def test_every_private_variant_gets_a_twin(self) -> None:
        variants = {"private": {}, "plain": {"method": {"name": "fts-de"}}}
        found = expand(small("dp-fts-de", variants=variants, noise_control=True))
        twin = "private" + NOISE_CONTROL
        assert list(found) == ["private", twin, "plain"]
        expected = found["private"].model_dump()
        expected["method"]["dp"]["noise_only"] = True
        assert found[twin].model_dump() == expected
        assert found["private"].method["dp"]["noise_only"] is False

    def test_where_nothing_is_private_it_is_an_error(self) -> None:
        with pytest.raises(ConfigError, match="noise_control: no variant is private"):
            expand(small("fts", noise_control=True))
