"""The recording fleet: what it numbers, writes, charges, replays and withholds."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.errors import RunError, RunFolderError
from fedsim.privacy.events import SubsampledGaussian
from fedsim.privacy.ledger import Ledger
from fedsim.protocol import Broadcast, Release, Replies, Request, State
from fedsim.record.journal import Recorded, open_journal, read_journal
from fedsim.record.position import Position
from fedsim.record.runfolder import RunFolder
from fedsim.rng import SystemKeys
from fedsim.simulation.calls import Answer, Call, Task
from fedsim.simulation.fleet import RecordingFleet

COST = SubsampledGaussian(0.5, 1.0, 1.0)
SHARE = Request("share", {"k": np.array([7.0])})


@dataclass
class Agents:
    """A transport: agent i observes i + step / 10, and replies with its own number."""

    calls: list[tuple[Call, list[Task]]] = field(default_factory=list)
    fresh: int = 0

    def handle(self, call: Call, tasks: Sequence[Task]) -> list[Answer]:
        self.calls.append((call, list(tasks)))
        answers = []
        for task in tasks:
            records = task.recorded or ()
            if call.evaluate and not records:
                self.fresh += 1
                y = task.agent + task.step / 10
                records = (Recorded(task.agent, task.step, 0, (0.5,), y, y, "own"),)
            payload = None if call.then is None else {"v": np.array([float(task.agent)])}
            answers.append(Answer(task.agent, records, payload, 0.0, 0.0))
        return answers


@dataclass
class Total:
    """An aggregator: the sum of the replies plus a draw; may ask again, may lie about costs."""

    announced: SubsampledGaussian | None = None
    charged: SubsampledGaussian | None = None
    again: int = 0
    call: Callable[[Any], Any] | None = None
    payload: Any = True
    draws: list[Any] = field(default_factory=list)

    def cost(self, t: int) -> SubsampledGaussian | None:
        return self.announced

    def aggregate(self, t: int, replies: Replies, fleet: Any, rng: Any) -> Release:
        self.draws.append(rng)
        total = sum(reply.payload["v"] for reply in replies)
        for _ in range(self.again):
            total = total + sum(r.payload["v"] for r in fleet.ask(t, Request("shares"), to=[0, 2]))
        if self.call is not None:
            self.call(fleet)
        if not self.payload:
            return Release(None)
        extra: dict[str, Any] = {"snr": np.float32(0.5), "bad": float("nan")}
        value: Any = total + rng("noise").normal()
        return Release({"v": value}, self.charged, extra)

    def state(self) -> State:
        return {}

    def restore(self, state: State) -> None: ...


class Bench:
    """A fleet on a temporary folder, with everything that it told its observer."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.folder = RunFolder(path)
        self.folder.create({})
        self.told: list[tuple[str, int, Any]] = []
        self.agents = Agents()
        self.options = options

    def fleet(self) -> RecordingFleet:
        """A fleet that begins at the start and replays what the journal holds."""
        self.journal = open_journal(self.folder.journal, "r1")
        options: dict[str, Any] = {"system_noise": False, "budget": None, **self.options}
        position = Position(dict.fromkeys(range(3), 0), Ledger(), 0, 0, deque(self.lines()))
        return RecordingFleet(
            self.agents,
            (0, 1, 2),
            0,
            self.folder,
            self.journal,
            position=position,
            observer=lambda kind, t, details: self.told.append((kind, t, details)),
            **options,
        )

    def lines(self) -> list[Any]:
        return list(read_journal(self.folder.journal))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "seed-0")


@pytest.fixture
def system(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "seed-0", system_noise=True)


class TestSteps:
    def test_each_agent_counts_its_own_steps(self, bench: Bench) -> None:
        fleet = bench.fleet()
        assert fleet.members == (0, 1, 2)
        fleet.step(0, None)
        fleet.step(1, None, to=[2, 0, 2])
        fleet.step(2, None)
        taken = [[(task.agent, task.step) for task in tasks] for _, tasks in bench.agents.calls]
        assert taken == [[(0, 0), (1, 0), (2, 0)], [(0, 1), (2, 1)], [(0, 2), (1, 1), (2, 2)]]
        assert [call.settled for call, _ in bench.agents.calls] == [0, 1, 2]
        rows = [line["observations"] for line in bench.lines()]
        assert [[(row[0], row[1]) for row in one] for one in rows] == taken

    def test_asking_takes_no_step(self, bench: Bench) -> None:
        fleet = bench.fleet()
        fleet.ask(0, SHARE)
        fleet.step(0, None)
        fleet.step(1, None)
        fleet.ask(1, SHARE, to=[1])
        asked = [[t.step for t in tasks] for call, tasks in bench.agents.calls if not call.evaluate]
        assert asked == [[0, 0, 0], [1]]
        asks = [line for line in bench.lines() if line["kind"] == "ask"]
        assert asks[1] == {"kind": "ask", "t": 1, "request": "share", "agents": [1]}

    def test_replies_come_in_agent_order_and_only_if_asked(self, bench: Bench) -> None:
        fleet = bench.fleet()
        assert fleet.step(0, None) == ()
        replies: Any = fleet.step(1, None, to=[2, 0], then=SHARE)
        assert [(r.agent, r.status, r.payload["v"].tolist()) for r in replies] == [
            (0, "ok", [0.0]),
            (2, "ok", [2.0]),
        ]

    def test_nobody_may_be_asked(self, bench: Bench) -> None:
        assert bench.fleet().step(0, None, to=[], then=SHARE) == ()

    def test_unknown_agents_are_named(self, bench: Bench) -> None:
        with pytest.raises(RunError, match=r"to: expected agents 0 to 2, got \[-1, 3\]"):
            bench.fleet().step(0, None, to=[3, 0, -1])

    def test_agents_get_read_only_copies(self, bench: Bench) -> None:
        own = np.zeros(2)
        bench.fleet().step(0, Broadcast({"w": own}), then=SHARE)
        call = bench.agents.calls[0][0]
        assert call.message is not None
        assert call.then is not None
        assert call.message.payload["w"] is not own
        for array in (call.message.payload["w"], call.then.payload["k"]):
            assert not array.flags.writeable

    def test_messages_are_numbers(self, bench: Bench) -> None:
        words: Any = {"not": "numbers"}
        with pytest.raises(RunError, match="the server's message: w: expected an array of numbers"):
            bench.fleet().step(0, Broadcast({"w": words}))


class TestReleases:
    def test_the_cost_is_charged_and_written(self, bench: Bench) -> None:
        fleet = bench.fleet()
        release: Any = fleet.step(0, None, then=SHARE, via=Total(COST, COST))
        assert release.event == COST
        assert fleet.position.ledger == Ledger().charge(COST)
        line = bench.lines()[-1]
        assert line == {
            "kind": "release",
            "t": 0,
            "event": COST.record(),
            "experimenter": {"snr": 0.5},
        }

    def test_experimenters_diagnostics_never_reach_the_program(self, bench: Bench) -> None:
        release: Any = bench.fleet().step(0, None, then=SHARE, via=Total(COST, COST))
        assert release.experimenter == {}
        assert release.payload.keys() == {"v"}

    @pytest.mark.parametrize(
        ("announced", "charged"),
        [(COST, None), (None, COST), (COST, SubsampledGaussian(0.5, 1.0, 2.0))],
    )
    @pytest.mark.parametrize("system_noise", [False, True])
    def test_a_cost_that_was_not_announced_is_an_error_and_not_kept(
        self, tmp_path: Path, announced: Any, charged: Any, system_noise: bool
    ) -> None:
        bench = Bench(tmp_path / "seed-0", system_noise=system_noise)
        fleet = bench.fleet()
        with pytest.raises(RunError, match=r"Total: release 0 cost .* announced was"):
            fleet.step(0, None, then=SHARE, via=Total(announced, charged))
        assert fleet.position.ledger == Ledger()
        assert [line["kind"] for line in bench.lines()] == ["step"]
        assert not list((bench.folder.path / "state" / "releases").iterdir())

    def test_a_budget_refuses_before_anything_is_drawn(self, tmp_path: Path) -> None:
        class ThreeReleases:
            def allows(self, ledger: Ledger, event: SubsampledGaussian) -> bool:
                return ledger.charge(event).releases <= 3

        bench = Bench(tmp_path / "seed-0", budget=ThreeReleases())
        fleet, total = bench.fleet(), Total(COST, COST)
        releases: list[Any] = [fleet.step(t, None, then=SHARE, via=total) for t in range(5)]
        assert [release.payload is not None for release in releases] == [True] * 3 + [False] * 2
        assert releases[3] == Release(None)
        assert len(total.draws) == fleet.position.ledger.releases == 3
        assert bench.lines()[-1] == {"kind": "release", "t": 4, "refused": True}

    def test_withholding_a_release_depends_on_data_and_so_costs_as_announced(
        self, bench: Bench
    ) -> None:
        fleet = bench.fleet()
        assert fleet.ask(0, SHARE, via=Total(payload=False)) == Release(None)
        assert fleet.position.ledger == Ledger()
        with pytest.raises(RunError, match="release 1 cost None, announced was Sub"):
            fleet.ask(1, SHARE, via=Total(COST, COST, payload=False))

    def test_an_aggregator_asks_again_but_does_no_more(self, bench: Bench) -> None:
        fleet = bench.fleet()
        fleet.step(0, None, then=SHARE, via=Total(again=2))
        assert [line["kind"] for line in bench.lines()] == ["step", "ask", "ask", "release"]
        for act, message in (
            (lambda f: f.step(1, None), "not let them take a step"),
            (lambda f: f.ask(1, SHARE, via=Total()), "not through an aggregator"),
        ):
            with pytest.raises(RunError, match=message):
                fleet.step(1, None, then=SHARE, via=Total(call=act))
        fleet.step(2, None)  # and the fleet is as before


class TestTranscript:
    def received(self, bench: Bench) -> list[Any]:
        return [details["received"] for kind, _, details in bench.told if kind == "received"]

    def test_without_an_aggregator_it_holds_the_replies(self, bench: Bench) -> None:
        replies = bench.fleet().step(0, None, then=SHARE)
        assert self.received(bench) == [replies]

    def test_with_one_it_holds_the_release_and_no_reply(self, bench: Bench) -> None:
        """Not even what the aggregator asked for itself, nor the experimenter's numbers."""
        release: Any = bench.fleet().step(0, None, then=SHARE, via=Total(COST, COST, again=2))
        (received,) = self.received(bench)
        assert received is release
        assert received.experimenter == {}


class TestReplay:
    def program(self, fleet: RecordingFleet, via: Any) -> list[Any]:
        """Two rounds of everything; returns what the program received."""
        received: list[Any] = []
        for t in range(2):
            received.append(fleet.step(t, None, then=SHARE, via=via))
            received.append(fleet.ask(t, SHARE, to=[1]))
            received.append(fleet.step(t, None, to=[2]))
        return [
            [x.payload for x in r] if isinstance(r, tuple) else r.payload["v"].tolist()
            for r in received
        ]

    @pytest.mark.parametrize("system_noise", [False, True])
    def test_after_every_line_it_goes_on_as_if_nothing_had_happened(
        self, tmp_path: Path, system_noise: bool
    ) -> None:
        bench = Bench(tmp_path / "seed-0", system_noise=system_noise)
        whole = self.program(bench.fleet(), Total(COST, COST, again=1))
        data = bench.folder.journal.read_bytes()
        lines = data.splitlines(keepends=True)
        kinds = [line["kind"] for line in bench.lines()]
        assert kinds == ["step", "ask", "release", "ask", "step"] * 2
        kept = {path: path.read_bytes() for path in bench.folder.path.glob("state/releases/*")}
        assert [int(path.stem) for path in sorted(kept)] == ([0, 4] if system_noise else [])
        for cut in range(1, len(lines) + 1):
            bench.folder.journal.write_bytes(b"".join(lines[:cut]))
            for path, content in kept.items():  # on disk since the line before the release's
                path.write_bytes(content)
                if cut <= (2 if path.stem == "0" else 7):
                    path.unlink()
            undrawn = 2 - len(list(bench.folder.path.glob("state/releases/*")))
            bench.agents = Agents()
            fleet, via = bench.fleet(), Total(COST, COST, again=1)
            received = self.program(fleet, via)
            assert bench.folder.journal.read_bytes() == data
            assert fleet.position.ledger == Ledger().charge(COST).charge(COST)
            recorded = sum(b'"step"' in line for line in lines[1:cut])
            assert len([1 for call, _ in bench.agents.calls if call.evaluate]) == 4
            assert bench.agents.fresh == 8 - sum((3, 1, 3, 1)[:recorded])
            assert len(via.draws) == undrawn
            if not system_noise or undrawn == 0:
                assert received == whole

    def test_system_noise_is_drawn_once_and_kept_before_anybody_sees_it(
        self, system: Bench
    ) -> None:
        total = Total(COST, COST)
        seen: Any = system.fleet().step(0, None, then=SHARE, via=total)
        assert isinstance(total.draws[0], SystemKeys)
        assert system.folder.release_path(0).exists()
        again: Any = system.fleet().step(0, None, then=SHARE, via=total)
        assert again.payload["v"].tolist() == seen.payload["v"].tolist()
        assert len(total.draws) == 1

    def test_what_costs_nothing_comes_from_the_seed(self, system: Bench) -> None:
        total = Total()
        system.fleet().step(0, None, then=SHARE, via=total)
        assert not isinstance(total.draws[0], SystemKeys)
        assert not system.folder.release_path(0).exists()

    def test_a_journal_of_something_else_is_refused(self, bench: Bench) -> None:
        bench.fleet().step(0, None, to=[0])
        act: Callable[[RecordingFleet], object]
        for act, message in (
            (lambda fleet: fleet.ask(0, SHARE), "expected 'ask' of round 0, got 'step'"),
            (lambda fleet: fleet.step(1, None), "expected 'step' of round 1, got 'step' of round"),
            (lambda fleet: fleet.step(0, None, to=[1]), "agent 0 took no part in round 0"),
        ):
            with pytest.raises(RunFolderError, match=message):
                act(bench.fleet())
