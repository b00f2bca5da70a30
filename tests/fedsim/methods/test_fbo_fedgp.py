"""FBO-FedGP: clients, server and whole runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import fedsim
from fedsim.cli.main import run_command
from fedsim.crypto.strict import check_sum
from fedsim.errors import ConfigError, SettingError
from fedsim.methods.fbo_fedgp import FBOFedGP
from fedsim.methods.own_model import SurrogateSettings
from fedsim.methods.queries import AcquisitionSettings
from fedsim.methods.summaries import Basis
from fedsim.methods.support_sets import SupportSets, SupportSettings
from fedsim.protocol import Context, Reply
from fedsim.record.entries import AskEntry, Entry, ReleaseEntry, StepEntry, observations
from fedsim.record.journal import read_journal
from fedsim.results.analysis import Run
from fedsim.simulation.in_memory import Bowl
from fedsim.space import Parameter, Space
from fedsim.surrogates.dpitc import sparse_posterior, summarise, support
from fedsim.surrogates.kernels import Kernel
from fedsim.surrogates.support import sobol_support
from fedsim.testing import check_method
from tests.util.summed import total

SQUARE = Space((Parameter("a", 0.0, 1.0), Parameter("b", 0.0, 1.0)))
SMALL = SupportSettings(size=6)
CONFIG: dict[str, Any] = {
    "name": "trial",
    "scenario": {"name": "functions", "function": "sphere", "dimension": 3, "agents": 4},
    "method": {
        "name": "fbo-fedgp",
        "encryption": "plain",
        "support": {"size": 8},
        "acquisition": {"candidates": 32, "near": 16, "starts": 1},
    },
    "rounds": 5,
    "backend": "serial",
}


def simulate(folder: Path, **changes: Any) -> Run:
    method = {**CONFIG["method"], **changes.pop("method", {})}
    return fedsim.run({**CONFIG, "method": method, **changes}, out=folder / "run")


def journal(run: Run) -> list[Entry]:
    return list(read_journal(run.runs[0].folder.journal))


def sources(run: Run) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for t, record in observations(journal(run)):
        found.setdefault(t, []).append(record.source)
    return found


def information(run: Run, name: str) -> list[float]:
    return cast(list[float], run.rounds[f"info.{name}"].tolist())


@pytest.mark.parametrize("kind", ["ucb", "ei", "pi", "thompson"])
@pytest.mark.parametrize("use", ["mixed", "global"])
def test_programs_follow_from_history_and_messages(kind: Any, use: Any) -> None:
    acquisition = AcquisitionSettings(kind, candidates=32, near=16, starts=1)
    check_method(
        lambda context: FBOFedGP(
            context, encryption="plain", support=SMALL, use=use, acquisition=acquisition
        )
    )


@pytest.mark.parametrize("kind", ["sobol", "random", "clustered"])
@pytest.mark.parametrize("outputs", ["sums", "public"])
@pytest.mark.parametrize("hyperparameters", ["shared", "fixed"])
def test_variants_follow_from_history_and_messages(
    kind: Any, outputs: Any, hyperparameters: Any
) -> None:
    growing = SupportSettings(kind, size=5, grow_by=2, grow_every=2)
    check_method(
        lambda context: FBOFedGP(
            context,
            encryption="plain",
            support=growing,
            use="global",
            outputs=outputs,
            hyperparameters=hyperparameters,
            acquisition=AcquisitionSettings(candidates=32, near=16, starts=1),
            surrogate=SurrogateSettings(ard=True),
        ),
        scenario=Bowl(),
    )


def test_one_sum_in_each_round_but_the_last(tmp_path: Path) -> None:
    entries = journal(simulate(tmp_path))
    releases = [entry.t for entry in entries if isinstance(entry, ReleaseEntry)]
    assert releases == [0, 1, 2, 3, 4]
    assert [entry.t for entry in entries if isinstance(entry, StepEntry)] == [0, 1, 2, 3, 4, 5]
    assert not any(isinstance(entry, AskEntry) for entry in entries)


def test_global_only_local_only_and_mixed(tmp_path: Path) -> None:
    for use, expected in (("local", {"own"}), ("global", {"global"})):
        found = sources(simulate(tmp_path / use, method={"use": use}))
        assert set(found.pop(0)) == {"initial"}
        assert set().union(*found.values()) == expected
    found = sources(simulate(tmp_path / "mixed", rounds=30))
    assert set(found[1]) == {"global"}  # p_1 = 0
    share = np.mean([source == "own" for t in range(1, 31) for source in found[t]])
    expected = np.mean([1 - t**-0.5 for t in range(1, 31)])
    assert abs(share - expected) < 5 * 0.5 / np.sqrt(120)  # five standard errors


def test_local_only_has_no_sums(tmp_path: Path) -> None:
    run = simulate(tmp_path, method={"use": "local"}, scenario={**CONFIG["scenario"], "agents": 1})
    assert not any(isinstance(entry, ReleaseEntry) for entry in journal(run))


def test_clients_with_the_global_model_query_different_points(tmp_path: Path) -> None:
    run = simulate(tmp_path / "drawn", method={"use": "global"})
    assert run.rounds["coinciding"][1:].max() == 0.0
    same = {"spread": "none", "candidates": 32, "near": 0, "starts": 1}
    run = simulate(tmp_path / "same", method={"use": "global", "acquisition": same})
    assert run.rounds["coinciding"][1:].min() == 1.0


def test_mixing_may_differ_by_client(tmp_path: Path) -> None:
    run = simulate(tmp_path, method={"mixing": [0.0, 1.0, "1 - 1/t", 0.0]})
    found: dict[int, set[str]] = {}
    for t, record in observations(journal(run)):
        if t > 0:
            found.setdefault(record.agent, set()).add(record.source)
    assert found[0] == found[3] == {"global"}
    assert found[1] == {"own"}


def test_the_global_model_is_the_pitc_of_everyones_data() -> None:
    # A client's message leads to the posterior that all data together give.
    context = Context(SQUARE, 3, 4, seed=0)
    method = FBOFedGP(
        context, encryption="plain", support=SMALL, outputs="public", hyperparameters="fixed"
    )
    rng = np.random.default_rng(0)
    points = sobol_support(SQUARE, 6, rng)
    kernel = Kernel("matern52", (0.25 * np.sqrt(2.0),), 1.0)
    base = support(kernel, points)
    data = [(rng.random((n, 2)), rng.standard_normal(n)) for n in (4, 5, 6)]
    work = method._work
    basis = Basis(points, np.log([0.25 * np.sqrt(2.0), 1e-3]), np.array([0.0, 1.0]))
    vectors = [work.summaries.vector(basis, X, y, None) for X, y in data]
    found = work.summaries.model(basis, np.asarray(np.sum(vectors, axis=0))).posterior
    whole = total([summarise(base, 1e-3, X, y[:, None]) for X, y in data])
    expected = sparse_posterior(base, whole.covariance, whole.means[:, 0])
    U = rng.random((5, 2))
    np.testing.assert_allclose(found.moments(U), expected.moments(U), rtol=1e-9)


def test_encrypted_runs_have_the_journals_of_plain_ones(tmp_path: Path) -> None:
    lines = []
    for name in ("plain", "threshold", "ckks"):
        run = simulate(tmp_path / name, method={"encryption": name})
        lines.append(run.runs[0].folder.journal.read_text().splitlines()[1:])
    assert lines[0] == lines[1] == lines[2]
    assert len(lines[0]) == 11  # six steps and five releases


def test_strict_clients_check_every_sum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[int] = []

    def check(agent: int, *rest: Any) -> None:
        checked.append(agent)
        check_sum(agent, *rest)

    monkeypatch.setattr("fedsim.crypto.threshold_client.check_sum", check)
    found = [
        simulate(
            tmp_path / str(strict),
            method={"encryption": "threshold", "strict_decryption": strict},
            rounds=2,
        )
        for strict in (False, True)
    ]
    assert sorted(checked) == sorted([*range(4)] * 2)  # both sums, by the second run's clients
    lines = [run.runs[0].folder.journal.read_text().splitlines()[1:] for run in found]
    assert lines[0] == lines[1]


@pytest.mark.parametrize("encryption", ["threshold", "plain"])
def test_absent_clients(encryption: str, tmp_path: Path) -> None:
    changes = {"availability": 0.7, "rounds": 12, "seeds": [1]}
    run = simulate(tmp_path, method={"encryption": encryption}, **changes)
    members, found = information(run, "members"), sources(run)
    assert 0.0 in members[:-1]  # too few in some round
    assert any(m >= 3.0 for m in members[:-1])
    for t in range(1, 13):
        if members[t - 1] == 0.0:  # no sum: all query from their own models
            assert set(found.get(t, [])) <= {"own", "initial"}


def test_clustering_says_that_centres_were_shown(tmp_path: Path) -> None:
    run = simulate(tmp_path, method={"support": {"kind": "clustered", "size": 8}})
    shown = information(run, "centres_shown")
    assert shown[0] == 16.0  # all 4 clients' 4 points: as many as the initial design has
    assert np.isnan(shown[1:]).all()
    asked = [entry for entry in journal(run) if isinstance(entry, AskEntry)]
    assert len(asked) == 1  # the sum of round 0 follows the clients' centres
    public = simulate(tmp_path / "public")
    assert not any("centres" in name for name in public.rounds.columns)


def test_support_sets_grow(tmp_path: Path) -> None:
    run = simulate(tmp_path, method={"support": {"size": 4, "grow_by": 3, "grow_every": 2}})
    assert information(run, "support")[:-1] == [4.0, 4.0, 7.0, 7.0, 10.0]


def test_clustered_sets_without_any_centres_are_public() -> None:
    context = Context(SQUARE, 3, 4, seed=0)
    sets = SupportSets(SupportSettings("clustered", size=4), context)
    missing = tuple(Reply(agent, "missing", {}) for agent in range(3))
    np.testing.assert_array_equal(sets.clustered(0, missing), sets.public(0))


@pytest.mark.slow
def test_better_than_alone(tmp_path: Path) -> None:
    # Six clients with one sphere and shared sums against the same alone, from equal designs: each
    # client's regret, on average. Statistical: over ten seeds, the logarithms of the ratio had a
    # mean of -1.2 and a standard deviation of 0.9, so that their mean has 0.3.
    scenario = {"name": "functions", "function": "sphere", "dimension": 6, "agents": 6}
    changes: dict[str, Any] = {"rounds": 15, "seeds": list(range(10)), "scenario": scenario}
    regrets = []
    for use in ("mixed", "local"):
        method = {"use": use, "support": {"size": 16}}
        rounds = simulate(tmp_path / use, method=method, **changes).rounds
        regrets.append(rounds[rounds["round"] == 15]["mean_best_noiseless"].to_numpy())
    assert np.log(regrets[0] / regrets[1]).mean() < -0.1


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"output_scale": 0.0}, "method.output_scale: expected a number above 0"),
        ({"output_mean": float("inf")}, "method.output_mean"),
        ({"initial_points": 0}, "method.initial_points"),
        ({"mixing": [0.5, 0.5]}, r"method.mixing: expected one for all, or a list of 4"),
        ({"mixing": "often"}, "method.mixing: expected"),
        ({"mixing": ["1 - 1/t", 2.0, 0.0, 0.0]}, r"method.mixing\[1\]: expected"),
        ({"minimum_members": 5}, r"method\.minimum_members: .*5 to 1024 agents"),
        ({"support": {"size": 0}}, "method.support.size: expected at least 1"),
        ({"support": {"grow_every": 0}}, "method.support.grow_every"),
        ({"surrogate": {"noise_floor": 0.0}}, "method.surrogate.noise_floor"),
        ({"surrogate": {"fit_every": 0}}, "method.surrogate.fit_every: expected at least 1"),
        ({"encryption": "rot13"}, "method.encryption"),
        (
            {"encryption": "ckks", "strict_decryption": True},
            r"method\.strict_decryption: expected encryption threshold, got ckks",
        ),
        ({"minimum_members": 0}, r"method\.minimum_members: expected 1 to 1024"),
    ],
)
def test_settings_are_checked(changes: dict[str, Any], expected: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=expected):
        simulate(tmp_path, method=changes)


@pytest.mark.parametrize(
    "method",
    [
        {"surrogate": {"noise_floor": 10.0, "fit_every": 2}},  # logarithms of fits are the largest
        {"hyperparameters": "fixed", "surrogate": {"noise_ratio": 100.0}},  # the number of data is
    ],
)
def test_much_noise_leaves_the_fixed_point_room(method: dict[str, Any], tmp_path: Path) -> None:
    run = simulate(tmp_path, method=method)
    assert information(run, "members")[:5] == [4.0] * 5


def test_huge_outputs_of_a_short_run_can_be_summed(tmp_path: Path) -> None:
    # Squares are about 1e22 here, and few rounds leave the fixed point little room.
    run = simulate(tmp_path, method={"output_scale": 1e-10})
    assert information(run, "members")[:5] == [4.0] * 5


def test_an_output_scale_that_is_too_small_needs_a_new_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = r"method\.output_scale: 1e-30 is too small: agent \d observed .*; start a new run with"
    with pytest.raises(SettingError, match=words) as caught:
        simulate(tmp_path, method={"output_scale": 1e-30})
    assert "continue with" not in "".join([str(caught.value), *caught.value.__notes__])
    folder = str(tmp_path / "run")
    for command in ("resume", "show"):
        assert run_command([command, folder]) == {"resume": 3, "show": 0}[command]
        told = " ".join("".join(capsys.readouterr()).split())
        assert "start a new run with a larger method.output_scale, at least 1" in told
        assert "continue with" not in told


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        ({}, []),  # 4 clients, 4 points each; |S| + 1 = 9
        (
            {"initial_points": 2},
            ["before round 1 all clients together have fewer than |S| + 1 = 9"],
        ),
        (
            {"initial_points": 1},
            ["before round 2 all clients together have fewer than |S| + 1 = 9"],
        ),
        ({"initial_points": 1, "use": "local"}, []),  # no sums
        ({"support": {"size": 100}}, ["in all rounds all clients together have fewer than"]),
        (
            {"initial_points": 2, "support": {"size": 8, "grow_by": 9, "grow_every": 2}},
            ["before round 7 all clients together have fewer than |S| + 1 = 36 observations"],
        ),
    ],
)
def test_the_plan_says_until_when_a_sum_determines_the_data(
    changes: dict[str, Any], warning: list[str]
) -> None:
    support = SupportSettings(**{"size": 8, **changes.pop("support", {})})
    found = FBOFedGP(Context(SQUARE, 4, 8, 0), support=support, **changes).plan_warnings()
    assert [one[: len(start)] for one, start in zip(found, warning, strict=True)] == warning
