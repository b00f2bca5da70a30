import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.cli.summary import print_outcome
from fedsim.errors import ConfigError, RunFolderError
from fedsim.privacy.events import SubsampledGaussian
from fedsim.record.runfolder import RunFolder
from fedsim.results.analysis import Run, load
from fedsim.results.losses import epsilons
from fedsim.results.seeds import SeedRun
from fedsim.results.tables import finish
from tests.util.small import journal_of

METHOD: dict[str, Any] = {
    "name": "dp-fts-de",
    "initial_points": 3,
    "message": {"features": 20, "length_scale": 0.05},
    "surrogate": {"length_scale": 0.05, "fit_every": 0},
}
CONFIG: dict[str, Any] = {
    "name": "trial",
    "scenario": {"name": "synthetic", "agents": 6, "grid_size": 100},
    "method": METHOD,
    "rounds": 5,
    "seeds": [0, 2],
    "backend": "serial",
    "noise_control": True,
    "variants": {"alone": {"method": {"name": "ts"}}, "a private [one]": {}},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return fedsim.run(CONFIG, out=tmp_path_factory.mktemp("analysis") / "run")


def test_runs_come_in_the_configurations_order(run: Run) -> None:
    labels = [(one.variant, one.seed) for one in run.runs]
    control = "a private [one] (noise only)"
    variants = ("alone", "a private [one]", control)
    assert labels == [(variant, seed) for variant in variants for seed in (0, 2)]


def test_simple_regret_is_the_optimums_distance_from_the_best_noiseless_value(run: Run) -> None:
    from fedsim.scenarios.synthetic import Synthetic

    scenario = Synthetic(agents=6, grid_size=100, seed=2)
    observed = run.observations.query("variant == 'alone' and seed == 2 and round <= 3")
    expected = np.mean(
        [
            scenario.optimum(agent) - observed.loc[observed["agent"] == agent, "noiseless"].max()
            for agent in range(6)
        ]
    )
    rounds = run.rounds.query("variant == 'alone' and seed == 2").set_index("round")
    assert rounds.loc[3, "mean_simple_regret"] == pytest.approx(expected, abs=1e-12)


def test_round_tables_hold_together(run: Run) -> None:
    rounds = run.rounds
    assert set(rounds["round"]) == set(range(6))
    for _, own in rounds.groupby(["variant", "seed"]):
        assert (np.diff(own["mean_simple_regret"]) <= 1e-12).all()
        assert (np.diff(own["mean_best_observed"]) >= -1e-12).all()
        assert (own["simple_regret"] <= own["mean_simple_regret"] + 1e-12).all()
        increments = np.diff(own["mean_cumulative_regret"])
        assert increments == pytest.approx(own["mean_regret"].to_numpy()[1:])
        assert own["mean_cumulative_regret"].iloc[0] == 0
    private = rounds[rounds["variant"].str.startswith("a private")]
    for _, own in private.groupby(["variant", "seed"]):
        epsilon = own["epsilon_pld"].to_numpy()
        assert (np.diff(epsilon[:5]) > 0).all()
        assert epsilon[5] == epsilon[4]  # nothing is released after the last query


def test_observations_are_in_the_scenarios_units(run: Run) -> None:
    observed = run.observations
    assert observed["point.x"].between(0, 1).all()
    assert len(observed) == 6 * 6 * (3 + 5)  # runs, agents, initial points and queries
    noise = (observed["y"] - observed["noiseless"]).std()
    assert noise == pytest.approx(0.1, rel=0.2)


def test_methods_on_one_seed_share_functions_and_noise(run: Run) -> None:
    first = run.observations.query("round == 0 and index < 3 and agent == 1 and seed == 0")
    by_variant = {v: own["point.x"].to_numpy() for v, own in first.groupby("variant")}
    alone, private = by_variant["alone"], by_variant["a private [one]"]
    assert np.allclose(0.5 + alone / 2, private, atol=0.011)  # the same draw on the half domain


def test_load_finds_a_variant_and_a_seed(run: Run) -> None:
    assert [one.seed for one in load(run.folder / "alone").runs] == [0, 2]
    single = load(run.folder / "alone" / "seed-2")
    assert [(one.variant, one.seed) for one in single.runs] == [("alone", 2)]
    with pytest.raises(RunFolderError, match="not a run folder"):
        load(run.folder / "nothing")


def test_an_unfinished_run_says_how_to_finish_it(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "copy" / "seed-0"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("method: {name: ts}\n")
    with pytest.raises(RunFolderError, match=r"not started.*fedsim resume"):
        _ = load(tmp_path / "copy").rounds


def test_epsilons_report_all_that_a_reader_must_know() -> None:
    events = [SubsampledGaussian(0.25, 1.0, 1.0)] * 40
    report = epsilons(events, 200**-1.1)
    assert report["moments"] == pytest.approx(9.9085, abs=5e-4)
    assert report["pld"] == pytest.approx(7.0538, abs=1e-3)
    assert report["rdp"] == pytest.approx(8.4061, abs=5e-3)
    assert report["delta_1e-5"]["pld"] == pytest.approx(11.28, abs=5e-3)
    assert report["delta"] == 200**-1.1
    assert {"neighbouring_relation", "sampling", "releases", "pld_exact_multipliers"} <= set(report)
    assert epsilons([], 0.1) == {}


def test_exact_multipliers_cost_less() -> None:
    report = epsilons([SubsampledGaussian(0.25, 1.0, 1.4)] * 5, 1e-3)
    assert report["pld_exact_multipliers"] < report["pld"]


def test_the_closing_table_has_one_row_per_variant(run: Run) -> None:
    from rich.console import Console

    console = Console(width=140, record=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    print_outcome(console, run.summaries())
    text = console.export_text()
    assert "a private [one] (noise only)" in text
    assert text.count("±") == 9
    assert all(name in text for name in ("simple regret", "inference regret", "best observed"))


def test_summaries_hold_what_scripts_rely_on(run: Run) -> None:
    for summary in run.summaries():
        assert summary["status"] == "done"
        assert len(summary["journal_sha256"]) == 64
        assert summary["objective_seconds"] >= 0
        assert summary["other_seconds"] > 0
        assert summary["metric"] == "simple_regret"
        assert summary["simple_regret"] <= summary["mean_simple_regret"]


@pytest.mark.parametrize("method", ["ts", "fts"])
def test_one_agent_alone_needs_no_delta(method: str, tmp_path: Path) -> None:
    scenario = {"name": "synthetic", "agents": 1, "grid_size": 50}
    config = {"scenario": scenario, "method": {"name": method}, "rounds": 1, "backend": "serial"}
    (summary,) = fedsim.run(config, out=tmp_path / "run").summaries()
    assert summary["status"] == "done"
    assert summary["epsilon"] == {}


def test_every_release_of_a_round_is_charged(run: Run, tmp_path: Path) -> None:
    from fedsim.scenarios.synthetic import Synthetic

    one = next(one for one in run.runs if one.variant == "a private [one]")
    shutil.copytree(one.folder.path, tmp_path / "seed-0")
    folder = RunFolder(tmp_path / "seed-0")
    lines = [json.loads(line) for line in folder.journal.read_text().splitlines()]
    release = next(line for line in lines if line["kind"] == "release")
    first = next(i for i, line in enumerate(lines) if line["kind"] == "step")
    lines.insert(first, {**release, "t": -1})  # before the first step
    lines.insert(first + 3, {**release, "t": 0})  # a second one in round 0
    folder.journal.write_bytes(journal_of(lines))
    folder.update_manifest(delta=1e-5, status="running")
    outcome = finish(folder, Synthetic(agents=6, grid_size=100).space)
    rounds = SeedRun("copy", folder).rounds
    assert outcome["epsilon"]["releases"] == 7
    event = SubsampledGaussian.from_record(release["event"])
    assert rounds["epsilon_pld"].iloc[0] == epsilons([event] * 3, 1e-5)["pld"]
    assert rounds["epsilon_pld"].iloc[-1] == outcome["epsilon"]["pld"]


def strict(value: Any) -> Any:
    """Return a value after a round trip through strict JSON, which other languages can read."""
    return json.loads(json.dumps(value, allow_nan=False))


def small_run(out: Path, **changes: Any) -> SeedRun:
    (one,) = fedsim.run(
        CONFIG | {"variants": {}, "noise_control": False, "seeds": [0]} | changes, out=out
    ).runs
    return one


def test_every_round_has_a_row_whoever_was_present(tmp_path: Path) -> None:
    one = small_run(tmp_path / "run", availability=[0.3] * 5 + [0.0])
    rounds = one.rounds
    assert list(rounds["round"]) == [0, 1, 2, 3, 4, 5]
    observed = one.observations
    present = observed.groupby("round")["agent"].nunique().reindex(range(6), fill_value=0)
    assert 0 in present.to_numpy()  # else this test checks nothing
    summary = strict(one.summary())
    assert summary["absences"] == 6 * 6 - present.sum()
    assert "evaluations_failed" not in summary
    last = observed.groupby("agent")["regret"].min()
    assert summary["mean_simple_regret"] == pytest.approx(last.mean())
    assert rounds["mean_cumulative_regret"].notna().all()
    assert rounds["mean_simple_regret"].isna().sum() == (present.cumsum() == 0).sum()


def test_a_run_in_which_nobody_was_ever_present(tmp_path: Path) -> None:
    one = small_run(tmp_path / "run", availability=0.0)
    summary = strict(one.summary())
    assert (summary["simple_regret"], summary["best_observed"], summary["evaluations"]) == (
        None,
        None,
        0,
    )
    assert (summary["absences"], summary["status"]) == (36, "done")
    assert summary["epsilon"]["releases"] == 5
    rounds = one.rounds
    assert len(rounds) == 6
    assert rounds["mean_best_observed"].isna().all()
    assert (rounds["mean_cumulative_regret"] == 0).all()


def test_failed_evaluations_are_counted_and_the_first_is_told(
    tmp_path: Path, user_module: Any
) -> None:
    module = user_module(
        """
        from fedsim.space import Parameter, Space
        class Fails:
            space, direction, agents = Space((Parameter("x", 0, 1),)), "minimize", 3
            def objective(self, agent):
                return lambda point, rng: 1 / (2 - agent)
        """
    )
    scenario, method = {"name": f"{module}:Fails"}, {"name": "random-search", "initial_points": 2}
    one = small_run(tmp_path / "run", scenario=scenario, method=method, on_error="skip")
    summary = strict(one.summary())
    assert (summary["evaluations"], summary["evaluations_failed"]) == (2 * 7, 7)
    assert "ZeroDivisionError (agent 2, round 0" in summary["first_failure"]
    assert (summary["best_observed"], summary["mean_best_observed"]) == (0.5, 0.75)
    seconds = [json.loads(line) for line in one.folder.timings.read_text().splitlines()]
    wall = sum(line["seconds"] for line in seconds if line["kind"] == "round")
    assert summary["evaluations_per_second"] == pytest.approx(14 / wall)


def test_a_lost_release_is_not_drawn_again(tmp_path: Path) -> None:
    config = CONFIG | {"variants": {}, "noise_control": False, "seeds": [0]}
    config |= {"privacy": {"noise_source": "system"}}
    (one,) = fedsim.run(config, out=tmp_path / "run").runs
    one.folder.update_manifest(status="failed")
    state = one.folder.path / "state"
    (state / "checkpoint.npz").unlink()
    (state / "releases" / "2.npz").unlink()
    with pytest.raises(RunFolderError, match=r"2\.npz: missing.*round 2"):
        fedsim.resume(tmp_path / "run")
    assert not (state / "releases" / "2.npz").exists()


def test_the_order_of_variants_is_kept_whatever_the_configuration_calls_them(
    run: Run, tmp_path: Path
) -> None:
    shutil.copytree(run.folder, tmp_path / "copy")
    (tmp_path / "copy" / "config.yaml").write_text("variants: {}\n")
    assert [one.variant for one in load(tmp_path / "copy").runs] == [
        one.variant for one in run.runs
    ]


def test_a_home_folder_that_does_not_exist_is_said() -> None:
    with pytest.raises(ConfigError, match=r"~nobody-of-this-name/runs: .*; give the whole path"):
        load("~nobody-of-this-name/runs")
