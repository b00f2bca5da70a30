"""The points that runs have explored: as data, and as pictures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.cli.main import run_command
from fedsim.dashboards.points import Optimum, explored
from fedsim.dashboards.scatter import draw_points, plot_points
from fedsim.errors import ConfigError
from fedsim.results.analysis import Run
from tests.util.small import small

BOWL = """
    import numpy as np
    from fedsim.space import Choice, Parameter, Space
    from fedsim.workload import Evaluation

    class Bowl:
        direction, agents = "minimize", 3

        def __init__(self, centre=0.5, width=2.0):
            self.centre = centre
            rate = Parameter("rate", 1e-4, 1.0, scale="log")
            self.space = Space((Parameter("x", -width, width), rate, Choice("kind", (1, "b"))))

        def objective(self, agent):
            def objective(point, rng):
                y = (point["x"] - self.centre) ** 2 + (np.log10(point["rate"]) + 2.0) ** 2
                return Evaluation(y + rng.normal(), y)
            return objective

        def optimum(self, agent):
            return 0.0

        def optimal_point(self, agent):
            return [self.centre, 0.01, 1]
"""


@pytest.fixture
def run(here: Path, user_module: Callable[[str], str]) -> Run:
    name = f"{user_module(BOWL)}:Bowl"
    variants: dict[str, Any] = {"a": {}, "wide $": {"scenario": {"width": 4.0}}}
    return fedsim.run(small(scenario={"name": name}, seeds=[0, 1], rounds=3, variants=variants))


def test_the_points_are_those_of_one_seed(run: Run) -> None:
    found = explored(run)
    assert [(one.label, one.seed) for one in found.panels] == [("a", 0), ("wide $", 0)]
    panel = found.panels[0]
    table = next(one for one in run.runs if one.variant == "a").observations
    assert panel.x == tuple(table["point.x"])
    assert panel.y == tuple(table["point.rate"])
    assert (panel.agents, panel.rounds) == (tuple(table["agent"]), tuple(table["round"]))
    best = int(np.argmin(table["noiseless"]))  # without the noise, and to be minimised
    assert panel.best == (table["point.x"].iloc[best], table["point.rate"].iloc[best])
    assert panel.optima == (Optimum((0.5, 0.01), (0, 1, 2)),)
    assert found.notes[0] == "a: seed 0 of 2; --seed shows another"


def test_what_is_shown_may_be_chosen(run: Run) -> None:
    found = explored(run, parameters=["kind", "x"], agent=2, seed=1)
    panel = found.panels[0]
    assert (panel.seed, set(panel.agents)) == (1, {2})
    assert set(panel.x) <= {"1", "b"}  # options of several kinds are kept as text
    assert panel.optima == (Optimum((1, 0.5), (0, 1, 2)),)
    assert found.notes == ()


@pytest.fixture
def apart(here: Path, user_module: Callable[[str], str]) -> Run:
    """A run whose agents 0 and 2 have one optimum, and agent 1 another."""
    own = BOWL.replace("[self.centre, 0.01, 1]", "[agent % 2, 0.01, 1]")
    return fedsim.run(small(scenario={"name": f"{user_module(own)}:Bowl"}, rounds=1))


def test_each_optimum_knows_its_agents(apart: Run) -> None:
    common, other = Optimum((0.0, 0.01), (0, 2)), Optimum((1.0, 0.01), (1,))
    for agent, optima in ((None, (common, other)), (0, (common,)), (1, (other,)), (2, (common,))):
        (panel,) = explored(apart, agent=agent).panels
        assert panel.optima == optima


def test_an_agents_picture_shows_its_optimum_alone(apart: Run) -> None:
    for agent, place in ((0, 0.0), (1, 1.0)):
        optimum = draw_points(explored(apart, agent=agent)).axes[0].collections[1]
        assert np.asarray(optimum.get_offsets()).tolist() == [[place, 0.01]]


def colours(points: Any) -> list[list[float]]:
    return [one.tolist() for one in points.get_facecolors()]


def test_an_optimum_of_one_agent_has_its_colour(apart: Run) -> None:
    found = explored(apart)
    points, optima = draw_points(found, per_agent=True).axes[0].collections[:2]
    red, own = [1.0, 0.0, 0.0, 1.0], colours(points)[found.panels[0].agents.index(1)][:3]
    assert colours(optima) == [red, [*own, 1.0]]
    optima = draw_points(found).axes[0].collections[1]
    assert all(one == red for one in colours(optima))


def test_points_of_which_it_is_not_recorded_whose_they_are_are_not_shown(apart: Run) -> None:
    folder = apart.runs[0].folder
    folder.update_manifest(optimal_points=folder.manifest()["optimal_points"][:2])
    assert explored(fedsim.load(apart.folder)).panels[0].optima == ()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"parameters": ["x"]}, "parameters: expected two, got x; a has x, rate, kind"),
        ({"parameters": ["x", "rat"]}, "unknown parameter 'rat'; did you mean 'rate'"),
        ({"seed": 7}, "seed: expected 0 to 1, got 7"),
        (
            {"agent": 7},
            "points: nothing to draw: a is left out: it has no agent 7, but 0 to 2",
        ),
    ],
)
def test_mistakes_are_explained(run: Run, asked: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        explored(run, **asked)


def test_one_parameter_is_too_few(here: Path) -> None:
    words = "at least two parameters to draw points in, but random-search has only x; leave out"
    with pytest.raises(ConfigError, match=words):
        explored(fedsim.run(small()))


def test_a_damaged_seed_is_left_out(run: Run) -> None:
    (run.runs[0].folder.path / "manifest.json").write_text("{")
    found = explored(run)
    assert [one.label for one in found.panels] == ["wide $"]
    assert found.notes[0].startswith("a, seed 0 is left out: ")
    (run.runs[2].folder.path / "manifest.json").write_text("{")
    with pytest.raises(ConfigError, match=r"nothing to draw: a, seed 0 is left out: .*; wide"):
        explored(run)


def test_pictures_show_points_the_best_and_the_optimum(run: Run) -> None:
    found = explored(run)
    figure = draw_points(found)
    for axes, panel, width in zip(figure.axes, found.panels, (2.0, 4.0), strict=False):
        points, optimum, best = (np.asarray(one.get_offsets()) for one in axes.collections[:3])
        assert points.tolist() == [list(pair) for pair in zip(panel.x, panel.y, strict=True)]
        assert optimum.tolist() == [[0.5, 0.01]]
        assert best.tolist() == [list(panel.best)]
        assert axes.get_xlim() == (-width, width)
        assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "log")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "best point explored",
        "optimum",
    ]


def test_agents_may_have_colours(run: Run, tmp_path: Path) -> None:
    picture = plot_points(run, parameters=["kind", "x"], per_agent=True, out=tmp_path / "p.svg")
    text = (tmp_path / "p.svg").read_text()
    for words in ("agent 0", "agent 2", "wide $", "best point explored"):
        assert f"<!-- {words} -->" in text
    assert picture.path == tmp_path / "p.svg"
    axes = picture.figure.axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "b"]
    assert len({tuple(colour) for colour in axes.collections[0].get_facecolors()}) == 3  # type: ignore[attr-defined]


def test_the_command(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    folder = "runs/small-1"
    assert run_command(["plot", folder, "--points", "--json", "--parameters", "x, kind"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["picture"] is None
    assert found["panels"][0]["optima"] == [{"point": [0.5, 1], "agents": [0, 1, 2]}]
    assert run_command(["plot", folder, "--points", "--agent", "0", "-o", "p.png"]) == 0
    assert Path("p.png").exists()
    capsys.readouterr()
    for arguments, message in (
        (["--points", "--log"], "--log: does not go with --points"),
        (["--points", "--metric", "regret"], "--metric: does not go with --points"),
        (["--agent", "0"], "--agent: needs --points"),
        (["--per-agent"], "--per-agent: needs --points"),
    ):
        assert run_command(["plot", folder, *arguments]) == 2
        assert message in capsys.readouterr().err
