"""Classes and objects in place of names: the same runs anywhere, and what is kept of them."""

from __future__ import annotations

import importlib
import pickle
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml

import fedsim
from fedsim.cli.main import run_command
from fedsim.config.experiment import prepare
from fedsim.errors import ConfigError, Interrupted
from fedsim.methods.random_search import RandomSearch
from fedsim.record.progress import Progress
from fedsim.running.jobs import Job, Listener
from fedsim.space import Parameter, Space
from fedsim.usercode.given import Given, code_of, name_of, named
from fedsim.usercode.texts import source_of
from tests.util.small import small, write

HERE = __name__
ROOT = str(Path(__file__).parents[3])
SPACE = Space((Parameter("x", 0, 1),))


def shifted(x: float, by: float) -> float:
    return by + x


class Mine:
    """A scenario of a test module, which no other process can import."""

    direction: Literal["maximize"] = "maximize"
    space = SPACE

    def __init__(self, agents: int = 2, by: float = 10.0) -> None:
        self.agents = agents
        self.by = by

    def objective(self, agent: int) -> Any:
        return lambda point, rng: shifted(point["x"], self.by)


class MyMethod(RandomSearch):
    """A method of the same module."""


class Stops(Listener):
    def progress(self, job: Job, progress: Progress) -> None:
        if progress.round == 1:
            raise Interrupted("enough")


@pytest.fixture
def _clean() -> Iterator[None]:
    modules, path = set(sys.modules), list(sys.path)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith("users_"):
            del sys.modules[name]


def import_users(here: Path, name: str, text: str) -> Any:
    (here / f"{name}.py").write_text(textwrap.dedent(text))
    sys.path.insert(0, str(here))
    importlib.invalidate_caches()
    return importlib.import_module(name)


def journal(run: Any) -> bytes:
    return bytes(run.runs[0].folder.journal.read_bytes())


class TestNames:
    def test_everything_has_a_name_wherever_it_stands(self) -> None:
        raw: Mapping[str, Any] = {
            "scenario": {"name": Mine, "agents": 3},
            "method": MyMethod,
            "variants": {"a": {"method": {"name": MyMethod}}, "b": {"method": "ts"}},
            "grid": {"method": [MyMethod, "ts"], "scenario.by": [1, 2]},
        }
        found, things = named(raw)
        mine, method = f"{HERE}:Mine", f"{HERE}:MyMethod"
        assert found == {
            "scenario": {"name": mine, "agents": 3},
            "method": method,
            "variants": {"a": {"method": {"name": method}}, "b": {"method": "ts"}},
            "grid": {"method": [method, "ts"], "scenario.by": [1, 2]},
        }
        assert things == {mine: Mine, method: MyMethod}

    @pytest.mark.parametrize("where", [lambda x: x, lambda x: {"name": x}])
    def test_an_object_is_named_by_its_class(self, where: Any) -> None:
        thing = Mine()
        found, things = named({"scenario": where(thing)})
        assert found == {"scenario": where(f"{HERE}:Mine")}
        assert things == {f"{HERE}:Mine": thing}

    def test_two_objects_of_one_name_are_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"Mine: two different classes or objects of this n"):
            named({"variants": {"a": {"scenario": Mine()}, "b": {"scenario": Mine()}}})

    def test_a_class_that_anyone_can_import_is_only_its_name(self, here: Path) -> None:
        experiment = prepare({**small(), "method": RandomSearch})
        assert experiment.config.method["name"] == "fedsim.methods.random_search:RandomSearch"
        assert experiment.code.objects == {}

    @pytest.mark.usefixtures("_clean")
    def test_a_class_that_was_edited_after_its_import_is_the_one_that_was_given(
        self, here: Path
    ) -> None:
        text = """
            from fedsim.space import Parameter, Space
            from users_help import VALUE
            class Edited:
                direction, agents, space = "maximize", 2, Space((Parameter("x", 0, 1),))
                def objective(self, agent):
                    return lambda point, rng: point["x"] + VALUE
        """
        (here / "users_help.py").write_text("VALUE = 10")
        given = import_users(here, "users_edited", text).Edited
        (here / "users_help.py").write_text("VALUE = 50")
        run = fedsim.run(small(scenario=given))
        assert run.observations["y"].between(10, 11).all()
        again = fedsim.run(small(scenario={"name": "users_edited:Edited"}))
        assert again.observations["y"].between(50, 51).all()

    @pytest.mark.usefixtures("_clean")
    def test_a_class_that_is_as_its_file_is_loaded_from_it(
        self, here: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        module = import_users(here, "users_same", "class Same:\n    agents = 2\n")
        monkeypatch.setattr("fedsim.usercode.importing._process_start", lambda: float("inf"))
        raw, things = named({"scenario": module.Same})
        code = code_of(raw, [here], things)
        assert raw["scenario"] == "users_same:Same"
        assert code.objects == {}
        assert [source.name for source in code.sources] == ["users_same"]


class TestRuns:
    def test_a_class_with_settings_and_a_method(self, here: Path) -> None:
        run = fedsim.run({**small(scenario={"name": Mine, "by": 5}), "method": MyMethod})
        assert run.observations["y"].between(5, 6).all()
        assert run.config["scenario"] == {"name": f"{HERE}:Mine", "agents": 2, "by": 5.0}

    def test_an_object(self, here: Path) -> None:
        run = fedsim.run(small(scenario=None), scenario=Mine(by=7))
        assert run.observations["y"].between(7, 8).all()
        assert run.config["scenario"] == {"name": f"{HERE}:Mine"}

    def test_arguments_replace_the_sections_of_a_file(self, here: Path) -> None:
        run = fedsim.run(write(small()), scenario={"name": Mine, "agents": 3}, method="ts")
        assert run.config["method"]["name"] == "ts"
        assert run.config["scenario"]["agents"] == 3

    def test_a_run_works_on_copies_of_an_object(self, here: Path) -> None:
        class Counts(Mine):
            calls = 0

            def objective(self, agent: int) -> Any:
                def count(point: Any, rng: Any) -> float:
                    self.calls += 1
                    return float(self.calls)

                return count

        mine = Counts()
        run = fedsim.run(small(scenario=mine, seeds=[0, 1]), jobs=1)
        assert mine.calls == 0
        first = run.observations.groupby("seed")["y"].min()
        assert first.tolist() == [1.0, 1.0]

    @pytest.mark.heavy
    @pytest.mark.parametrize(
        "how", [pytest.param("class", marks=pytest.mark.slow), "object", "local"]
    )
    def test_processes_of_their_own_do_the_same(self, here: Path, how: str) -> None:
        class Local(Mine):
            """Known to nobody else."""

        thing = {"class": Mine, "object": Mine(by=3), "local": Local}[how]
        raw = small(scenario=thing, seeds=[0, 1])
        one, two = fedsim.run(raw, jobs=1), fedsim.run(raw, jobs=2)
        assert [r.folder.journal.read_bytes() for r in one.runs] == [
            r.folder.journal.read_bytes() for r in two.runs
        ]

    @pytest.mark.parametrize(
        ("raw", "message"),
        [
            ({"scenario": {"name": Mine(), "by": 3}}, r"scenario\.by: .*Mine was given as an obj"),
            ({"method": MyMethod}, r"method\.width: missing"),
            ({"method": object()}, "method: expected a name or a class, got an object of builtins"),
            ({"scenario": object()}, r"builtins:object is not a scenario: it has no space"),
            ({"scenario": Space}, r"scenario\.parameters: missing"),
        ],
    )
    def test_mistakes_are_named(
        self, here: Path, raw: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(MyMethod, "__init__", lambda self, context, width: None)
        with pytest.raises(ConfigError, match=message):
            fedsim.run({**small(), **raw})

    def test_an_object_that_cannot_be_copied_is_named(self, here: Path) -> None:
        mine = Mine()
        mine.lock = threading.Lock()  # type: ignore[attr-defined]
        with pytest.raises(ConfigError, match=r"Mine cannot be copied: .*lock.*objective\(\)"):
            fedsim.run(small(scenario=mine))


class TestPacked:
    @pytest.mark.heavy
    def test_a_class_and_what_it_uses_arrive_in_another_process(self, here: Path) -> None:
        """Which knows neither this module nor its neighbours."""
        code = code_of(*self.taken(Mine))
        assert code.objects.keys() == {f"{HERE}:Mine"}
        (here / "code").write_bytes(pickle.dumps(code))
        assert self.elsewhere(here, f"{HERE}:Mine", "kind()") == "12.5"

    @pytest.mark.heavy
    def test_an_object_arrives_as_it_is(self, here: Path) -> None:
        (here / "code").write_bytes(pickle.dumps(code_of(*self.taken(Mine(by=3)))))
        assert self.elsewhere(here, f"{HERE}:Mine", "kind") == "5.5"

    def taken(self, thing: object) -> Any:
        raw, things = named({"scenario": thing})
        return raw, [Path("/nowhere")], things

    def elsewhere(self, here: Path, name: str, build: str) -> str:
        script = f"""
            import pickle, pathlib
            kind = pickle.loads(pathlib.Path("code").read_bytes()).objects[{name!r}].load()
            print({build}.objective(0)({{"x": 2.5}}, None))
        """
        command = [sys.executable, "-c", textwrap.dedent(script)]
        found = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
        assert found.returncode == 0, found.stderr
        return found.stdout.strip()

    def test_what_cannot_be_sent_is_named(self) -> None:
        lock = threading.Lock()

        class Locked(Mine):
            def objective(self, agent: int) -> Any:
                return lock

        with pytest.raises(ConfigError, match=r"Locked cannot be sent to other processes: .*lock"):
            Given(name_of(Locked), Locked).pack()

    def test_before_anything_is_started(self, here: Path) -> None:
        lock = threading.Lock()

        class Locked(Mine):
            def objective(self, agent: int) -> Any:
                return lambda point, rng: float(lock.locked())

        fedsim.run(small(scenario=Locked, seeds=[0, 1]), jobs=1)
        with pytest.raises(ConfigError, match=r"cannot be sent to other processes.*jobs=1"):
            fedsim.run(small(scenario=Locked, seeds=[0, 1]), jobs=2, out="two")
        assert not Path("two").exists()


class TestTheRecord:
    def test_it_keeps_name_source_and_state(self, here: Path) -> None:
        run = fedsim.run(small(scenario=Mine(by=2)))
        origin = yaml.safe_load((run.folder / "origin.yaml").read_text())
        told = origin["given"][f"{HERE}:Mine"]
        assert told["kind"] == "object"
        assert len(told["source"]) == 64
        assert len(told["state"]) > 8
        (kept,) = (run.folder / "code").iterdir()
        assert kept.read_text().startswith("class Mine:\n")
        assert "def shifted(x: float, by: float)" in kept.read_text()

    def test_the_state_is_that_of_the_attributes(self) -> None:
        states = [Given("x", Mine(by=by)).state for by in (1, 1, 2)]
        assert states[0] == states[1] != states[2]
        assert Given("x", Mine).state == ""

    def test_the_source_is_found_by_the_methods(self) -> None:
        assert source_of(Stops, ()).startswith("class Stops(Listener):\n    def progress")
        texts = source_of(MyMethod, {HERE, RandomSearch.__module__})
        assert "class MyMethod(RandomSearch)" in texts
        assert "class RandomSearch" in texts
        namespace: dict[str, Any] = {}
        exec("class Typed:\n    def f(self): return 1", namespace)
        assert source_of(namespace["Typed"], ()) == ""

    def test_a_message_says_how_to_go_on(
        self, here: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        expected = r"continue with: fedsim\.resume\('runs/small-1'\), in Python, where .*Mine is"
        with pytest.raises(Interrupted, match=expected):
            fedsim.run(small(scenario=Mine()), listener=Stops())
        capsys.readouterr()
        assert run_command(["show", "runs/small-1"]) == 0
        assert re.search(expected, " ".join(capsys.readouterr().out.split()))

    @pytest.mark.parametrize(("by", "paired"), [(2, True), (3, False)])
    def test_seeds_of_unlike_objects_are_not_paired(
        self, here: Path, by: int, paired: bool
    ) -> None:
        raw = small(scenario=None, seeds=[0, 1])
        first, second = fedsim.run(raw, scenario=Mine(by=2)), fedsim.run(raw, scenario=Mine(by=by))
        (difference,) = (r.difference for r in fedsim.compare([first, second]).rows if r.difference)
        assert difference.paired == paired


class TestResumes:
    @pytest.fixture
    def unfinished(self, here: Path) -> Path:
        with pytest.raises(Interrupted):
            fedsim.run(small(scenario=Mine(by=2)), listener=Stops())
        return Path("runs/small-1")

    def test_with_an_object_like_the_first(self, unfinished: Path) -> None:
        run = fedsim.resume(unfinished, scenario=Mine(by=2))
        assert run.runs[0].folder.manifest()["warnings"] == []
        whole = fedsim.run(small(scenario=Mine(by=2)))
        assert journal(run) == journal(whole)

    def test_without_it_a_message_says_what_is_needed(self, unfinished: Path) -> None:
        with pytest.raises(ConfigError, match=r"was given the object .*Mine in Python.* scenario="):
            fedsim.resume(unfinished)

    def test_another_object_is_refused(self, unfinished: Path) -> None:
        with pytest.raises(ConfigError, match="its attributes are not those of the object"):
            fedsim.resume(unfinished, scenario=Mine(by=3))

    def test_another_class_is_refused(self, unfinished: Path) -> None:
        with pytest.raises(ConfigError, match="MyMethod: this run has no such scenario or method"):
            fedsim.resume(unfinished, scenario=Mine(by=2), method=MyMethod)

    def test_other_source_is_told(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(Interrupted):
            fedsim.run(small(scenario=Mine), listener=Stops())
        monkeypatch.setattr("fedsim.usercode.given.source_of", lambda kind, modules: "another")
        run = fedsim.resume("runs/small-1", scenario=Mine)
        (warning,) = run.runs[0].folder.manifest()["warnings"]
        assert warning.startswith(f"resumed with other code: {HERE}:Mine changed")
        (kept,) = (run.folder / "code-2").iterdir()
        assert kept.read_text() == "another"


SCRIPT = """
    import sys
    sys.path.append(ROOT)
    import fedsim
    from fedsim.space import Parameter, Space
    from tests.fedsim.usercode.test_given import Stops, small

    def shifted(x):
        return 10 + x

    class Mine:
        space, direction, agents = Space((Parameter("x", 0, 1),)), "maximize", 2

        def objective(self, agent):
            return lambda point, rng: shifted(point["x"])

    if sys.argv[1] == "run":
        try:
            fedsim.run(small(scenario={"name": "__main__:Mine"}), listener=Stops())
        except fedsim.errors.Interrupted:
            pass
    print(fedsim.resume("runs/small-1").observations["y"].min() // 10)
"""


@pytest.mark.heavy
def test_a_script_resumes_its_own_class_by_its_name(here: Path) -> None:
    (here / "script.py").write_text(textwrap.dedent(SCRIPT).replace("ROOT", repr(ROOT)))
    for argument in ("run", "resume"):
        command = [sys.executable, "script.py", argument]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        assert found.stdout.strip() == "1.0", found.stderr
    with pytest.raises(ConfigError, match="__main__:Mine in Python, where it was defined"):
        fedsim.resume("runs/small-1")
