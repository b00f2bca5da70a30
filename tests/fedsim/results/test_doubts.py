"""What a finished run's values cast doubt on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim.cli.closing import close
from fedsim.cli.consoles import make_console
from fedsim.cli.main import run_command
from fedsim.dashboards.curves import chart
from fedsim.dashboards.points import explored
from fedsim.errors import RunFolderError
from fedsim.record.entries import Recorded
from fedsim.record.manifest import Facts
from fedsim.results.analysis import Run, load
from fedsim.results.doubts import Doubts
from fedsim.scenarios.synthetic import Synthetic
from fedsim.workload import Evaluation
from tests.util.readers import told
from tests.util.small import small


def facts(direction: str, *optima: float) -> Facts:
    return Facts(0, 3, 2, direction, optima or None, 0.1, "pld", "exact")  # type: ignore[arg-type]


def record(agent: int, noiseless: float | None) -> Recorded:
    return Recorded(agent, 1, 0, (0.5,), 1.0, noiseless, "x")


def doubts(direction: str, optima: tuple[float, ...], *rounds: list[Recorded]) -> list[str]:
    found = Doubts(facts(direction, *optima))
    for t, observations in enumerate(rounds):
        found.add(t, observations)
    return found.sentences()


def test_an_optimum_that_is_beaten_is_told_with_its_place() -> None:
    steps = ([record(0, 1.0)], [record(0, 2.5), record(1, 3.25)], [record(0, 2.25)])
    (words,) = doubts("maximize", (2.0, 3.0), *steps)
    assert words.startswith(
        "the scenario's optimum of agent 0 (and those of 1 more agent) is wrong: it declares 2, "
        "but the noiseless value in round 1 is 2.5; "
    )
    (words,) = doubts("minimize", (2.0, 3.0), *steps)
    assert words.startswith(
        "the scenario's optimum of agent 0 is wrong: it declares 2, but the noiseless value in "
        "round 0 is 1; "
    )


def test_an_optimum_without_noiseless_values_is_told() -> None:
    (words,) = doubts("minimize", (2.0, 3.0), [record(0, None)], [record(1, None)])
    assert words.startswith("the scenario declares an optimum, but its evaluations have no noise")
    assert doubts("minimize", (2.0, 3.0)) == []  # nothing was evaluated
    assert doubts("minimize", (), [record(0, None)]) == []  # no optimum


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize(("excess", "is_told"), [(1e-10, False), (1e-8, True)])
def test_rounding_beats_no_optimum_in_any_unit(unit: float, excess: float, is_told: bool) -> None:
    steps = [record(0, -unit)], [record(0, excess * unit)]
    assert bool(doubts("maximize", (0.0, 0.0), *steps)) == is_told


def test_some_noiseless_values_are_counted() -> None:
    (words,) = doubts("maximize", (), [record(0, 1.0), record(1, None), record(0, None)])
    assert words.startswith("1 of 3 evaluations have a noiseless value: ")
    assert doubts("maximize", (), [record(0, 1.0)]) == []
    assert doubts("maximize", (), [record(0, None)]) == []


def run_of(evaluate: Callable[[float], Evaluation], out: Path, **settings: Any) -> Run:
    class Mine(Synthetic):
        def objective(self, agent: int) -> Any:
            return lambda point, rng: evaluate(float(next(iter(point.values()))))

        def optimum(self, agent: int) -> float:
            return -1.0

    return fedsim.run(small(scenario={"name": Mine, **settings}, on_error="skip"), out=out)


def test_a_wrong_optimum_is_said_wherever_regrets_are(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_of(lambda x: Evaluation(x, x), Path("run"))
    (warning,) = run.runs[0].warnings
    assert "it declares -1, but the noiseless value in round " in warning
    assert run.runs[0].folder.manifest()["outcome"]["doubts"] == [warning]
    assert close(load("run"), make_console())["warnings"] == [warning]
    assert warning in " ".join(capsys.readouterr().out.split())
    for command in ("show", "compare", "best"):
        assert warning in told(command, Path("run"), capsys)
    told_in_json(Path("run"), capsys, warning)
    told_in_python(run, warning)


def told_in_json(run: Path, capsys: pytest.CaptureFixture[str], warning: str) -> None:
    for command in ("show", "best"):
        capsys.readouterr()
        assert run_command([command, str(run), "--json"]) == 0
        (one,) = json.loads(capsys.readouterr().out)["runs"]
        assert one["warnings"] == [warning]


def told_in_python(run: Run, warning: str) -> None:
    for read in (run.best, lambda: fedsim.best(run), lambda: run.rounds, lambda: run.observations):
        with pytest.warns(UserWarning, match=re.escape(warning)):
            read()
    assert any(warning in note for note in chart(run).notes)
    assert escape(warning) in run._repr_html_()


def test_a_wrong_optimum_of_an_unfinished_run_is_said_wherever_regrets_are(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_of(lambda x: Evaluation(x, x), Path("run"), dimension=2, agents=5, grid_size=20)
    (warning,) = run.runs[0].warnings
    folder = run.runs[0].folder
    folder.update_manifest(status="interrupted", reason="Ctrl-C", warnings=[], outcome=None)
    for name in ("rounds", "observations"):
        (folder.path / f"{name}.parquet").unlink()
    unfinished = load("run")
    assert unfinished.runs[0].warnings == (warning,)
    for command in ("show", "compare", "best"):
        assert warning in told(command, Path("run"), capsys)
    told_in_json(Path("run"), capsys, warning)
    told_in_python(unfinished, warning)
    assert any(warning in note for note in explored(unfinished).notes)
    folder.journal.unlink()
    assert load("run").runs[0].warnings == ()


def test_where_some_values_are_noiseless_it_is_said(here: Path) -> None:
    run = run_of(lambda x: Evaluation(x, x if x > 0.5 else None), Path("run"))
    observed = run.observations["noiseless"].notna()
    warning = run.runs[0].warnings[-1]
    assert warning.startswith(f"{observed.sum()} of {len(observed)} evaluations have a noiseless")


def fail(x: float) -> Evaluation:
    raise ValueError("oh")


def test_a_run_in_which_every_evaluation_failed(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_of(fail, Path("run"))
    capsys.readouterr()
    words = "run: no evaluation succeeded; `fedsim show run` names the first error, `fedsim logs"
    with pytest.raises(RunFolderError) as caught:
        load("run").best()
    assert str(caught.value).startswith(words)
    assert run_command(["best", "run"]) == 2
    out = "".join(capsys.readouterr())
    assert words in " ".join(out.split())
    assert "fedsim resume" not in out
    assert "no evaluation succeeded, so there are no scores" in told("compare", Path("run"), capsys)
    close(load("run"), make_console())
    closing = " ".join(capsys.readouterr().out.split())
    for shown in (closing, told("show", Path("run"), capsys)):
        assert "best points" not in shown
        assert "the objective raised ValueError" in shown
    assert load("run").observations.empty
