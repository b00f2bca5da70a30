"""What ``import fedsim`` offers: its names, errors as users see them, progress, absolute paths."""

from __future__ import annotations

import inspect
import re
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import fedsim
from fedsim.config.experiment import prepare
from fedsim.dashboards.agents import facet_chart
from fedsim.errors import ConfigError, FedsimError, Interrupted, ObjectiveError
from fedsim.record.progress import Progress
from fedsim.running.jobs import Job, Listener
from fedsim.space import Parameter, Space
from fedsim.testing import check_scenario
from tests.util.small import UserModule, body, small

NAMES = {"run", "resume", "load", "best", "plot", "plot_points", "compare", "compare_problems"}
NAMES |= {"evaluate", "list_runs"}


class TestNames:
    def test_they_are_listed_and_exist(self) -> None:
        assert set(fedsim.__all__) == NAMES | {"Run", "__version__"}
        assert set(fedsim.__all__) <= set(dir(fedsim))
        for name in NAMES:
            assert callable(getattr(fedsim, name))
            assert inspect.getdoc(getattr(fedsim, name)), name
        assert fedsim.__version__ == metadata.version("fedsim")

    def test_an_unknown_one_is_an_attribute_error(self) -> None:
        with pytest.raises(AttributeError, match="has no attribute 'rnu'"):
            fedsim.rnu  # noqa: B018

    def test_help_says_what_a_mapping_may_hold(self, here: Path) -> None:
        text = inspect.getdoc(fedsim.run) or ""
        start, end = text.index("fedsim.run({"), text.index("})")
        source = inspect.cleandoc(text[start : end + 2])
        config = eval(source.replace("fedsim.run(", "dict(", 1))
        from fedsim.config.experiment import prepare

        assert len(prepare(config).variants) > 1


SEEDS: list[Any] = [range(2), (0, 1), np.arange(2), np.array([0, 1], "uint8"), [np.int64(0), 1]]


class TestNumpy:
    """Numpy's numbers and arrays, tuples and ranges are what they look like."""

    @pytest.mark.parametrize("seeds", SEEDS, ids=repr)
    def test_seeds(self, here: Path, seeds: Any) -> None:
        assert prepare(small(seeds=seeds)).config.seeds == [0, 1]

    def test_a_number_stands_for_one_seed(self, here: Path) -> None:
        assert prepare(small(seeds=np.int64(3))).config.seeds == [3]

    @pytest.mark.parametrize(
        ("seeds", "words"),
        [
            (np.zeros((2, 2), int), "seeds.0: expected a whole number, got [0, 0]"),
            (np.array([0.5]), "seeds.0: expected a whole number, got 0.5"),
            (np.array([True]), "seeds.0: expected a number, got true"),
            (range(-1, 2), "seeds.0: expected a number of at least 0, got -1"),
            (range(0), "seeds: expected e.g. 3, 0-9, 1,4,7-9 or a list of seeds, got []"),
            (range(10**20), f"seeds: expected e.g. 3, 0-9, .* of seeds, got range(0, {10**20})"),
            ({0, 1}, "seeds: expected e.g. 3, 0-9, 1,4,7-9 or a list of seeds, got {0, 1}"),
        ],
    )
    def test_what_are_no_seeds(self, here: Path, seeds: Any, words: str) -> None:
        with pytest.raises(
            ConfigError, match=f"^{re.escape(words).replace(re.escape('.*'), '.*')}$"
        ):
            prepare(small(seeds=seeds))

    def test_they_are_recorded_as_a_file_has_them(self, here: Path) -> None:
        plain = small(
            seeds=[0, 1],
            scenario={"name": "synthetic", "agents": 3, "grid_size": 20, "length_scale": 0.2},
            availability=[1.0, 0.5, 1.0],
            variants={"1": {"rounds": 1}, "0.5": {"rounds": 2}},
        )
        given = small(
            rounds=np.int64(2),
            seeds=np.arange(2),
            name=np.str_("small"),
            scenario={"name": np.str_("synthetic"), "agents": np.uint8(3)}
            | {"grid_size": np.array(20), "length_scale": np.float64(0.2)},
            availability=np.array([1.0, 0.5, 1.0]),
            variants={np.int64(1): {"rounds": np.int32(1)}, np.float64(0.5): {"rounds": 2}},
            transcript=np.False_,
        )
        assert prepare(given).config == prepare(plain).config
        folders = [fedsim.run(one, out=out).folder for one, out in ((plain, "a"), (given, "b"))]
        texts = [(folder / "config.yaml").read_text("utf-8") for folder in folders]
        assert texts[0] == texts[1]
        assert [x["journal_sha256"] for x in fedsim.load("b").summaries()] == [
            x["journal_sha256"] for x in fedsim.load("a").summaries()
        ]

    def test_a_point_and_a_key(self, here: Path) -> None:
        mine = {"name": "functions", "function": "sphere", "agents": 2, "dimension": 2}
        expected = fedsim.evaluate(mine, [0.5, 0.25], agent=1, seed=2)
        for point in (np.array([0.5, 0.25]), (np.float32(0.5), 0.25)):
            assert fedsim.evaluate(mine, point, agent=np.int64(1), seed=np.int64(2)) == expected  # type: ignore[arg-type]
        for wrong in (np.array(0.5), np.zeros((2, 2)), 0.5):
            with pytest.raises(ConfigError, match=r"point: expected values by name, or a list of"):
                fedsim.evaluate(mine, wrong)  # type: ignore[arg-type]

    def test_agents_of_a_picture(self, here: Path) -> None:
        run = fedsim.run(small())
        panels = [
            facet_chart(run, facet="agent", agents=agents).panels  # type: ignore[arg-type]
            for agents in ([0, 1], range(2), np.arange(2), (np.int64(0), 1))
        ]
        assert all(one == panels[0] for one in panels)
        with pytest.raises(ConfigError, match="agents: expected a list of whole numbers, got"):
            facet_chart(run, facet="agent", agents=np.array([0.5]))  # type: ignore[arg-type]


class Misbehaves(Listener):
    def progress(self, job: Job, progress: Progress) -> None:
        raise Interrupted("enough")


OBJECTIVE = """
    from fedsim.space import Parameter, Space

    def inner(x):
        return 1 / (x - x)  # the mistake

    class Wrong:
        direction, agents, space = "maximize", 2, Space((Parameter("x", 0, 1),))

        def objective(self, agent):
            return lambda point, rng: inner(point["x"])
"""


def shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


class WithoutNotes:
    """Shows exceptions without their notes, as IPython did up to 8.12."""

    def structured_traceback(self, kind: Any, error: Any, trace: Any) -> list[str]:
        plain = traceback.TracebackException(kind, error, trace)
        plain.__notes__ = []
        return list(plain.format())


class TestErrors:
    def test_the_users_traceback_is_shown_and_ours_is_short(
        self, here: Path, user_module: UserModule
    ) -> None:
        name = user_module(OBJECTIVE)
        with pytest.raises(ObjectiveError) as caught:
            fedsim.run(small(scenario={"name": f"{name}:Wrong"}))
        text = shown(caught.value)
        assert "return 1 / (x - x)  # the mistake" in text
        assert text.index("ObjectiveError: the objective raised") < text.index("# the mistake")
        assert text.count("ZeroDivisionError: ") == 1
        frames = traceback.extract_tb(caught.value.__traceback__)
        assert [Path(frame.filename).name for frame in frames] == ["test_api.py", "api.py"]
        assert "During handling" not in text
        assert caught.value.folder == here / "runs" / "small-1"
        assert text.endswith(f"continue with: fedsim.resume('{here}/runs/small-1')\n")

    @pytest.mark.parametrize("shows_notes", [True, False])
    def test_ipython_shows_it_once(
        self,
        here: Path,
        user_module: UserModule,
        monkeypatch: pytest.MonkeyPatch,
        shows_notes: bool,
    ) -> None:
        ipython = pytest.importorskip("IPython")
        name = user_module(OBJECTIVE)
        with pytest.raises(ObjectiveError) as caught:
            fedsim.run(small(scenario={"name": f"{name}:Wrong"}))
        renderer = ipython.core.ultratb.AutoFormattedTB() if shows_notes else WithoutNotes()
        shell = SimpleNamespace(InteractiveTB=renderer)
        monkeypatch.setattr(ipython, "get_ipython", lambda: shell)
        text = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(caught.value._render_traceback_()))
        assert text.count("# the mistake") == 1
        assert text.count("ObjectiveError: the objective raised") == 1
        assert text.count("continue with: fedsim.resume(") == 1

    def test_a_resume_shows_it_too(self, here: Path, user_module: UserModule) -> None:
        name = user_module(OBJECTIVE)
        for again in (lambda: fedsim.run(small(scenario={"name": f"{name}:Wrong"})), self.resumed):
            with pytest.raises(ObjectiveError) as caught:
                again()
            assert shown(caught.value).count("# the mistake") == 1

    def resumed(self) -> Any:
        return fedsim.resume("runs/small-1")

    def test_a_wrong_configuration_shows_no_frames_of_ours(self, here: Path) -> None:
        with pytest.raises(ConfigError, match="rounds: ") as caught:
            fedsim.run(small(rounds=0))
        assert len(traceback.extract_tb(caught.value.__traceback__)) == 2
        assert caught.value.folder is None

    def test_an_interrupted_run_names_its_folder(self, here: Path) -> None:
        with pytest.raises(Interrupted) as caught:
            fedsim.run(small(), listener=Misbehaves())
        assert caught.value.folder == here / "runs" / "small-1"


class TestProgress:
    @pytest.mark.parametrize(
        ("terminal", "asked", "seen"),
        [(False, None, False), (True, None, True), (True, False, False), (False, True, True)],
    )
    def test_it_is_shown_where_somebody_looks(
        self,
        here: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        terminal: bool,
        asked: bool | None,
        seen: bool,
    ) -> None:
        monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
        fedsim.run(small(), progress=asked)
        out, err = capsys.readouterr()
        assert out == ""
        assert ("small-1" in err) == seen

    def test_a_listener_takes_its_place(
        self, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        fedsim.run(small(), listener=Listener())
        assert capsys.readouterr().err == ""


class TestPaths:
    def test_results_are_found_after_a_change_of_folder(
        self, here: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        finished, loaded = fedsim.run(small()), fedsim.load("runs/small-1")
        (listed,) = fedsim.list_runs()
        (here / "other").mkdir()
        monkeypatch.chdir(here / "other")
        for folder in (finished.folder, loaded.folder, listed.folder):
            assert folder == here / "runs" / "small-1"
        assert len(finished.observations) == len(loaded.observations)
        assert not (here / "runs" / "small-1" / "variant.txt").exists()


class TestNumpysNumbers:
    def test_a_number_of_agents_may_be_numpys(self, here: Path) -> None:
        class Plain:
            direction: Any = "maximize"
            space = Space((Parameter("x", 0, 1),))
            agents: Any = 2

            def objective(self, agent: int) -> Any:
                return lambda point, rng: point["x"] + agent

        class Mine(Plain):
            agents: Any = np.int64(2)

        settings = small(method="dp-fts-de")
        runs = [fedsim.run({**settings, "scenario": one}) for one in (Plain, Mine)]
        first, second = (body(run.runs[0].folder.journal) for run in runs)
        assert first == second
        check_scenario(Mine())
        for wrong in (np.int64(0), np.bool_(True), np.float64(2), True, "2"):
            Mine.agents = wrong
            with pytest.raises(ConfigError, match=r"its agents: expected a whole number of at"):
                fedsim.run({**settings, "scenario": Mine})


class TestTheRest:
    def test_several_runs_one_after_another_or_as_a_list(self, here: Path) -> None:
        a, b = (fedsim.run(small(seeds=[0, 1])) for _ in range(2))
        listed = fedsim.compare([a, b.folder])
        assert fedsim.compare(a, b.folder) == listed
        assert len(listed.rows) == 2
        assert [c.label for c in fedsim.plot(a, b).chart.panels[0].curves] == [
            c.label for c in fedsim.plot([a, b]).chart.panels[0].curves
        ]

    @pytest.mark.parametrize(("given", "got"), [((), "none"), (([],), "none"), ((3,), "int")])
    def test_what_is_no_run(self, given: Any, got: str) -> None:
        for function in (fedsim.compare, fedsim.compare_problems, fedsim.plot, fedsim.plot_points):
            with pytest.raises(ConfigError, match=f"expected runs or their folders, got {got}"):
                function(*given)

    def test_best_is_of_one_run(self, here: Path) -> None:
        run = fedsim.run(small())
        with pytest.raises(ConfigError, match="best: expected one run, got 2"):
            fedsim.best([run, run])  # type: ignore[arg-type]

    def test_what_python_shows_is_short(self, here: Path) -> None:
        run = fedsim.run(small(variants={"a": {}, "b": {}}, seeds=[0, 1]))
        assert repr(run) == f"Run('{here}/runs/small-1', variants: 2, seeds: 4)"
        title, head, *rows = repr(fedsim.compare(run)).splitlines()
        assert title.startswith("mean simple regret, mean of rounds 1 to 2")
        assert head.split()[0] == "variant"
        assert [row.split()[0] for row in rows] == ["a", "b"]

    def test_best_compare_and_plot_take_runs_and_folders(self, here: Path) -> None:
        run = fedsim.run(small(variants={"a": {}, "b": {"rounds": 1}}, seeds=[0, 1]))
        assert fedsim.best("runs/small-1", variant="b") == run.best(variant="b")
        assert {row.variant for row in fedsim.compare(run).rows} == {"a", "b"}
        assert fedsim.plot(run, out="p.png").path == Path("p.png")

    def test_evaluate_takes_anything_that_is_a_scenario(
        self, here: Path, user_module: UserModule
    ) -> None:
        name = user_module(
            """
            from fedsim.space import Parameter, Space
            from fedsim.workload import Evaluation
            class Line:
                direction, space = "maximize", Space((Parameter("x", 0, 1),))
                def __init__(self, agents: int = 2, slope: float = 2.0):
                    self.agents, self.slope = agents, slope
                def objective(self, agent):
                    return lambda p, rng: Evaluation(self.slope * p["x"] + agent, 0.5)
            """
        )
        named = {"name": f"{name}:Line", "slope": 4}
        (here / "line.yaml").write_text(f"scenario: {name}:Line\nmethod: ts\nrounds: 1\n")
        for scenario, value in ((f"{name}:Line", 2.5), (named, 4.0), ("line.yaml", 2.5)):
            found = fedsim.evaluate(scenario, {"x": 0.75}, agent=1)
            assert (found.y, found.noiseless) == (value, 0.5)
        found = fedsim.evaluate(f"{name}:Line", [0.75], overrides=["scenario.slope=8"])
        assert found.y == 6.0

    def test_evaluate_takes_an_object(self) -> None:
        from tests.fedsim.usercode.test_given import Mine

        assert fedsim.evaluate(Mine(by=3), {"x": 0.5}).y == 3.5
        assert fedsim.evaluate(Mine, {"x": 0.5}).y == 10.5

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda: fedsim.evaluate("synthetic", {"x": 2}), "x: expected"),
            (lambda: fedsim.evaluate("synthetic", {"y": 1}), "y"),
            (lambda: fedsim.evaluate("synthetic", [0.5], agent=200), "agent: expected 0 to 199"),
            (lambda: fedsim.evaluate("syntetic", [0.5]), "did you mean 'synthetic'"),
        ],
    )
    def test_mistakes_are_named(self, here: Path, call: Any, message: str) -> None:
        with pytest.raises(FedsimError, match=message):
            call()


NONSENSE: tuple[Any, ...] = (3.5, -1, True, b"x", object(), [], [3], ("a", "b"), {"a": 1}, "zz")
CALLS: dict[str, Callable[[Any], object]] = {
    "load": fedsim.load,
    "list_runs": fedsim.list_runs,
    "resume": fedsim.resume,
    "resume, overrides": lambda it: fedsim.resume("r", overrides=it),
    "resume, listener": lambda it: fedsim.resume("r", listener=it),
    "best": fedsim.best,
    "best, agent": lambda it: fedsim.best("r", agent=it),
    "run": fedsim.run,
    "run, listener": lambda it: fedsim.run(small(rounds=1), out="new", listener=it),
    "evaluate, point": lambda it: fedsim.evaluate("synthetic", it),
    "evaluate, agent": lambda it: fedsim.evaluate("synthetic", [0.5], agent=it),
    "evaluate, seed": lambda it: fedsim.evaluate("synthetic", [0.5], seed=it),
    "compare": fedsim.compare,
    "compare, rounds": lambda it: fedsim.compare("r", rounds=it),
    "compare, baseline": lambda it: fedsim.compare("r", baseline=it),
    "compare, labels": lambda it: fedsim.compare("r", labels=it),
    "compare, metric": lambda it: fedsim.compare("r", metric=it),
    "compare_problems, problem": lambda it: fedsim.compare_problems("r", problem=it),
    "compare_problems, method": lambda it: fedsim.compare_problems("r", method=it),
    "plot, metric": lambda it: fedsim.plot("r", metric=it),
    "plot, x": lambda it: fedsim.plot("r", x=it),
    "plot, facet": lambda it: fedsim.plot("r", facet=it),
    "plot, agents": lambda it: fedsim.plot("r", facet="agent", agents=it),
    "plot, labels": lambda it: fedsim.plot("r", labels=it),
    "plot, size": lambda it: fedsim.plot("r", size=it),
    "plot_points, parameters": lambda it: fedsim.plot_points("r", parameters=it),
    "plot_points, seed": lambda it: fedsim.plot_points("r", seed=it),
}
VALID: dict[str, list[Any]] = {"resume, overrides": [[]]}
"""Which of the values a call takes; the other calls take none."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fedsim.run(small(rounds=1), out=tmp_path_factory.mktemp("api") / "r").folder


class TestArgumentsOfAnotherType:
    @pytest.mark.parametrize("name", CALLS)
    def test_they_are_fedsims_own_errors(
        self, finished: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        monkeypatch.chdir(finished.parent)
        taken = []
        for value in NONSENSE:
            with suppress(FedsimError):  # what else is raised ends the test
                CALLS[name](value)
                taken.append(value)
        assert taken == VALID.get(name, [])

    def test_they_are_named(self, finished: Path) -> None:
        for call, words in (
            (lambda: fedsim.load(cast(Any, 3)), "path: expected text or a Path, got 3"),
            (lambda: fedsim.compare(finished, metric=cast(Any, 3)), "metric: expected text, got 3"),
            (
                lambda: fedsim.compare(finished, rounds=cast(Any, 3)),
                "rounds: expected the first and the last round, e.g. (5, 20), got 3",
            ),
            (
                lambda: fedsim.plot(finished, size=(1e6, 1e6)),
                "size: expected width and height in inches, from 1 to 100, e.g. (7, 4.2), "
                "got (1000000.0, 1000000.0)",
            ),
        ):
            with pytest.raises(ConfigError) as caught:
                call()
            assert str(caught.value) == words
