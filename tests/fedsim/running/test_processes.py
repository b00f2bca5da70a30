"""Jobs in processes of their own: the same results, and no process is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim.config.experiment import prepare
from fedsim.config.model import DeadlinesConfig
from fedsim.errors import (
    FedsimError,
    Interrupted,
    ObjectiveError,
    ResourceError,
    RunError,
    UserCodeError,
)
from fedsim.record.progress import Progress
from fedsim.record.runfolder import RunFolder
from fedsim.running.jobs import Job, Listener
from fedsim.running.processes import run_in_processes
from tests.util.processes import (
    COMMAND,
    PATIENCE,
    alive,
    await_end,
    await_steps,
    descendants,
)
from tests.util.small import UserModule, make, small, write

pytestmark = pytest.mark.heavy

# Every evaluation is noted with its process; in each seed, one does what a test wants, but only
# until the file "mended" exists.
TROUBLED = """
    import multiprocessing, os, signal, sys, threading, time
    from pathlib import Path
    from fedsim.space import Parameter, Space

    class Mine:
        space, direction, agents = Space((Parameter("x", 0, 1),)), "maximize", 2

        def __init__(self, seed: int):
            self.seed, self.calls = seed, 0

        def objective(self, agent):
            return self.call

        def call(self, point, rng):
            self.calls += 1
            print("called", self.calls)
            troubled = self.calls == 6 and not Path("mended").exists()
            if troubled and self.seed == 0:
                {meanwhile}
            if troubled and self.seed == 1:
                {trouble}
            return point["x"] + rng.normal()

    def meet(seed):
        Path(f"here-{{seed}}").touch()
        while not Path(f"here-{{1 - seed}}").exists():
            time.sleep(0.01)

    def await_stop():
        assert threading.current_thread().stop.wait(600)
"""


def troubled(
    user_module: UserModule, trouble: str, meanwhile: str = "pass", **changes: Any
) -> dict[str, Any]:
    """Return two seeds of a scenario that makes trouble in round 1 of seed 1."""
    name = user_module(TROUBLED.format(trouble=trouble, meanwhile=meanwhile))
    return small(scenario={"name": f"{name}:Mine"}, rounds=4, seeds=[0, 1], **changes)


def journals(folder: str | Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(Path(folder).rglob("journal.jsonl"))]


def manifest(folder: str) -> dict[str, Any]:
    return RunFolder(Path(folder)).manifest()


def workers(root: int) -> list[int]:
    """Return the processes below ``root`` that run jobs."""
    found = {pid: Path(f"/proc/{pid}/cmdline") for pid in descendants(root)}
    return [pid for pid, path in found.items() if b"fedsim.running.worker" in path.read_bytes()]


def resumed(raw: dict[str, Any], folder: str = "runs/small-1", jobs: int = 1) -> bool:
    """Return whether a resumed run ends as one without trouble."""
    Path("mended").touch()
    fedsim.resume(folder, jobs=jobs)
    fedsim.run(raw, out="reference", jobs=1)
    return journals(folder) == journals("reference")


class Heard(Listener):
    """Records what a listener hears of each job, and in which thread."""

    def __init__(self) -> None:
        self.heard: dict[str, list[object]] = {}
        self.threads: set[int] = set()

    def _note(self, job: Job, what: object) -> None:
        self.heard.setdefault(job.name, []).append(what)
        self.threads.add(threading.get_ident())

    def started(self, job: Job) -> None:
        self._note(job, "started")

    def progress(self, job: Job, progress: Progress) -> None:
        self._note(job, progress.round)

    def finished(self, job: Job) -> None:
        self._note(job, "finished")

    def failed(self, job: Job) -> None:
        self._note(job, "failed")


def test_more_jobs_than_processes(
    here: Path, user_module: UserModule, capfd: pytest.CaptureFixture[str]
) -> None:
    """The same journals and tables as in this process, and what is printed is not in the way."""
    raw = troubled(user_module, "pass", variants={"a": {}, "b": {"method": {"initial_points": 3}}})
    fedsim.run(raw, out="one", jobs=1)
    capfd.readouterr()
    heard = Heard()
    run = fedsim.run(raw, out="two", jobs=2, listener=heard)
    assert capfd.readouterr() == ("", "")
    assert len(journals("one")) == 4
    assert journals("two") == journals("one")
    assert [s["status"] for s in run.summaries()] == ["done"] * 4
    assert run.rounds.drop(columns=["run"], errors="ignore").equals(
        fedsim.load("one").rounds.drop(columns=["run"], errors="ignore")
    )
    assert sorted(heard.heard) == [f"{v}, seed {s}" for v in "ab" for s in (0, 1)]
    for events in heard.heard.values():
        assert (events[0], events[-2:]) == ("started", [4, "finished"])
        assert events[1:-1] == sorted(events[1:-1])  # type: ignore[type-var]
    assert heard.threads == {threading.get_ident()}
    printed = (Path("two") / "a" / "seed-1" / "logs" / "process.log").read_text()
    assert printed.count("called") == 2 * 2 + 2 * 4


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", r"was killed \(SIGKILL\): by somebody, or by the"),
        pytest.param(
            "os._exit(7)",
            r"ended with exit code 7; an objective that ends its process does this",
            marks=pytest.mark.slow,
        ),
        # Of the thread, as that of C code is: one for the process may reach another thread later.
        pytest.param(
            "signal.raise_signal(signal.SIGSEGV)",
            r"was ended by signal 11 \(Segmentation fault\)",
            marks=pytest.mark.slow,
        ),
        # A process that it has forked holds all that it had open, the folder's lock too.
        pytest.param(
            "os.fork() and os.kill(os.getpid(), signal.SIGKILL) or time.sleep(3600)",
            r"was killed \(SIGKILL\)",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["killed", "exit", "segfault", "orphan"],
)
def test_a_process_that_dies_is_named_and_the_run_resumes(
    here: Path, user_module: UserModule, trouble: str, words: str
) -> None:
    both = (f"meet(self.seed); {then}" for then in (trouble, "await_stop()"))
    raw, heard = troubled(user_module, *both), Heard()
    expected = rf"^the process of random-search, seed 1 \(process id \d+\) {words}"
    with pytest.raises(UserCodeError, match=expected) as raised:
        fedsim.run(raw, jobs=2, listener=heard)
    assert raised.value.exit_code == 3
    assert "called 6" in raised.value.user_traceback  # what it printed last
    assert heard.heard["random-search, seed 1"][-1] == "failed"
    broken, other = manifest("runs/small-1/seed-1"), manifest("runs/small-1/seed-0")
    assert (broken["status"], broken["reason"]) == ("failed", str(raised.value))
    why = "stopped because random-search, seed 1 failed"
    assert (other["status"], other["reason"]) == ("interrupted", why)
    assert not workers(os.getpid())
    assert resumed(raw, jobs=2)


def test_an_exception_in_the_callers_thread_ends_the_processes_first(
    here: Path, user_module: UserModule
) -> None:
    """As a test runner's time limit, or a notebook's interrupt."""
    raw = troubled(user_module, "pass", variants={"slow": {"rounds": 5000}})
    before, begun = signal.signal(signal.SIGALRM, raise_late), set[int]()

    class Setting(Listener):
        def progress(self, job: Job, progress: Progress) -> None:
            if progress.round > 0:
                begun.add(job.simulation.spec.seed)
            if len(begun) == 2 and signal.getitimer(signal.ITIMER_REAL)[0] == 0:
                signal.setitimer(signal.ITIMER_REAL, 0.1)

    try:
        with pytest.raises(TimeoutError, match="my limit"):
            fedsim.run(raw, jobs=2, listener=Setting())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not workers(os.getpid())
    recorded = journals("runs/small-1")
    assert all(b'"t":1' in journal for journal in recorded)
    for seed in (0, 1):
        told = manifest(f"runs/small-1/slow/seed-{seed}")
        assert (told["status"], told["reason"]) == ("failed", "TimeoutError: my limit")
    assert journals("runs/small-1") == recorded


def raise_late(*_: object) -> None:
    raise TimeoutError("my limit")


def test_a_mistake_shows_its_own_traceback(here: Path, user_module: UserModule) -> None:
    raw = troubled(user_module, "1 / 0  # here")
    with pytest.raises(
        ObjectiveError, match=r"raised ZeroDivisionError \(agent ., round"
    ) as raised:
        fedsim.run(raw, jobs=2)
    assert "1 / 0  # here" in raised.value.user_traceback
    assert "/fedsim/" not in raised.value.user_traceback
    assert "called 6" in raised.value.user_traceback  # what it printed last
    assert "1 / 0  # here" in manifest("runs/small-1/seed-1")["traceback"]
    assert resumed(raw)


@pytest.mark.slow
def test_sigterm_to_a_process_interrupts_the_run(here: Path, user_module: UserModule) -> None:
    raw = troubled(user_module, "os.kill(os.getpid(), signal.SIGTERM); time.sleep(0.5)")
    with pytest.raises(Interrupted, match=r"^stopped by SIGTERM; continue with: fedsim resume"):
        fedsim.run(raw, jobs=2)
    assert manifest("runs/small-1/seed-1")["status"] == "interrupted"
    assert resumed(raw)


def test_children_of_an_objective_can_be_ended_with_sigterm(
    here: Path, user_module: UserModule
) -> None:
    """As ``multiprocessing.Pool`` does at its end."""
    trouble = """multiprocessing.set_start_method('fork', force=True)
                child = multiprocessing.Process(target=time.sleep, args=(3600,))
                child.start()
                child.terminate()
                child.join(60)
                assert child.exitcode == -signal.SIGTERM, child.exitcode"""
    run = fedsim.run(troubled(user_module, trouble), jobs=2)
    assert [s["status"] for s in run.summaries()] == ["done"] * 2


SCRIPT = """
import fedsim
from tests.util.small import small
run = fedsim.run(small(seeds=[0, 1]), jobs=2)
print(len(run.summaries()))
"""


def test_a_script_needs_no_guard(here: Path, tmp_path: Path) -> None:
    """Nor does a file beside it replace a module of Python's own."""
    Path("script.py").write_text(SCRIPT)
    Path("random.py").write_text("raise AssertionError('the wrong module')")
    root = str(Path(__file__).parents[3])
    done = subprocess.run(
        [sys.executable, "-P", "script.py"],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "2\n", "")


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 130),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow),
        (signal.SIGKILL, -signal.SIGKILL),
    ],
    ids=["ctrl-c", "sigterm", "killed"],
)
def test_no_process_outlives_the_command(
    here: Path, user_module: UserModule, number: int, code: int
) -> None:
    """Not even in the middle of an evaluation that takes for ever."""
    raw = troubled(user_module, "time.sleep(3600)", "time.sleep(3600)")
    command = [*COMMAND, "run", write(raw), "--jobs", "2", "--out", "run"]
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True) as process:
        try:
            for seed in (0, 1):
                await_steps(Path(f"run/seed-{seed}/journal.jsonl"), 1)
            below = workers(process.pid)
            process.send_signal(number)
            _, err = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert len(below) == 2
    assert process.returncode == code
    if number == signal.SIGKILL:
        await_end(below)
    else:
        name = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}[signal.Signals(number)]
        assert f"stopped by {name}; continue with: fedsim resume run" in " ".join(err.split())
        assert "Traceback" not in err
        assert not [pid for pid in below if alive(pid)]
        statuses = [manifest(f"run/seed-{seed}")["status"] for seed in (0, 1)]
        assert statuses == ["interrupted"] * 2
    assert resumed(raw, "run")


def start(jobs: Sequence[Job] = (), **deadlines: float) -> None:
    run_in_processes(jobs, 1, DeadlinesConfig(**deadlines), Listener())


class TestDeadlines:
    """Nobody waits for ever."""

    @pytest.fixture
    def job(self, here: Path) -> Job:
        (variant,) = prepare(small()).variants.values()
        return Job("small", variant, make(here / "seed-0", small()))

    @pytest.fixture
    def python(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """What is started instead of Python."""
        path = here / "python"
        path.touch(mode=0o755)
        monkeypatch.setattr(sys, "executable", str(path))
        return path

    def test_what_cannot_start_shows_its_output(self, job: Job, python: Path) -> None:
        python.write_text("#!/bin/sh\necho no such library >&2\nexit 1\n")
        words = r"^the process of small, seed 0 \(process id \d+\) cannot start; its last output:\n"
        with pytest.raises(RunError, match=f"{words}no such library"):
            start([job])

    def test_a_signal_that_ends_its_start_is_named(self, job: Job, python: Path) -> None:
        python.write_text("#!/bin/sh\nkill -SEGV $$\n")
        words = r"cannot start: it was ended by signal 11 \(Segmentation fault"
        with pytest.raises(RunError, match=words):
            start([job])

    def test_what_does_not_start(self, job: Job, python: Path) -> None:
        python.write_text("#!/bin/sh\nexec sleep 3600\n")
        before = time.monotonic()
        with pytest.raises(ResourceError, match=r"did not start within 0\.2 s; deadlines\.start"):
            start([job], start=0.2)
        assert time.monotonic() - before < PATIENCE
        assert not workers(os.getpid())

    def test_what_does_not_answer(self, job: Job) -> None:
        """As code that holds the interpreter's lock, or a process that somebody has stopped."""

        class Stopping(Listener):
            def started(self, job: Job) -> None:
                (pid,) = workers(os.getpid())
                os.kill(pid, signal.SIGSTOP)

        with pytest.raises(
            FedsimError, match=r"did not answer for \d+ s; deadlines\.evaluation and"
        ):
            run_in_processes([job], 1, DeadlinesConfig(evaluation=0.5, answer=1.0), Stopping())
        assert not workers(os.getpid())
