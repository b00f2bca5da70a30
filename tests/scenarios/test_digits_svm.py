import math
import subprocess
import sys

import numpy as np
import pytest

from fedsim.errors import ConfigError
from fedsim.protocol import Scenario
from fedsim.scenarios.digits_svm import DigitsSVM, SVMObjective, stratified_halves

GOOD = {"C": 10.0, "gamma": 0.03}


@pytest.fixture(scope="module")
def scenario() -> DigitsSVM:
    return DigitsSVM()


class TestData:
    def test_it_is_a_scenario(self, scenario: DigitsSVM) -> None:
        assert isinstance(scenario, Scenario)
        assert (scenario.agents, scenario.direction) == (20, "maximize")
        assert scenario.space.names == ("C", "gamma")

    def test_every_sample_is_used_once(self, scenario: DigitsSVM) -> None:
        halves = [scenario.objective(a) for a in range(20)]
        used = np.concatenate([half for o in halves for half in (o.train, o.validation)])
        assert sorted(used) == list(range(1797))

    def test_features_are_scaled_and_shared(self, scenario: DigitsSVM) -> None:
        first, second = scenario.objective(0), scenario.objective(1)
        assert first.pixels is second.pixels
        assert first.pixels.shape == (1797, 64)
        assert (first.pixels.min(), first.pixels.max()) == (0.0, 1.0)

    @pytest.mark.parametrize(("agents", "concentration"), [(20, 0.5), (177, 0.01), (3, 100.0)])
    def test_both_halves_know_two_digits(self, agents: int, concentration: float) -> None:
        scenario = DigitsSVM(agents=agents, concentration=concentration)
        for agent in range(agents):
            o = scenario.objective(agent)
            for half in (o.train, o.validation):
                assert (np.bincount(o.labels[half]) >= 2).sum() >= 2

    def test_more_agents_than_the_digits_serve(self) -> None:
        with pytest.raises(ConfigError, match="expected at most 177, got 178: 1797 samples"):
            DigitsSVM(agents=178).objective(0)

    def test_built_again_it_is_the_same_and_another_seed_is_another(
        self, scenario: DigitsSVM
    ) -> None:
        again, other = DigitsSVM().objective(6), DigitsSVM(seed=1).objective(6)
        assert np.array_equal(again.train, scenario.objective(6).train)
        assert not np.array_equal(other.train, again.train)

    def test_halves_share_every_class(self) -> None:
        labels = np.array([0] * 10 + [1] * 5 + [2] * 4)
        train, validation = stratified_halves(np.arange(19), labels, np.random.default_rng(0))
        counts = np.bincount(labels[train]), np.bincount(labels[validation])
        assert np.abs(counts[0] - counts[1]).max() <= 1
        assert sorted([*train, *validation]) == list(range(19))


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
        objective = SVMObjective(pixels, labels, np.arange(4), np.arange(4, 8))
        assert objective({"C": 100.0, "gamma": 1.0}, np.random.default_rng(0)) == 0.75

    def test_it_repeats_exactly_and_leaves_the_generator_alone(self, scenario: DigitsSVM) -> None:
        generator = np.random.default_rng(0)
        objective = scenario.objective(2)
        assert objective(GOOD, generator) == objective(GOOD, generator)
        assert generator.random() == np.random.default_rng(0).random()

    def test_agents_differ(self, scenario: DigitsSVM) -> None:
        found = {scenario.objective(a)(GOOD, np.random.default_rng(0)) for a in range(8)}
        assert len(found) > 4

    def test_pixels_may_be_read_only(self, scenario: DigitsSVM) -> None:
        o = scenario.objective(0)
        pixels = o.pixels.copy()
        pixels.setflags(write=False)
        frozen = SVMObjective(pixels, o.labels, o.train, o.validation)
        assert frozen(GOOD, np.random.default_rng(0)) == o(GOOD, np.random.default_rng(0))


def test_building_does_not_load_scikit_learn() -> None:
    code = (
        "import sys; from fedsim.scenarios.digits_svm import DigitsSVM; "
        "DigitsSVM().space; sys.exit('sklearn' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"agents": 0}, "scenario.agents: expected at least 1, got 0"),
        ({"concentration": 0.0}, "scenario.concentration: expected a number greater than 0"),
        ({"concentration": math.nan}, "scenario.concentration"),
        ({"minimum": 1}, "scenario.minimum: expected at least 2"),
    ],
)
def test_refusals(settings: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DigitsSVM(**settings)
