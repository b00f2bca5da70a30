"""The landmine fields: real data if available, made-up fields of the same form otherwise."""

from __future__ import annotations

import dataclasses
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import fedsim
from fedsim.cli.main import run_command
from fedsim.errors import ConfigError, MissingDataError
from fedsim.rng import rng
from fedsim.scenarios.kernel_svm import rbf_kernel, squared_distances
from fedsim.scenarios.landmine import (
    FIELDS,
    FOLDS,
    FieldObjective,
    Half,
    Landmine,
    area_under_curve,
    sigmoid_sign,
)
from fedsim.testing import check_scenario
from fedsim.workload import Evaluation, Scenario
from tests.util.processes import loaded_by

POINTS = [(0.01, 0.02), (0.5, 1.0), (3.0, 0.1), (10.0, 10.0), (7.0, 4.0)]
GOOD = {"C": 3.0, "gamma": 0.1}


def exact(objective: FieldObjective, point: dict[str, float]) -> float:
    decision = decision_values(
        objective.train, objective.validation.features, point["C"], point["gamma"]
    )
    return area_under_curve(objective.validation.labels, decision)


def decision_values(half: Half, X: np.ndarray, C: float, gamma: float) -> np.ndarray:
    """Return scikit-learn's decision function, or LIBSVM's constant if there is one class."""
    from sklearn.svm import SVC

    if len(set(half.labels)) == 1:
        return np.full(len(X), 2.0 * half.labels[0] - 1.0)
    values: np.ndarray = SVC(C=C, gamma=gamma).fit(half.features, half.labels).decision_function(X)
    return values


def sign_of(half: Half, C: float, gamma: float, seed: int) -> float:
    kernel = rbf_kernel(squared_distances(half.features, half.features), gamma)
    return sigmoid_sign(kernel, half.labels, C, np.random.default_rng(seed))


def folds_of(samples: int, generator: np.random.Generator) -> np.ndarray:
    """Return each sample's fold, assigned as in the objective."""
    fold = np.empty(samples, dtype=int)
    for number, rows in enumerate(np.array_split(generator.permutation(samples), FOLDS)):
        fold[rows] = number
    return fold


@pytest.fixture(scope="module")
def real(data_dir: Path) -> Path:
    """The folder of the real data sets."""
    if not (data_dir / "landmine").is_dir():
        pytest.skip("needs the data set landmine")
    return data_dir


@pytest.fixture(scope="module")
def decision(real: Path) -> Landmine:
    return Landmine(data_dir=real)


@pytest.fixture(scope="module")
def platt(real: Path) -> Landmine:
    return Landmine(score="platt", data_dir=real)


@pytest.fixture(scope="module")
def sample(platt: Landmine) -> list[Evaluation]:
    """The papers' score at four uniform points of every field."""
    found = []
    for agent in range(FIELDS):
        objective = platt.objective(agent)
        for k in range(4):
            point = platt.space.to_point(rng(0, "test-point", agent, k).random(2))
            found.append(objective(point, rng(0, "objective", agent, k)))
    return found


class TestRealData:
    def test_it_is_all_there_and_halved(self, decision: Landmine) -> None:
        objectives = [decision.objective(agent) for agent in range(FIELDS)]
        train = [o.train.labels for o in objectives]
        validation = [o.validation.labels for o in objectives]
        sizes = [len(a) + len(b) for a, b in zip(train, validation, strict=True)]
        assert (len(sizes), sum(sizes), min(sizes), max(sizes)) == (29, 14_820, 445, 690)
        assert [len(half) for half in train] == [n // 2 for n in sizes]
        assert sum(int(half.sum()) for half in [*train, *validation]) == 904
        assert min(int(half.sum()) for half in train) == 7
        assert {o.train.features.shape[1] for o in objectives} == {9}

    def test_the_split_is_the_papers_codes(self, real: Path, decision: Landmine) -> None:
        from sklearn.model_selection import train_test_split

        with np.load(real / "landmine" / "landmine.npz") as arrays:
            X, y, field = (arrays[name] for name in ("X", "y", "field"))
        for agent in (0, 9, 28):
            rows = field == agent + 1
            expected = train_test_split(
                X[rows], y[rows], test_size=0.5, stratify=y[rows], random_state=0
            )
            o = decision.objective(agent)
            found: list[np.ndarray] = [o.train.features, o.validation.features]
            found += [o.train.labels, o.validation.labels]
            for a, b in zip(expected, found, strict=True):
                assert np.array_equal(a, b)

    def test_the_original_file_is_the_same(
        self, real: Path, decision: Landmine, tmp_path: Path
    ) -> None:
        (tmp_path / "landmine").mkdir()
        name = "LandmineData.mat"
        (tmp_path / "landmine" / name).symlink_to(real / "landmine" / name)
        original = Landmine(data_dir=tmp_path)
        for agent in range(FIELDS):
            a, b = original.objective(agent), decision.objective(agent)
            for one, other in ((a.train, b.train), (a.validation, b.validation)):
                assert one.features.dtype == other.features.dtype
                assert one.labels.dtype == other.labels.dtype
                assert np.array_equal(one.features, other.features)
                assert np.array_equal(one.labels, other.labels)
        generator = np.random.default_rng(0)
        assert original.objective(3)(GOOD, generator) == decision.objective(3)(GOOD, generator)

    @pytest.mark.parametrize(("C", "gamma"), POINTS)
    def test_the_decisions_area_is_scikit_learns(
        self, decision: Landmine, C: float, gamma: float
    ) -> None:
        from sklearn.metrics import roc_auc_score
        from sklearn.svm import SVC

        for agent in (0, 12, 28):
            o = decision.objective(agent)
            model = SVC(C=C, gamma=gamma).fit(o.train.features, o.train.labels)
            scores = model.decision_function(o.validation.features)
            found = o({"C": C, "gamma": gamma}, np.random.default_rng(0))
            expected = roc_auc_score(o.validation.labels, scores)
            assert found.y == pytest.approx(expected, abs=1e-12)
            assert found.noiseless == found.y

    @pytest.mark.parametrize(("agent", "seed"), [(0, 0), (7, 1), (16, 2)])
    def test_platts_area_is_scikit_learns_on_the_same_folds(
        self, platt: Landmine, agent: int, seed: int
    ) -> None:
        from sklearn.calibration import CalibratedClassifierCV
        from sklearn.metrics import roc_auc_score
        from sklearn.model_selection import PredefinedSplit
        from sklearn.svm import SVC

        o = platt.objective(agent)
        for C, gamma in POINTS:
            folds = folds_of(len(o.train.labels), np.random.default_rng(seed))
            model = CalibratedClassifierCV(
                SVC(C=C, gamma=gamma), ensemble=False, cv=PredefinedSplit(folds)
            ).fit(o.train.features, o.train.labels)
            expected = roc_auc_score(
                o.validation.labels, model.predict_proba(o.validation.features)[:, 1]
            )
            found = o({"C": C, "gamma": gamma}, np.random.default_rng(seed))
            assert found.y == pytest.approx(expected, abs=2e-3)

    def test_platts_is_the_decisions_or_its_mirror(
        self, platt: Landmine, decision: Landmine, sample: list[Evaluation]
    ) -> None:
        for found in sample:
            assert found.noiseless is not None
            gaps = (abs(found.y - found.noiseless), abs(found.y - (1 - found.noiseless)))
            assert min(gaps) < 1e-12
        generator = np.random.default_rng(0)
        found = platt.objective(5)(GOOD, generator)
        assert found.noiseless == decision.objective(5)(GOOD, generator).y

    def test_the_generator_alone_makes_the_noise(self, platt: Landmine) -> None:
        objective, point = platt.objective(25), {"C": 9.0, "gamma": 9.0}
        values = [objective(point, rng(0, "objective", 25, k)) for k in range(8)]
        again = [objective(point, rng(0, "objective", 25, k)) for k in range(4)]
        assert again == values[:4]
        assert len({value.y for value in values}) == 2
        assert len({value.noiseless for value in values}) == 1

    def test_a_quarter_of_all_signs_is_wrong(self, sample: list[Evaluation]) -> None:
        # 0.28 of 290 calls were measured; the standard error of 116 is 0.04.
        wrong = np.mean([found.y != found.noiseless for found in sample])
        assert 0.15 < wrong < 0.41

    def test_means_at_uniform_points(self, sample: list[Evaluation]) -> None:
        # 0.58 and 0.645 over 870 calls; the standard errors of 116 are 0.015 and 0.009.
        assert np.mean([found.y for found in sample]) == pytest.approx(0.58, abs=0.045)
        assert np.mean([found.noiseless for found in sample]) == pytest.approx(0.645, abs=0.03)

    def test_an_objective_carries_its_own_field_only(self, decision: Landmine) -> None:
        for agent in (0, 28):
            o = decision.objective(agent)
            samples = len(o.train.labels) + len(o.validation.labels)
            sent = pickle.dumps(o)
            assert len(sent) < samples * (9 * 8 + 1) + 2000  # nine features and a label
            generator = np.random.default_rng(0)
            assert pickle.loads(sent)(GOOD, generator) == o(GOOD, generator)
            assert pickle.dumps(o) == sent  # what it has computed since stays here

    def test_ready_files_run(self, real: Path, here: Path) -> None:
        for name in ("landmine", "landmine-fts"):
            cheap = ["scenario.agents=4", "rounds=1", "variants={}", "backend=serial"]
            run = fedsim.run(name, overrides=cheap, data_dir=real)
            assert run.summaries()[0]["status"] == "done"
            assert run.observations["y"].between(0, 1).all()


class TestScenario:
    def test_it_is_one(self, tiny: Path) -> None:
        scenario = Landmine(data_dir=tiny)
        assert isinstance(scenario, Scenario)
        assert (scenario.agents, scenario.direction) == (29, "maximize")
        assert scenario.space.names == ("C", "gamma")

    @pytest.mark.parametrize("score", ["decision", "platt"])
    def test_it_conforms(self, tiny: Path, score: Any) -> None:
        check_scenario(Landmine(score=score, data_dir=tiny), points=3)

    def test_every_row_is_used_once(self, tiny: Path) -> None:
        with np.load(tiny / "landmine" / "landmine.npz") as arrays:
            expected = {n: np.sort(arrays["X"][arrays["field"] == n, 0]) for n in range(1, 30)}
        scenario = Landmine(data_dir=tiny)
        for agent in range(FIELDS):
            o = scenario.objective(agent)
            used = np.concatenate([o.train.features[:, 0], o.validation.features[:, 0]])
            assert np.array_equal(np.sort(used), expected[agent + 1])

    @pytest.mark.parametrize(
        ("scale", "middle"), [("linear", (5.00005, 5.005)), ("log", (10**-1.5, 10**-0.5))]
    )
    def test_scales(self, scale: Any, middle: tuple[float, float]) -> None:
        space = Landmine(scale=scale).space
        assert space.to_point(np.zeros(2)) == pytest.approx({"C": 1e-4, "gamma": 1e-2})
        assert space.to_point(np.ones(2)) == pytest.approx({"C": 10.0, "gamma": 10.0})
        expected = dict(zip(("C", "gamma"), middle, strict=True))
        assert space.to_point(np.full(2, 0.5)) == pytest.approx(expected)

    @pytest.mark.parametrize("score", ["decision", "platt"])
    def test_a_run(self, tiny: Path, here: Path, score: str) -> None:
        raw = {
            "scenario": {"name": "landmine", "agents": 2, "score": score},
            "method": {"name": "random-search", "initial_points": 3},
            "rounds": 2,
            "backend": "serial",
        }
        run = fedsim.run(raw, data_dir=tiny)
        seen = run.observations
        assert len(seen) == 2 * (3 + 2)
        assert seen["y"].between(0, 1).all()
        assert (seen["noiseless"] == seen["y"]).all() == (score == "decision")
        for _, row in seen.iterrows():
            objective = Landmine(2, data_dir=tiny).objective(int(row["agent"]))
            point = {"C": row["point.C"], "gamma": row["point.gamma"]}
            assert row["noiseless"] == exact(objective, point)

    def test_arrays_may_be_read_only(self, tiny: Path) -> None:
        o = Landmine(score="platt", data_dir=tiny).objective(1)
        for half in (o.train, o.validation):
            half.features.setflags(write=False)
            half.labels.setflags(write=False)
        again = Landmine(score="platt", data_dir=tiny).objective(1)
        assert o(GOOD, rng(0, "x", 0, 0)) == again(GOOD, rng(0, "x", 0, 0))

    @pytest.mark.heavy
    def test_building_loads_neither_data_nor_scikit_learn(self) -> None:
        code = "from fedsim.scenarios.landmine import Landmine; Landmine().space"
        assert "sklearn" not in loaded_by(code)

    def test_every_setting_is_documented(self) -> None:
        page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
        told = {f.name for f in dataclasses.fields(Landmine)} - {"data_dir"}
        assert {name for name in told if f"`scenario.{name}`" not in page} == set()


class TestRefusals:
    @pytest.mark.parametrize("agents", [0, 30, -1])
    def test_agents(self, agents: int) -> None:
        with pytest.raises(ConfigError, match=rf"scenario\.agents: expected 1 to 29, got {agents}"):
            Landmine(agents)

    def test_a_missing_set(self, tmp_path: Path) -> None:
        with pytest.raises(MissingDataError, match="data set landmine is not in"):
            Landmine(data_dir=tmp_path).objective(0)

    @pytest.mark.parametrize(
        ("assignment", "message"),
        [
            ("agents=30", "scenario.agents: expected 1 to 29, got 30"),
            ("score=auc", "scenario.score: expected 'decision' or 'platt', got 'auc'"),
            ("scale=cubic", "scenario.scale: expected 'linear' or 'log', got 'cubic'"),
            ("scores=platt", "scenario.scores: unknown key; did you mean 'score'?"),
        ],
    )
    def test_settings(self, tiny: Path, said: Said, assignment: str, message: str) -> None:
        arguments = ("--set", f"scenario.{assignment}", "--data", str(tiny))
        assert message in said("run", "landmine", *arguments)

    def test_the_command_line_says_both_ways_to_get_the_data(
        self, tmp_path: Path, said: Said
    ) -> None:
        (tmp_path / "none").mkdir()
        text = said("run", "landmine", "--backend", "serial", "--data", str(tmp_path / "none"))
        assert f"the data set landmine is not in {tmp_path / 'none' / 'landmine'}" in text
        assert "`fedsim data fetch landmine --data" in text
        assert "set data_dir (--data DIR) or the variable FEDSIM_DATA" in text
        assert not Path("runs").exists()

    def test_a_wrong_checksum(self, tiny: Path, said: Said) -> None:
        path = tiny / "landmine" / "landmine.npz"
        content = bytearray(path.read_bytes())
        content[100] ^= 1
        path.write_bytes(content)
        text = said("run", "landmine", "--backend", "serial", "--data", str(tiny))
        assert f"{path}: expected" in text
        assert "it is damaged or another version; remove it and get it again" in text
        assert not Path("runs").exists()


@dataclass
class Said:
    """Runs a command that must fail and returns its message."""

    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str) -> str:
        code = run_command(arguments)
        text = " ".join(self.capsys.readouterr().err.split())
        assert code == 2, text
        assert text.startswith("error: ")
        assert "Traceback" not in text
        return text


@pytest.fixture
def said(here: Path, capsys: pytest.CaptureFixture[str]) -> Said:
    return Said(capsys)


class TestArea:
    @given(
        st.lists(st.tuples(st.booleans(), st.integers(-3, 3)), min_size=2, max_size=30).filter(
            lambda rows: len({label for label, _ in rows}) == 2
        )
    )
    def test_it_counts_pairs_and_ties_half(self, rows: list[tuple[bool, int]]) -> None:
        positives = [score for label, score in rows if label]
        negatives = [score for label, score in rows if not label]
        wins = sum((p > n) + 0.5 * (p == n) for p in positives for n in negatives)
        labels = np.array([label for label, _ in rows], dtype=np.uint8)
        scores = np.array([score for _, score in rows], dtype=float)
        found = area_under_curve(labels, scores)
        assert found == pytest.approx(wins / (len(positives) * len(negatives)), abs=1e-12)
        assert area_under_curve(labels, -scores) == pytest.approx(1 - found, abs=1e-12)

    def test_known_values(self) -> None:
        labels = np.array([0, 0, 1, 1], dtype=np.uint8)
        for scores, area in (([1, 2, 3, 4], 1), ([4, 3, 2, 1], 0), ([5] * 4, 0.5)):
            assert area_under_curve(labels, np.array(scores, dtype=float)) == area

    def test_many_samples_do_not_overflow_the_labels_type(self) -> None:
        labels = np.repeat(np.array([0, 1], dtype=np.uint8), 400)
        assert area_under_curve(labels, np.arange(800.0)) == 1.0


def random_half(seed: int, positives: int = 6, samples: int = 30) -> Half:
    generator = np.random.default_rng(seed)
    labels = (np.arange(samples) < positives).astype(np.uint8)
    return Half(generator.normal(size=(samples, 3)) + 0.3 * labels[:, None], labels)


def platts_slope(decision: np.ndarray, labels: np.ndarray) -> float:
    """Fit Platt's sigmoid with its smoothed targets by brute force; return the slope."""
    positives = int(labels.sum())
    negatives = len(labels) - positives
    targets = np.where(labels == 1, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    scaled = decision / np.abs(decision).max()

    def loss(weights: np.ndarray) -> float:
        z = weights[0] * scaled + weights[1]
        return float(np.sum(np.logaddexp(0, z) - targets * z))

    return float(minimize(loss, np.zeros(2), tol=1e-12).x[0])


class TestSign:
    @settings(max_examples=15)
    @given(st.integers(0, 10_000), st.sampled_from([0.1, 1.0, 10.0]), st.sampled_from([0.1, 2.0]))
    def test_it_is_that_of_the_fitted_slope(self, seed: int, C: float, gamma: float) -> None:
        half = random_half(seed)
        X, y = half.features, half.labels
        folds = folds_of(len(y), np.random.default_rng(seed))
        out = np.empty(len(y))
        for number in range(FOLDS):
            rest, inside = folds != number, folds == number
            out[inside] = decision_values(Half(X[rest], y[rest]), X[inside], C, gamma)
        slope = platts_slope(out, y)
        assume(abs(slope) > 1e-3)  # the brute force is exact to about 1e-6
        assert sign_of(half, C, gamma, seed) == np.sign(slope)

    def test_both_signs_occur(self) -> None:
        found = {sign_of(random_half(seed), 1.0, 1.0, seed) for seed in range(30)}
        assert found == {-1.0, 1.0}

    def test_a_clear_difference_is_found(self) -> None:
        labels = np.repeat(np.array([0, 1], dtype=np.uint8), 20)
        half = Half(10.0 * labels[:, None] + np.arange(40)[:, None] / 40, labels)
        assert sign_of(half, 1.0, 0.1, 0) == 1.0

    def test_a_fold_that_leaves_one_class_to_train_with(self) -> None:
        """With one mine, the fold that holds it is judged by an SVM that knows none."""
        half = random_half(0, positives=1, samples=10)
        assert sign_of(half, 1.0, 1.0, 0) == -1.0
