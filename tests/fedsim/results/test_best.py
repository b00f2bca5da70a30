"""The best points of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

import fedsim
from fedsim.errors import ConfigError, RunFolderError
from fedsim.results.analysis import Run, load
from fedsim.results.best import BestPoint, best_of, matching
from tests.util.small import small

NOISY = """
    from fedsim.space import Parameter, Space
    from fedsim.workload import Evaluation

    class Noisy:
        agents = 2
        space = Space((Parameter("x", 0, 10), Parameter("k", 1, 5, integer=True)))

        def __init__(self, direction="maximize", optimum=0.0):
            self.direction, self._optimum = direction, optimum

        def objective(self, agent):
            sign = 1 if self.direction == "maximize" else -1

            def objective(point, rng):
                noiseless = -sign * (point["x"] - 3) ** 2
                return Evaluation(noiseless + 20 * rng.normal(), noiseless)

            return objective

        def optimum(self, agent):
            return self._optimum
"""


@pytest.fixture
def run(here: Path, user_module: Callable[[str], str]) -> Run:
    name = f"{user_module(NOISY)}:Noisy"
    variants: dict[str, Any] = {
        "up": {},
        "down": {"scenario": {"direction": "minimize"}},
    }
    raw = small(rounds=5, seeds=[0, 3], variants=variants) | {"scenario": {"name": name}}
    return fedsim.run(raw)


def test_best_points_are_those_of_the_table(run: Run) -> None:
    observed, points = run.observations, run.best_points()
    assert [(one.variant, one.seed, one.agent) for one in points] == [
        (variant, seed, agent) for variant in ("up", "down") for seed in (0, 3) for agent in (0, 1)
    ]
    for one in points:
        own = observed.query(
            "variant == @one.variant and seed == @one.seed and agent == @one.agent"
        )
        place = own["y"].argmax() if one.variant == "up" else own["y"].argmin()
        row = own.iloc[int(place)]
        assert one.point == {"x": row["point.x"], "k": row["point.k"]}
        assert isinstance(one.point["k"], int)
        assert (one.observed, one.noiseless, one.round) == (
            row["y"],
            row["noiseless"],
            row["round"],
        )
        assert one.inference_regret == row["regret"] == abs(row["noiseless"])
    for summary in run.summaries():
        best = best_of(matching(points, variant=summary["variant"], seed=summary["seed"]))
        assert best.observed == summary["best_observed"]


def test_the_best_of_some(run: Run) -> None:
    points = run.best_points()
    assert run.best(variant="up").observed == max(p.observed for p in points[:4])
    assert run.best(variant="down").observed == min(p.observed for p in points[4:])
    assert run.best(variant="down", seed=3, agent=1) == points[-1]
    with pytest.raises(ConfigError, match="some variants maximise and others minimise"):
        run.best()
    for unknown, words in (
        ({"agent": 7}, "agent: expected 0 to 1, which have values, got 7"),
        ({"variant": "side"}, "variant: expected one of up, down, which have values, got 'side'"),
        ({"seed": 1}, "seed: expected one of 0, 3, which have values, got 1"),
        ({"seed": 1, "agent": 7}, "seed: expected one of 0, 3, which have values, got 1"),
        ({"variant": "up", "seed": 3, "agent": 2}, "agent: expected 0 to 1, .*got 2"),
    ):
        with pytest.raises(ConfigError, match=words):
            run.best(**unknown)


def point(observed: float, direction: Literal["maximize", "minimize"] = "maximize") -> BestPoint:
    return BestPoint("a", 0, 0, 0, {"loss": "hinge"}, observed, None, None, direction)


def test_the_first_of_equal_points_is_chosen() -> None:
    first, second = point(1.0), replace(point(1.0), agent=1)
    assert best_of([first, second]) is first
    assert best_of([point(1.0, "minimize"), point(0.5, "minimize")]).observed == 0.5


def test_points_of_an_unfinished_run(run: Run) -> None:
    whole = run.best_points()
    one = run.runs[0].folder
    one.update_manifest(status="running")
    (one.path / "observations.parquet").unlink()
    with pytest.warns(UserWarning, match="up, seed 0: stopped, 5 of 5 rounds"):
        assert run.best_points() == whole
    journal = one.journal.read_bytes().splitlines(keepends=True)
    one.journal.write_bytes(b"".join(journal[:2]))  # the initial design only
    points, missing = run.read_best()
    assert {point.round for point in points[:2]} == {0}
    assert points[2:] == whole[2:]
    (sentence,) = missing
    assert sentence.startswith("up, seed 0: stopped, 0 of 5 rounds: the end of its journal is lost")


def test_runs_without_recorded_parameters_are_refused_with_words(run: Run) -> None:
    one = load(run.runs[0].folder.path)
    one.runs[0].folder.update_manifest(parameters=None)
    with pytest.raises(RunFolderError, match="did not record its parameters"):
        one.best()


def test_nothing_was_ever_observed(here: Path) -> None:
    nobody = fedsim.run(small(availability=0.0))
    with pytest.raises(RunFolderError, match="nothing is recorded: no agent took part"):
        nobody.best()
