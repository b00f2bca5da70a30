"""The ready configurations: every variant can be built, and evaluated where its data are there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.config.construct import build_method, build_scenario, planned_costs
from fedsim.config.experiment import prepare
from fedsim.config.ready import ready_names
from fedsim.errors import MissingDataError
from fedsim.keys import by_key
from fedsim.privacy.accountants import default_delta, privacy_loss
from fedsim.privacy.ledger import Ledger
from fedsim.privacy.loss_distribution import PldAccountant
from fedsim.privacy.renyi import MomentsAccountant
from fedsim.rng import rng
from fedsim.workload import Scenario


def scenarios(name: str, data_dir: Path | None) -> list[Scenario]:
    """Build every variant's scenario and method; return the scenarios that differ."""
    experiment = prepare(name, (), data_dir)
    found: dict[str, Scenario] = {}
    for variant in experiment.variants.values():
        spec = experiment.spec(variant, variant.seeds[0])
        scenario = build_scenario(spec)
        build_method(spec, scenario)
        found.setdefault(repr(spec.scenario), scenario)
    return list(found.values())


@pytest.mark.parametrize("name", ready_names())
def test_every_variant_can_be_built_without_data(name: str) -> None:
    assert scenarios(name, None)


@pytest.mark.parametrize("name", ready_names())
def test_every_scenario_has_a_value(name: str, data_dir: Path) -> None:
    for scenario in scenarios(name, data_dir):
        try:
            objective = scenario.objective(0)
        except MissingDataError as error:
            pytest.skip(str(error))
        point = scenario.space.to_point(np.full(scenario.space.dimension, 0.25))
        value = objective(point, rng(0, "objective", 0, 0))
        assert np.isfinite(value if isinstance(value, float) else value.y)


def test_table_1_compares_five_methods_on_all_functions() -> None:
    variants = prepare("cec2005-all", (), None).variants.values()
    methods: dict[str, list[tuple[str, str]]] = {}
    for one in variants:
        own = methods.setdefault(str(one.scenario["function"]), [])
        own.append((str(one.method["name"]), str(one.method.get("use", ""))))
    compared = [("random-search", ""), ("fbo-fedgp", "local"), ("fts", ""), ("fbo-fedgp", "mixed")]
    compared.append(("fbo-fedgp-tr", ""))
    assert methods == {f"F{number}": compared for number in range(1, 21)}
    # Equal budgets, and nothing but the method differs between two variants of a function.
    assert {(one.method["initial_points"], one.rounds) for one in variants} == {(4, 50)}


FIGURES = [name for name in ready_names() if name.startswith("dp-fts-de-figure-")]


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_of_dp_fts_de_runs_shortened(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    on_landmines = name.endswith("-3a")
    data_dir = request.getfixturevalue("data_dir") if on_landmines else None
    shorter = ["scenario.agents=6", "rounds=1", "method.initial_points=2", "seeds=0"]
    run = fedsim.run(
        name,
        overrides=[*shorter, "backend=serial"],
        out=tmp_path / "run",
        jobs=1,
        data_dir=data_dir,
    )
    summaries = run.summaries()
    assert {one["variant"] for one in summaries} == set(prepare(name, (), None).variants)
    assert {one["status"] for one in summaries} == {"done"}


@pytest.mark.parametrize(
    ("figure", "losses"),
    [("2b", [9.91] * 3), ("2c", [5.93, 9.91, 20.12]), ("2d", [9.91, 7.39, 5.22])],
)
def test_a_figure_has_the_losses_that_the_paper_prints(figure: str, losses: list[float]) -> None:
    experiment = prepare(f"dp-fts-de-figure-{figure}", (), None)
    found = []
    for variant in experiment.variants.values():
        spec = experiment.spec(variant, 0)
        costs = planned_costs(build_method(spec, build_scenario(spec)))
        ledger = Ledger.from_events(costs)
        found.append(privacy_loss(ledger, default_delta(200), MomentsAccountant()).epsilon)
    assert found == pytest.approx(losses, abs=5e-3)


def test_figures_change_one_thing_at_a_time() -> None:
    def settings(figure: str) -> dict[str, dict[str, Any]]:
        variants = prepare(f"dp-fts-de-figure-{figure}", (), None).variants
        return {
            label: by_key({"method": one.method, "scenario": one.scenario})
            for label, one in variants.items()
        }

    def changed(figure: str, one: str, other: str) -> set[str]:
        a, b = settings(figure)[one], settings(figure)[other]
        return {key for key in {*a, *b} if a.get(key) != b.get(key)}

    assert changed("5", "FTS-DE", "equal weights") == {"method.weights.scheme"}
    assert changed("5", "FTS-DE", "initial points everywhere") == {"method.local_initial_design"}
    assert changed("7", "1/sqrt(t), 0.7", "1/sqrt(t), 1") == {"scenario.mixture"}
    assert changed("7", "1/sqrt(t), 1", "1/t^2, 1") == {"method.own_probability"}
    assert changed("9", "linear", "quadratic") == {"method.weights.scheme"}
    assert changed("12a", "adaptive", "not adaptive") == {"method.weights.adaptive"}
    four = settings("4")
    assert [four[name]["method.dp.clipping_norm"] for name in ("DP-FTS", "DP-FTS-DE")] == [8, 11]
    dimensions = {
        (one["scenario.dimension"], one["method.subregions"]) for one in settings("10").values()
    }
    assert dimensions == {(d, p) for d in (1, 2, 3) for p in (1, 2, 3, 4, 6)}


@pytest.mark.parametrize("name", ["landmine-warp", "digits-svm-warp"])
def test_every_noise_of_fed_warp_has_its_control(name: str) -> None:
    # More noise looks like a scale more often, so a control holds for its own noise only.
    noises: dict[bool, set[float]] = {False: set(), True: set()}
    for one in prepare(name, (), None).variants.values():
        if one.method["name"] == "fed-warp" and one.method["surrogate"]["warp"] == "none":
            dp = one.method["dp"]
            noises[dp["noise_only"]].add(dp["noise_multiplier"])
    assert len(noises[False]) == 2
    assert noises[True] == noises[False]


DP_PRIOR = [name for name in ready_names() if name.startswith("dp-prior-")]


@pytest.mark.parametrize("name", DP_PRIOR)
def test_methods_beside_dp_prior_have_its_privacy_loss_and_its_surrogate(name: str) -> None:
    experiment = prepare(name, (), None)
    assert len(DP_PRIOR) == 3
    surrogate = experiment.variants["prior ε=3"].method["surrogate"]
    found: dict[str, set[tuple[str, str, bool]]] = {}
    for label, variant in experiment.variants.items():
        spec = experiment.spec(variant, 0)
        method = variant.method
        if label != "TS (papers')":
            assert method["surrogate"] == surrogate
        _, _, asked = label.partition("ε=")
        ledger = Ledger.from_events(planned_costs(build_method(spec, build_scenario(spec))))
        if not asked:
            assert ledger.releases == 0
            continue
        loss = privacy_loss(ledger, 1e-5, PldAccountant()).epsilon
        assert 0.99 * float(asked[0]) < loss <= float(asked[0])
        kind = method["message"].get("kind", "mean")
        found.setdefault(asked[0], set()).add((method["name"], kind, method["dp"]["noise_only"]))
    compared = {("dp-prior", "mean"), ("dp-fts-de", "mean"), ("dp-fts-de", "sample")}
    assert set(found) == {"1", "3"}
    for methods in found.values():
        assert {(one, kind) for one, kind, noise in methods if not noise} == compared
        assert ("dp-prior", "mean", True) in methods
