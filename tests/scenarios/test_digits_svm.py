import dataclasses
import pickle
from pathlib import Path

import numpy as np
import pytest

from fedsim.cli.main import run_command
from fedsim.errors import ConfigError
from fedsim.scenarios.digits_svm import DigitsSVM, SVMObjective
from fedsim.scenarios.partition import Partition
from fedsim.testing import check_scenario
from fedsim.workload import Scenario
from tests.util.processes import loaded_by

GOOD = {"C": 10.0, "gamma": 0.03}


@pytest.fixture(scope="module")
def scenario() -> DigitsSVM:
    return DigitsSVM()


def rows(pixels: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return samples with their labels in an order that does not depend on the given one."""
    together = np.column_stack([pixels, labels])
    return together[np.lexsort(together.T)]


class TestData:
    def test_it_is_a_scenario(self, scenario: DigitsSVM) -> None:
        assert isinstance(scenario, Scenario)
        assert (scenario.agents, scenario.direction) == (20, "maximize")
        assert scenario.space.names == ("C", "gamma")

    def test_scales(self) -> None:
        # Exact: half way is the geometric or the arithmetic mean.
        half = np.array([0.5, 0.5])
        assert DigitsSVM().space.to_point(half) == pytest.approx({"C": 10.0, "gamma": 0.01})
        linear = DigitsSVM(scale="linear").space.to_point(half)
        assert linear == pytest.approx({"C": 500.05, "gamma": 0.50005})

    @pytest.mark.parametrize("kind", ["dirichlet", "quantity", "iid"])
    def test_every_sample_is_used_once(self, kind: str) -> None:
        from sklearn.datasets import load_digits

        scenario = DigitsSVM(partition=Partition(kind))  # type: ignore[arg-type]
        objectives = [scenario.objective(a) for a in range(20)]
        halves = [(o.train_pixels, o.train_labels) for o in objectives]
        halves += [(o.validation_pixels, o.validation_labels) for o in objectives]
        pixels, labels = load_digits(return_X_y=True)
        assert np.array_equal(
            rows(*(np.concatenate(part) for part in zip(*halves, strict=True))),
            rows(pixels / 16, labels),
        )

    @pytest.mark.parametrize(("agents", "concentration"), [(20, 0.5), (177, 0.01), (3, 100.0)])
    def test_both_halves_know_two_digits(self, agents: int, concentration: float) -> None:
        scenario = DigitsSVM(agents, Partition("dirichlet", concentration))
        for agent in range(agents):
            o = scenario.objective(agent)
            for half in (o.train_labels, o.validation_labels):
                assert (np.bincount(half) >= 2).sum() >= 2

    def test_the_kinds_are_what_they_say(self) -> None:
        def sizes_and_digits(partition: Partition) -> tuple[float, float]:
            scenario = DigitsSVM(partition=partition)
            train = [scenario.objective(a).train_labels for a in range(20)]
            return float(np.std([len(t) for t in train])), float(
                np.mean([len(set(t)) for t in train])
            )

        iid, quantity = sizes_and_digits(Partition("iid")), sizes_and_digits(Partition("quantity"))
        assert iid[0] < 1 < 20 < quantity[0]
        assert sizes_and_digits(Partition("dirichlet", 0.05))[1] < 4 < 7 < quantity[1]
        assert iid[1] == 10

    def test_more_agents_than_the_digits_serve(self) -> None:
        with pytest.raises(ConfigError, match="expected at most 177, got 178: 1797 samples"):
            DigitsSVM(agents=178).objective(0)

    def test_built_again_it_is_the_same_and_another_seed_is_another(
        self, scenario: DigitsSVM
    ) -> None:
        again, other = DigitsSVM().objective(6), DigitsSVM(seed=1).objective(6)
        assert np.array_equal(again.train_pixels, scenario.objective(6).train_pixels)
        assert not np.array_equal(other.train_pixels, again.train_pixels)


class TestObjective:
    def test_good_settings_beat_bad_ones(self, scenario: DigitsSVM) -> None:
        generator = np.random.default_rng(0)
        for agent in range(5):
            objective = scenario.objective(agent)
            floor = objective({"C": 0.1, "gamma": 1e-4}, generator)
            assert objective(GOOD, generator) > floor + 0.2

    def test_a_known_accuracy(self) -> None:
        # Two clusters on a line, and one validation sample of four on the wrong side.
        pixels = np.array([[0.0], [0.1], [0.9], [1.0], [0.05], [0.95], [0.9], [0.92]])
        labels = np.array([0, 0, 1, 1, 0, 1, 1, 0])
        objective = SVMObjective(pixels[:4], labels[:4], pixels[4:], labels[4:])
        assert objective({"C": 100.0, "gamma": 1.0}, np.random.default_rng(0)) == 0.75

    def test_it_repeats_exactly_and_leaves_the_generator_alone(self, scenario: DigitsSVM) -> None:
        generator = np.random.default_rng(0)
        objective = scenario.objective(2)
        assert objective(GOOD, generator) == objective(GOOD, generator)
        assert generator.random() == np.random.default_rng(0).random()

    def test_agents_differ(self, scenario: DigitsSVM) -> None:
        found = {scenario.objective(a)(GOOD, np.random.default_rng(0)) for a in range(8)}
        assert len(found) > 4

    def test_arrays_may_be_read_only(self, scenario: DigitsSVM) -> None:
        o = scenario.objective(0)
        copies = {f.name: getattr(o, f.name).copy() for f in dataclasses.fields(o)}
        for array in copies.values():
            array.setflags(write=False)
        frozen = dataclasses.replace(o, **copies)
        assert frozen(GOOD, np.random.default_rng(0)) == o(GOOD, np.random.default_rng(0))

    def test_it_carries_its_own_agents_data_and_no_others(self, scenario: DigitsSVM) -> None:
        for agent in range(20):
            objective = scenario.objective(agent)
            samples = len(objective.train_labels) + len(objective.validation_labels)
            sent = pickle.dumps(objective)
            assert len(sent) < samples * 65 * 8 + 2000  # 64 pixels and a label, 8 bytes each
            found = pickle.loads(sent)(GOOD, np.random.default_rng(0))
            assert found == objective(GOOD, np.random.default_rng(0))


@pytest.mark.heavy
def test_building_does_not_load_scikit_learn() -> None:
    code = "from fedsim.scenarios.digits_svm import DigitsSVM; DigitsSVM().space"
    assert "sklearn" not in loaded_by(code)


class TestRefusals:
    def test_agents(self) -> None:
        with pytest.raises(ConfigError, match=r"scenario\.agents: expected at least 1, got 0"):
            DigitsSVM(agents=0)

    def test_the_first_objective_checks_all_agents(self) -> None:
        # About 3.6 samples each: agent 0 could train, some other one could not.
        scenario = DigitsSVM(500, Partition("iid"))
        with pytest.raises(ConfigError, match=r"^agent [1-9]\d*: .* got 2 .classes: \d. and [12];"):
            scenario.objective(0)

    @pytest.mark.parametrize(
        ("assignments", "message"),
        [
            (
                ("partition.kind=iid", "agents=1797"),
                "agent 0: expected samples of two classes to train with and at least one to "
                "validate with, got 1 (classes: ",
            ),
            (
                ("partition={kind: quantity, concentration: 0.05, minimum: 2}",),
                "use fewer agents, another seed or, in scenario.partition, another kind or a "
                "larger minimum",
            ),
            (
                ("partition.kind=natural",),
                "scenario.partition.kind: expected dirichlet, quantity or iid, got natural: these "
                "data do not say whose a sample is",
            ),
            (("agents=178",), "scenario.agents: expected at most 177, got 178: 1797 samples"),
            (("partition.kind=idd",), "scenario.partition.kind: expected 'dirichlet', 'qu"),
            (("partition.minimum=0",), "scenario.partition.minimum: expected at least 1, got 0"),
            (("partition.concentration=0",), "scenario.partition.concentration: expected a number"),
            (("partition.minimun=3",), "partition.minimun: unknown key; did you mean 'minimum'?"),
            (("minimum=3",), "scenario.minimum: unknown key"),
        ],
    )
    def test_the_command_line_says_what_to_do(
        self,
        here: Path,
        capsys: pytest.CaptureFixture[str],
        assignments: tuple[str, ...],
        message: str,
    ) -> None:
        options = [word for a in assignments for word in ("--set", f"scenario.{a}")]
        code = run_command(["run", "digits-svm", "--backend", "serial", *options])
        said = " ".join(capsys.readouterr().err.split())
        assert code == 2
        assert message in said
        assert said.startswith("error: ")
        assert "Traceback" not in said


@pytest.mark.parametrize("kind", ["dirichlet", "quantity", "iid"])
def test_it_conforms(kind: str) -> None:
    check_scenario(DigitsSVM(8, Partition(kind)), points=2)  # type: ignore[arg-type]


def test_every_setting_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
    for field in dataclasses.fields(Partition):
        assert f"`scenario.partition.{field.name}`" in page
