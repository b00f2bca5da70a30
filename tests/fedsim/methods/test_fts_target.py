"""FTS of target agents: Algorithm 1, and whole runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.errors import ConfigError, Interrupted, RunError
from fedsim.methods.fts_target import FTSTarget
from fedsim.methods.helped_agent import HELPERS_MESSAGE
from fedsim.methods.helpers_first import Messages
from fedsim.methods.local_model import LocalModelSettings
from fedsim.methods.messages import FederatedWork, MessageSettings
from fedsim.protocol import Broadcast, Context, Observation, Proposal, Request
from fedsim.record.entries import StepEntry, observations
from fedsim.record.journal import read_journal
from fedsim.rng import Keys, rng
from fedsim.space import Array, Parameter, Space
from fedsim.surrogates.linear import linear_posterior
from fedsim.testing import check_method
from tests.util.small import body, small
from tests.util.stopping import Stop

GRID = Space((Parameter("x", 0.0, 1.0, levels=100),))
SURROGATE = LocalModelSettings(length_scale=0.1, noise_variance=0.01, fit_every=0, mean="zero")
MESSAGE = MessageSettings(features=12, length_scale=0.1)
FAST = LocalModelSettings(fit_every=0, candidates=20)


def method(agents: int = 5, **changes: Any) -> FTSTarget:
    settings: dict[str, Any] = {"own_probability": 0.0, "initial_points": 2, **changes}
    context = Context(GRID, agents, 20, seed=3)
    return FTSTarget(context, message=MESSAGE, surrogate=SURROGATE, **settings)


def sent(senders: Sequence[int], numbers: Sequence[int] | None = None) -> Broadcast:
    """Return messages of some helpers; a helper's weights do not depend on the others."""
    every = [1] * len(senders) if numbers is None else numbers
    rows = [
        rng(0, "weights", a, n).standard_normal(12) for a, n in zip(senders, every, strict=True)
    ]
    content = {"weights": np.array(rows)}
    return Broadcast(Messages(np.array(senders), np.array(every), content).payload())


def queries(
    one: FTSTarget,
    messages: Sequence[Broadcast | None],
    agent: int = 0,
    seed: int = 0,
) -> list[Proposal]:
    """Return an agent's queries after its initial design, the first with the first message."""
    program, found = one.agent(agent), list[Proposal]()
    for step, message in enumerate((None, *messages)):
        proposals = program.propose(step, message, Keys(seed, agent, step))
        program.observe(
            [Observation(step, i, p.u, float(p.u[0]), p.source) for i, p in enumerate(proposals)]
        )
        found += proposals if step else []
    return found


class TestAlgorithm1:
    def test_a_query_maximises_the_message_of_the_agent_that_it_names(self) -> None:
        senders = [1, 2, 3, 4]
        message = sent(senders)
        found = queries(method(), [message] * 4)
        work = FederatedWork(Context(GRID, 5, 20, seed=3), MESSAGE, 1, SURROGATE)
        assert GRID.grid is not None
        phi = work.features_of(GRID.grid)
        for one in found:
            row = senders.index(int(one.source.removeprefix("agent ")))
            best = GRID.grid[np.argmax(phi @ message.payload["weights"][row])]
            assert np.array_equal(one.u, best)

    def test_an_agent_is_used_once_then_the_own_model_remains(self) -> None:
        found = [one.source for one in queries(method(), [sent([1, 2, 4])] * 6)]
        assert sorted(found[:3]) == ["agent 1", "agent 2", "agent 4"]
        assert found[3:] == ["own"] * 3

    def test_without_messages_and_with_p_1_it_is_thompson_sampling(self) -> None:
        silent = queries(method(), [None] * 4)
        never = queries(method(own_probability=1.0), [sent([1, 2])] * 4)
        assert {one.source for one in (*silent, *never)} == {"own"}
        assert [one.u.tolist() for one in silent] == [one.u.tolist() for one in never]

    @pytest.mark.parametrize(
        ("preferences", "expected"),
        [
            ("uniform", [1 / 3, 1 / 3, 1 / 3]),
            ([5, 2, 0, 2, 4], [1 / 4, 1 / 4, 1 / 2]),  # of agents 1, 3 and 4
            ({4: 1.0, 3: 3.0}, [0, 3 / 4, 1 / 4]),
        ],
    )
    def test_agents_are_drawn_from_p_n(self, preferences: Any, expected: list[float]) -> None:
        # Statistical: 800 draws; the largest tolerance is 5 standard deviations, 5 * sqrt(1/3200).
        program = method(preferences=preferences).agent(0)
        message, found = sent([1, 3, 4]), Counter[str]()
        for seed in range(800):
            (one,) = program.propose(1, message, Keys(seed, 0, 1))
            found[one.source] += 1
        shares = [found[f"agent {agent}"] / 800 for agent in (1, 3, 4)]
        assert shares == pytest.approx(expected, abs=0.09)
        assert all(share == 0.0 for share, p in zip(shares, expected, strict=True) if p == 0)

    def test_p_n_is_renormalised_over_the_agents_that_are_left(self) -> None:
        one = method(preferences=[0, 1, 0, 0, 1e-12])
        found = [query.source for query in queries(one, [sent([1, 2, 3, 4])] * 3)]
        assert found == ["agent 1", "agent 4", "own"]

    def test_own_queries_are_as_frequent_as_p_t_says(self) -> None:
        # Statistical: 2000 draws of p_1 = p_2 = 3/4 and of p_3 = 8/9; 4 standard deviations.
        program = method(own_probability="1 - 1/max(t, 2)^2").agent(0)
        program.observe([Observation(0, 0, np.array([0.0]), 1.0, "initial")])
        message = sent([1, 2, 3])
        for step, p in ((1, 3 / 4), (2, 3 / 4), (3, 8 / 9)):
            own = 0
            for seed in range(500):
                (query,) = program.propose(step, message, Keys(seed, 0, step))
                own += query.source == "own"
            assert own / 500 == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / 500))

    def test_a_new_message_may_be_used_again(self) -> None:
        first, second = sent([1, 2]), sent([1, 2], [3, 1])  # agent 2 missed its renewal
        found = queries(method(), [first, first, second, second])
        assert sorted(one.source for one in found[:2]) == ["agent 1", "agent 2"]
        assert [one.source for one in found[2:]] == ["agent 1, message 3", "own"]

    def test_with_mutual_help_nobody_uses_its_own_message(self) -> None:
        one = method(targets="all", helper_queries=2)
        found = queries(one, [sent([0, 1, 2, 3, 4])] * 5, agent=2)
        assert sorted(query.source for query in found) == [
            *(f"agent {agent}" for agent in (0, 1, 3, 4)),
            "own",
        ]

    def test_with_mutual_help_p_t_counts_from_the_first_message(self) -> None:
        one = method(targets="all", helper_queries=4, own_probability="1 - 1/t")
        found = queries(one, [sent([0, 1, 2])] * 3, agent=1)
        assert [query.source for query in found[:2]] == ["own", "own"]
        assert found[2].source in ("agent 0", "agent 2")  # p_1 = 0

    def test_learned_preferences_avoid_what_contradicts_the_history(self) -> None:
        work = FederatedWork(Context(GRID, 5, 20, seed=3), MESSAGE, 1, SURROGATE)
        u = np.linspace(0, 1, 40)[:, None]
        fitting = linear_posterior(work.features_of(u), u[:, 0] - 0.5, 1e-4).mean
        content = {"weights": np.array([fitting, -fitting])}
        message = Broadcast(Messages(np.array([1, 2]), np.array([1, 1]), content).payload())
        program = method(preferences="learned").agent(0)
        program.observe([Observation(0, i, x, float(x[0]), "initial") for i, x in enumerate(u)])
        found = {program.propose(1, message, Keys(s, 0, 1))[0].source for s in range(50)}
        assert found == {"agent 1"}


class TestHelpers:
    def history(self, count: int) -> tuple[list[Observation], Array, Array]:
        generator = np.random.default_rng(1)
        u = GRID.snap(generator.random((count, 1)))
        y = generator.standard_normal(count)
        return [Observation(i, 0, u[i], y[i], "own") for i in range(count)], u, y

    @pytest.mark.parametrize("count", [0, 1, 5, 30])
    def test_the_message_is_a_sample_of_the_posterior(self, count: int) -> None:
        one = method(agents=3)
        program = one.agent(1)
        seen, u, y = self.history(count)
        program.observe(seen)
        found = program.reply(HELPERS_MESSAGE, Keys(7, 1, 4))["weights"]
        work = FederatedWork(Context(GRID, 3, 20, seed=3), MESSAGE, 1, SURROGATE)
        outputs = (y - y.mean()) / y.std() if count > 1 else np.zeros(count)
        posterior = linear_posterior(work.features_of(u), outputs, MESSAGE.noise_variance)
        expected = posterior.sample(Keys(7, 1, 4)("posterior-message"))
        assert found == pytest.approx(expected, abs=1e-9)

    def test_other_requests_are_refused(self) -> None:
        with pytest.raises(RunError, match="do not know the request 'other'"):
            method().agent(1).reply(Request("other"), Keys(0, 1, 0))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"targets": "all", "helper_queries": 4},
        {"targets": [2, 0], "helper_design": "random", "renew": 1},
        {"renew": 2, "helpers_continue": False, "preferences": "learned"},
    ],
)
def test_programs_are_functions_of_history_and_messages(settings: dict[str, Any]) -> None:
    given = {"own_probability": 0.4, "helper_queries": 3, "initial_points": 2, **settings}
    check_method(
        lambda context: FTSTarget(context, message=MESSAGE, surrogate=FAST, **given), rounds=5
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"targets": [7]}, "method.targets: expected all, or different agents of 0 to 4"),
        ({"own_probability": 1.5}, "method.own_probability: expected"),
        ({"preferences": [1.0]}, "method.preferences: expected 5 weights"),
        ({"renew": 0}, "method.renew: expected never, or a number of rounds"),
        ({"helper_queries": 10_001}, "method.helper_queries: expected 0 to 10,000, got 10001"),
    ],
)
def test_refusals(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        method(**changes)


def config(**settings: Any) -> dict[str, Any]:
    raw = small("fts-target", rounds=5)
    raw["scenario"] |= {"agents": 4, "unchanged": [1]}
    raw["method"] |= {"targets": [1], "helper_queries": 4, "own_probability": 0.3, **settings}
    return raw


def steps(run: fedsim.Run) -> list[StepEntry]:
    entries = read_journal(run.runs[0].folder.journal)
    return [entry for entry in entries if isinstance(entry, StepEntry)]


def test_helpers_make_t_n_observations_first(here: Path) -> None:
    found = steps(fedsim.run(config()))
    counts = Counter(one.agent for entry in found if entry.t < 0 for one in entry.observations)
    assert counts == {0: 4, 2: 4, 3: 4}
    assert [entry.participants for entry in found if entry.t >= 0] == [{1}] * 6
    sources = {one.source for entry in found for one in entry.observations if one.agent == 1}
    assert sources & {"agent 0", "agent 2", "agent 3"}


def test_thompson_sampling_has_the_same_targets_and_queries(here: Path) -> None:
    alone = config(own_probability=1.0)
    both = fedsim.run({**alone, "variants": {"FTS": {}, "TS": {"method": {"name": "ts"}}}})
    assert [run.facts().targets for run in both.runs] == [(1,), (1,)]
    fts, ts = (
        [one for _, one in observations(read_journal(run.folder.journal)) if one.agent == 1]
        for run in both.runs
    )
    assert fts == ts
    whole = fedsim.run({**alone, "method": {**ts_settings(alone), "targets": "all"}}, out="all")
    entries = read_journal(whole.runs[0].folder.journal)
    assert [one for _, one in observations(entries) if one.agent == 1] == ts
    assert whole.runs[0].facts().targets is None


def ts_settings(raw: dict[str, Any]) -> dict[str, Any]:
    return {"name": "ts", **{k: raw["method"][k] for k in ("initial_points", "surrogate")}}


RENEWED: dict[str, Any] = {"renew": 2, "preferences": "learned"}


@pytest.mark.parametrize("settings", [RENEWED, {"targets": "all", "helper_queries": 3, "renew": 1}])
def test_resumed_runs_have_the_same_journal(here: Path, settings: dict[str, Any]) -> None:
    raw = {**config(**settings), "availability": 0.6}
    whole = body(fedsim.run(raw, out="whole").runs[0].folder.journal)
    with pytest.raises(Interrupted):
        fedsim.run(raw, out="stopped", listener=Stop(2))
    stopped = fedsim.resume("stopped").runs[0].folder
    assert body(stopped.journal) == whole
    # Killed while helpers query: there is no checkpoint yet.
    lines = stopped.journal.read_bytes().splitlines(keepends=True)
    fresh = fedsim.run(raw, out="fresh").runs[0].folder
    (fresh.path / "state" / "checkpoint.npz").unlink()
    (fresh.path / "manifest.json").unlink()
    fresh.journal.write_bytes(b"".join(lines[:3]))
    assert body(fedsim.resume("fresh").runs[0].folder.journal) == whole


@pytest.mark.heavy
def test_processes_write_the_same_journals(here: Path) -> None:
    raw = {**config(**RENEWED), "availability": 0.7, "seeds": [0, 1]}
    one, other = (fedsim.run(raw, out=f"jobs-{jobs}", jobs=jobs) for jobs in (1, 2))
    for a, b in zip(one.runs, other.runs, strict=True):
        assert a.folder.journal.read_bytes() == b.folder.journal.read_bytes()


@pytest.mark.parametrize("preferences", [[0, 0, 1.0, 2.0], {2: 1.0, 3: 2.5}])
def test_a_resolved_configuration_is_one(here: Path, preferences: Any) -> None:
    run = fedsim.run(config(preferences=preferences))
    again = fedsim.run(run.config, out="again")
    assert again.config == run.config
    assert body(again.runs[0].folder.journal) == body(run.runs[0].folder.journal)
