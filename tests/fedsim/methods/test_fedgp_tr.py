"""FBO-FedGP with trust regions: clients, server and whole runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import fedsim
from fedsim.errors import ConfigError
from fedsim.methods.fedgp_tr import FBOFedGPTrustRegions
from fedsim.methods.queries import AcquisitionSettings
from fedsim.methods.region_sums import RegionSums
from fedsim.methods.robust_outputs import robust
from fedsim.methods.summaries import Basis
from fedsim.methods.trust_regions import RegionSettings
from fedsim.record.entries import ReleaseEntry, StepEntry, observations
from fedsim.record.journal import read_journal
from fedsim.results.analysis import Run
from fedsim.simulation.in_memory import Bowl
from fedsim.space import Choice, Parameter, Space
from fedsim.surrogates.fit import fit
from fedsim.testing import check_method

CUBE = Space(tuple(Parameter(name, 0.0, 1.0) for name in "abc"))
QUICK: dict[str, Any] = {"candidates": 32, "near": 16, "starts": 1}
CONFIG: dict[str, Any] = {
    "name": "trial",
    "scenario": {"name": "functions", "function": "sphere", "dimension": 3, "agents": 4},
    "method": {
        "name": "fbo-fedgp-tr",
        "encryption": "plain",
        "support_size": 8,
        "acquisition": QUICK,
    },
    "rounds": 6,
    "backend": "serial",
}


class Mixed:
    """A choice, a whole number and a number."""

    direction = "maximize"
    agents = 3
    space = Space(
        (
            Choice("c", ["a", "b"]),
            Parameter("n", 1, 50, "log", integer=True),
            Parameter("x", 0.0, 1.0),
        )
    )

    def objective(self, agent: int) -> Any:
        return lambda p, rng: (p["c"] == "b") - abs(p["n"] - 7) / 50 - (p["x"] - 0.3) ** 2


class Levels:
    """A grid."""

    direction = "maximize"
    agents = 4
    space = Space((Parameter("a", 0.0, 1.0, levels=30), Parameter("b", 0.0, 1.0, levels=30)))

    def objective(self, agent: int) -> Any:
        return lambda p, rng: -((p["a"] - 0.62) ** 2) - (p["b"] - 0.31) ** 2 + rng.normal(0.0, 0.05)


def simulate(folder: Path, **changes: Any) -> Run:
    method = {**CONFIG["method"], **changes.pop("method", {})}
    return fedsim.run({**CONFIG, "method": method, **changes}, out=folder / "run")


def information(run: Run, name: str) -> list[float]:
    return cast(list[float], run.rounds[f"info.{name}"].tolist())


@pytest.mark.parametrize("kind", ["ucb", "ei", "pi"])
@pytest.mark.parametrize("own", [0.0, 0.5])
def test_programs_follow_from_history_and_messages(kind: Any, own: float) -> None:
    acquisition = AcquisitionSettings(kind, **QUICK)
    check_method(
        lambda context: FBOFedGPTrustRegions(
            context,
            encryption="plain",
            support_size=6,
            own_probability=own,
            acquisition=acquisition,
        ),
        scenario=Bowl(),
        rounds=6,
    )


def test_one_sum_in_each_round_but_the_last(tmp_path: Path) -> None:
    run = simulate(tmp_path)
    entries = list(read_journal(run.runs[0].folder.journal))
    assert [e.t for e in entries if isinstance(e, ReleaseEntry)] == [0, 1, 2, 3, 4, 5]
    assert [e.t for e in entries if isinstance(e, StepEntry)] == [0, 1, 2, 3, 4, 5, 6]
    assert information(run, "members")[:-1] == [4.0] * 6
    expected = [1.0, *(RegionSettings().width(t, 6) for t in range(1, 6))]
    np.testing.assert_allclose(information(run, "width")[:-1], expected)


def test_queries_stay_in_regions(tmp_path: Path) -> None:
    """Two shared queries of a round are apart by its width at most, if centres are the same."""
    run = simulate(tmp_path, rounds=20)
    table = run.observations[run.observations["round"] > 0]
    assert set(table["source"]) == {"own", "global"}
    names = ["point.x1", "point.x2", "point.x3"]
    shared, widths, compared = table[table["source"] == "global"], information(run, "width"), 0
    for t, points in shared.groupby("round")[names]:
        spread = np.ptp(points.to_numpy(), axis=0).max() / 200.0  # the sphere's box is 200 wide
        width = RegionSettings().width(cast(int, t), 20)
        assert t == 20 or width == pytest.approx(widths[cast(int, t)])
        # A client's own centre was queried in an earlier region, around that one's centre.
        assert spread <= 2.0 * RegionSettings().width(cast(int, t) - 1, 20) + 1e-9
        compared += len(points) > 1 and width < 0.3
    assert compared >= 3


def test_encrypted_runs_have_the_journals_of_plain_ones(tmp_path: Path) -> None:
    lines = []
    for name in ("plain", "threshold", "ckks"):
        run = simulate(tmp_path / name, method={"encryption": name}, rounds=3)
        lines.append(run.runs[0].folder.journal.read_text().splitlines()[1:])
    assert lines[0] == lines[1] == lines[2]
    assert len(lines[0]) == 7  # four steps and three releases


@pytest.mark.parametrize("encryption", ["threshold", "plain"])
def test_absent_clients(encryption: str, tmp_path: Path) -> None:
    changes = {"availability": 0.7, "rounds": 12, "seeds": [1]}
    run = simulate(tmp_path, method={"encryption": encryption}, **changes)
    members = information(run, "members")
    assert 0.0 in members[:-1]  # too few in some round
    assert any(m >= 3.0 for m in members[:-1])
    found: dict[int, set[str]] = {}
    for t, record in observations(read_journal(run.runs[0].folder.journal)):
        found.setdefault(t, set()).add(record.source)
    for t in range(1, 13):
        if members[t - 1] == 0.0:  # no sum: all query from their own data
            assert found.get(t, set()) <= {"own", "initial"}
    assert any("own" in found.get(t, set()) for t in range(1, 13) if members[t - 1] == 0.0)


def test_the_server_receives_ciphertexts_shares_and_the_sum(tmp_path: Path) -> None:
    run = simulate(tmp_path, method={"encryption": "threshold"}, transcript=True, rounds=2)
    text = run.runs[0].folder.transcript.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    releases = [line["release"] for line in lines if "release" in line]
    assert [set(release) for release in releases] == [{"sum", "members"}] * 2
    replies = [reply for line in lines for reply in line.get("replies", [])]
    arrays = [array for reply in replies for array in reply[2].values()]
    assert arrays
    assert all(set(array) == {"base64"} for array in arrays)  # ciphertexts, shares and keys


def test_vectors_sum_to_what_all_data_say() -> None:
    sums = RegionSums(CUBE, "matern52", False, 1e-4, 2)
    rng = np.random.default_rng(0)
    clients = [(rng.random((n, 3)), 100.0 + rng.standard_normal(n)) for n in (4, 5, 6)]
    basis = Basis(rng.random((7, 3)), np.log([0.5, 1e-2]), np.array([99.0, 2.0]))
    vectors = [sums.vector(basis, True, X, y) for X, y in clients]
    assert {len(v) for v in vectors} == {sums.length(7)}
    total = sums.read(np.asarray(np.sum(vectors, axis=0)), 7)
    assert (total.count, total.fits) == (15.0, 3.0)
    parts = [sums.summary(basis, *client) for client in clients]
    for name in ("covariance", "means", "misfits"):
        whole = sum(getattr(part, name) for part in parts)
        np.testing.assert_allclose(getattr(total.summary, name), whole, rtol=1e-12, atol=1e-13)
    x = [robust(y, basis.units) for _, y in clients]
    fits = [fit("matern52", False, X, v - v.mean()) for (X, _), v in zip(clients, x, strict=True)]
    scales = np.log([one.kernel.length_scales[0] for one in fits])
    assert sums.next_logs(basis, total)[0] == pytest.approx(scales.mean())


def test_what_agents_share_is_computed_once() -> None:
    sums = RegionSums(CUBE, "matern52", False, 1e-4, 2)
    rng = np.random.default_rng(2)
    points, X, y = rng.random((5, 3)), rng.random((6, 3)), rng.standard_normal(6)

    def basis(eta: float) -> Basis:
        return Basis(points.copy(), np.log([0.5, eta]), np.array([0.0, 1.0]))

    vector = sums.vector(basis(1e-2), True, X, y)
    assert sums.read(vector.copy(), 5) is sums.read(vector.copy(), 5)
    assert sums.support(basis(1e-2)) is sums.support(basis(1e-2))
    assert sums.support(basis(1e-1)) is not sums.support(basis(1e-2))
    other = sums.read(2.0 * vector, 5)
    assert (other.count, other.fits) == (12.0, 2.0)


@pytest.mark.parametrize("constant", [0.0, 0.1, 0.7, 1e5])
def test_without_enough_fits_hyperparameters_stay(constant: float) -> None:
    """One fit is too few, and equal outputs have none."""
    sums = RegionSums(CUBE, "matern52", False, 1e-4, 2)
    rng = np.random.default_rng(1)
    basis = Basis(rng.random((4, 3)), np.log([0.5, 1e-2]), np.array([0.0, 1.0]))
    X, y = rng.random((5, 3)), rng.standard_normal(5)
    equal = np.full(5, constant)
    for fits, outputs, count in ((False, y, 0.0), (True, equal, 0.0), (True, y, 1.0)):
        total = sums.read(sums.vector(basis, fits, X, outputs), 4)
        assert total.fits == count
        np.testing.assert_array_equal(sums.next_logs(basis, total), basis.logs)


def test_on_a_grid_queries_do_not_repeat_one_point(tmp_path: Path) -> None:
    run = simulate(tmp_path, scenario={"name": Levels}, rounds=16)
    last = run.observations[run.observations["round"] > 10]
    shared = last[last["source"] == "global"][["point.a", "point.b"]]
    assert len(shared.drop_duplicates()) >= 3


@pytest.mark.parametrize("factor", [1e-9, 1e9])
def test_outputs_of_any_size_are_optimised(factor: float, tmp_path: Path) -> None:
    """The first rounds find the units."""
    changes: dict[str, Any] = {"rounds": 20, "method": {"output_scale": factor}}
    run = simulate(tmp_path, **changes)
    best = run.rounds["mean_best_noiseless"].to_numpy()
    assert best[-1] < 0.01 * best[0]


def test_all_kinds_of_parameters(tmp_path: Path) -> None:
    run = simulate(tmp_path, scenario={"name": Mixed}, rounds=12)
    best = run.observations.sort_values("y").iloc[-1]
    assert best["point.c"] == "b"
    assert abs(best["point.n"] - 7) <= 2


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"support_size": 1}, "method.support_size: expected at least 2"),
        ({"output_scale": 0.0}, "method.output_scale: expected a number above 0"),
        ({"acquisition": {"kind": "thompson"}}, r"method.acquisition.kind: expected ucb, ei or pi"),
        ({"own_probability": 1.5}, "method.own_probability: expected"),
        ({"minimum_members": 5}, r"method\.minimum_members: .*5 to 1024 agents"),
        ({"region": {"smallest": 2}}, "method.region.smallest: expected a width"),
        ({"surrogate": {"noise_floor": 1e3}}, "method.surrogate.noise_floor: expected"),
    ],
)
def test_settings_are_checked(changes: dict[str, Any], expected: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=expected):
        simulate(tmp_path, method=changes)


@pytest.mark.slow
def test_better_than_without_regions(tmp_path: Path) -> None:
    # Against fbo-fedgp, both with their defaults, from equal designs. Statistical: over ten seeds,
    # the logarithms of the ratio of regrets had a mean of about -3 and a standard deviation of 2.
    scenario = {"name": "functions", "function": "rosenbrock", "dimension": 6, "agents": 6}
    regrets = []
    for name in ("fbo-fedgp-tr", "fbo-fedgp"):
        config = {
            "name": "t",
            "scenario": scenario,
            "method": {"name": name, "encryption": "plain"},
            "rounds": 25,
            "seeds": list(range(10)),
            "backend": "serial",
        }
        rounds = fedsim.run(config, out=tmp_path / name).rounds
        regrets.append(rounds[rounds["round"] == 25]["mean_best_noiseless"].to_numpy())
    assert np.log(regrets[0] / regrets[1]).mean() < -0.5
