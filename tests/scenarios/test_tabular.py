"""Gradient boosting on tables: made-up data sets, and the real ones if available."""

from __future__ import annotations

import gzip
import inspect
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import fedsim
from fedsim.cli.main import run_command
from fedsim.errors import ConfigError, MissingDataError
from fedsim.rng import rng
from fedsim.scenarios.partition import Partition
from fedsim.scenarios.tables import DROPPED, Name, Table, read_table
from fedsim.scenarios.tabular import SPACE, USUAL_AGENTS, BoostingObjective, Tabular
from fedsim.space import Array
from fedsim.testing import check_scenario
from fedsim.workload import KnowsBaseline, Scenario
from tests.util.processes import loaded_by

NAMES: tuple[Name, ...] = get_args(Name)
QUICK = {
    "learning_rate": 0.3,
    "max_iter": 5,
    "max_leaf_nodes": 4,
    "min_samples_leaf": 5,
    "l2_regularization": 0.1,
}


def rows_of(scenario: Tabular) -> list[Array]:
    """Return the row numbers of every agent, its training half first."""
    objectives = [scenario.objective(agent) for agent in range(scenario.agents)]
    return [np.concatenate([o.train.X[:, 0], o.validation.X[:, 0]]) for o in objectives]


class TestTables:
    def test_support2(self, tiny: Path) -> None:
        table = read_table("support2", tiny)
        assert table.X.shape == (600, 3)  # age, sex, ca: all else is dropped
        age, sex, ca = table.X.T
        assert np.isnan(age[0::5]).all()
        assert not np.isnan(age[1::5]).any()
        assert sex[:3].tolist()[:2] == [1.0, 0.0]  # male, female
        assert np.isnan(sex[2::3]).all()
        assert set(ca) == {0.0, 1.0}
        assert set(table.y) == {0, 1}

    @pytest.mark.parametrize("name", ["credit_default", "cdc_diabetes"])
    def test_numbers(self, tiny: Path, name: Name) -> None:
        table = read_table(name, tiny)
        assert (table.X.dtype.name, table.y.dtype.name) == ("float64", "uint8")
        assert table.X[:, 0].tolist() == list(range(600))

    def test_missing(self, tmp_path: Path) -> None:
        with pytest.raises(MissingDataError, match="data set support2 is not in"):
            read_table("support2", tmp_path)

    @pytest.mark.parametrize(
        ("name", "shape", "share"),
        [
            ("credit_default", (30_000, 23), 0.2212),
            ("cdc_diabetes", (253_680, 21), 0.1393),
            ("support2", (9_105, 30), 0.2592),
        ],
    )
    def test_the_real_ones(
        self, data_dir: Path, name: Name, shape: tuple[int, int], share: float
    ) -> None:
        if not (data_dir / name).is_dir():
            pytest.skip(f"needs the data set {name}")
        table = read_table(name, data_dir)
        assert table.X.shape == shape
        assert table.y.mean() == pytest.approx(share, abs=5e-5)
        assert np.isnan(table.X).any() == (name == "support2")

    def test_all_that_is_dropped_from_support2_is_there(self, data_dir: Path) -> None:
        if not (data_dir / "support2").is_dir():
            pytest.skip("needs the data set support2")
        with gzip.open(data_dir / "support2" / "support2.csv.gz", "rt") as stream:
            names = stream.readline().strip().replace('"', "").split(",")
        assert set(DROPPED) < set(names)
        assert len(names) - len(DROPPED) - 1 == 30


class TestScenario:
    def test_it_is_one(self) -> None:
        scenario = Tabular()
        assert isinstance(scenario, Scenario)
        assert isinstance(scenario, KnowsBaseline)
        assert scenario.space.dimension >= 4
        assert Tabular(metric="auc").direction == "maximize"
        assert scenario.direction == "minimize"

    def test_the_usual_number_of_agents(self) -> None:
        assert {name: Tabular(name).agents for name in NAMES} == dict(USUAL_AGENTS)
        assert dict(USUAL_AGENTS) == {"credit_default": 30, "cdc_diabetes": 30, "support2": 9}
        assert Tabular("support2", 4).agents == 4

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("metric", ["error", "auc"])
    def test_it_conforms(self, tiny: Path, name: Name, metric: Any) -> None:
        check_scenario(Tabular(name, 3, metric=metric, data_dir=tiny), points=1)

    @pytest.mark.parametrize("kind", ["quantity", "dirichlet", "iid"])
    def test_every_row_is_used_once(self, tiny: Path, kind: Any) -> None:
        scenario = Tabular(agents=4, partition=Partition(kind, 1.0), data_dir=tiny)
        assert np.sort(np.concatenate(rows_of(scenario))).tolist() == list(range(600))

    def test_halves_have_equal_shares_of_both_classes(self, tiny: Path) -> None:
        scenario = Tabular(agents=4, data_dir=tiny)
        for agent in range(4):
            o = scenario.objective(agent)
            assert abs(int(o.train.y.sum()) - int(o.validation.y.sum())) <= 1
            assert abs(len(o.train.y) - len(o.validation.y)) <= 1

    def test_a_large_set_is_thinned_and_quantities_stay_skewed(self, tiny: Path) -> None:
        rows = rows_of(Tabular(agents=5, rows=60, data_dir=tiny))
        sizes = [len(own) for own in rows]
        assert sum(sizes) == 5 * 60
        assert len(np.unique(np.concatenate(rows))) == 300
        assert max(sizes) - min(sizes) > 5

    def test_label_skew(self, tiny: Path) -> None:
        scenario = Tabular(agents=4, partition=Partition("dirichlet", 0.3, 2), data_dir=tiny)
        shares = [scenario.objective(a).train.y.mean() for a in range(4)]
        assert max(shares) - min(shares) > 0.2

    def test_built_again_it_is_the_same_and_another_seed_is_another(self, tiny: Path) -> None:
        one, again, other = (
            rows_of(Tabular(agents=3, rows=50, seed=seed, data_dir=tiny))[1] for seed in (0, 0, 1)
        )
        assert np.array_equal(one, again)
        assert not np.array_equal(one, other)

    @pytest.mark.heavy
    def test_building_loads_neither_data_nor_scikit_learn(self) -> None:
        loaded = loaded_by("from fedsim.scenarios.tabular import Tabular; Tabular().space")
        assert not {"sklearn", "pandas"} & set(loaded)

    def test_every_setting_is_documented(self) -> None:
        page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
        told = {*inspect.signature(Tabular).parameters} - {"seed", "data_dir", "partition"}
        assert {name for name in told if f"`scenario.{name}`" not in page} == set()
        assert "`scenario.partition.*`" in page


class TestObjective:
    def test_the_error_and_the_area(self) -> None:
        """With one useful feature, both can be computed by hand from scikit-learn's model."""
        from sklearn.ensemble import HistGradientBoostingClassifier

        generator = np.random.default_rng(0)
        y = (generator.random(200) < 0.4).astype(np.uint8)
        X = generator.normal(size=(200, 3)) + y[:, None]
        train, validation = Table(X[:100], y[:100]), Table(X[100:], y[100:])
        model = HistGradientBoostingClassifier(**QUICK, early_stopping=False)
        scores = model.fit(train.X, train.y).predict_proba(validation.X)[:, 1]
        generator = rng(0, "x", 0, 0)
        error = BoostingObjective(train, validation, "error")(QUICK, generator)
        assert error == np.mean(model.predict(validation.X) != validation.y)
        positives, negatives = scores[validation.y == 1], scores[validation.y == 0]
        pairs = positives[:, None] - negatives
        area = np.mean((pairs > 0) + 0.5 * (pairs == 0))
        found = BoostingObjective(train, validation, "auc")(QUICK, generator)
        assert found == pytest.approx(area, abs=1e-12)

    def test_every_parameter_is_the_classifiers_own(self) -> None:
        from sklearn.ensemble import HistGradientBoostingClassifier

        assert set(SPACE.names) <= set(HistGradientBoostingClassifier().get_params())
        assert set(SPACE.names) == set(QUICK)

    def test_one_thread(
        self, tiny: Path, two_threads: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from sklearn.ensemble import HistGradientBoostingClassifier
        from threadpoolctl import threadpool_info

        found: list[int] = []
        fit = HistGradientBoostingClassifier.fit

        def watched(*arguments: Any) -> Any:
            found.extend(one["num_threads"] for one in threadpool_info())
            return fit(*arguments)

        monkeypatch.setattr(HistGradientBoostingClassifier, "fit", watched)
        Tabular(agents=2, data_dir=tiny).objective(0)(QUICK, rng(0, "x", 0, 0))
        assert set(found) == {1}


class TestBaseline:
    def test_it_is_the_error_of_the_more_frequent_class(self, tiny: Path) -> None:
        scenario = Tabular(agents=3, data_dir=tiny)
        for agent in range(3):
            o = scenario.objective(agent)
            frequent = int(np.bincount(o.train.y).argmax())
            assert scenario.baseline(agent) == np.mean(o.validation.y != frequent)

    def test_the_class_is_the_training_halfs(self, tiny: Path) -> None:
        """With skewed labels, yes is the more frequent class of some agents."""
        scenario = Tabular(agents=4, partition=Partition("dirichlet", 0.3, 2), data_dir=tiny)
        means = [float(scenario.objective(a).train.y.mean()) for a in range(4)]
        assert max(means) > 0.5
        assert all(scenario.baseline(agent) <= 0.55 for agent in range(4))

    def test_of_the_area(self, tiny: Path) -> None:
        assert Tabular(agents=3, metric="auc", data_dir=tiny).baseline(0) == 0.5

    def test_a_run_shows_it(
        self, tiny: Path, here: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        raw = {
            "scenario": {"name": "tabular", "agents": 2},
            "method": {"name": "random-search", "initial_points": 2},
            "rounds": 1,
            "backend": "serial",
        }
        run = fedsim.run(raw, data_dir=tiny)
        scenario = Tabular(agents=2, data_dir=tiny)
        mean = (scenario.baseline(0) + scenario.baseline(1)) / 2
        told = run.summaries()[0]["baseline"]
        assert told == {"name": "always the more frequent class", "mean": pytest.approx(mean)}
        assert run_command(["show", str(run.folder)]) == 0
        text = capsys.readouterr().out
        assert "baseline: always the more frequent class; the mean over agents" in text
        assert f"{mean:.4g}" in text


class TestRefusals:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"dataset": "iris"}, "scenario.dataset: expected one of credit_default, "),
            ({"metric": "f1"}, "scenario.metric: expected error or auc, got f1"),
            ({"agents": 0}, "scenario.agents: expected at least 1, got 0"),
            ({"rows": 3}, "scenario.rows: expected at least 4, got 3"),
        ],
    )
    def test_settings(self, settings: dict[str, Any], message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            Tabular(**settings)

    def test_too_many_agents(self, tiny: Path) -> None:
        with pytest.raises(ConfigError, match=r"scenario\.agents: expected 1 to 120 \(600 samples"):
            Tabular(agents=121, data_dir=tiny).objective(0)

    def test_one_class_to_validate_with(self, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of two no and one yes, a no and the yes are for training."""
        labels = read_table("credit_default", tiny).y
        hand = np.array([*np.flatnonzero(labels == 0)[:2], *np.flatnonzero(labels == 1)[:1]])
        monkeypatch.setattr("fedsim.scenarios.tabular.deal", lambda *_: (hand,))
        assert Tabular(agents=1, rows=600, data_dir=tiny).objective(0).validation.y.tolist() == [0]
        with pytest.raises(ConfigError, match=r"agent 0: scenario\.metric: auc needs both classes"):
            Tabular(agents=1, rows=600, metric="auc", data_dir=tiny).objective(0)

    def test_the_command_line(
        self, tiny: Path, here: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        call = ("evaluate", "tabular", "--set", "scenario.metric=f1", "--point", "[1]")
        assert run_command([*call, "--data", str(tiny)]) == 2
        text = " ".join(capsys.readouterr().err.split())
        assert "scenario.metric: expected 'error' or 'auc', got 'f1'" in text
