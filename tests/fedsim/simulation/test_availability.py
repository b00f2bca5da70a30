"""Absence is drawn by key, and changes nothing but who takes part."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedsim
from fedsim.cli.main import run_command
from fedsim.config.experiment import prepare
from fedsim.config.registry import METHODS
from fedsim.config.spec import check_availability
from fedsim.errors import ConfigError, Interrupted
from fedsim.privacy.mechanism import SubsampledGaussianMechanism, WeightedAverage
from fedsim.protocol import Reply
from fedsim.record.entries import AskEntry, Recorded, ReleaseEntry, StepEntry
from fedsim.record.journal import read_journal
from fedsim.record.progress import Progress
from fedsim.record.runfolder import RunFolder
from fedsim.rng import SERVER, Keys
from fedsim.running.preflight import check
from fedsim.simulation.availability import present
from fedsim.simulation.loop import Simulation
from fedsim.yamltext import format_yaml
from tests.util.small import make, run, small

ALL = tuple(range(100))
FLEET: Any = None  # the mechanisms do not use it
agents_lists = st.lists(st.integers(0, 99), unique=True).map(sorted)


def steps(simulation: Simulation) -> list[StepEntry]:
    entries = read_journal(RunFolder(simulation.folder).journal)
    return [entry for entry in entries if isinstance(entry, StepEntry)]


class TestPresent:
    @given(st.integers(0, 5), st.integers(0, 50), agents_lists, st.floats(0, 1))
    def test_it_depends_on_the_key_alone(
        self, seed: int, t: int, some: list[int], p: float
    ) -> None:
        """Not on which other agents are asked, in which order, or how often."""
        everybody = present(seed, t, ALL, p)
        assert present(seed, t, some, p) == tuple(a for a in some if a in everybody)
        assert present(seed, t, some[::-1], p) == present(seed, t, some, p)[::-1]
        assert present(seed, t, ALL, p) == everybody

    @given(st.integers(0, 5), st.integers(0, 50), st.floats(0, 1), st.floats(0, 1))
    def test_more_available_agents_are_there_whenever_others_are(
        self, seed: int, t: int, p: float, q: float
    ) -> None:
        fewer, more = (set(present(seed, t, ALL, x)) for x in sorted((p, q)))
        assert fewer <= more

    def test_rounds_agents_and_seeds_differ(self) -> None:
        found = {present(seed, t, ALL, 0.5) for seed in range(3) for t in range(3)}
        assert len(found) == 9

    def test_certainties(self) -> None:
        for t in range(20):
            assert present(0, t, ALL, 1.0) == ALL
            assert present(0, t, ALL, 0.0) == ()

    @pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
    def test_frequencies(self, p: float) -> None:
        """Of agents and of rounds: 10,000 draws, within 4 standard errors."""
        rounds = [present(0, t, ALL, p) for t in range(100)]
        taken = np.array([[agent in here for agent in ALL] for here in rounds])
        error = np.sqrt(p * (1 - p))
        assert taken.mean() == pytest.approx(p, abs=4 * error / 100)
        for axis in (0, 1):  # independent in both: the means spread as a binomial's
            spread = taken.mean(axis=axis).std()
            assert spread == pytest.approx(error / 10, rel=0.3)

    def test_a_list_has_one_probability_per_agent(self) -> None:
        listed = (0.0, 1.0, 0.5, 1.0)
        rounds = [present(0, t, range(4), listed) for t in range(400)]
        shares = [np.mean([agent in here for here in rounds]) for agent in range(4)]
        assert shares[:2] == [0, 1]
        assert shares[2] == pytest.approx(0.5, abs=0.1)
        assert shares[3] == 1
        assert [present(0, t, [2], listed) for t in range(9)] == [
            present(0, t, [2], 0.5) for t in range(9)
        ]


class TestSettings:
    @pytest.mark.parametrize("given", [[0.5], [0.5] * 4])
    def test_a_list_of_another_length_is_refused(self, given: list[float]) -> None:
        words = "availability: expected one probability, or a list of 3: one per agent, got "
        with pytest.raises(ConfigError, match=words):
            check_availability(tuple(given), 3)
        with pytest.raises(ConfigError, match=words) as caught:
            check(prepare(small(availability=given)))
        assert caught.value.exit_code == 2

    def test_the_command_line_refuses_it_before_anything_is_made(
        self, here: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        Path("run.yaml").write_text(format_yaml(small()), "utf-8")
        assert run_command(["run", "run.yaml", "--set", "availability=[1, 0.5]"]) == 2
        assert "availability: expected one probability" in capsys.readouterr().err
        assert not Path("runs").exists()

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            (1.5, "availability: expected a number of at most 1, or a list, got 1.5"),
            (-0.1, "availability: expected a number of at least 0, or a list, got -0.1"),
            (float("nan"), "availability: .*got nan"),
            ("often", "availability: expected a number, or a list, got 'often'"),
            ({"p": 1}, "availability: expected a number, or a list, got {'p': 1}"),
            (True, "availability: expected a number, got true"),
            ([], "availability: expected a number, or at least 1 value, got "),
            ([2.0, 1, 1], r"availability\.0: expected a number of at most 1, got 2.0"),
            ([1, 1, float("nan")], r"availability\.2: .*got nan"),
        ],
    )
    def test_what_is_no_probability(self, value: Any, message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            prepare(small(availability=value))

    def test_variants_may_differ_in_it(self, here: Path) -> None:
        variants = {"all": {}, "half": {"availability": 0.5}, "list": {"availability": [1, 1, 0]}}
        done = fedsim.run(small(variants=variants))
        counts = [one["evaluations"] for one in done.summaries()]
        assert counts[0] == 3 * (2 + 2)
        assert counts[1] < counts[0]
        assert counts[2] == 2 * (2 + 2)


@pytest.mark.parametrize("method", METHODS)
class TestRuns:
    def test_absent_agents_take_no_step(self, tmp_path: Path, method: str) -> None:
        simulation = make(tmp_path / "seed-0", small(method, rounds=6, availability=0.5))
        seen: list[Progress] = []
        run(simulation, seen.append)
        count = dict.fromkeys(range(3), 0)
        for entry, progress in zip(steps(simulation), seen, strict=True):
            here = present(0, entry.t, range(3), 0.5)
            assert entry.absent == tuple(a for a in range(3) if a not in here)
            assert [record.agent for record in entry.observations] == sorted(
                a for a in here for _ in range(1 if count[a] else 2)
            )
            for record in entry.observations:
                assert record.step == count[record.agent]  # its own count, not the round
                assert (record.source == "initial") == (record.step == 0)
            for agent in here:
                count[agent] += 1
            assert progress.present == len(here)
        assert 0 < min(count.values()) < max(count.values()) < 7  # agents differ in this seed

    def test_a_round_without_anybody(self, tmp_path: Path, method: str) -> None:
        simulation = make(tmp_path / "seed-0", small(method, rounds=4, availability=0.05))
        run(simulation)
        entries = steps(simulation)
        empty = [entry for entry in entries if not entry.observations]
        assert empty  # some such round is among these, and the run went on after it
        assert empty[0].absent == (0, 1, 2)
        assert [entry.t for entry in entries] == [0, 1, 2, 3, 4]

    def test_it_is_the_same_after_any_stop(self, tmp_path: Path, method: str) -> None:
        raw = small(method, rounds=4, availability=[0.5, 0.7, 0.5])
        whole = run(make(tmp_path / "whole", raw))
        simulation = make(tmp_path / "parts", raw)

        def stop(progress: Progress) -> None:
            raise Interrupted("enough")

        for _ in range(5):
            with pytest.raises(Interrupted):
                run(simulation, stop)
        assert run(simulation) == whole
        assert b'"absent"' in whole
        (simulation.folder / "state" / "checkpoint.npz").unlink()
        journal = RunFolder(simulation.folder).journal
        journal.write_bytes(whole[: 2 * len(whole) // 3])
        assert run(simulation) == whole


@pytest.mark.parametrize("availability", [0.05, 0.0])
def test_the_tables_have_every_round(here: Path, availability: float) -> None:
    done = fedsim.run(small("dp-fts-de", rounds=4, availability=availability))
    assert done.summaries()[0]["status"] == "done"
    assert done.rounds["round"].tolist() == [0, 1, 2, 3, 4]
    assert len(done.observations) == (0 if availability == 0 else 6)


def test_everybody_present_leaves_no_word(tmp_path: Path) -> None:
    journals = [
        run(make(tmp_path / name, small(availability=value)))
        for name, value in (("a", 1.0), ("b", [1.0] * 3))
    ]
    assert all(b"absent" not in journal for journal in journals)
    without_header = [journal.split(b"\n", 1)[1] for journal in journals]
    assert without_header[0] == without_header[1]


ASKING = """
    from fedsim.methods.random_search import RandomSearch, SilentServer
    from fedsim.protocol import Request

    class Mine(RandomSearch):
        def agent(self, agent):
            program = super().agent(agent)
            program.reply = lambda request, rng: {"n": agent}
            return program

        def server(self):
            return Server()

    class Server(SilentServer):
        def round(self, t, fleet):
            fleet.step(t, None, then=Request("one"))
            fleet.ask(t, Request("two"), to=[0, 2])
            return {}
"""


def test_absent_agents_replies_are_missing(
    here: Path, user_module: Callable[[str], str], tmp_path: Path
) -> None:
    raw = small(rounds=5, availability=0.5)
    raw["method"] = {"name": f"{user_module(ASKING)}:Mine"}
    made = make(tmp_path / "seed-0", raw)
    run(Simulation(made.spec, made.folder, transcript=True))
    text = RunFolder(made.folder).transcript.read_text()
    received = [json.loads(line) for line in text.splitlines()]
    assert len(received) == 2 * 6
    for number, line in enumerate(received):
        chosen = [0, 2] if number % 2 else [0, 1, 2]
        here_now = present(0, line["t"], chosen, 0.5)
        assert line["replies"] == [
            [a, "ok", {"n": a}] if a in here_now else [a, "missing", {}] for a in chosen
        ]
    entries = read_journal(RunFolder(made.folder).journal)
    asks = [entry for entry in entries if isinstance(entry, AskEntry)]
    assert len(asks) == 6
    for ask in asks:
        assert sorted([*ask.agents, *ask.absent]) == [0, 2]


class TestMessages:
    """Sparse agents: rounds without anybody, and agents that have missed rounds."""

    ROUNDS = 24

    def queries(self, method: str, tmp_path: Path, **changes: Any) -> dict[int, list[Recorded]]:
        """Return the queries after the initial designs, by round."""
        raw = small(method, rounds=self.ROUNDS, availability=0.3, **changes)
        raw["method"]["own_probability"] = 0.0  # whoever has a message follows it
        simulation = make(tmp_path / "seed-0", raw)
        run(simulation)
        return {e.t: [r for r in e.observations if r.step > 0] for e in steps(simulation)}

    @pytest.mark.parametrize("method", ["fts-de", "dp-fts-de"])
    def test_a_rounds_agents_follow_one_function(self, method: str, tmp_path: Path) -> None:
        square = {"name": "fedsim.simulation.in_memory:Bowl"}
        queries = self.queries(method, tmp_path, scenario=square)
        shared = [
            {record.u for record in records if record.source == "server"}
            for records in queries.values()
        ]
        assert max(map(len, shared)) == 1
        assert len(set().union(*shared)) > 1

    def test_nobody_follows_an_average_of_nobody(self, tmp_path: Path) -> None:
        queries = self.queries("fts-de", tmp_path)
        after = {t: bool(present(0, t - 1, range(3), 0.3)) for t in range(1, self.ROUNDS + 1)}
        told = {t: {record.source for record in records} for t, records in queries.items()}
        assert all(told[t] <= {"server" if after[t] else "own"} for t in after)
        assert {"own"} in told.values()
        entries = read_journal(tmp_path / "seed-0" / "journal.jsonl")
        empty = {e.t: e.empty for e in entries if isinstance(e, ReleaseEntry)}
        assert empty == {t - 1: not answered for t, answered in after.items()}

    def test_a_private_release_does_not_tell_that_nobody_answered(self, tmp_path: Path) -> None:
        queries = self.queries("dp-fts-de", tmp_path)
        assert {r.source for records in queries.values() for r in records} == {"server"}
        entries = read_journal(tmp_path / "seed-0" / "journal.jsonl")
        made = [e for e in entries if isinstance(e, ReleaseEntry)]
        assert [e.t for e in made] == list(range(self.ROUNDS))
        assert all(e.event is not None and not e.empty for e in made)


class TestPrivacy:
    def test_epsilon_is_unchanged(self, here: Path) -> None:
        variants = {"all": {}, "half": {"availability": 0.5}}
        raw = small("dp-fts-de", rounds=4, variants=variants)
        whole, half = (one["epsilon"] for one in fedsim.run(raw).summaries())
        assert whole == half
        assert whole["releases"] == 4

    def test_a_missing_reply_counts_as_a_zero_vector(self) -> None:
        mechanism = SubsampledGaussianMechanism(4, 3, 2, 2.0, 0.5, 1.0)
        vectors = np.random.default_rng(0).normal(size=(4, 3))
        zero = vectors * np.array([1, 0, 1, 0])[:, None]
        replies = tuple(
            Reply(n, "missing", {}) if n in (1, 3) else Reply(n, "ok", {"vector": v})
            for n, v in enumerate(vectors)
        )
        zeros = tuple(Reply(n, "ok", {"vector": v}) for n, v in enumerate(zero))
        for t in range(6):
            a = mechanism.aggregate(t, replies, FLEET, Keys(0, SERVER, t))
            b = mechanism.aggregate(t, zeros, FLEET, Keys(0, SERVER, t))
            assert a.payload is not None
            assert b.payload is not None
            np.testing.assert_array_equal(a.payload["vectors"], b.payload["vectors"])
            assert (a.cost, a.experimenter) == (b.cost, b.experimenter)

    def test_a_plain_average_is_one_of_those_present(self) -> None:
        """Their weights sum to 1: equal vectors are their own average."""
        average = WeightedAverage(4, 3, 2)
        vector = np.array([1.0, -2.0, 3.0])
        for absent in ((), (0,), (1, 3), (0, 1, 2)):
            replies = tuple(
                Reply(n, "missing", {}) if n in absent else Reply(n, "ok", {"vector": vector})
                for n in range(4)
            )
            payload = average.aggregate(0, replies, FLEET, Keys(0, SERVER, 0)).payload
            assert payload is not None
            np.testing.assert_allclose(payload["vectors"], [vector] * 2, rtol=1e-12)
