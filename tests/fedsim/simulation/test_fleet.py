"""The recording fleet: numbering, journal, charges, replay, and what programs do not see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.errors import RunError, RunFolderError
from fedsim.privacy.events import SubsampledGaussian
from fedsim.privacy.ledger import Ledger
from fedsim.protocol import (
    Broadcast,
    Cost,
    PrivacyEvent,
    Release,
    Replies,
    Request,
    State,
    Uncharged,
)
from fedsim.record.entries import AskEntry, Entry, Recorded, ReleaseEntry, StepEntry
from fedsim.record.journal import open_journal, read_journal
from fedsim.record.observer import AggregatorReceived, CallFinished, Event, Received
from fedsim.record.position import Position, position_after
from fedsim.record.runfolder import RunFolder
from fedsim.rng import SERVER, Keys, SystemKeys
from fedsim.simulation.calls import Answer, Call, Task
from fedsim.simulation.fleet import RecordingFleet
from fedsim.simulation.releases import MOST_LOSSES, Releases

COST = SubsampledGaussian(0.5, 1.0, 1.0)
FREE, PAID = Uncharged.NOT_PRIVATE, Uncharged.ALREADY_PAID
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

    announced: Cost = FREE
    charged: Cost = FREE
    again: int = 0
    call: Callable[[Any], Any] | None = None
    payload: Any = True
    draws: list[Any] = field(default_factory=list)
    before: int = 0
    runs_at_server: bool = False

    def cost(self, t: int) -> Cost:
        return self.announced

    def state(self) -> dict[str, Any]:
        return {"releases": np.array(len(self.draws) + self.before)}

    def restore(self, state: Any) -> None:
        self.before = int(state["releases"]) - len(self.draws)

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


class Bench:
    """A fleet on a temporary folder, with all events that it sent to its observer."""

    def __init__(self, path: Path, *, system_noise: bool = False, budget: Any = None) -> None:
        self.folder = RunFolder(path)
        self.folder.create({})
        self.events: list[Event] = []
        self.agents = Agents()
        self.system_noise, self.budget = system_noise, budget

    def fleet(self, *aggregators: Any) -> RecordingFleet:
        """A fleet that starts from the beginning and replays the journal."""
        journal = open_journal(self.folder.journal, "r1")
        position = Position(dict.fromkeys(range(3), 0))
        position.replay.extend(self.entries())
        kept = self.folder if self.system_noise else None
        observer = self.events.append
        return RecordingFleet(
            self.agents,
            (0, 1, 2),
            0,
            position,
            journal,
            observer,
            Releases(position, journal, 0, observer, self.budget, kept),
            {f"a{i}": aggregator for i, aggregator in enumerate(aggregators)},
        )

    def entries(self) -> list[Entry]:
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
        steps = [entry for entry in bench.entries() if isinstance(entry, StepEntry)]
        assert [[(o.agent, o.step) for o in step.observations] for step in steps] == taken

    def test_asking_takes_no_step(self, bench: Bench) -> None:
        fleet = bench.fleet()
        fleet.ask(0, SHARE)
        fleet.step(0, None)
        fleet.step(1, None)
        fleet.ask(1, SHARE, to=[1])
        asked = [[t.step for t in tasks] for call, tasks in bench.agents.calls if not call.evaluate]
        assert asked == [[0, 0, 0], [1]]
        asks = [entry for entry in bench.entries() if isinstance(entry, AskEntry)]
        assert asks[1] == AskEntry(1, "share", (1,))

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
        fleet = bench.fleet(total := Total(COST, COST))
        release: Any = fleet.step(0, None, then=SHARE, via=total)
        assert release.cost == COST
        assert fleet.position.ledger == Ledger().charge(COST)
        entry = bench.entries()[-1]
        assert entry == ReleaseEntry(0, COST, experimenter={"snr": 0.5})
        assert entry.to_json()["event"]["kind"] == "subsampled-gaussian"

    def test_experimenters_diagnostics_never_reach_the_program(self, bench: Bench) -> None:
        total = Total(COST, COST)
        release: Any = bench.fleet(total).step(0, None, then=SHARE, via=total)
        assert release.experimenter == {}
        assert release.payload.keys() == {"v"}

    @pytest.mark.parametrize(
        ("announced", "charged"),
        [(COST, FREE), (FREE, COST), (COST, PAID), (COST, SubsampledGaussian(0.5, 1.0, 2.0))],
    )
    @pytest.mark.parametrize("system_noise", [False, True])
    def test_a_cost_that_was_not_announced_is_an_error_and_not_kept(
        self, tmp_path: Path, announced: Any, charged: Any, system_noise: bool
    ) -> None:
        bench = Bench(tmp_path / "seed-0", system_noise=system_noise)
        fleet = bench.fleet(total := Total(announced, charged))
        with pytest.raises(
            RunError, match=r"Total: a release in round 0 cost .* expected the announced"
        ):
            fleet.step(0, None, then=SHARE, via=total)
        assert fleet.position.ledger == Ledger()
        assert [type(entry) for entry in bench.entries()] == [StepEntry]
        assert not list((bench.folder.path / "state" / "releases").iterdir())

    def test_a_budget_refuses_before_anything_is_drawn(self, tmp_path: Path) -> None:
        class ThreeReleases:
            def allows(self, ledger: Ledger, event: PrivacyEvent) -> bool:
                return ledger.charge(event).releases <= 3

        bench = Bench(tmp_path / "seed-0", budget=ThreeReleases())
        fleet = bench.fleet(total := Total(COST, COST))
        releases: list[Any] = [fleet.step(t, None, then=SHARE, via=total) for t in range(5)]
        assert [release.payload is not None for release in releases] == [True] * 3 + [False] * 2
        assert releases[3] == Release(None)
        assert len(total.draws) == fleet.position.ledger.releases == 3
        assert bench.entries()[-1] == ReleaseEntry(4, refused=True)

    def test_withholding_a_release_depends_on_data_and_so_costs_as_announced(
        self, bench: Bench
    ) -> None:
        free, costly = Total(payload=False), Total(COST, COST, payload=False)
        fleet = bench.fleet(free, costly)
        assert fleet.ask(0, SHARE, via=free) == Release(None)
        assert bench.entries()[-1] == ReleaseEntry(0, empty=True)
        assert fleet.position.ledger == Ledger()
        with pytest.raises(
            RunError, match=r"round 1 cost .*NOT_PRIVATE, expected the announced Sub"
        ):
            fleet.ask(1, SHARE, via=costly)

    def test_what_is_paid_already_is_charged_no_more(self, bench: Bench) -> None:
        fleet = bench.fleet(total := Total(COST, COST))
        fleet.ask(0, SHARE, via=total)
        total.announced = total.charged = PAID
        assert fleet.ask(0, SHARE, via=total).cost is PAID  # type: ignore[union-attr]
        assert fleet.position.ledger == Ledger().charge(COST)
        assert bench.entries()[-1] == ReleaseEntry(0, PAID, experimenter={"snr": 0.5})

    def test_what_nobody_paid_is_no_release(self, bench: Bench) -> None:
        fleet = bench.fleet(total := Total(PAID, PAID))
        with pytest.raises(RunError, match=r"first release, got ALREADY_PAID, but nothing was"):
            fleet.ask(0, SHARE, via=total)
        assert total.draws == []

    def test_what_a_refused_event_would_have_paid_is_refused(self, tmp_path: Path) -> None:
        class OneRelease:
            def allows(self, ledger: Ledger, event: PrivacyEvent) -> bool:
                return ledger.releases < 1

        bench = Bench(tmp_path / "seed-0", budget=OneRelease())
        fleet = bench.fleet(total := Total(COST, COST))
        costs: list[Cost] = [COST, PAID, COST, PAID, PAID]
        made = []
        for t, cost in enumerate(costs):
            total.announced = total.charged = cost
            release: Any = fleet.ask(t, SHARE, via=total)
            made.append(release.payload is not None)
        assert made == [True, True, False, False, False]
        refused = [e.refused for e in bench.entries() if isinstance(e, ReleaseEntry)]
        assert refused == [False, False, True, True, True]
        assert position_after(bench.entries(), range(3)).refused

    def test_a_cost_of_no_kind_is_refused(self, bench: Bench) -> None:
        fleet = bench.fleet(total := Total(announced=None))  # type: ignore[arg-type]
        with pytest.raises(RunError, match=r"expected a privacy event or .*Uncharged.*got None"):
            fleet.ask(0, SHARE, via=total)

    def test_an_aggregator_asks_again_but_does_no_more(self, bench: Bench) -> None:
        asking = Total(again=2)
        stepping = Total(call=lambda fleet: fleet.step(1, None))
        nesting = Total(call=lambda fleet: fleet.ask(1, SHARE, via=asking))
        fleet = bench.fleet(asking, stepping, nesting)
        fleet.step(0, None, then=SHARE, via=asking)
        assert [type(entry) for entry in bench.entries()] == [StepEntry, ReleaseEntry]
        for total, message in (
            (stepping, "no attribute 'step'"),
            (nesting, "unexpected keyword argument 'via'"),
        ):
            with pytest.raises(RunError, match=message):
                fleet.step(1, None, then=SHARE, via=total)
        fleet.step(2, None)  # and the fleet is as before

    def test_its_questions_are_in_the_timings_only(self, bench: Bench) -> None:
        fleet = bench.fleet(total := Total(again=2))
        fleet.step(0, None, then=SHARE, via=total)
        calls = [event for event in bench.events if isinstance(event, CallFinished)]
        assert [(event.call, event.request, event.then) for event in calls] == [
            (0, None, "share"),
            (0, "shares", None),
            (0, "shares", None),
        ]

    def test_an_aggregator_that_the_program_does_not_list_is_refused(self, bench: Bench) -> None:
        fleet = bench.fleet(Total())
        with pytest.raises(RunError, match=r"one of the server program's aggregators \(a0\)"):
            fleet.ask(0, SHARE, via=Total())
        with pytest.raises(RunError, match=r"aggregators \(it has none\), got a Total"):
            bench.fleet().step(0, None, via=Total())
        assert bench.entries() == []


@dataclass
class Forgetful(Agents):
    """Agent 1 has lost its keys on the ``lost``-th request."""

    lost: tuple[int, ...] = ()
    asked: int = 0

    def handle(self, call: Call, tasks: Sequence[Task]) -> list[Answer]:
        answers = super().handle(call, tasks)
        if call.then is not None:
            self.asked += 1
            if self.asked in self.lost:
                one = answers[1]
                answers[1] = Answer(one.agent, one.observations, None, 0.0, lost_keys=True)
        return answers


@dataclass
class Renewing:
    """Asks for shares, then for proofs; if keys were lost, for new keys and everything again."""

    statuses: list[list[str]] = field(default_factory=list)
    patient: bool = True

    def cost(self, t: int) -> Cost:
        return FREE

    def aggregate(self, t: int, replies: Replies, fleet: Any, rng: Any) -> Release:
        while True:
            self.statuses.append([reply.status for reply in replies])
            if all(reply.status == "ok" for reply in replies):
                replies = fleet.ask(t, Request("proof"))
                self.statuses.append([reply.status for reply in replies])
                if all(reply.status == "ok" for reply in replies):
                    return Release({"v": np.array(1.0)})
            if self.patient:
                fleet.ask(t, Request("new-keys"))
            replies = fleet.ask(t, SHARE)

    def state(self) -> State:
        return {}

    def restore(self, state: State) -> None: ...


class TestKeys:
    """The keys of replies' and releases' randomness: each call has its own."""

    def keys(self, bench: Bench) -> list[tuple[str, int, int, str]]:
        return [
            (call.then.kind, task.step, task.call, task.scope)
            for call, tasks in bench.agents.calls
            for task in tasks
            if task.agent == 1 and call.then is not None
        ]

    def test_every_call_of_a_step_has_its_own_number(self, bench: Bench) -> None:
        fleet = bench.fleet()
        fleet.ask(-1, SHARE)
        fleet.step(0, None, then=SHARE)
        fleet.ask(0, SHARE)
        fleet.ask(0, SHARE, to=[0])
        fleet.ask(1, SHARE)
        fleet.step(1, None)
        fleet.ask(1, SHARE)
        fleet.step(2, None, then=SHARE)
        found = [(step, call) for _, step, call, _ in self.keys(bench)]
        assert found == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 1), (2, 0)]

    def test_a_resumed_fleet_counts_on(self, bench: Bench) -> None:
        fleet = bench.fleet()
        for t in range(2):
            fleet.step(t, None, then=SHARE)
            fleet.ask(t, SHARE)
        before = fleet.position
        again = position_after(bench.entries(), range(3))
        assert (again.steps, again.requests) == (before.steps, before.requests)
        assert (again.entries, again.calls, again.releases) == (before.entries, before.calls, 0)

    def test_two_releases_of_a_round_draw_different_noise(self, bench: Bench) -> None:
        fleet = bench.fleet(total := Total(COST, COST))
        fleet.ask(-1, SHARE, via=total)
        for t in range(2):
            fleet.step(t, None, then=SHARE, via=total)
            fleet.ask(t, SHARE, via=total)
        assert total.draws == [
            Keys(0, SERVER, 0, 0),
            Keys(0, SERVER, 0, 1),
            Keys(0, SERVER, 0, 2),
            Keys(0, SERVER, 1, 0),
            Keys(0, SERVER, 1, 1),
        ]
        assert len({keys("noise").normal() for keys in total.draws}) == 5

    def test_what_an_aggregator_asks_has_keys_of_its_own(self, bench: Bench) -> None:
        fleet = bench.fleet(total := Total(again=2))
        fleet.step(0, None, then=SHARE, via=total, to=[1])
        fleet.step(1, None, to=[1])
        fleet.ask(1, SHARE, via=total)
        asked = [key for key in self.keys(bench) if key[0] == "share"]
        assert asked == [("share", 0, 0, ""), ("share", 1, 1, "")]
        scopes = [t.scope for call, tasks in bench.agents.calls for t in tasks if t.scope]
        assert len(set(scopes)) == 4  # two releases, two questions each, whoever is asked

    def test_after_lost_keys_everything_is_asked_again_with_the_same_keys(
        self, bench: Bench
    ) -> None:
        bench.agents = Forgetful()
        fleet = bench.fleet(undisturbed := Renewing())
        fleet.step(0, None, then=SHARE, via=undisturbed)
        expected = self.keys(bench)
        data = bench.folder.journal.read_bytes()
        for lost in ((1,), (2,), (1, 3), (2, 4, 5)):
            bench.folder.journal.unlink()
            bench.agents = Forgetful(lost=lost)
            fleet = bench.fleet(renewing := Renewing())
            fleet.step(0, None, then=SHARE, via=renewing)
            assert "lost_keys" in {status for row in renewing.statuses for status in row}
            answered = [key for key in self.keys(bench) if key[0] != "new-keys"]
            assert answered[-2:] == expected
            assert set(answered) == set(expected)
            assert bench.folder.journal.read_bytes() == data

    def test_the_programs_own_request_is_repeated_with_the_same_keys(self, bench: Bench) -> None:
        asked: list[Any] = []
        fleet = bench.fleet(total := Total(call=lambda f: asked.append(f.ask(0, f.request))))
        fleet.step(0, None, then=SHARE, via=total)
        fleet.ask(0, SHARE, via=total)
        assert len(asked) == 2
        keys = self.keys(bench)
        assert keys == [("share", 0, 0, "")] * 2 + [("share", 0, 1, "")] * 2

    def test_a_program_never_meets_lost_keys(self, bench: Bench) -> None:
        bench.agents = Forgetful(lost=(1,))
        with pytest.raises(RunError, match=r"have lost their keys: ask .* through an aggregator"):
            bench.fleet().step(0, None, then=SHARE)

    def test_keys_that_are_lost_for_ever_end_the_run(self, bench: Bench) -> None:
        bench.agents = Forgetful(lost=tuple(range(1, 3 * MOST_LOSSES)))
        fleet = bench.fleet(renewing := Renewing(patient=False))
        with pytest.raises(RunError, match="lost their keys 101 times in one release"):
            fleet.step(0, None, then=SHARE, via=renewing)


class TestTranscript:
    def received(self, bench: Bench) -> list[Any]:
        return [event.received for event in bench.events if isinstance(event, Received)]

    def test_an_aggregator_at_the_server_shows_all_that_it_receives(self, bench: Bench) -> None:
        fleet = bench.fleet(total := Total(again=1, runs_at_server=True))
        fleet.step(0, None, then=SHARE, via=total)
        shown = [event for event in bench.events if isinstance(event, AggregatorReceived)]
        assert [(x.t, x.call, x.request) for x in shown] == [(0, 0, "share"), (0, 0, "shares")]
        assert [[reply.agent for reply in one.replies] for one in shown] == [[0, 1, 2], [0, 2]]
        assert all(len(reply.payload) == 1 for one in shown for reply in one.replies)

    def test_without_an_aggregator_it_holds_the_replies(self, bench: Bench) -> None:
        replies = bench.fleet().step(0, None, then=SHARE)
        assert self.received(bench) == [replies]

    def test_with_one_it_holds_the_release_and_no_reply(self, bench: Bench) -> None:
        """Neither the aggregator's own requests nor the experimenter's diagnostics."""
        total = Total(COST, COST, again=2)
        release: Any = bench.fleet(total).step(0, None, then=SHARE, via=total)
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
        total = Total(COST, COST, again=1)
        whole = self.program(bench.fleet(total), total)
        data = bench.folder.journal.read_bytes()
        lines = data.splitlines(keepends=True)
        kinds = [type(entry) for entry in bench.entries()]
        assert kinds == [StepEntry, ReleaseEntry, AskEntry, StepEntry] * 2
        kept = {path: path.read_bytes() for path in bench.folder.path.glob("state/releases/*")}
        assert [int(path.stem) for path in sorted(kept)] == ([0, 1] if system_noise else [])
        for cut in range(1, len(lines) + 1):
            bench.folder.journal.write_bytes(b"".join(lines[:cut]))
            for path, content in kept.items():  # on disk since the line before the release's
                path.write_bytes(content)
                if cut <= (1 if path.stem == "0" else 5):
                    path.unlink()
            undrawn = 2 - len(list(bench.folder.path.glob("state/releases/*")))
            bench.agents = Agents()
            fleet = bench.fleet(via := Total(COST, COST, again=1))
            received = self.program(fleet, via)
            assert bench.folder.journal.read_bytes() == data
            assert fleet.position.ledger == Ledger().charge(COST).charge(COST)
            recorded = sum(b'"step"' in line for line in lines[1:cut])
            assert len([1 for call, _ in bench.agents.calls if call.evaluate]) == 4
            assert bench.agents.fresh == 8 - sum((3, 1, 3, 1)[:recorded])
            assert len(via.draws) == undrawn
            assert via.state()["releases"] == 2  # read back, it has the state after its draws
            if not system_noise or undrawn == 0:
                assert received == whole

    def test_system_noise_is_drawn_once_and_kept_before_anybody_sees_it(
        self, system: Bench
    ) -> None:
        total = Total(COST, COST)
        seen: Any = system.fleet(total).step(0, None, then=SHARE, via=total)
        assert isinstance(total.draws[0], SystemKeys)
        assert system.folder.release_path(0).exists()
        again: Any = system.fleet(total).step(0, None, then=SHARE, via=total)
        assert again.payload["v"].tolist() == seen.payload["v"].tolist()
        assert len(total.draws) == 1

    def test_an_empty_release_is_kept_as_well(self, system: Bench) -> None:
        class Nothing(Total):
            def aggregate(self, t: int, replies: Replies, fleet: Any, rng: Any) -> Release:
                self.draws.append(rng)
                return Release(None, COST)

        total = Nothing(COST)
        for _ in range(2):
            assert system.fleet(total).ask(0, SHARE, via=total) == Release(None, COST)
        assert len(total.draws) == 1

    def test_what_is_paid_already_comes_from_the_operating_system(self, system: Bench) -> None:
        fleet = system.fleet(total := Total(COST, COST))
        fleet.step(0, None, then=SHARE, via=total)
        total.announced = total.charged = PAID
        fleet.step(1, None, then=SHARE, via=total)
        assert isinstance(total.draws[1], SystemKeys)
        assert system.folder.release_path(1).exists()

    def test_what_is_not_private_comes_from_the_seed(self, system: Bench) -> None:
        total = Total()
        system.fleet(total).step(0, None, then=SHARE, via=total)
        assert not isinstance(total.draws[0], SystemKeys)
        assert not system.folder.release_path(0).exists()

    def test_a_journal_of_something_else_is_refused(self, bench: Bench) -> None:
        bench.fleet().step(0, None, to=[0])
        act: Callable[[RecordingFleet], object]
        for act, message in (
            (lambda fleet: fleet.ask(0, SHARE), "a AskEntry of round 0, got a StepEntry of"),
            (lambda fleet: fleet.step(1, None), "a StepEntry of round 1, got a StepEntry of"),
            (
                lambda fleet: fleet.step(0, None, to=[1]),
                r"expected a step of the agents \[1\] in round 0, got one of \[0\]",
            ),
        ):
            with pytest.raises(RunFolderError, match=message):
                act(bench.fleet())

    def test_other_questions_than_the_recorded_ones_are_refused(self, bench: Bench) -> None:
        bench.fleet().ask(0, SHARE, to=[0, 1])
        act: Callable[[RecordingFleet], object]
        for act in (
            lambda fleet: fleet.ask(0, Request("other"), to=[0, 1]),
            lambda fleet: fleet.ask(0, SHARE, to=[0]),
        ):
            with pytest.raises(RunFolderError, match="journal: expected AskEntry"):
                act(bench.fleet())

    def test_a_recorded_refusal_stays_one_whatever_the_budget_is_now(self, tmp_path: Path) -> None:
        class Nothing:
            def allows(self, ledger: Ledger, event: PrivacyEvent) -> bool:
                return False

        bench = Bench(tmp_path / "seed-0", budget=Nothing())
        bench.fleet(total := Total(COST, COST)).ask(0, SHARE, via=total)
        bench.budget = None
        fleet = bench.fleet(total)
        assert fleet.ask(0, SHARE, via=total) == Release(None)
        assert (total.draws, fleet.position.ledger) == ([], Ledger())
        assert fleet.ask(1, SHARE, via=total).cost == COST  # type: ignore[union-attr]

    def test_a_recorded_release_of_another_cost_is_refused(self, bench: Bench) -> None:
        bench.fleet(total := Total(COST, COST)).ask(0, SHARE, via=total)
        total.announced = total.charged = SubsampledGaussian(0.5, 1.0, 2.0)
        with pytest.raises(RunFolderError, match=r"journal: expected the release .* got"):
            bench.fleet(total).ask(0, SHARE, via=total)

    def test_a_kept_release_of_another_run_is_refused(self, system: Bench) -> None:
        system.fleet(total := Total(COST, COST)).ask(0, SHARE, via=total)
        system.folder.journal.unlink()  # as an error advises, where the journal's end is lost
        total.announced = total.charged = SubsampledGaussian(0.5, 100.0, 100.0)
        with pytest.raises(RunFolderError, match=r"0\.npz: expected .*100.*: it is the release of"):
            system.fleet(total).ask(0, SHARE, via=total)

    def test_calls_name_the_present_round(self, bench: Bench) -> None:
        fleet = bench.fleet()
        fleet.round.begin(-1)
        fleet.step(-2, None)
        with pytest.raises(RunError, match=r"t: expected a round below 0, .* got 0"):
            fleet.step(0, None)
        fleet.round.begin(3)
        fleet.step(3, None)
        with pytest.raises(RunError, match="t: expected round 3, got 4"):
            fleet.ask(4, SHARE)
