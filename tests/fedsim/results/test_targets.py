"""Runs whose method has targets: scores, tables and pictures are of these agents only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.cli.main import run_command
from fedsim.cli.notes import progress_note
from fedsim.dashboards.curves import chart
from fedsim.dashboards.points import explored
from fedsim.record.manifest import Facts
from fedsim.record.progress import Progress
from fedsim.record.tally import Scores
from fedsim.results.scores import target_words
from fedsim.results.status import StatusReader
from fedsim.results.tables import made_table
from fedsim.running.jobs import Listener
from tests.util.small import UserModule, small

FTS: dict[str, Any] = {"targets": [1], "helper_queries": 3, "renew": 1, "own_probability": 0.5}


def config(**changes: Any) -> dict[str, Any]:
    raw = small("fts-target", rounds=3, **changes)
    raw["method"] |= FTS
    return raw


@pytest.fixture
def run(here: Path) -> fedsim.Run:
    """Agents 0 and 2 make three observations, and one in each of the rounds 2 and 3."""
    return fedsim.run(config())


def test_evaluations_tell_targets_from_helpers(run: fedsim.Run) -> None:
    table = run.observations
    assert table.groupby("agent")["role"].unique().map(list).to_dict() == {
        0: ["helper"],
        1: ["target"],
        2: ["helper"],
    }
    assert (table["role"] == "helper").sum() == 2 * 5
    pd.testing.assert_frame_equal(
        made_table(run.runs[0].folder, run.runs[0].facts(), "observations"),
        table.drop(columns=["variant", "seed"]),
    )


def test_scores_are_those_of_the_target(run: fedsim.Run) -> None:
    table, rounds = run.observations, run.rounds
    own = table[(table["agent"] == 1)]
    best = own.groupby("round")["y"].max().cummax()
    assert rounds["agents"].tolist() == [1] * 4
    assert rounds["mean_best_observed"].tolist() == best.tolist()
    assert rounds["best_observed"].tolist() == best.tolist()
    queries = own[own["step"] > 0].groupby("round")["regret"].mean()
    assert rounds["mean_regret"].tolist()[1:] == pytest.approx(queries.tolist())
    assert rounds["mean_cumulative_regret"].iloc[-1] == pytest.approx(queries.sum())
    assert rounds["coinciding"].tolist()[1:] == [0.0] * 3
    assert rounds["evaluations"].tolist() == [8, 9, 12, 15]
    assert rounds["target_evaluations"].tolist() == [2, 3, 4, 5]


def test_the_best_point_is_the_targets(run: fedsim.Run) -> None:
    own = run.observations.query("agent == 1")
    (best,) = run.best_points()
    assert (best.agent, best.observed) == (1, own["y"].max())


def test_an_outcome_names_the_targets(run: fedsim.Run, capsys: pytest.CaptureFixture[str]) -> None:
    (summary,) = run.summaries()
    assert (summary["agents"], summary["targets"], summary["agents_with_values"]) == (3, [1], 1)
    run_command(["show", str(run.folder)])
    out = capsys.readouterr().out
    assert "scores are those of target agent 1" in out
    assert "leave out" not in out


def test_curves_over_evaluations_count_the_targets(run: fedsim.Run) -> None:
    (panel,) = chart(run, x="evaluations").panels
    assert panel.curves[0].x == (2.0, 3.0, 4.0, 5.0)


def test_scatter_plots_show_targets_unless_an_agent_is_chosen(
    here: Path, user_module: UserModule
) -> None:
    module = user_module(
        """
        from fedsim.space import Parameter, Space
        class Apart:
            space, agents = Space((Parameter("a", 0, 1), Parameter("b", 0, 1))), 3
            direction = "maximize"
            def optimal_point(self, agent):
                return {"a": agent / 4, "b": 0.5}
            def objective(self, agent):
                return lambda point, rng: -((point["a"] - agent / 4) ** 2)
        """
    )
    run = fedsim.run(config(scenario={"name": f"{module}:Apart"}))
    (panel,) = explored(run).panels
    assert set(panel.agents) == {1}
    assert [one.agents for one in panel.optima] == [(1,)]
    (helper,) = explored(run, agent=2).panels
    assert (set(helper.agents), set(helper.rounds)) == ({2}, {2, 3})


def test_comparisons_say_where_scores_are_of_other_agents(here: Path) -> None:
    variants: dict[str, Any] = {
        "TS": {"method": {"name": "ts"}},
        "FTS": {},
        "all": {"method": {"name": "ts", "targets": "all"}},
        "other": {"method": {"targets": [0, 2]}},
    }
    run = fedsim.run(config(variants=variants))
    notes = [note for note in fedsim.compare(run).notes if "scores of" in note]
    assert notes == [
        "scores of all are of all agents, those of TS of target agent 1",
        "scores of other are of target agents 0, 2, those of TS of target agent 1",
    ]
    # Without helpers' evaluations, the role is still told; without targets, there is none.
    roles = run.observations.fillna({"role": ""}).groupby("variant")["role"]
    assert roles.unique().map(sorted).to_dict() == {
        "TS": ["target"],
        "FTS": ["helper", "target"],
        "all": [""],
        "other": ["helper", "target"],
    }


def test_an_earlier_manifest_has_no_targets(run: fedsim.Run) -> None:
    facts = run.runs[0].facts()
    assert facts.targets == (1,)
    folder = run.runs[0].folder
    path = folder.path / "manifest.json"
    earlier = {k: v for k, v in json.loads(path.read_text()).items() if k != "targets"}
    path.unlink()
    folder.update_manifest(**{k: v for k, v in earlier.items() if k != "checksum"})
    found = Facts.of(folder)
    assert found.targets is None
    assert found.is_target(0)


def test_an_unfinished_run_names_its_targets(run: fedsim.Run) -> None:
    status = StatusReader(run.runs[0]).read()
    assert status.progress.targets == (1,)
    assert status.record()["targets"] == [1]
    assert (status.progress.present, status.progress.scores.agents) == (1, 1)


def test_notes_count_targets() -> None:
    told = Progress(
        round=3,
        scores=Scores(mean_best_observed=1.0, best_observed=2.0, agents=2),
        agents=29,
        targets=(0, 5),
        present=1,
        evaluations=99,
    )
    assert progress_note(told, "").endswith("1 of 2 targets of 29 agents")


def test_what_happens_before_round_0_is_told(here: Path) -> None:
    found: list[Progress] = []

    class Follower(Listener):
        def progress(self, job: Any, progress: Progress) -> None:
            found.append(progress)

    raw = config()
    raw["method"]["helper_queries"] = 4  # a design of two points, and two queries
    fedsim.run(raw, listener=Follower())
    assert [(one.round, one.evaluations) for one in found] == [
        *((-1, 4), (-1, 6), (-1, 8)),
        *((0, 10), (1, 11), (2, 14), (3, 17)),
    ]
    assert found[1].scores == Scores()
    assert progress_note(found[1], "").startswith("6 evaluations before round 0, ")


def test_target_words() -> None:
    assert target_words([4]) == "target agent 4"
    assert target_words([0, 4]) == "target agents 0, 4"
    assert target_words(list(np.arange(7))) == "7 target agents"
