"""The serial backend reports what hangs, stops when asked, and gives the same results."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from threadpoolctl import threadpool_info

from fedsim.config.construct import build_scenario
from fedsim.config.model import parse_config
from fedsim.config.spec import RunSpec
from fedsim.errors import LAST_OUTPUT, Interrupted, ObjectiveError, RunFolderError
from fedsim.record.journal import read_journal
from fedsim.record.locking import locked
from fedsim.record.logs import read_log
from fedsim.record.progress import Progress
from fedsim.record.runfolder import RunFolder
from fedsim.simulation.loop import Simulation
from fedsim.simulation.serial import OWN_LOG, run_serial
from fedsim.usercode.sources import UserCode
from tests.util.bowl import OURS
from tests.util.small import UserModule, make, run, small

HANGING = """
    import threading
    from fedsim.space import Parameter, Space
    hangs, let_go = threading.Event(), threading.Event()
    class Mine:
        space, direction, agents = Space((Parameter("x", 0, 1),)), "maximize", 2
        def objective(self, agent):
            return lambda point, rng: wait(agent)
    calls = []
    def wait(agent):
        calls.append(agent)
        if agent == 1 and len(calls) > 4:
            hangs.set()
            let_go.wait(600)  # here it hangs
        return float(len(calls))
"""


@pytest.fixture
def hanging(here: Path, user_module: Callable[[str], str]) -> Simulation:
    raw = small()
    raw["scenario"] = {"name": f"{user_module(HANGING)}:Mine"}
    code = UserCode.named_in(raw, [here])
    config = parse_config(raw, code)
    RunFolder(here / "seed-0").create({})
    spec = RunSpec(config.scenario, config.method, config.rounds, 0, None, code)
    return Simulation(spec, here / "seed-0")


def test_a_hung_objective_is_named_with_the_place_where_it_hangs(hanging: Simulation) -> None:
    before = set(threading.enumerate())
    with pytest.raises(ObjectiveError) as caught:
        run_serial(hanging, build_scenario(hanging.spec), 0.3, lambda progress: None)
    # Nobody waited for it: its thread still hangs.
    assert [t.name for t in threading.enumerate() if t not in before] == ["fedsim-serial"]
    text = str(caught.value)
    assert text.startswith("the objective did not return within 0.3 s (agent 1, round 1, point {'x")
    assert text.endswith("deadlines.evaluation sets the limit")
    assert "# here it hangs" in caught.value.user_traceback
    assert not OURS.search(caught.value.user_traceback)
    entries = list(read_journal(RunFolder(hanging.folder).journal))
    assert [entry.t for entry in entries] == [0]
    next(m for n, m in sys.modules.items() if n.startswith("users_")).let_go.set()


def test_ctrl_c_ends_the_run_after_the_evaluation(hanging: Simulation) -> None:
    def press(progress: Progress) -> None:
        if progress.round > 0:
            return
        users = next(m for n, m in sys.modules.items() if n.startswith("users_"))
        threading.Timer(0.2, lambda: signal.raise_signal(signal.SIGINT)).start()
        threading.Timer(0.6, users.let_go.set).start()

    with pytest.raises(Interrupted, match="stopped by Ctrl-C"):
        run_serial(hanging, build_scenario(hanging.spec), 60.0, press)
    with locked(hanging.folder, 0):  # its worker has gone
        pass
    assert len(list(read_journal(RunFolder(hanging.folder).journal))) < 4


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file of a run, and what it holds."""
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("agent", [0, 1], ids=["before it started", "in round 1"])
@pytest.mark.parametrize(
    ("raised", "expected"),
    [(TimeoutError("my limit"), TimeoutError), (KeyboardInterrupt(), Interrupted)],
    ids=["a time limit", "an interrupt"],
)
def test_whatever_ends_the_call_ends_the_record(
    hanging: Simulation,
    monkeypatch: pytest.MonkeyPatch,
    raised: BaseException,
    expected: type[BaseException],
    agent: int,
) -> None:
    """The thread hangs in the objective for longer than anyone waits, then it goes on."""
    users = next(m for n, m in sys.modules.items() if n.startswith("users_"))
    monkeypatch.setattr("fedsim.simulation.serial.GRACE_SECONDS", 0.1)

    def hang(agent: int) -> float:
        users.hangs.set()
        return float(users.let_go.wait(600))

    if agent == 0:  # the first evaluation of all hangs
        monkeypatch.setattr(users, "wait", hang)

    def late(*_: object) -> None:
        raise raised

    def end() -> None:
        assert users.hangs.wait(60)
        os.kill(os.getpid(), signal.SIGUSR1)

    ending = threading.Thread(target=end, daemon=True)
    before = signal.signal(signal.SIGUSR1, late)
    try:
        ending.start()
        with pytest.raises(expected):
            run_serial(hanging, build_scenario(hanging.spec), 60.0, lambda progress: None)
        ending.join(60)
    finally:
        signal.signal(signal.SIGUSR1, before)
    recorded = contents(hanging.folder)
    (thread,) = (t for t in threading.enumerate() if t.name == "fedsim-serial")
    users.let_go.set()
    thread.join(60)
    assert not thread.is_alive()
    assert contents(hanging.folder) == recorded
    with locked(hanging.folder, 0):  # a resume can begin
        pass
    assert entry_rounds(hanging) == ([] if agent == 0 else [0])
    run_serial(hanging, build_scenario(hanging.spec), 60.0, lambda progress: None)
    assert entry_rounds(hanging) == [0, 1, 2]


def entry_rounds(simulation: Simulation) -> list[int]:
    journal = RunFolder(simulation.folder).journal
    return [entry.t for entry in read_journal(journal)] if journal.exists() else []


def test_nothing_is_told_once_the_call_has_ended(
    hanging: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedsim.simulation.serial.GRACE_SECONDS", 0.1)
    told: list[int] = []
    with pytest.raises(Interrupted, match="stopped from outside"):
        run_serial(
            hanging,
            build_scenario(hanging.spec),
            60.0,
            lambda progress: told.append(progress.round),
            stopped=lambda: bool(told),
        )
    users = next(m for n, m in sys.modules.items() if n.startswith("users_"))
    (thread,) = (t for t in threading.enumerate() if t.name == "fedsim-serial")
    users.let_go.set()
    thread.join(60)
    assert told == [0]


def test_two_runs_never_share_a_folder(
    hanging: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunFolder, "locked", lambda self: locked(self.path, 0))
    with (
        locked(hanging.folder, 0),
        pytest.raises(RunFolderError, match="another process is running this run"),
    ):
        run_serial(hanging, build_scenario(hanging.spec), 60.0, lambda progress: None)
    assert not RunFolder(hanging.folder).journal.exists()


@pytest.mark.usefixtures("two_threads")
def test_one_thread_while_it_runs_and_as_before_afterwards(hanging: Simulation) -> None:
    def threads() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info()]

    before, during = threads(), []

    def note(progress: Progress) -> None:
        during.extend(threads())
        raise Interrupted("enough")

    with pytest.raises(Interrupted, match="enough"):
        run_serial(hanging, build_scenario(hanging.spec), 60.0, note)
    assert during
    assert set(during) == {1}
    assert threads() == before


@pytest.mark.parametrize("method", ["random-search", "ts"])
def test_how_often_the_space_is_read_does_not_grow_with_the_run(
    here: Path, user_module: UserModule, method: str
) -> None:
    # A scenario may build it in a property, and other work that depends on it may be kept with it.
    name = user_module("""
        from fedsim.space import Parameter, Space
        reads = []
        class Mine:
            direction = "maximize"
            def __init__(self, agents: int):
                self.agents = agents
            @property
            def space(self):
                reads.append(0)
                return Space((Parameter("x", 0, 1),))
            def objective(self, agent):
                return lambda point, rng: point["x"] - agent * point["x"] ** 2
    """)
    counts = []
    for number, (agents, rounds) in enumerate([(1, 1), (4, 5)]):
        scenario = {"name": f"{name}:Mine", "agents": agents}
        simulation = make(here / f"seed-{number}", small(method, scenario=scenario, rounds=rounds))
        run(simulation)
        counts.append(len(sys.modules[name].reads))
    assert counts[1] == 2 * counts[0]


TALKING = """
    import sys
    from fedsim.space import Parameter, Space
    class Mine:
        direction, agents = "maximize", 3
        space = Space((Parameter("x", 0, 1),))
        def __init__(self, fails: str = "never"):
            self.fails = fails
        def objective(self, agent):
            return lambda point, rng: self.value(agent, point["x"])
        def value(self, agent, x):
            if agent == 1:
                print("x is", x > 2)
                print("careful", file=sys.stderr)
            if agent == 2 and self.fails == "raises":
                print("about to fail")
                raise ValueError("mine")
            return x
"""


class TestPrints:
    def run(self, simulation: Simulation, quiet: bool) -> None:
        scenario = build_scenario(simulation.spec)
        run_serial(simulation, scenario, 60.0, lambda _: None, quiet=quiet)

    @pytest.mark.parametrize("quiet", [False, True])
    def test_an_objectives_prints_are_kept(
        self,
        here: Path,
        user_module: UserModule,
        capfd: pytest.CaptureFixture[str],
        quiet: bool,
    ) -> None:
        raw = small(scenario={"name": f"{user_module(TALKING)}:Mine"}, rounds=1)
        simulation = make(here / "seed-0", raw)
        self.run(simulation, quiet)
        shown = capfd.readouterr()
        assert shown.out == ("" if quiet else "x is False\n" * 3)
        assert shown.err == ("" if quiet else "careful\n" * 3)
        found = [(p.whose, p.text) for p in read_log(RunFolder(here / "seed-0").logs / OWN_LOG)]
        line = "x is False\ncareful\n"
        assert found == [("agent 1, round 0", 2 * line), ("agent 1, round 1", line)]

    @pytest.mark.parametrize("on_error", ["stop", "skip"])
    @pytest.mark.parametrize("quiet", [False, True])
    def test_a_failure_shows_what_was_printed_if_nobody_saw_it(
        self, here: Path, user_module: UserModule, quiet: bool, on_error: str
    ) -> None:
        scenario = {"name": f"{user_module(TALKING)}:Mine", "fails": "raises"}
        simulation = make(here / "seed-0", small(scenario=scenario, on_error=on_error))
        if on_error == "stop":
            with pytest.raises(ObjectiveError) as caught:
                self.run(simulation, quiet)
            told = caught.value.user_traceback
        else:
            self.run(simulation, quiet)
            timings = map(json.loads, RunFolder(here / "seed-0").timings.read_text().splitlines())
            told = next(line["traceback"] for line in timings if line["kind"] == "failed")
        before, heading, lines = told.partition(LAST_OUTPUT)
        assert before.rstrip().endswith("ValueError: mine")
        assert bool(heading) == quiet
        assert lines == ("\nabout to fail\n" if quiet else "")
