"""A class's constructor is its schema, and a user's mistake shows the user's own traceback."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fedsim.config.construct import (
    build_method,
    build_scenario,
    plan_warnings,
    planned_costs,
    resolve_section,
    targets_of,
)
from fedsim.config.spec import RunSpec
from fedsim.errors import ConfigError, RunError, UserCodeError
from fedsim.privacy.events import SubsampledGaussian
from fedsim.usercode.sources import NO_CODE, UserCode
from tests.util.small import UserModule

SCENARIO = """
    from dataclasses import dataclass
    from fedsim.space import Parameter, Space

    @dataclass(frozen=True)
    class Inner:
        depth: int = 1
        __pydantic_config__ = {"extra": "forbid"}

    class Mine:
        direction = "minimize"
        agents = 2
        space = Space((Parameter("x", 0, 1),))

        def __init__(self, scale: float, copy: int = 1, _hidden: str = "h", inner: Inner = Inner(),
                     limits: tuple[float, float] = (0.0, 1.0), loose=3, seed: int = 5):
            self.given = (scale, copy, _hidden, inner, limits, loose, seed)

        def objective(self, agent):
            return lambda point, rng: 0.0
"""


def resolve(section: str, here: Path, **settings: Any) -> dict[str, Any]:
    return resolve_section(section, settings, UserCode.named_in(settings, [here]))


def scenario(here: Path, **settings: Any) -> Any:
    method = {"name": "random-search"}
    code = UserCode.named_in(settings, [here])
    return build_scenario(RunSpec(settings, method, 1, 7, None, code))


class TestSchema:
    def test_every_default_is_filled_in_whatever_its_name(
        self, here: Path, user_module: UserModule
    ) -> None:
        name = f"{user_module(SCENARIO)}:Mine"
        assert resolve("scenario", here, name=name, scale=2) == {
            "name": name,
            "scale": 2.0,
            "copy": 1,
            "_hidden": "h",
            "inner": {"depth": 1},
            "limits": [0.0, 1.0],
            "loose": 3,
        }

    def test_the_class_gets_what_it_names(self, here: Path, user_module: UserModule) -> None:
        name = f"{user_module(SCENARIO)}:Mine"
        built = scenario(here, name=name, scale=2, copy=4, inner={"depth": 3}, limits=[1, 2])
        scale, copy, hidden, inner, limits, loose, seed = built.given
        assert (scale, copy, hidden, limits, loose, seed) == (2.0, 4, "h", (1.0, 2.0), 3, 7)
        assert inner.depth == 3

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"scale": 1, "scael": 1}, "scenario.scael: unknown key; did you mean 'scale'?"),
            ({"scale": 1, "seed": 1}, "scenario.seed: unknown key"),
            ({"scale": 1, "inner": {"dpeth": 1}}, "inner.dpeth: unknown key; did you mean 'depth'"),
            ({}, "scenario.scale: missing; it has no default"),
            ({"scale": "much"}, "scenario.scale: expected a number, got 'much'"),
            ({"scale": None}, "scenario.scale: expected a number, got null"),
            ({"scale": True}, "scenario.scale: expected a number, got true"),
            ({"scale": float("nan")}, "scenario.scale: expected a finite number, got nan"),
            ({"scale": float("inf")}, "scenario.scale: expected a finite number, got inf"),
            ({"scale": 1, "copy": 1.5}, "scenario.copy: expected a whole number, got 1.5"),
            ({"scale": 1, "inner": {"depth": "x" * 200}}, r"inner.depth: .*got 'x{76}\.\.\.$"),
            ({"scale": 1, "inner": {"depth": False}}, "scenario.inner.depth: expected a number"),
            ({"scale": 1, "limits": [0, float("nan")]}, "limits.1: .*finite number, got nan"),
            ({"scale": 1, "loose": float("nan")}, "scenario.loose: expected a number, got nan"),
            ({"scale": 1, "limits": [0, 1, 2]}, "scenario.limits: expected at most 2 values, got"),
        ],
    )
    def test_what_is_wrong_is_named_by_its_path(
        self, here: Path, user_module: UserModule, settings: dict[str, Any], message: str
    ) -> None:
        name = f"{user_module(SCENARIO)}:Mine"
        with pytest.raises(ConfigError, match=message):
            resolve("scenario", here, name=name, **settings)

    @pytest.mark.parametrize(
        ("statement", "told"),
        [
            ("raise ValueError()", "its check raised ValueError"),
            ("assert False", "its check raised AssertionError"),
            ("assert False, 'Too deep'", "too deep"),
            ("raise ValueError('Too deep')", "too deep"),
        ],
    )
    def test_a_check_of_the_users_own(
        self, here: Path, user_module: UserModule, statement: str, told: str
    ) -> None:
        name = user_module(
            f"""
            from dataclasses import dataclass

            @dataclass(frozen=True)
            class Group:
                depth: int = 1
                def __post_init__(self):
                    if self.depth > 1: {statement}

            class Mine:
                def __init__(self, group: Group = Group()): ...
            """
        )
        with pytest.raises(ConfigError) as caught:
            resolve("scenario", here, name=f"{name}:Mine", group={"depth": 2})
        assert str(caught.value) == f"scenario.group: {told}, got {{'depth': 2}}"

    def test_unions_say_everything_that_would_do(self, here: Path) -> None:
        expected = r"method.own_probability: expected text, or a number, or a mapping, got \[1\]$"
        with pytest.raises(ConfigError, match=expected):
            resolve("method", here, name="dp-fts-de", own_probability=[1])

    def test_annotations_that_name_nothing_are_a_clear_error(
        self, here: Path, user_module: UserModule
    ) -> None:
        name = user_module(
            """
            from __future__ import annotations
            class Mine:
                def __init__(self, x: Missing): ...
            """
        )
        with pytest.raises(ConfigError, match=r"Mine: the annotations .*'Missing' is not defined"):
            resolve("scenario", here, name=f"{name}:Mine")


EVENT = SubsampledGaussian(1.0, 1.0, 1.0)

DEFAULTS = """
    import numpy as np
    from numpy.typing import NDArray
    from typing import Any, Callable

    class Mine:
        def __init__(self{setting}): ...

    class Kept:
        direction, agents = "maximize", np.int64(2)
        from fedsim.space import Parameter, Space
        space = Space((Parameter("x", 0, 1),))

        def __init__(self, scale=np.float32(0.5), count: np.int64 = np.int64(3),
                     weights=np.ones(2), typed: NDArray[np.float64] = np.zeros((1, 2)),
                     whole: np.ndarray = np.arange(2), none=np.zeros(0)):
            self.given = (scale, count, weights, typed, whole, none)

        def objective(self, agent): ...
"""


class TestDefaults:
    """A default is written into configurations: it must be plain, or have a plain form."""

    @pytest.mark.parametrize(
        ("setting", "told"),
        [
            ("k=max", "<built-in function max>"),
            ("f: Callable = np.sin", "<ufunc 'sin'>"),
            ("k=object", "<class 'object'>"),
            ("k=np.array([{}, 1], dtype=object)", "array([{}, 1], dtype=object)"),
            ("k=[1, np.sin]", "[1, <ufunc 'sin'>]"),
            ("k: int = np.ones(2)", "array([1., 1.])"),
        ],
    )
    def test_one_that_no_file_can_hold_is_named(
        self, here: Path, user_module: UserModule, setting: str, told: str
    ) -> None:
        name = f"{user_module(DEFAULTS.format(setting=f', j=1, {setting}'))}:Mine"
        with pytest.raises(ConfigError) as caught:
            resolve("scenario", here, name=name)
        assert str(caught.value) == (
            f"scenario.{setting[0]}: expected what a file can hold as its default (numbers, "
            f"texts, booleans, lists, mappings and dataclasses of them), got {told}"
        )

    def test_a_value_that_no_file_can_hold_is_named(
        self, here: Path, user_module: UserModule
    ) -> None:
        name = f"{user_module(DEFAULTS.format(setting=', k=1'))}:Mine"
        with pytest.raises(ConfigError, match=r"^scenario.k: .* hold \(.*, got <built-in function"):
            resolve("scenario", here, name=name, k=max)

    def test_numpys_own_are_numbers_and_lists_in_files_and_numpys_in_the_class(
        self, here: Path, user_module: UserModule
    ) -> None:
        name = f"{user_module(DEFAULTS.format(setting=''))}:Kept"
        found = resolve("scenario", here, name=name)
        assert found == {
            "name": name,
            "scale": 0.5,
            "count": 3,
            "weights": [1.0, 1.0],
            "typed": [[0.0, 0.0]],
            "whole": [0, 1],
            "none": [],
        }
        for changes in ({}, {"weights": [1, 2, 3], "whole": [7], "none": [0.5]}):
            built = scenario(here, **resolve("scenario", here, **(found | changes)))
            scale, count, *arrays = built.given
            assert (scale, count) == (0.5, 3)
            assert [array.dtype.kind for array in arrays] == ["f", "f", "i", "f"]
            assert [array.tolist() for array in arrays] == [
                changes.get(key, found[key]) for key in ("weights", "typed", "whole", "none")
            ]

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"weights": ["a"]}, r"weights: expected an array of numbers like array\(\[1., 1.\]\)"),
            ({"weights": [[1], [2, 3]]}, r"weights: expected an array of numbers like array"),
            ({"weights": 3}, "weights: expected an array of numbers .*, got 3"),
            ({"weights": None}, "weights: expected an array of numbers .*, got null"),
            ({"whole": [0.5]}, r"whole: expected an array of numbers like array\(\[0, 1\]\), got "),
        ],
    )
    def test_what_is_no_such_array(
        self, here: Path, user_module: UserModule, settings: dict[str, Any], message: str
    ) -> None:
        name = f"{user_module(DEFAULTS.format(setting=''))}:Kept"
        with pytest.raises(ConfigError, match=message):
            resolve("scenario", here, name=name, **settings)

    def test_one_that_its_annotation_does_not_allow(
        self, here: Path, user_module: UserModule, recwarn: pytest.WarningsRecorder
    ) -> None:
        name = f"{user_module(DEFAULTS.format(setting=', k: int = ' + repr('x')))}:Mine"
        with pytest.raises(ConfigError, match=r"^scenario.k: expected a whole number, got 'x'$"):
            scenario(here, **resolve("scenario", here, name=name))
        assert not recwarn.list


class TestNames:
    def test_an_unknown_name_shows_the_nearest(self, here: Path) -> None:
        with pytest.raises(
            ConfigError, match=r"unknown name 'dp-fts-ed'; did you mean 'dp-fts-de'"
        ):
            resolve("method", here, name="dp-fts-ed")

    @pytest.mark.parametrize("name", ["no_such_module:X", "json.missing:X", "os.path.x:X"])
    def test_a_missing_module(self, here: Path, name: str) -> None:
        missing = name.partition(":")[0]
        with pytest.raises(
            ConfigError, match=f"no module '{re.escape(missing)}' in {here} or the env"
        ):
            resolve("scenario", here, name=name)

    @pytest.mark.parametrize("name", [":X", "a b:X", ".x:X", "a..b:X", "json:"])
    def test_what_is_no_module_at_all(self, here: Path, name: str) -> None:
        with pytest.raises(ConfigError, match=r"expected package.module:Class"):
            resolve("scenario", here, name=name)

    @pytest.mark.parametrize("wanted", ["Mien", "Space.x", "SCALE"])
    def test_a_module_without_the_class(
        self, here: Path, user_module: UserModule, wanted: str
    ) -> None:
        module = user_module(SCENARIO + "\n    SCALE = 1\n")
        with pytest.raises(ConfigError, match=f"{module} has no class '{wanted}'"):
            resolve("scenario", here, name=f"{module}:{wanted}")

    def test_the_nearest_class_is_shown(self, here: Path, user_module: UserModule) -> None:
        with pytest.raises(ConfigError, match="did you mean 'Mine'"):
            resolve("scenario", here, name=f"{user_module(SCENARIO)}:Mien")

    @pytest.mark.parametrize(
        ("text", "kind"),
        [
            ("import not_installed_anywhere\n", "ModuleNotFoundError"),
            ("def f(:\n", "SyntaxError"),
            ("1 / 0\n", "ZeroDivisionError"),
            ("raise SystemExit(3)\n", "SystemExit"),
        ],
    )
    def test_an_error_inside_the_module_shows_its_own_traceback(
        self, here: Path, user_module: UserModule, text: str, kind: str
    ) -> None:
        module = user_module(text)
        with pytest.raises(UserCodeError, match=f"{module} cannot be imported: {kind}") as caught:
            resolve("scenario", here, name=f"{module}:X")
        shown = caught.value.user_traceback
        assert f"{module}.py" in shown
        assert "importlib" not in shown
        assert "fedsim" not in shown.replace(str(here), "")


class TestWords:
    """Errors speak of the configuration, not of how it is checked, and show what may be meant."""

    @pytest.mark.parametrize(
        ("name", "meant"),
        [
            ("FTS", "fts"),
            ("./obj.py:Obj", "obj:Obj"),
            ("folder/obj.py:Obj", "folder.obj:Obj"),
            ("folder/obj.py", "folder.obj:Class"),
            ("/home/me/obj.py:Obj", "obj:Obj"),
            ("obj.Obj", "obj:Obj"),
            ("pkg.obj.Obj", "pkg.obj:Obj"),
            ("obj.py:Obj", "obj:Obj"),
            ("fts.yaml", "fts"),
        ],
    )
    def test_capitals_and_paths_show_the_name(self, here: Path, name: str, meant: str) -> None:
        with pytest.raises(ConfigError, match=rf"method\.name: .*; did you mean '{meant}'\?$"):
            resolve("method", here, name=name)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"dp": {"zzz": 1}}, "method.dp.zzz: unknown key; valid names: clipping_norm, .*"),
            ({"surrogate": {"kernal": 1}}, "method.surrogate.kernal: .* did you mean 'kernel'?"),
            ({"dp": 3}, "method.dp: expected a mapping such as {sampling: ...}, got 3"),
            ({"message": {"kind": "Sample"}}, ".*, got 'Sample'; did you mean 'sample'?"),
        ],
    )
    def test_no_names_of_python_are_in_them(
        self, here: Path, settings: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(ConfigError) as caught:
            resolve("method", here, name="dp-fts-de", **settings)
        assert re.fullmatch(re.sub(r"([?{}])", r"\\\1", message), str(caught.value))
        assert not re.search("__|instance|Settings|dictionary", str(caught.value))


class TestPresets:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"name": "fts", "subregions": 2}, "method.subregions: fts fixes it at 1, got 2"),
            ({"name": "fts-de", "dp": {}}, r"method.dp: fts-de fixes it at null, got \{\}"),
            ({"name": "dp-fts-de", "dp": None}, "method.dp: dp-fts-de needs it, got null"),
            ({"name": "dp-fts", "dp": None}, "method.dp: dp-fts needs it, got null"),
        ],
    )
    def test_what_a_name_stands_for_cannot_be_changed(
        self, here: Path, settings: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(ConfigError, match=f"{message}; choose another method.name"):
            resolve("method", here, **settings)

    def test_it_may_be_repeated(self, here: Path) -> None:
        resolved = resolve("method", here, name="fts", subregions=1, dp=None)
        assert resolved["subregions"] == 1
        assert resolved["dp"] is None
        assert resolve_section("method", resolved, NO_CODE) == resolved


class TestUsersClasses:
    BASE = (
        "from fedsim.space import Parameter, Space\n"
        "S = Space((Parameter('x', 0, 1),))\n"
        "class Mine:\n"
        "    space, direction, agents = S, 'maximize', 2\n"
        "    def objective(self, agent): return None\n"
    )

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ("    direction = 'up'\n", "its direction: expected maximize or minimize, got 'up'"),
            ("    agents = 0\n", "its agents: expected a whole number of at least 1, got 0"),
            ("    agents = 2.0\n", "its agents: expected a whole number of at least 1, got 2.0"),
            ("    agents = True\n", "its agents: expected a whole number"),
            ("    space = [0, 1]\n", r"its space: expected a fedsim.space.Space, got \[0, 1\]"),
            ("    del objective\n", "is not a scenario: it has no objective"),
        ],
    )
    def test_a_scenario_that_is_none_is_explained(
        self, here: Path, user_module: UserModule, change: str, message: str
    ) -> None:
        name = f"{user_module(self.BASE + change)}:Mine"
        with pytest.raises(ConfigError, match=f"scenario.name: {name}.*{message}"):
            scenario(here, name=name)

    @pytest.mark.parametrize("error", ["ValueError('no')", "AttributeError('no')"])
    def test_a_property_that_raises_shows_its_traceback(
        self, here: Path, user_module: UserModule, error: str
    ) -> None:
        change = f"    @property\n    def space(self): raise {error}\n"
        name = f"{user_module(self.BASE + change)}:Mine"
        with pytest.raises(UserCodeError, match=r"its space cannot be read: .*no") as caught:
            scenario(here, name=name)
        assert f"raise {error}" in caught.value.user_traceback

    def test_a_constructor_that_raises_shows_its_traceback_with_the_cause(
        self, here: Path, user_module: UserModule
    ) -> None:
        change = (
            "    def __init__(self):\n"
            "        try: 1 / 0\n"
            "        except ZeroDivisionError as e: raise ValueError('bad') from e\n"
        )
        name = f"{user_module(self.BASE + change)}:Mine"
        with pytest.raises(UserCodeError, match="cannot be built: ValueError: bad") as caught:
            scenario(here, name=name)
        shown = caught.value.user_traceback
        assert "direct cause" in shown
        assert "ZeroDivisionError" in shown
        assert "/fedsim/" not in shown

    def test_a_method_that_is_none_is_explained(self, here: Path, user_module: UserModule) -> None:
        name = f"{user_module(self.BASE)}:Mine"
        code = UserCode.named_in(name, [here])
        spec = RunSpec({"name": name}, {"name": name}, 1, 0, None, code)
        with pytest.raises(ConfigError, match="is not a method: it has no agent"):
            build_method(spec, build_scenario(spec))

    def test_a_users_scenarios_package_does_not_hide_ours(
        self, here: Path, user_module: UserModule
    ) -> None:
        (here / "scenarios").mkdir()
        (here / "scenarios" / "__init__.py").write_text("raise RuntimeError")
        scenario(here, name=f"{user_module(self.BASE)}:Mine")
        assert scenario(here, name="synthetic").agents == 200


class Named:
    """A method that names targets, or raises."""

    def __init__(self, found: Any) -> None:
        self.found = found

    @property
    def target_agents(self) -> Any:
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


class TestTargets:
    @pytest.mark.parametrize(
        ("found", "expected"), [([2, 0, 2], (0, 2)), (range(3), None), ((1,), (1,))]
    )
    def test_a_method_may_name_them(self, found: Any, expected: Any) -> None:
        method: Any = Named(found)
        assert targets_of(method, 3) == expected

    def test_without_them_all_agents_count(self) -> None:
        method: Any = object()
        assert targets_of(method, 3) is None

    @pytest.mark.parametrize("found", [[], [3], [-1], ["a"]])
    def test_they_must_be_agents(self, found: Any) -> None:
        method: Any = Named(found)
        expected = "the method's target_agents: expected some of the agents 0 to 2, got"
        with pytest.raises(RunError, match=expected):
            targets_of(method, 3)

    @pytest.mark.parametrize("found", [ValueError("mine"), None])
    def test_a_failure_is_the_users(self, found: Any) -> None:
        method: Any = Named(found)
        with pytest.raises(UserCodeError, match="the method failed to return its target agents"):
            targets_of(method, 3)


CHECKED = """
    from dataclasses import dataclass
    from pydantic import BaseModel, field_validator
    from fedsim.space import Parameter, Space

    @dataclass(frozen=True)
    class Plain:
        depth: int = 1

        def __post_init__(self):
            if self.depth > 1:
                {raised}

    class Strict(BaseModel):
        depth: int = 1

        @field_validator("depth")
        @classmethod
        def check(cls, depth):
            if depth > 1:
                {raised}
            return depth

    class Schemaless:
        @classmethod
        def __get_pydantic_core_schema__(cls, source, handler):
            {raised}

    class Mine:
        def __init__(self, inner: {kind} = None):
            self.inner = inner
"""


class TestUsersChecks:
    """What a user's class of settings raises is not a fault of fedsim."""

    @pytest.mark.parametrize("kind", ["Plain", "Strict"])
    @pytest.mark.parametrize(
        ("raised", "words"),
        [
            ("raise KeyError('k')", "KeyError: 'k'"),
            ("1 / 0", "ZeroDivisionError: division by zero"),
            ("raise TypeError", "TypeError"),
            ("raise SystemExit(3)", "SystemExit: 3"),
        ],
    )
    def test_a_check_that_fails_shows_its_traceback(
        self, here: Path, user_module: UserModule, kind: str, raised: str, words: str
    ) -> None:
        name = f"{user_module(CHECKED.format(kind=kind, raised=raised))}:Mine"
        assert resolve("scenario", here, name=name, inner={"depth": 1})["inner"] == {"depth": 1}
        with pytest.raises(UserCodeError) as caught:
            resolve("scenario", here, name=name, inner={"depth": 2})
        assert str(caught.value) == f"scenario: its settings cannot be checked: {words}"
        assert raised in caught.value.user_traceback
        assert "construct.py" not in caught.value.user_traceback

    def test_an_error_whose_words_fail(self, here: Path, user_module: UserModule) -> None:
        raised = "raise type('Odd', (ValueError,), {'__str__': lambda self: 1 / 0})"
        name = f"{user_module(CHECKED.format(kind='Strict', raised=raised))}:Mine"
        with pytest.raises(UserCodeError, match=r"^scenario: its settings cannot be checked: "):
            resolve("scenario", here, name=name, inner={"depth": 2})

    def test_a_mistake_in_explaining_is_not_the_users(
        self, here: Path, user_module: UserModule, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object) -> str:
            raise LookupError("ours")

        monkeypatch.setattr("fedsim.config.schema.explain", fail)
        name = f"{user_module(CHECKED.format(kind='Plain', raised='pass'))}:Mine"
        with pytest.raises(LookupError, match=r"^ours$"):
            resolve("scenario", here, name=name, inner=5)

    def test_texts_that_a_class_converts_to_numbers(
        self, here: Path, user_module: UserModule
    ) -> None:
        module = user_module(
            """
            from typing import Annotated
            from pydantic import BaseModel, BeforeValidator

            def size(given):
                return int(given[:-1]) * 1000 if str(given).endswith("k") else given

            class Group(BaseModel):
                ratio: float = 1.0

            class Mine:
                def __init__(self, size: Annotated[int, BeforeValidator(size)] = 1,
                             group: Group = Group()): ...
            """
        )
        assert resolve("scenario", here, name=f"{module}:Mine", size="3k")["size"] == 3000
        with pytest.raises(ConfigError, match=r"group\.ratio: expected a number, got 'nan'$"):
            resolve("scenario", here, name=f"{module}:Mine", group={"ratio": "nan"})
        with pytest.raises(ConfigError, match=r"size: expected a whole number, got '3_0'; did you"):
            resolve("scenario", here, name=f"{module}:Mine", size="3_0")

    def test_a_class_that_has_no_schema(self, here: Path, user_module: UserModule) -> None:
        raised = "raise RuntimeError('mine')"
        name = f"{user_module(CHECKED.format(kind='Schemaless', raised=raised))}:Mine"
        with pytest.raises(UserCodeError, match="cannot be understood: RuntimeError: mine"):
            resolve("scenario", here, name=name)

    def test_an_annotation_that_is_not_there(self, here: Path, user_module: UserModule) -> None:
        name = f"{user_module(CHECKED.format(kind=repr('Space.nothere'), raised='pass'))}:Mine"
        with pytest.raises(ConfigError, match=r"annotations .* be understood: AttributeError: "):
            resolve("scenario", here, name=name)

    def test_a_default_that_no_file_can_hold(self, here: Path, user_module: UserModule) -> None:
        module = user_module("class Mine:\n    def __init__(self, x=object()): ...\n")
        with pytest.raises(
            ConfigError, match=r"^scenario.x: expected what a file can hold as its "
        ):
            resolve("scenario", here, name=f"{module}:Mine")


def test_a_group_that_is_partly_given_has_the_methods_own_defaults_for_the_rest() -> None:
    given: dict[str, Any] = {"name": "fbo-fedgp-tr", "acquisition": {"candidates": 100}}
    found = resolve_section("method", given, NO_CODE)["acquisition"]
    assert (found["candidates"], found["beta"]) == (100, 0.5)  # the class's own beta is 1
    given = {"name": "fbo-fedgp", "acquisition": {"candidates": 100}}
    assert resolve_section("method", given, NO_CODE)["acquisition"]["beta"] == 1.0


class TestPlans:
    """What a method says before its run is checked where it is read."""

    @staticmethod
    def method(name: str, returned: Any) -> Any:
        return type("Mine", (), {name: lambda self: returned})()

    @pytest.mark.parametrize("wrong", [[1], None, 5, "abc", [None], [EVENT, "x"], {EVENT: 1}])
    def test_costs_that_are_no_events(self, wrong: Any) -> None:
        words = re.escape(f"expected a list of privacy events, got {wrong!r}"[:80])
        with pytest.raises(RunError, match=rf"^the method's planned_costs\(\): {words}"):
            planned_costs(self.method("planned_costs", wrong))

    @pytest.mark.parametrize("wrong", ["watch out", None, 3, [3], ["a", None]])
    def test_warnings_that_are_no_texts(self, wrong: Any) -> None:
        with pytest.raises(RunError) as caught:
            plan_warnings(self.method("plan_warnings", wrong))
        words = "the method's plan_warnings(): expected a list of texts"
        assert str(caught.value) == f"{words}, got {wrong!r}"

    def test_any_iterable_will_do(self) -> None:
        for given in ([EVENT] * 2, (EVENT, EVENT), iter([EVENT, EVENT])):
            assert planned_costs(self.method("planned_costs", given)) == (EVENT, EVENT)
        assert planned_costs(self.method("planned_costs", [])) == ()
        for texts in (["a", "b"], iter("ab")):
            assert plan_warnings(self.method("plan_warnings", texts)) == ("a", "b")

    @pytest.mark.parametrize("read", [planned_costs, plan_warnings])
    def test_a_property_that_raises(self, read: Any) -> None:
        class Mine:
            @property
            def planned_costs(self) -> Any:
                raise KeyError("oh")

            plan_warnings = planned_costs

        with pytest.raises(
            UserCodeError, match=r"the method failed to return its .*KeyError: 'oh'"
        ):
            read(Mine())
